//! How much of each disk's reads and writes can be the recorded server's own, as a whole and over time.
//!
//! The engine and its journal count bytes before the page cache, so the share is the most that can be the server's. It is formed minute by minute, because
//! the kernel writes back within 30 s (docs/methods.md#the-disk-of-a-recorded-database).

use serde::Serialize;

use super::bins::{BIN_NS, Bins};
use super::database_disk::{DatabaseDisk, disks};

const BINS_A_MINUTE: usize = 6;
/// The most windows of a disk.
const MAX_WINDOWS: usize = 60;
/// A minute with fewer bytes says nothing of their owner.
const MIN_MINUTE_BYTES: f64 = 1_048_576.0;

/// A disk's work, and whose it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskOwnership {
    pub disk: String,
    /// Whether it is the disk of the database. If that is not known, it can be any of them.
    pub is_database: Option<bool>,
    pub reads: OwnShare,
    pub writes: OwnShare,
}

/// The server's share of the bytes that a disk read or wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnShare {
    pub bytes: f64,
    /// The most that can be the server's, 0 to 1; `None` if there were no bytes.
    pub share: Option<f64>,
    /// The minute in which it was least.
    pub least: Option<ShareWindow>,
    /// Equal parts of the time.
    pub windows: Vec<ShareWindow>,
    /// The share in each step of [`super::RecordingTimeline`].
    #[serde(skip)]
    pub steps: Vec<Option<f32>>,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShareWindow {
    /// Begin, in milliseconds since 1970 in UTC.
    pub begin_ms: i64,
    pub end_ms: i64,
    pub bytes: f64,
    /// The most that can be the server's, 0 to 1.
    pub share: Option<f64>,
}

impl DiskOwnership {
    /// Each disk of a recording, the database's first.
    pub(super) fn from_bins(bins: &Bins, member: usize, database: &DatabaseDisk) -> Vec<DiskOwnership> {
        let server = |name: &str| format!("server.{member}.{name}");
        let own_reads = [server("engine.read_bytes")];
        let own_writes = [server("engine.written_bytes"), server("journal.written_bytes")];
        let ownership = |disk: String| {
            let is_database = match database {
                DatabaseDisk::Known(name) => Some(*name == disk),
                DatabaseDisk::Unlisted => Some(false),
                DatabaseDisk::Unknown | DatabaseDisk::NoneRecorded => None,
            };
            let share = |field: &str, own: &[String]| {
                let own = if is_database == Some(false) { &[][..] } else { own };
                OwnShare::from_bins(bins, &format!("device.{disk}.{field}"), own)
            };
            let (reads, writes) = (share("read_bytes", &own_reads), share("written_bytes", &own_writes));
            DiskOwnership { reads, writes, is_database, disk }
        };
        let mut found: Vec<DiskOwnership> = disks(bins).into_iter().map(ownership).collect();
        found.sort_by_key(|one| one.is_database != Some(true));
        found
    }
}

impl ShareWindow {
    /// Whether it is a minute. The last one of a recording may be cut off, before the kernel wrote back what the engine had written.
    fn is_whole_minute(&self) -> bool {
        self.end_ms - self.begin_ms == (BINS_A_MINUTE as u64 * BIN_NS / 1_000_000) as i64
    }
}

