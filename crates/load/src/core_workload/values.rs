//! The values that a workload writes into its fields, and YCSB's distributions of the lengths of values and scans.

use std::path::Path;

use fathom_errors::{Error, Kind};
use fathom_stats::SeededRandom;

use crate::generators::{YCSB_SKEW, Zipf};
use crate::properties::read_small;
use crate::values::{append_random, integrity};

/// The settings of field values.
#[derive(Clone, Debug)]
pub struct Values {
    /// The lengths of values, in bytes.
    pub lengths: Lengths,
    /// `dataintegrity`: the key and the field determine the value.
    pub integrity: bool,
    /// `compressibility`: the approximate compression ratio of values; 1 leaves them as YCSB draws them. Ours.
    pub compressibility: f64,
    /// `datatype=string`: values are strings rather than binary. Ours.
    pub text: bool,
}

impl Values {
    /// Appends a value of a record's field.
    pub fn append(&self, key: &str, field: &str, random: &mut SeededRandom, out: &mut Vec<u8>) {
        let bytes = usize::try_from(self.lengths.draw(random)).unwrap_or(usize::MAX);
        if self.integrity {
            out.extend_from_slice(integrity(key, field, bytes).as_bytes());
            return;
        }
        let start = out.len();
        let drawn = if self.compressibility > 1.0 {
            (bytes as f64 / self.compressibility).ceil() as usize
        } else {
            bytes
        };
        append_random(random, drawn.min(bytes), out);
        out.resize(start + bytes, b'a');
    }

    /// Whether a value is the one that the field must have; only with `dataintegrity`.
    pub fn is_right(&self, key: &str, field: &str, value: &[u8]) -> bool {
        let Lengths::Constant(bytes) = self.lengths else { return true };
        !self.integrity
            || integrity(key, field, usize::try_from(bytes).unwrap_or(usize::MAX)).as_bytes() == value
    }
}

/// The longest field, in bytes: the limit of a whole document in MongoDB.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// A distribution of lengths, both ends included.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// Every length is the same.
    Constant(u64),
    /// Every length is equally likely.
    Uniform {
        /// The least length, in bytes.
        least: u64,
        /// The greatest length, in bytes.
        most: u64,
    },
    /// Short ones are frequent.
    Zipfian {
        /// The least length, in bytes.
        least: u64,
        /// The random number added to it.
        zipf: Box<Zipf>,
    },
    /// The counts of a histogram file.
    Histogram {
        /// The width of a bucket.
        block: u64,
        /// For each bucket, the counts up to its end.
        sums: Vec<u64>,
    },
}

impl Lengths {
    /// A zipfian distribution between two ends.
    pub fn zipfian(least: u64, most: u64) -> Lengths {
        Lengths::Zipfian { least, zipf: Box::new(Zipf::new(most.saturating_sub(least) + 1, YCSB_SKEW)) }
    }

    /// Reads a histogram: `BlockSize<TAB>n`, then a line `bucket<TAB>count` for each bucket from 0 on. No bucket that
    /// has a count may end above 16 MiB, the most that a document takes. Lengths are drawn as YCSB draws them, which is not quite
    /// what the file says.
    ///
    /// # Errors
    /// `Kind::Usage` if the file is missing or says something else.
    pub fn histogram(path: &Path) -> Result<Lengths, Error> {
        let bytes = read_small(path)
            .map_err(|error| Error::io("read the lengths in", path, error).with_kind(Kind::Usage))?;
        Lengths::histogram_in(&String::from_utf8_lossy(&bytes), &path.display().to_string())
    }

    /// The histogram in the text of a file that is called `shown`.
    ///
    /// # Errors
    /// `Kind::Usage` if it says something else.
    pub fn histogram_in(text: &str, shown: &str) -> Result<Lengths, Error> {
        let wrong =
            |line: usize, wanted: &str| Error::usage(format!("{shown}, line {line}: {wanted} is expected"));
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let block = lines
            .next()
            .and_then(|(_, line)| line.strip_prefix("BlockSize")?.trim().parse().ok())
            .filter(|block: &u64| *block > 0)
            .ok_or_else(|| wrong(1, "BlockSize, a tab and a number of at least 1"))?;
        let (mut sums, mut sum) = (Vec::<u64>::new(), 0_u64);
        for (number, line) in lines {
            let pair = line.split_once(['\t', ' ']).and_then(|(bucket, count)| {
                Some((bucket.trim().parse::<usize>().ok()?, count.trim().parse::<u64>().ok()?))
            });
            let Some((_, count)) = pair.filter(|(bucket, _)| *bucket == sums.len()) else {
                return Err(wrong(number + 1, &format!("the bucket {}, a tab and a count", sums.len())));
            };
            let end = block.saturating_mul(sums.len() as u64 + 1);
            if count > 0 && end > MAX_BYTES {
                return Err(wrong(number + 1, &format!("a bucket that ends at {MAX_BYTES} bytes or below")));
            }
            sum = sum.saturating_add(count);
            sums.push(sum);
        }
        if sum == 0 {
            return Err(wrong(text.lines().count(), "a bucket with a count above 0"));
        }
        Ok(Lengths::Histogram { block, sums })
    }

