//! YCSB's request distributions, which choose the record of an operation.
//!
//! Each loop draws from its own chooser. The choosers share the number of the newest record, which rises as inserts are
//! acknowledged. A number beyond it is discarded and drawn again, as in YCSB; [`KeyDraws`] counts how often.
//!
//! YCSB's `zipfian` draws over a range with room for twice the inserts that follow from `operationcount`, and never beyond it. Here
//! the range is the same as long as it is a forecast ([`Records::expecting`]), and doubles where more records exist than it holds.
//! `exponential` is drawn at once among the records that exist, which has the same distribution as drawing again.

mod records;
mod zipf;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_stats::SeededRandom;

pub use records::Records;
pub use zipf::{ScrambledZipfian, YCSB_SKEW, Zipf};

/// A request distribution with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All records that existed at the start, equally often.
    Uniform,
    /// A few records often; they are scattered over the table.
    Zipfian,
    /// The newest records often.
    Latest,
    /// A share of the records gets a share of the operations.
    Hotspot {
        /// `hotspotdatafraction`: the share of the records that is hot.
        data: f64,
        /// `hotspotopnfraction`: the share of the operations on the hot set.
        operations: f64,
    },
    /// The newer, the likelier.
    Exponential {
        /// `exponential.percentile`: this percentage of the operations …
        percentile: f64,
        /// `exponential.frac`: … go to the newest records, this share of all.
        share: f64,
    },
    /// All records in order, again and again.
    Sequential,
}

/// How keys were drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDraws {
    /// Keys that operations needed.
    pub keys: u64,
    /// The draws that they took: more than one for a key where records were drawn that do not exist.
    pub draws: u64,
    /// Keys that are the newest record's because no record that exists was drawn.
    pub substitutes: u64,
}

impl KeyDraws {
    /// Adds all of another's.
    pub fn merge(&mut self, other: KeyDraws) {
        self.keys += other.keys;
        self.draws += other.draws;
        self.substitutes += other.substitutes;
    }
}

/// Draws the numbers of records.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    records: Records,
    kind: GeneratorKind,
    draws: KeyDraws,
}

#[derive(Clone, Debug)]
enum GeneratorKind {
    Uniform,
    Zipfian(Box<ScrambledZipfian>),
    Latest(Box<Zipf>),
    Hotspot { hot: u64, operations: f64 },
    Exponential { mean: f64 },
    Sequential(Arc<AtomicU64>),
}

impl KeyChooser {
    /// A chooser. `skew` is that of `zipfian`, if it is not YCSB's. The choosers of one run share `turn` for `sequential`.
    pub fn new(
        distribution: Distribution,
        records: Records,
        skew: Option<f64>,
        turn: &Arc<AtomicU64>,
    ) -> KeyChooser {
        let records = Records { count: records.count.max(1), ..records };
        let kind = match distribution {
            Distribution::Uniform => GeneratorKind::Uniform,
            Distribution::Zipfian => {
                // The range includes its end, which is drawn and refused if nothing is inserted.
                let count = records.count.saturating_add(records.expected).saturating_add(1);
                GeneratorKind::Zipfian(Box::new(match skew {
                    None => ScrambledZipfian::ycsb(records.first, count),
                    Some(skew) => ScrambledZipfian::skewed(records.first, count, skew),
                }))
            }
            Distribution::Latest => {
                let zipf = Zipf::new(records.table.saturating_sub(1), skew.unwrap_or(YCSB_SKEW));
                GeneratorKind::Latest(Box::new(zipf))
            }
            Distribution::Hotspot { data, operations } => {
                // From 2^53 on the product may round to more than there are.
                let hot = ((records.count as f64 * data) as u64).min(records.count);
                GeneratorKind::Hotspot { hot, operations }
            }
            Distribution::Exponential { percentile, share } => {
                let rate = -(1.0 - percentile / 100.0).ln() / (records.table as f64 * share);
                GeneratorKind::Exponential { mean: 1.0 / rate }
            }
            Distribution::Sequential => GeneratorKind::Sequential(Arc::clone(turn)),
        };
        KeyChooser { records, kind, draws: KeyDraws::default() }
    }

