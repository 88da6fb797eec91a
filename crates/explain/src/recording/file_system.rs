//! Finds a full, or nearly full, file system of a recorded server's data.

use fathom_record::Confidence;
use fathom_record::incident::Incident;
use fathom_record::verdict::Domain;
use fathom_units::Bytes;

use super::bins::Bins;

/// A file system is full below this free share and this many free bytes: WiredTiger keeps a checkpoint until the next one is written. One in a
/// hundred of a large volume is room enough.
const MAX_FULL_FREE_SHARE: f64 = 0.01;
const MAX_FULL_FREE_BYTES: f64 = 4.0 * 1_073_741_824.0;
/// The cause of an incident in which it was full.
pub(super) const FULL: &str = "file-system-full";
/// Stretches that are no further apart than this, in bins, are one.
const MAX_BINS_APART: usize = 6;
/// It is nearly full below this share.
const MAX_NEARLY_FULL_FREE_SHARE: f64 = 0.05;

/// The free space of the data's file system in each bin: as a share of it, and in bytes.
fn free_space(bins: &Bins, member: usize) -> Vec<Option<(f64, f64)>> {
    let name = |figure: &str| format!("server.{member}.volume.{figure}_bytes");
    let (available, capacity) = (name("available"), name("capacity"));
    let of_bin = |bin: usize| {
        let (available, capacity) = (bins.rate(&available, &[bin])?, bins.rate(&capacity, &[bin])?);
        (capacity > 0.0).then(|| (available / capacity, available))
    };
    (0..bins.len()).map(of_bin).collect()
}

/// The stretches in which the file system of the data was full.
pub(super) fn full_file_system(bins: &Bins, member: usize) -> Vec<Incident> {
    let free = free_space(bins, member);
    let mut stretches: Vec<(usize, usize, f64)> = Vec::new();
    for (bin, free) in free.iter().enumerate() {
        let Some((share, bytes)) = free else { continue };
        if *share >= MAX_FULL_FREE_SHARE || *bytes >= MAX_FULL_FREE_BYTES {
            continue;
        }
        match stretches.last_mut().filter(|(_, end, _)| bin - *end <= MAX_BINS_APART) {
            Some((_, end, least)) => (*end, *least) = (bin + 1, least.min(*bytes)),
            None => stretches.push((bin, bin + 1, *bytes)),
        }
    }
    let ms = |bin: usize| (bins.begin_ns(bin) / 1_000_000) as i64;
    let incident = |(begin, end, bytes): (usize, usize, f64)| Incident {
        member,
        begin_ms: ms(begin),
        end_ms: ms(end),
        cause: FULL.to_owned(),
        domain: Some(Domain::Storage),
        confidence: Confidence::Certain,
        sentence: format!(
            "The file system of the data was full: {} were free.",
            Bytes(bytes.max(0.0) as u64)
        ),
        lost_s: 0.0,
        lost_range_s: None,
        lost_share: 0.0,
        storage_s: 0.0,
        changes: Vec::new(),
        waits: Vec::new(),
        engine_times: Vec::new(),
        evidence: Vec::new(),
        against: Vec::new(),
        next: Some(
            "Free space or enlarge the volume: mongod stops when it cannot write its journal.".to_owned(),
        ),
    };
    stretches.into_iter().map(incident).collect()
}

/// A sentence on a file system that is nearly full.
pub(super) fn nearly_full_words(bins: &Bins, member: usize) -> Option<String> {
    let free = free_space(bins, member);
    let (share, bytes) = free.into_iter().flatten().min_by(|one, other| one.0.total_cmp(&other.0))?;
    (share < MAX_NEARLY_FULL_FREE_SHARE).then(|| {
        format!(
            "The file system of the data was {:.1} % full at worst: {} were free.",
            100.0 * (1.0 - share),
            Bytes(bytes.max(0.0) as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::super::bins::BIN_NS;
    use super::*;

    fn bins(available: &[f64]) -> Bins {
        bins_of(1000.0, available)
    }

    fn bins_of(capacity: f64, available: &[f64]) -> Bins {
        let mut series = SeriesSet::default();
        for (bin, value) in available.iter().enumerate().map(|(bin, value)| (bin as u64, *value)) {
            let point = |value: f64| Point { begin_ns: bin * BIN_NS, end_ns: (bin + 1) * BIN_NS, value };
            series.extend("server.0.volume.available_bytes", "bytes", [point(value)]);
            series.extend("server.0.volume.capacity_bytes", "bytes", [point(capacity)]);
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        bins
    }

    #[test]
    fn a_full_file_system_is_an_incident_and_a_nearly_full_one_is_named() {
        let found = full_file_system(
            &bins(&[500.0, 9.0, 3.0, 500.0, 500.0, 500.0, 500.0, 500.0, 500.0, 500.0, 0.0]),
            0,
        );
        let spans: Vec<(i64, i64)> = found.iter().map(|one| (one.begin_ms, one.end_ms)).collect();
        assert_eq!(spans, [(10_000, 30_000), (100_000, 110_000)]);
        assert!(found[0].sentence.contains(": 3 B were free"), "{}", found[0].sentence);
        let words = nearly_full_words(&bins(&[500.0, 40.0]), 0).unwrap();
        assert_eq!(words, "The file system of the data was 96.0 % full at worst: 40 B were free.");
        assert_eq!(nearly_full_words(&bins(&[500.0]), 0), None);
        assert!(full_file_system(&Bins::default(), 0).is_empty());
        // 60 GB of 10 TB are room enough.
        assert!(full_file_system(&bins_of(1e13, &[6e10]), 0).is_empty());
    }
}
