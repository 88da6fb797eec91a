//! A part of a sampler that is due less often than the sampler.

use std::time::Duration;

/// When something is due again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    period_ns: u64,
    next_ns: u64,
}

impl Every {
    /// Due at once, and then each `period`.
    pub(crate) fn period(period: Duration) -> Every {
        Every { period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), next_ns: 0 }
    }

    /// Whether it is due, within a tenth of the period: the sampler's own turns are not that exact.
    pub(crate) fn due(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_add(self.period_ns / 10) < self.next_ns {
            return false;
        }
        self.next_ns = now_ns.saturating_add(self.period_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_at_once_and_then_each_period() {
        let mut every = Every::period(Duration::from_nanos(100));
        let due: Vec<u64> = [0, 50, 91, 150, 191, 1000].into_iter().filter(|now| every.due(*now)).collect();
        assert_eq!(due, [0, 91, 191, 1000]);
    }
}
