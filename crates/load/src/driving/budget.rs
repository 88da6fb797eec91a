//! How many operations are left to do, over all loops.

use std::sync::atomic::{AtomicU64, Ordering};

/// The operations that are left; without an end if there is none.
#[derive(Debug)]
pub(super) struct Budget(Option<AtomicU64>);

impl Budget {
    pub(super) fn new(operations: Option<u64>) -> Budget {
        Budget(operations.map(AtomicU64::new))
    }

    /// Takes up to so many; 0 when none is left.
    pub(super) fn claim(&self, wanted: u64) -> u64 {
        let Some(left) = &self.0 else { return wanted };
        let mut taken = 0;
        let claim = |left: u64| {
            taken = left.min(wanted);
            (taken > 0).then(|| left - taken)
        };
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            Ok(_) => taken,
            Err(_) => 0,
        }
    }

    /// Gives back what was claimed and not used.
    pub(super) fn give_back(&self, count: u64) {
        if let Some(left) = self.0.as_ref().filter(|_| count > 0) {
            left.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_and_no_more() {
        let budget = Budget::new(Some(5));
        assert_eq!((budget.claim(3), budget.claim(3), budget.claim(3)), (3, 2, 0));
        budget.give_back(1);
        assert_eq!((budget.claim(9), budget.claim(1)), (1, 0));
        assert_eq!(Budget::new(None).claim(7), 7);
    }
}
