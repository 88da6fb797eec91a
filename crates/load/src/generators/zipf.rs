//! Zipf's law, as YCSB computes it.
//!
//! The formula is Gray's (Gray and others, "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994): two ranks are drawn
//! exactly, the others from a power that is close. YCSB's `zipfian` draws ranks among ten billion items whatever the table's size and
//! scatters them by a hash, so it is flatter than Zipf's law over the table; `latest` draws the distance to the newest record.

use fathom_stats::SeededRandom;

use crate::keys::hash;

/// The skew of YCSB, which cannot be set there.
pub const YCSB_SKEW: f64 = 0.99;
/// The items that YCSB's `zipfian` always draws from.
const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// The sum of 1/i^0.99 over them, which YCSB has as a constant.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// The terms of a sum that are added one by one, as in YCSB; the rest is an integral with its first corrections.
const SUMMED_TERMS: u64 = 1 << 20;

/// A distribution of ranks from 0, in which low ranks are frequent.
#[derive(Clone, Debug)]
pub struct Zipf {
    skew: f64,
    items: u64,
    /// The sum of 1/i^skew over `counted` items.
    zeta: f64,
    counted: u64,
    /// The number of items in `eta`, which YCSB's `latest` never updates.
    first_items: u64,
    eta: f64,
}

/// `sum` and the terms 1/i^skew for i from `from` + 1 to `to`.
///
/// Beyond the term [`SUMMED_TERMS`] it uses the formula of Euler and Maclaurin, whose error there is below 1e-12.
fn zeta(sum: f64, from: u64, to: u64, skew: f64) -> f64 {
    let term = |item: u64| 1.0 / (item as f64).powf(skew);
    let last_summed = to.min(from.max(SUMMED_TERMS));
    let mut sum = (from + 1..=last_summed).fold(sum, |sum, item| sum + term(item));
    if last_summed < to {
        let (a, b) = ((last_summed + 1) as f64, to as f64);
        let integral = if (skew - 1.0).abs() < 1e-12 {
            (b / a).ln()
        } else {
            (b.powf(1.0 - skew) - a.powf(1.0 - skew)) / (1.0 - skew)
        };
        let slope = |x: f64| -skew * x.powf(-skew - 1.0);
        sum += integral + f64::midpoint(term(last_summed + 1), term(to)) + (slope(b) - slope(a)) / 12.0;
    }
    sum
}

impl Zipf {
    /// Zipf's law over `items` items, at least one; `skew` is between 0 and 1, both excluded.
    pub fn new(items: u64, skew: f64) -> Zipf {
        let items = items.max(1);
        Zipf::with_zeta(items, skew, zeta(0.0, 0, items, skew))
    }

    fn with_zeta(items: u64, skew: f64, zeta: f64) -> Zipf {
        let mut zipf = Zipf { skew, items, zeta, counted: items, first_items: items, eta: 0.0 };
        zipf.eta = zipf.eta();
        zipf
    }

    fn eta(&self) -> f64 {
        let zeta_of_two = zeta(0.0, 0, 2, self.skew);
        let share = (2.0 / self.first_items as f64).powf(1.0 - self.skew);
        (1.0 - share) / (1.0 - zeta_of_two / self.zeta)
    }

    /// Changes the number of items. More are added term by term; with fewer the sum stays as it was counted.
    pub fn grow(&mut self, items: u64) {
        if items > self.counted {
            self.zeta = zeta(self.zeta, self.counted, items, self.skew);
            self.counted = items;
            self.eta = self.eta();
        }
        self.items = items.max(1);
    }

    /// How many items there are.
    pub fn items(&self) -> u64 {
        self.items
    }

    pub fn draw(&self, random: &mut SeededRandom) -> u64 {
        self.rank(random.uniform())
    }

    /// The rank at a place between 0 and 1 of the whole probability.
    fn rank(&self, place: f64) -> u64 {
        let scaled = place * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.skew) {
            return 1.min(self.items - 1);
        }
        let share = (self.eta * place - self.eta + 1.0).max(0.0).powf(1.0 / (1.0 - self.skew));
        ((self.items as f64 * share) as u64).min(self.items - 1)
    }
}

/// YCSB's `zipfian`: ranks among ten billion, scattered over the numbers of the records.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    zipf: Zipf,
    first: u64,
    count: u64,
}

impl ScrambledZipfian {
    /// The distribution over `count` numbers from `first` on, with YCSB's constants.
    pub fn ycsb(first: u64, count: u64) -> ScrambledZipfian {
        let zipf = Zipf::with_zeta(SCRAMBLED_ITEMS, YCSB_SKEW, SCRAMBLED_ZETA);
        ScrambledZipfian { zipf, first, count: count.max(1) }
    }