    /// How keys were drawn since the last call.
    pub fn take_draws(&mut self) -> KeyDraws {
        std::mem::take(&mut self.draws)
    }

    /// The number of an existing record; `newest` is the highest whose insert, and those of all below it, were acknowledged.
    pub fn draw(&mut self, random: &mut SeededRandom, newest: u64) -> u64 {
        // The widest range holds a record that exists for one number in a thousand, so this many draws are never in vain.
        const MAX_DRAWS: u64 = 1 << 17;
        self.draws.keys += 1;
        let goes_down = matches!(self.kind, GeneratorKind::Latest(_) | GeneratorKind::Exponential { .. });
        if newest >= self.records.first || goes_down {
            for _ in 0..MAX_DRAWS {
                self.draws.draws += 1;
                let number = self.draw_any(random, newest);
                if number <= newest {
                    return number;
                }
            }
        }
        self.draws.substitutes += 1;
        newest
    }

    fn draw_any(&mut self, random: &mut SeededRandom, newest: u64) -> u64 {
        let Records { first, count, .. } = self.records;
        match &mut self.kind {
            GeneratorKind::Uniform => first + random.below(count),
            GeneratorKind::Zipfian(scrambled) => {
                scrambled.cover(newest.saturating_sub(first).saturating_add(1));
                scrambled.draw(random)
            }
            GeneratorKind::Latest(zipf) => {
                zipf.grow(newest);
                newest - zipf.draw(random).min(newest)
            }
            GeneratorKind::Hotspot { hot, operations } => {
                // If one part has no records, the other one is used.
                let cold = count - *hot;
                let to_hot = cold == 0 || (*hot > 0 && random.uniform() < *operations);
                first + if to_hot { random.below(*hot) } else { *hot + random.below(cold) }
            }
            GeneratorKind::Exponential { mean } => {
                // Of the whole probability, only the part of the distances up to the oldest record is drawn from.
                let reach = -(-(newest as f64 + 1.0) / *mean).exp_m1();
                let distance = -(-random.uniform() * reach).ln_1p() * *mean;
                newest - (distance as u64).min(newest)
            }
            GeneratorKind::Sequential(turn) => first + turn.fetch_add(1, Ordering::Relaxed) % count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: Records = Records { first: 0, count: 1000, table: 1000, expected: 0, is_apart: false };

    fn counts(distribution: Distribution, records: Records, newest: u64) -> Vec<u64> {
        let mut random = SeededRandom::from_seed(3);
        let mut chooser = KeyChooser::new(distribution, records, None, &Arc::default());
        let mut counts = vec![0; newest as usize + 1];
        for _ in 0..100_000 {
            counts[chooser.draw(&mut random, newest) as usize] += 1;
        }
        counts
    }

    /// The statistic of the chi-square test against these shares.
    fn chi_square(counts: &[u64], share: impl Fn(usize) -> f64) -> f64 {
        let all: u64 = counts.iter().sum();
        let term = |(place, &count): (usize, &u64)| {
            let expected = share(place) * all as f64;
            if expected == 0.0 {
                assert_eq!(count, 0, "{place}");
                return 0.0;
            }
            (count as f64 - expected).powi(2) / expected
        };
        counts.iter().enumerate().map(term).sum()
    }

    /// The bound that a chi-square value with these degrees of freedom exceeds once in a million (Wilson and Hilferty).
    fn bound(degrees: f64) -> f64 {
        let part = 2.0 / (9.0 * degrees);
        degrees * (1.0 - part + 4.75 * part.sqrt()).powi(3)
    }

    #[test]
    fn uniform_and_hotspot_have_their_shares() {
        let uniform = counts(Distribution::Uniform, RECORDS, 999);
        assert!(chi_square(&uniform, |_| 0.001) < bound(999.0));
        let hotspot = counts(Distribution::Hotspot { data: 0.2, operations: 0.8 }, RECORDS, 999);
        let share = |place: usize| if place < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 };
        assert!(chi_square(&hotspot, share) < bound(999.0));
        // YCSB divides by zero where a part is empty.
        let all_hot = counts(Distribution::Hotspot { data: 1.0, operations: 0.1 }, RECORDS, 999);
        assert!(chi_square(&all_hot, |_| 0.001) < bound(999.0));
    }

    #[test]
    fn hot_records_are_never_more_than_all() {
        // As a floating-point number the count is one more.
        let records = Records { count: (1 << 62) - 1, table: (1 << 62) - 1, ..RECORDS };
        let wanted = Distribution::Hotspot { data: 1.0, operations: 0.5 };
        let mut chooser = KeyChooser::new(wanted, records, None, &Arc::default());
        let newest = records.count - 1;
        let mut random = SeededRandom::from_seed(8);
        assert!((0..1000).all(|_| chooser.draw(&mut random, newest) <= newest));
    }

    #[test]
    fn exponential_keeps_its_percentile() {
        let wanted = Distribution::Exponential { percentile: 95.0, share: 0.857_142_857_1 };
        let counts = counts(wanted, RECORDS, 999);
        let newest: u64 = counts.iter().rev().take(857).sum();
        let share = newest as f64 / 100_000.0;
        // YCSB draws a number beyond the oldest record again, so a little more than 95 of 100 are newer.
        let within = 1.0 - 0.05_f64.powf(1000.0 / 857.142_857_1);
        assert!((share - 0.95 / within).abs() < 0.003, "{share}");
        assert!(counts[999] > counts[500] && counts[500] > counts[100]);
    }

    /// YCSB would draw a hundred thousand times for each key.
    #[test]
    fn exponential_takes_one_draw_however_long_it_reaches() {
        let wanted = Distribution::Exponential { percentile: 0.001, share: 1.0 };
        let mut chooser = KeyChooser::new(wanted, RECORDS, None, &Arc::default());
        let mut random = SeededRandom::from_seed(11);
        let mut counts = vec![0_u64; 1000];
        for _ in 0..100_000 {
            counts[chooser.draw(&mut random, 999) as usize] += 1;
        }
        assert!(chi_square(&counts, |_| 0.001) < bound(999.0), "all are about equally likely");
        let expected = KeyDraws { keys: 100_000, draws: 100_000, substitutes: 0 };
        assert_eq!((chooser.take_draws(), chooser.take_draws()), (expected, KeyDraws::default()));
    }

    #[test]
    fn latest_prefers_the_newest_also_when_the_table_grows() {
        let mut random = SeededRandom::from_seed(4);
        let mut chooser = KeyChooser::new(Distribution::Latest, RECORDS, None, &Arc::default());
        for newest in [999, 1500, 3000] {
            let hits = (0..20_000).filter(|_| chooser.draw(&mut random, newest) == newest).count();
            let GeneratorKind::Latest(zipf) = &chooser.kind else { panic!() };
            let share = hits as f64 / 20_000.0;
            assert!((0.1..0.14).contains(&share), "{share} at {newest}: {zipf:?}");
        }
    }

    #[test]
    fn zipfian_is_hottest_where_ycsb_is() {
        let counts = counts(Distribution::Zipfian, RECORDS, 999);
        let hottest = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(hottest.0, 144);
        // Rank 0 has 1 in 26.469 draws, and what else falls on the number.
        assert!((3778..4300).contains(hottest.1), "{hottest:?}");
    }

    #[test]
    fn sequential_takes_turns_over_all_choosers() {
        let turn = Arc::default();
        let records = Records { first: 10, count: 4, ..RECORDS };
        let mut random = SeededRandom::from_seed(5);
        let mut one = KeyChooser::new(Distribution::Sequential, records, None, &turn);
        let mut other = one.clone();
        let drawn: Vec<u64> =
            (0..3).flat_map(|_| [one.draw(&mut random, 99), other.draw(&mut random, 99)]).collect();
        assert_eq!(drawn, [10, 11, 12, 13, 10, 11]);
    }

    /// The numbers drawn most often, the most frequent first.
    fn hottest<const N: usize>(counts: &[u64]) -> [usize; N] {
        let mut places: Vec<usize> = (0..counts.len()).collect();
        places.sort_by_key(|place| std::cmp::Reverse(counts[*place]));
        places[..N].try_into().unwrap()
    }

    /// recordcount=1000, operationcount=5000, readproportion=0.9, insertproportion=0.1 in YCSB: 1000 new records are expected, and
    /// of the hottest ranks the first is beyond the newest record.
    #[test]
    fn zipfian_with_inserts_is_hottest_where_ycsb_is() {
        let records = RECORDS.expecting(1000, false);
        assert_eq!(hottest(&counts(Distribution::Zipfian, records, 999)), [940, 799, 179]);
    }

    /// Workload E for some seconds with operationcount=150000000: YCSB's range has 15,001 numbers for each record.
    #[test]
    fn a_run_that_ends_by_time_draws_among_its_records_and_follows_them() {
        let records = RECORDS.expecting(15_000_000, true);
        let mut chooser = KeyChooser::new(Distribution::Zipfian, records, None, &Arc::default());
        let mut random = SeededRandom::from_seed(12);
        for newest in [999, 1000, 1001, 1500, 4000, 100_000] {
            let mut newer = 0;
            for _ in 0..10_000 {
                let number = chooser.draw(&mut random, newest);
                assert!(number <= newest, "{number} of {newest}");
                newer += u64::from(number > newest / 2);
            }
            let KeyDraws { draws, substitutes, .. } = chooser.take_draws();
            assert!(draws < 22_000 && substitutes == 0, "{draws} draws with {newest}");
            assert!((3000..7000).contains(&newer), "{newer} of 10,000 in the newer half of {newest}");
        }
        // While nothing is inserted, the hottest records are those of YCSB without inserts.
        assert_eq!(hottest(&counts(Distribution::Zipfian, records, 999)), [144, 610, 213]);
    }

    #[test]
    fn zipfian_over_the_tables_own_size_grows_with_it() {
        let mut chooser = KeyChooser::new(Distribution::Zipfian, RECORDS, Some(0.8), &Arc::default());
        let mut random = SeededRandom::from_seed(13);
        assert!((0..1000).all(|_| chooser.draw(&mut random, 50_000) <= 50_000));
        let GeneratorKind::Zipfian(scrambled) = &chooser.kind else { panic!() };
        assert_eq!(scrambled.items(), 1001 << 6, "as many as the range has numbers");
    }

    #[test]
    fn what_is_not_there_yet_is_not_drawn() {
        let records = Records { expected: 10_000, ..RECORDS };
        let mut random = SeededRandom::from_seed(6);
        for distribution in [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest] {
            let mut chooser = KeyChooser::new(distribution, records, None, &Arc::default());
            assert!((0..1000).all(|_| chooser.draw(&mut random, 99) <= 99));
            assert_eq!(chooser.take_draws().substitutes, 0);
        }
        // A table without any of the requested records does not spin for ever, and the substitute counts.
        let far = Records { first: 1000, ..RECORDS };
        let mut chooser = KeyChooser::new(Distribution::Uniform, far, None, &Arc::default());
        assert_eq!(chooser.draw(&mut random, 99), 99);
        assert_eq!(chooser.take_draws(), KeyDraws { keys: 1, draws: 0, substitutes: 1 });
    }
}