    /// Draws a length in bytes.
    pub fn draw(&self, random: &mut SeededRandom) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { least, most } => least + random.below(most.saturating_sub(*least) + 1),
            Lengths::Zipfian { least, zipf } => least + zipf.draw(random),
            Lengths::Histogram { block, sums } => {
                let place = random.below(sums.last().copied().unwrap_or(1));
                length_at(place, sums) * block
            }
        }
    }
}

/// The length at a place of the counts, in blocks, as YCSB's `HistogramGenerator` finds it: the upper end of the bucket, but the
/// lower end of the last one, and a place at the border of two buckets counts for the first.
fn length_at(place: u64, sums: &[u64]) -> u64 {
    let last = sums.len().saturating_sub(1);
    let bucket = sums.iter().take(last).position(|sum| place <= *sum);
    bucket.map_or(last, |bucket| bucket + 1) as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn values_shrink_as_far_as_they_are_told_to() {
        let mut random = SeededRandom::from_seed(1);
        let mut values =
            Values { lengths: Lengths::Constant(1000), integrity: false, compressibility: 4.0, text: false };
        let mut out = b"x".to_vec();
        values.append("user1", "field0", &mut random, &mut out);
        assert_eq!(out.len(), 1001);
        assert!(out[1..251].iter().any(|byte| *byte != b'a') && out[251..].iter().all(|byte| *byte == b'a'));
        values.integrity = true;
        values.lengths = Lengths::Constant(100);
        out.clear();
        values.append("user1", "field0", &mut random, &mut out);
        assert!(values.is_right("user1", "field0", &out) && !values.is_right("user1", "field1", &out));
    }

    fn shares(lengths: &Lengths, most: usize) -> Vec<f64> {
        let mut random = SeededRandom::from_seed(8);
        let mut counts = vec![0.0; most + 1];
        for _ in 0..50_000 {
            counts[lengths.draw(&mut random) as usize] += 1.0 / 50_000.0;
        }
        counts
    }

    #[test]
    fn lengths_keep_to_their_ends() {
        assert_eq!(shares(&Lengths::Constant(3), 3), [0.0, 0.0, 0.0, shares(&Lengths::Constant(3), 3)[3]]);
        let uniform = shares(&Lengths::Uniform { least: 2, most: 5 }, 5);
        assert!(uniform[..2] == [0.0, 0.0] && uniform[2..].iter().all(|share| (share - 0.25).abs() < 0.01));
        let zipfian = shares(&Lengths::zipfian(1, 100), 100);
        assert!(zipfian[0] == 0.0 && zipfian[1] > 0.15 && zipfian[1] > zipfian[2] && zipfian[100] > 0.0);
    }

    /// The results of `HistogramGenerator.nextValue` for each number that it may draw, with a block size of 1.
    #[test]
    fn a_histogram_is_off_where_ycsbs_is() {
        for (sums, lengths) in [
            (vec![1, 1, 4], vec![1, 1, 2, 2]),
            (vec![2, 3, 5], vec![1, 1, 1, 2, 2]),
            (vec![0, 2, 3], vec![1, 2, 2]),
            (vec![0, 0, 3], vec![1, 2, 2]),
            (vec![2, 2], vec![1, 1]),
            (vec![0, 3], vec![1, 1, 1]),
            (vec![3], vec![0, 0, 0]),
        ] {
            let all = *sums.last().unwrap();
            let drawn: Vec<u64> = (0..all).map(|place| length_at(place, &sums)).collect();
            assert_eq!(drawn, lengths, "{sums:?}");
        }
    }

    #[test]
    fn a_histogram_is_read_and_drawn() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"BlockSize\t10\n0\t100\n1\t300\n2\t600\n").unwrap();
        let shares = shares(&Lengths::histogram(file.path()).unwrap(), 30);
        // Those of YCSB: the last bucket gives its lower end, so that a field has 18.99 bytes on average.
        assert!((shares[10] - 0.101).abs() < 0.01 && (shares[20] - 0.899).abs() < 0.01, "{shares:?}");
        assert_eq!(shares[30], 0.0);
        for wrong in [
            "",
            "Size\t1\n",
            "BlockSize\t0\n0\t1\n",
            "BlockSize\t1\n1\t1\n",
            "BlockSize\t1\n0\tx\n",
            "BlockSize\t1\n0\t0\n",
            "BlockSize\t16777217\n0\t1\n",
            "BlockSize\t8388608\n0\t0\n1\t0\n2\t1\n",
            "BlockSize\t18446744073709551615\n0\t0\n1\t1\n",
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(wrong.as_bytes()).unwrap();
            assert_eq!(Lengths::histogram(file.path()).unwrap_err().kind(), Kind::Usage, "{wrong:?}");
        }
        assert!(Lengths::histogram(Path::new("/nonexistent")).is_err());
    }
}