impl OwnShare {
    /// The share that the counters `own` have of the counter `name`.
    fn from_bins(bins: &Bins, name: &str, own: &[String]) -> OwnShare {
        let window = |from: usize, to: usize| {
            let over: Vec<usize> = (from..to).collect();
            let bytes = bins.sum(name, &over).unwrap_or(0.0);
            let own_bytes = bins.sum_of(own, &over).unwrap_or(0.0);
            let ms = |bin: usize| ((bins.begin_ns(0) + bin as u64 * BIN_NS) / 1_000_000) as i64;
            let share = (bytes > 0.0).then(|| (own_bytes / bytes).clamp(0.0, 1.0));
            ShareWindow { begin_ms: ms(from), end_ms: ms(to), bytes, share }
        };
        let windows_of = |length: usize| -> Vec<ShareWindow> {
            let begins = (0..bins.len()).step_by(length.max(1));
            begins.map(|begin| window(begin, (begin + length).min(bins.len()))).collect()
        };
        let minutes = windows_of(BINS_A_MINUTE);
        let in_order = |one: &&ShareWindow, other: &&ShareWindow| {
            one.share.unwrap_or(1.0).total_cmp(&other.share.unwrap_or(1.0))
        };
        let least = minutes
            .iter()
            .filter(|minute| minute.is_whole_minute() && minute.bytes >= MIN_MINUTE_BYTES)
            .min_by(in_order);
        let whole = window(0, bins.len());
        OwnShare {
            bytes: whole.bytes,
            share: whole.share,
            least: least.copied(),
            windows: windows_of(minutes.len().div_ceil(MAX_WINDOWS) * BINS_A_MINUTE),
            steps: (0..bins.len())
                .map(|bin| minutes.get(bin / BINS_A_MINUTE)?.share.map(|share| share as f32))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    /// MiB a minute of the engine, and of what sda wrote; sdb writes 7 MiB.
    fn ownership(minutes: &[(f64, f64)], database: &DatabaseDisk) -> Vec<DiskOwnership> {
        let mut series = SeriesSet::default();
        let minute_ns = BINS_A_MINUTE as u64 * BIN_NS;
        for (minute, (engine, sda)) in minutes.iter().enumerate() {
            let begin_ns = minute as u64 * minute_ns;
            for (name, mib) in [
                ("server.0.engine.written_bytes", 0.75 * engine),
                ("server.0.journal.written_bytes", 0.25 * engine),
                ("device.sda.written_bytes", *sda),
                ("device.sdb.written_bytes", 7.0),
            ] {
                let point = Point { begin_ns, end_ns: begin_ns + minute_ns, value: mib * 1_048_576.0 };
                series.extend(name, "bytes", [point]);
            }
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        DiskOwnership::from_bins(&bins, 0, database)
    }

    #[test]
    fn the_share_falls_in_the_minute_in_which_another_process_writes() {
        let known = DatabaseDisk::Known("sda".to_owned());
        let found = ownership(&[(30.0, 40.0), (30.0, 120.0), (30.0, 40.0), (30.0, 0.5)], &known);
        let [sda, sdb] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((sda.disk.as_str(), sda.is_database, sdb.is_database), ("sda", Some(true), Some(false)));
        let shares: Vec<f64> = sda.writes.windows.iter().filter_map(|window| window.share).collect();
        // The last minute wrote less than the engine gave, which the page cache still holds.
        assert!(shares.iter().zip([0.75, 0.25, 0.75, 1.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{shares:?}");
        let least = sda.writes.least.unwrap();
        assert_eq!((least.begin_ms, least.end_ms, least.share), (60_000, 120_000, Some(0.25)));
        assert!((sda.writes.share.unwrap() - 120.0 / 200.5).abs() < 1e-6, "{:?}", sda.writes);
        assert_eq!(
            (sda.writes.steps.len(), sda.writes.steps[6], sda.writes.steps[12]),
            (24, Some(0.25), Some(0.75))
        );
        assert_eq!((sdb.writes.share, sda.reads.share), (Some(0.0), None));
    }

    #[test]
    fn of_an_unknown_disk_it_is_a_bound_and_of_an_unlisted_one_there_is_none() {
        let share = |database: &DatabaseDisk| {
            let found = ownership(&[(7.0, 14.0)], database);
            let percent = |one: &DiskOwnership| one.writes.share.map(|share| (100.0 * share).round() as i64);
            found.iter().map(|one| (one.is_database, percent(one))).collect::<Vec<_>>()
        };
        assert_eq!(share(&DatabaseDisk::Unknown), [(None, Some(50)), (None, Some(100))]);
        assert_eq!(share(&DatabaseDisk::Unlisted), [(Some(false), Some(0)), (Some(false), Some(0))]);
    }

    #[test]
    fn weeks_have_as_many_windows_as_an_hour() {
        let minutes = vec![(1.0, 2.0); 1000];
        let found = ownership(&minutes, &DatabaseDisk::Known("sda".to_owned()));
        let windows = &found[0].writes.windows;
        assert!(windows.len() <= MAX_WINDOWS && windows.len() > MAX_WINDOWS / 2, "{}", windows.len());
        assert!((windows.iter().map(|window| window.bytes).sum::<f64>() - found[0].writes.bytes).abs() < 1e3);
    }
}
