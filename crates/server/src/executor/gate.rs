//! Decides whether connections may move to the loops. They may only after the data was seen to be in memory, only if several want to,
//! since one or two fare better with threads, and only after operations of a loop have not waited for some time, which grows if they wait
//! again soon after.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The minimum length of a respite.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The maximum: at this rate at most, operations wait for others that a device delays, for a few milliseconds.
const MAX_PAUSE: Duration = Duration::from_secs(64);

/// The number of connections that must ask between two counts of the watch before it opens the gate. Up to four gain nothing, and one
/// and two lose a few percent (docs/journal).
const MIN_ASKERS: u32 = 5;

/// The round in which a connection last asked for the gate to be opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct GateRequest(Cell<u32>);

/// The gate to the loops. It is shut until the watch opens it.
#[derive(Debug)]
pub(crate) struct Gate {
    open: AtomicBool,
    /// The number of the next count, from 1.
    round: AtomicU32,
    /// The number of connections that have asked since the last count.
    askers: AtomicU32,
    origin: Instant,
    /// The end of the respite, in milliseconds after the origin.
    until_ms: AtomicU64,
    last: Mutex<Duration>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            open: AtomicBool::new(false),
            round: AtomicU32::new(1),
            askers: AtomicU32::new(0),
            origin: Instant::now(),
            until_ms: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }
}

impl Gate {
    /// Whether a connection may pass. If the gate is shut outside a respite, the watch must open it: `wake` wakes the watch.
    pub(crate) fn lets_in(&self, asked: &GateRequest, wake: impl FnOnce()) -> bool {
        if self.open.load(Ordering::Relaxed) {
            return true;
        }
        let round = self.round.load(Ordering::Relaxed);
        if asked.0.get() != round && !self.rests() {
            asked.0.set(round);
            self.askers.fetch_add(1, Ordering::SeqCst);
            wake();
        }
        false
    }

    /// Ends a round of requests; returns whether enough connections have asked in it.
    pub(crate) fn was_asked_by_many(&self) -> bool {
        self.round.fetch_add(1, Ordering::Relaxed);
        self.askers.swap(0, Ordering::SeqCst) >= MIN_ASKERS
    }

    /// Whether a connection has asked in this round.
    pub(crate) fn is_asked(&self) -> bool {
        self.askers.load(Ordering::SeqCst) > 0
    }

    /// Opens the gate, except during a respite.
    pub(crate) fn open(&self) {
        if !self.rests() {
            self.open.store(true, Ordering::Relaxed);
        }
    }

    /// Shuts the gate until connections ask again.
    pub(crate) fn shut(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn rests(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && self.now_ms() < until_ms
    }

    /// Shuts the gate for a respite, twice as long as the last one if that ended less than its own length ago. A respite in progress continues.
    pub(crate) fn rest(&self) {
        self.shut();
        let mut last = self.last.lock();
        let (now_ms, until_ms) = (self.now_ms(), self.until_ms.load(Ordering::Relaxed));
        if until_ms != 0 && now_ms < until_ms {
            return;
        }
        *last = next(*last, Duration::from_millis(now_ms - until_ms));
        let length_ms = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.store(now_ms.saturating_add(length_ms), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The length of a respite that begins `since` after the end of the last one.
fn next(last: Duration, since: Duration) -> Duration {
    if since > last { MIN_PAUSE } else { (2 * last).clamp(MIN_PAUSE, MAX_PAUSE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn respites_grow_while_operations_keep_waiting() {
        let mut last = Duration::ZERO;
        let lengths: Vec<u64> = (0..9)
            .map(|_| {
                last = next(last, last / 2);
                last.as_secs()
            })
            .collect();
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(next(last, last + MIN_PAUSE), MIN_PAUSE);
    }

    #[test]
    fn it_opens_for_many_and_not_within_a_respite() {
        // Its time is zero until the origin is moved.
        let mut gate = Gate { origin: Instant::now() + Duration::from_secs(3600), ..Gate::default() };
        let crowd = vec![GateRequest::default(); MIN_ASKERS as usize];
        let mut woken = 0;
        // A connection that asks again in the same round counts once.
        let one = [&crowd[0]; 9];
        assert!(!one.iter().any(|asked| gate.lets_in(asked, || woken += 1)) && woken == 1);
        assert!(gate.is_asked() && !gate.was_asked_by_many() && !gate.is_asked());
        assert!(!crowd.iter().any(|asked| gate.lets_in(asked, || woken += 1)) && gate.was_asked_by_many());
        gate.open();
        assert!(gate.lets_in(&crowd[0], || woken += 1) && woken == 1 + MIN_ASKERS);
        gate.rest();
        assert_eq!(gate.until_ms.load(Ordering::Relaxed), 1000);
        assert!(!gate.lets_in(&crowd[0], || woken += 1) && woken == 1 + MIN_ASKERS);
        gate.open();
        gate.rest();
        assert!(!gate.lets_in(&crowd[0], || woken += 1) && !gate.is_asked());
        assert_eq!(gate.until_ms.load(Ordering::Relaxed), 1000);
        // After the respite connections may ask, and the gate may be opened.
        gate.origin = Instant::now().checked_sub(MIN_PAUSE).unwrap();
        assert!(!gate.lets_in(&crowd[0], || woken += 1) && gate.is_asked());
        gate.open();
        assert!(gate.lets_in(&crowd[0], || woken += 1));
    }
}
