//! The newest record that may be read: its insert was acknowledged, and so were those of all below it.
//!
//! Inserts that are under way are no more than connections have operations, so what is acknowledged out of turn stays few; one
//! that failed is acknowledged too, as in YCSB, or nothing above it would ever be read.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of inserted records, shared by all loops.
#[derive(Debug)]
pub struct Acknowledged {
    /// One more than the newest, so that an empty table has one too.
    end: AtomicU64,
    /// Those above it.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Acknowledged {
    /// All below `end` are there.
    pub fn up_to(end: u64) -> Acknowledged {
        Acknowledged { end: AtomicU64::new(end), ahead: Mutex::default() }
    }

    /// The newest; 0 for an empty table too.
    pub fn newest(&self) -> u64 {
        self.end.load(Ordering::Acquire).saturating_sub(1)
    }

    /// Takes note of an insert that ended.
    pub fn acknowledge(&self, number: u64) {
        let Ok(mut ahead) = self.ahead.lock() else { return };
        let mut end = self.end.load(Ordering::Relaxed);
        if number != end {
            if number > end {
                ahead.insert(number);
            }
            return;
        }
        end += 1;
        while ahead.remove(&end) {
            end += 1;
        }
        self.end.store(end, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_waits_for_those_below_it() {
        let acknowledged = Acknowledged::up_to(10);
        assert_eq!(acknowledged.newest(), 9);
        for (number, newest) in [(11, 9), (12, 9), (10, 12), (14, 12), (5, 12), (13, 14)] {
            acknowledged.acknowledge(number);
            assert_eq!(acknowledged.newest(), newest, "after {number}");
        }
        assert_eq!(Acknowledged::up_to(0).newest(), 0);
    }
}