    /// The same with another skew, drawn among as many items as there are numbers.
    pub fn skewed(first: u64, count: u64, skew: f64) -> ScrambledZipfian {
        ScrambledZipfian { zipf: Zipf::new(count, skew), first, count: count.max(1) }
    }

    /// Doubles the range until it has room for this many numbers. Half of the ranks keep their number at each step, so that half of
    /// the hot records stay hot.
    pub fn cover(&mut self, numbers: u64) {
        while self.count < numbers {
            self.count = self.count.saturating_mul(2);
        }
        if self.zipf.items < self.count {
            self.zipf.first_items = self.count;
            self.zipf.grow(self.count);
        }
    }

    /// The number of ranks that are drawn from.
    pub fn items(&self) -> u64 {
        self.zipf.items()
    }

    /// The number of a record.
    pub fn draw(&self, random: &mut SeededRandom) -> u64 {
        self.at(self.zipf.draw(random))
    }

    /// The number of a rank.
    fn at(&self, rank: u64) -> u64 {
        self.first + hash(rank) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyNames;

    #[test]
    fn sums_are_right_also_where_they_are_not_added_up() {
        for (items, skew) in [(1_500_000_u64, 0.99), (1_500_000, 0.5)] {
            let one_by_one: f64 = (1..=items).rev().map(|item| 1.0 / (item as f64).powf(skew)).sum();
            let ours = zeta(0.0, 0, items, skew);
            assert!((ours - one_by_one).abs() < 1e-9 * one_by_one, "{ours} {one_by_one}");
        }
        let constant = zeta(0.0, 0, SCRAMBLED_ITEMS - 1, YCSB_SKEW);
        assert!((constant - SCRAMBLED_ZETA).abs() < 1e-4, "{constant}");
    }

    #[test]
    fn the_hottest_records_are_ycsbs() {
        // As in YCSB the range includes its end.
        let small = ScrambledZipfian::ycsb(0, 1000 + 1);
        assert_eq!((small.at(0), small.at(1)), (144, 610));
        assert_eq!(KeyNames::default().name(144), "user1573987489603120213");
        let large = ScrambledZipfian::ycsb(0, 5_000_000 + 1);
        assert_eq!(large.at(0), 1_256_469);
        assert_eq!(KeyNames::default().name(1_256_469), "user5469433981747096081");
        assert!((small.zipf.eta - 0.212_200_033_8).abs() < 1e-9, "{}", small.zipf.eta);
    }

    #[test]
    fn ranks_have_their_shares() {
        let mut random = SeededRandom::from_seed(7);
        let (zipf, draws) = (Zipf::new(1000, YCSB_SKEW), 400_000);
        let mut counts = vec![0_u64; 1000];
        for _ in 0..draws {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        for (rank, &count) in counts.iter().enumerate().take(2) {
            let share = 1.0 / ((rank + 1) as f64).powf(YCSB_SKEW) / zipf.zeta;
            let expected = share * f64::from(draws);
            assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {count} {expected}");
        }
        assert!(counts.iter().all(|count| *count > 0));
    }

    #[test]
    fn a_range_that_doubles_keeps_the_numbers_of_half_of_its_ranks() {
        let small = ScrambledZipfian::skewed(10, 1000, 0.8);
        let mut large = small.clone();
        large.cover(1000);
        assert_eq!((large.count, large.zipf.items), (1000, 1000));
        large.cover(1001);
        assert_eq!((large.count, large.zipf.items), (2000, 2000));
        let kept = (0..1000).filter(|rank| large.at(*rank) == small.at(*rank)).count();
        assert!((400..600).contains(&kept), "{kept}");
        assert!((0..1000).all(|rank| (large.at(rank) - 10) % 1000 + 10 == small.at(rank)));
        let new = ScrambledZipfian::skewed(10, 2000, 0.8);
        assert!(
            (large.zipf.eta - new.zipf.eta).abs() < 1e-12 && (large.zipf.zeta - new.zipf.zeta).abs() < 1e-9
        );
        large.cover(u64::MAX);
        assert_eq!(large.count, u64::MAX, "no overflow");
    }

    #[test]
    fn growing_item_by_item_comes_to_the_same_sum() {
        let mut grown = Zipf::new(1000, YCSB_SKEW);
        (1001..=2000).for_each(|items| grown.grow(items));
        assert!((grown.zeta - Zipf::new(2000, YCSB_SKEW).zeta).abs() < 1e-9);
        assert_eq!((grown.rank(0.0), grown.rank(1.0 - 1e-16)), (0, 1999));
        assert_eq!(Zipf::new(1, YCSB_SKEW).rank(0.999), 0);
    }
}
