//! Points in time on the caller's clock. The crate reads no clock: each input states its time.

use std::ops::Add;
use std::time::Duration;

use bson::DateTime;

/// A time on a clock that never moves back, counted from an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(pub Duration);

impl MonotonicTime {
    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: MonotonicTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for MonotonicTime {
    type Output = MonotonicTime;

    /// Saturates, so that "never" can be a time far ahead.
    fn add(self, span: Duration) -> MonotonicTime {
        MonotonicTime(self.0.saturating_add(span))
    }
}

/// The current time on both clocks: documents show dates to readers, while decisions use the monotonic clock only.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The clock of all inputs.
    pub now: MonotonicTime,
    /// The wall clock at that moment.
    pub wall: DateTime,
}

impl Clocks {
    /// The date of a past time; the start of 1970 if there was none, as MongoDB shows it.
    pub(crate) fn date(&self, moment: Option<MonotonicTime>) -> DateTime {
        let Some(moment) = moment else { return DateTime::from_millis(0) };
        let ago = i64::try_from(self.now.since(moment).as_millis()).unwrap_or(i64::MAX);
        DateTime::from_millis(self.wall.timestamp_millis().saturating_sub(ago))
    }
}
