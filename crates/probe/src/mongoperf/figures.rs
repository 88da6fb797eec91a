//! What a run measured, as figures: each second, each step of the ramp, each sync of the mapping.
//!
//! A second is as long as it was, not as long as it was meant to be, and MB are those of the record size.

use fathom_record::disk::{Latency, Operations};
use fathom_units::Bytes;
use serde::Serialize;

use crate::tracks::{Track, Tracks};

/// One line's worth: about a second.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Its end, seconds since the first thread started.
    pub end_s: f64,
    /// Its length in seconds, measured.
    pub length_s: f64,
    /// Threads running.
    pub threads: u32,
    /// Reads and writes that ended in it, per second.
    pub ops_per_s: f64,
    /// The same in MiB per second, by the record size.
    pub mib_per_s: f64,
    /// By kind: `read`, `write`, and where writes are synced `sync` and `durable` (write and sync together).
    pub operations: Vec<Operations>,
}

/// All seconds with one number of threads together.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Threads running.
    pub threads: u32,
    /// Its start, seconds since the first thread started.
    pub begin_s: f64,
    /// Its length in seconds, measured.
    pub length_s: f64,
    /// Reads and writes per second.
    pub ops_per_s: f64,
    /// The same in MiB per second.
    pub mib_per_s: f64,
    /// Share of their time that the threads were ready but waited for a CPU, percent; absent where the kernel
    /// does not say. Above 5 the figures say more about the CPU than about the disk (disk.md 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_pct: Option<f64>,
    /// By kind, as in a second.
    pub operations: Vec<Operations>,
}

/// One background sync of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sync {
    /// Its start, seconds since the first thread started.
    pub begin_s: f64,
    /// How long it took, milliseconds.
    pub took_ms: f64,
}

/// Seconds from nanoseconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Rate, MiB per second and the kinds of what `tracks` hold, over `elapsed_ns`.
pub(super) fn figures(tracks: &Tracks, record: Bytes, elapsed_ns: u64) -> (f64, f64, Vec<Operations>) {
    let elapsed_s = seconds(elapsed_ns.max(1));
    // As the old tool counted: a durable write is one operation, its sync none.
    let ended = tracks.get(Track::Read).len() + tracks.get(Track::Write).len();
    let kinds = [Track::Read, Track::Write, Track::Sync, Track::Durable].into_iter().filter_map(|track| {
        let histogram = tracks.get(track);
        let per_s = histogram.len() as f64 / elapsed_s;
        let bytes = if track == Track::Sync { Bytes(0) } else { record };
        Some(Operations {
            kind: track.name().to_owned(),
            count: histogram.len(),
            per_s,
            mib_per_s: per_s * bytes.as_mib(),
            latency: Latency::of(histogram)?,
            response: None,
        })
    });
    let ops_per_s = ended as f64 / elapsed_s;
    (ops_per_s, ops_per_s * record.as_mib(), kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_write_is_one_operation_of_the_records_size() {
        let mut tracks = Tracks::default();
        for track in [Track::Write, Track::Sync, Track::Durable] {
            (0..30).for_each(|_| tracks.record(track, 1_000_000));
        }
        (0..10).for_each(|_| tracks.record(Track::Read, 500_000));
        let (ops, mib, kinds) = figures(&tracks, Bytes::kib(64), 2_000_000_000);
        assert_eq!((ops, mib), (20.0, 1.25));
        let names: Vec<&str> = kinds.iter().map(|kind| kind.kind.as_str()).collect();
        assert_eq!(names, ["read", "write", "sync", "durable"]);
        assert_eq!(
            kinds.iter().map(|kind| kind.mib_per_s).collect::<Vec<_>>(),
            [0.3125, 0.9375, 0.0, 0.9375]
        );
        assert_eq!(figures(&Tracks::default(), Bytes::kib(4), 0).0, 0.0);
    }
}
