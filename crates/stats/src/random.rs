//! Seeded randomness: the only source of random numbers in the workspace.
//!
//! A measurement that cannot be repeated cannot be checked, so every offset, arrival time and resample comes from a
//! [`SeededRandom`] stream whose seed is in the run record. The disk probe draws from it once per I/O, so a draw costs only a few
//! nanoseconds. It refuses to seed itself from the clock or the system, and it is not for secrets.
//!
//! Sources: xoshiro256++ by Blackman and Vigna (ACM Trans. Math. Softw. 47, 2021); SplitMix64 by Steele, Lea and
//! Flood (OOPSLA 2014); bounded integers by Lemire (ACM Trans. Model. Comput. Simul. 29, 2019); normal deviates by
//! Marsaglia's polar method (SIAM Review 6, 1964).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// 2^64 divided by the golden ratio, the increment of SplitMix64.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    key: u64,
    generator: Xoshiro256PlusPlus,
    spare_normal: Option<f64>,
}

impl SeededRandom {
    /// The stream of `seed`; the 256 bits of state are filled from it by SplitMix64.
    pub fn from_seed(seed: u64) -> Self {
        SeededRandom { key: seed, generator: Xoshiro256PlusPlus::seed_from_u64(seed), spare_normal: None }
    }

    /// The stream of worker `index`, unrelated in practice to its parent and its siblings.
    ///
    /// It depends on the parent's seed and `index`, not on what the parent has drawn already, so the number of
    /// workers or the order in which they start does not change the numbers. Siblings never share a seed.
    #[must_use]
    pub fn split(&self, index: u64) -> SeededRandom {
        let step = index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA);
        // Mixed before and after, so that (seed, index) pairs with an equal sum do not meet.
        SeededRandom::from_seed(mix(mix(self.key).wrapping_add(step)))
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// Uniform in 0..`bound` without bias, by Lemire's multiplication; 0 where `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            // Only here is a division needed: 2^64 mod bound low halves are one too many.
            let excess = bound.wrapping_neg() % bound;
            while (product as u64) < excess {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Exponential with the given mean, in the mean's unit: the gaps of a Poisson process. Never infinite.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // uniform() is never 1, so the logarithm is finite.
        -(1.0 - self.uniform()).ln() * mean
    }

    /// Normal with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare_normal = Some(y * scale);
                return x * scale;
            }
        }
    }

    /// A random one of `values`; `None` if there are none.
    #[inline]
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> Option<T> {
        let index = self.below(values.len() as u64);
        values.get(index as usize).copied()
    }

    /// Puts `values` in random order (Fisher and Yates, Durstenfeld's form).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            values.swap(last, other);
        }
    }
}

/// The output function of SplitMix64: a bijection of 64 bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_stream_and_splits_ignore_what_was_drawn() {
        let mut one = SeededRandom::from_seed(7);
        let early = one.split(3).bits();
        let first: Vec<u64> = (0..5).map(|_| one.bits()).collect();
        let mut two = SeededRandom::from_seed(7);
        assert_eq!(first, (0..5).map(|_| two.bits()).collect::<Vec<_>>());
        assert_eq!(early, one.split(3).bits());
        assert_ne!(one.split(3).bits(), one.split(4).bits());
        assert_ne!(SeededRandom::from_seed(8).split(3).bits(), early);
    }

    /// The first outputs of the reference xoshiro256plusplus.c seeded with 0 through splitmix64.c, computed by
    /// transcribing both into Python integers.
    #[test]
    fn matches_the_reference_generator() {
        let mut stream = SeededRandom::from_seed(0);
        let drawn: Vec<u64> = (0..3).map(|_| stream.bits()).collect();
        assert_eq!(drawn, GOLDEN_BITS);
    }
    const GOLDEN_BITS: [u64; 3] = [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc];

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = SeededRandom::from_seed(1);
        let n = 100_000;
        let (mut uniform, mut exponential, mut normal, mut square) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            uniform += stream.uniform();
            exponential += stream.exponential(3.0);
            let z = stream.normal();
            normal += z;
            square += z * z;
        }
        let n = f64::from(n);
        // Four standard errors each.
        assert!((uniform / n - 0.5).abs() < 4.0 * 0.2887 / n.sqrt());
        assert!((exponential / n - 3.0).abs() < 4.0 * 3.0 / n.sqrt());
        assert!((normal / n).abs() < 4.0 / n.sqrt());
        assert!((square / n - 1.0).abs() < 4.0 * 2f64.sqrt() / n.sqrt());
    }

    #[test]
    fn below_is_flat_and_stays_below() {
        let mut stream = SeededRandom::from_seed(2);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        let chi_square: f64 = counts.iter().map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0).sum();
        // The 99.9 % point of chi-square with 6 degrees of freedom.
        assert!(chi_square < 22.46, "{counts:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
        // A bound just over 2^63 rejects almost half of all draws: the slow path must still be even.
        let bound = (1u64 << 63) + 1;
        let upper = (0..4000).filter(|_| stream.below(bound) >= bound / 2).count();
        assert!((1870..2130).contains(&upper), "{upper}");
    }

    #[test]
    fn shuffle_keeps_every_element_and_moves_each_everywhere() {
        let mut stream = SeededRandom::from_seed(3);
        let mut first = [0u32; 4];
        for _ in 0..8000 {
            let mut values = [0usize, 1, 2, 3];
            stream.shuffle(&mut values);
            first[values[0]] += 1;
            values.sort_unstable();
            assert_eq!(values, [0, 1, 2, 3]);
        }
        assert!(first.iter().all(|&count| (1840..2160).contains(&count)), "{first:?}");
        assert_eq!(stream.pick::<u8>(&[]), None);
        assert_eq!(stream.pick(&[9]), Some(9));
    }
}
