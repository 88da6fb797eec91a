//! A token bucket in front of a test disk: a burst allowance like that of cloud volumes.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Tokens that the bucket holds. It is full at first.
    pub requests: f64,
    /// Tokens refilled per second, which is the rate of a disk with an empty bucket.
    pub refill_per_s: f64,
}

/// The tokens that are left; a negative number counts waiting requests.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    allowance: Allowance,
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A bucket that is full.
    pub(crate) fn new(allowance: Allowance) -> TokenBucket {
        TokenBucket { allowance, tokens: allowance.requests, at: Instant::now() }
    }

    /// Takes a token for a request that arrives at `coming`, and returns the time at which it may be served.
    pub(crate) fn take(&mut self, coming: Instant) -> Instant {
        // Requests may arrive slightly out of order, but time must not run backwards.
        let now = coming.max(self.at);
        let refill = self.allowance.refill_per_s * (now - self.at).as_secs_f64();
        self.tokens = (self.tokens + refill).min(self.allowance.requests) - 1.0;
        self.at = now;
        let wait = (-self.tokens).max(0.0) / self.allowance.refill_per_s;
        now + Duration::from_secs_f64(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assert, assert_eq, test};

    #[test]
    fn a_bucket_lets_its_size_pass_and_then_its_refill() {
        let mut bucket = TokenBucket::new(Allowance { requests: 100.0, refill_per_s: 50.0 });
        let begin = bucket.at;
        let waits: Vec<f64> = (0..150).map(|_| (bucket.take(begin) - begin).as_secs_f64()).collect();
        assert!(waits[..100].iter().all(|wait| *wait == 0.0));
        for (place, wait) in waits[100..].iter().enumerate() {
            assert!((wait - (place + 1) as f64 / 50.0).abs() < 1e-6, "{place}: {wait}");
        }
        // Two seconds later 100 have been refilled, and 50 requests waited.
        let later = begin + Duration::from_secs(2);
        let free = (0..60).filter(|_| bucket.take(later) == later).count();
        assert_eq!(free, 50);
        // It does not hold more than its size.
        let much_later = begin + Duration::from_secs(1000);
        assert_eq!((0..150).filter(|_| bucket.take(much_later) == much_later).count(), 100);
    }
}
