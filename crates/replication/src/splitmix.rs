//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014). Good enough to spread elections, and the same on every machine.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random duration from zero up to, but not including, `most`, in whole microseconds.
    pub(crate) fn span(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        if micros == 0 { Duration::ZERO } else { Duration::from_micros(self.next() % micros) }
    }
}
