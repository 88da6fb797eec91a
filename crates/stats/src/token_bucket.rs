//! Computes the tokens missing from a bucket in front of a device, from the requests that passed it.
//!
//! Each request takes a token, and tokens return at a steady rate until the bucket is full again. The missing tokens therefore follow Lindley's
//! recursion (Proceedings of the Cambridge Philosophical Society 48, 1952): missing' = max(0, missing + requests - refill x seconds). When the
//! bucket is empty, the missing tokens equal its size, whatever the rates before were; if it was not full at the start, its size is larger.

/// Requests within a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Its length in seconds.
    pub seconds: f64,
    /// The requests that ended in it.
    pub requests: f64,
}

/// The tokens that are missing after these passages, one after another, from a bucket that was full before them.
pub fn missing_tokens(passages: &[Passage], refill_per_s: f64) -> f64 {
    let next = |missing: f64, one: &Passage| (missing + one.requests - refill_per_s * one.seconds).max(0.0);
    passages.iter().fold(0.0, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket of 1,000 that refills at 100 a second, emptied at 500 a second with a rest within.
    #[test]
    fn the_size_is_what_is_missing_when_it_is_empty() {
        let at = |seconds, per_s: f64| Passage { seconds, requests: per_s * seconds };
        // Slower than the refill: the bucket stays full.
        let mut passages = vec![at(10.0, 50.0), at(1.0, 500.0), at(2.0, 0.0)];
        assert_eq!(missing_tokens(&passages, 100.0), 200.0);
        passages.extend([at(1.0, 500.0), at(1.0, 500.0)]);
        assert_eq!(missing_tokens(&passages, 100.0), 1000.0);
        passages.push(at(20.0, 100.0));
        assert_eq!(missing_tokens(&passages, 100.0), 1000.0, "empty, it loses what comes back");
        assert_eq!(missing_tokens(&[], 100.0), 0.0);
    }
}
