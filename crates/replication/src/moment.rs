//! Moments on the caller's clock. The crate reads none: each input says when it came.

use std::ops::Add;
use std::time::Duration;

use bson::DateTime;

/// A moment on a clock that never goes back, counted from any fixed start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// How long after `earlier` this is; nothing if it is before.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    /// Saturates, so that "never" can be a far moment.
    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }
}

/// Now on both clocks, for what people read: a document shows dates, while decisions use moments only.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The clock of all inputs.
    pub now: Moment,
    /// What the wall clock shows at that moment.
    pub wall: DateTime,
}

impl Clocks {
    /// The date of a past moment; the start of 1970 where there was none, as MongoDB shows it.
    pub(crate) fn date(&self, moment: Option<Moment>) -> DateTime {
        let Some(moment) = moment else { return DateTime::from_millis(0) };
        let ago = i64::try_from(self.now.since(moment).as_millis()).unwrap_or(i64::MAX);
        DateTime::from_millis(self.wall.timestamp_millis().saturating_sub(ago))
    }
}
