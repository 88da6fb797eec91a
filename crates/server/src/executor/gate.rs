//! Whether connections may come to the loops: only after the data were seen to be in memory, only where several want to, since one or two
//! fare better with threads, and after operations of a loop have waited not for a while, for longer if they wait again soon
//! after.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The first respite.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest: so often at most operations have to wait for others that a device holds up, a few milliseconds.
const LONGEST: Duration = Duration::from_secs(64);

/// Connections that must want to come, between two counts of the watch, for it to be opened. Up to four gain nothing, and one and two
/// lose a few percent (docs/journal).
const FEWEST: u32 = 5;

/// When a connection last asked for the way to be opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Cell<u32>);

/// The way to the loops. It is shut until the watch opens it.
#[derive(Debug)]
pub(crate) struct Gate {
    open: AtomicBool,
    /// The number of the count to come, from 1.
    round: AtomicU32,
    /// Connections that have asked since the last one.
    askers: AtomicU32,
    origin: Instant,
    /// Milliseconds after the origin up to which it stays shut.
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
    /// Whether a connection may pass. Where it is shut, and no respite keeps it so, the watch is to see to it: `wake` wakes it.
    pub(crate) fn lets_in(&self, asked: &Asked, wake: impl FnOnce()) -> bool {
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

    /// Ends a round of asking: whether enough have asked in it.
    pub(crate) fn was_asked_by_many(&self) -> bool {
        self.round.fetch_add(1, Ordering::Relaxed);
        self.askers.swap(0, Ordering::SeqCst) >= FEWEST
    }

    /// Whether somebody has asked in this round.
    pub(crate) fn is_asked(&self) -> bool {
        self.askers.load(Ordering::SeqCst) > 0
    }

    /// Opens it, unless a respite keeps it shut.
    pub(crate) fn open(&self) {
        if !self.rests() {
            self.open.store(true, Ordering::Relaxed);
        }
    }

    /// Shuts it until it is asked for again.
    pub(crate) fn shut(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn rests(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && self.now_ms() < until_ms
    }

    /// Shuts it for a respite, twice as long as the last if that has not been over for as long as it was. One that is on goes on.
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

/// How long a respite is that begins so long after the last one ended.
fn next(last: Duration, since: Duration) -> Duration {
    if since > last { SHORTEST } else { (2 * last).clamp(SHORTEST, LONGEST) }
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
        assert_eq!(next(last, last + SHORTEST), SHORTEST);
    }

    #[test]
    fn it_opens_for_many_and_not_within_a_respite() {
        let gate = Gate::default();
        let crowd = vec![Asked::default(); FEWEST as usize];
        let mut woken = 0;
        // Who asks again in the same round counts once.
        let one = [&crowd[0]; 9];
        assert!(!one.iter().any(|asked| gate.lets_in(asked, || woken += 1)) && woken == 1);
        assert!(gate.is_asked() && !gate.was_asked_by_many() && !gate.is_asked());
        assert!(!crowd.iter().any(|asked| gate.lets_in(asked, || woken += 1)) && gate.was_asked_by_many());
        gate.open();
        assert!(gate.lets_in(&crowd[0], || woken += 1) && woken == 1 + FEWEST);
        gate.rest();
        let until_ms = gate.until_ms.load(Ordering::Relaxed);
        assert!(!gate.lets_in(&crowd[0], || woken += 1) && woken == 1 + FEWEST && until_ms >= 1000);
        gate.open();
        gate.rest();
        assert!(!gate.lets_in(&crowd[0], || woken += 1) && !gate.is_asked());
        assert_eq!(gate.until_ms.load(Ordering::Relaxed), until_ms);
    }
}
