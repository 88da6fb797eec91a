//! The measurements of a run (each second, each step of the ramp, each sync of the mapping), and mongoperf's output lines for them,
//! identical to the last blank because scripts read them.
//!
//! A second has its measured length, not its nominal one, and MB are based on the record size.
//!
//! Whole numbers are truncated, as by its integer division. The line of a mapped second ends with a blank, since its second half
//! was omitted. mongoperf printed `read:1 write:0` from every new thread; here one line represents all threads that start together.

use fathom_record::disk::{Latency, Operations};
use fathom_units::{Bytes, Nanos, decimal};
use serde::Serialize;

use super::config::MongoperfOptions;
use crate::tracks::{Track, Tracks};

/// The data of one line: about a second.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Its end, seconds since the first thread started.
    pub end_s: f64,
    /// Its length in seconds, measured.
    pub length_s: f64,
    pub threads: u32,
    /// Reads and writes that ended in it, per second.
    pub ops_per_s: f64,
    /// The same in MiB per second, by the record size.
    pub mib_per_s: f64,
    /// By kind: `read`, `write`, and where writes are synced `sync` and `durable` (write and sync together).
    pub operations: Vec<Operations>,
}

/// All seconds with the same number of threads, combined.
#[derive(Clone, Debug, Serialize)]
pub struct MongoperfStep {
    pub threads: u32,
    /// Its start, seconds since the first thread started.
    pub begin_s: f64,
    /// Its length in seconds, measured.
    pub length_s: f64,
    /// Reads and writes per second.
    pub ops_per_s: f64,
    /// The same in MiB per second.
    pub mib_per_s: f64,
    /// Share of their time that the threads were ready but waited for a CPU, percent; absent if the kernel does not report it.
    /// Above 5 the figures say more about the CPU than about the disk (docs/methods.md#waiting-for-a-processor).
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
    /// The duration in milliseconds.
    pub took_ms: f64,
}

/// An event of a run, reported when it happens.
#[derive(Debug)]
pub enum MongoperfEvent<'a> {
    /// The layout pass is under way.
    Layout {
        /// Bytes written so far.
        done_bytes: u64,
        total_bytes: u64,
    },
    /// The file is complete; threads are about to start.
    Testing,
    /// This number of threads runs now.
    Threads(u32),
    /// A second is over.
    Second(&'a Second),
    /// A background sync of the mapping ended.
    Sync(Sync),
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The rate, MiB per second and the operations by kind in `tracks`, over `elapsed_ns`.
pub(super) fn figures(tracks: &Tracks, record: Bytes, elapsed_ns: u64) -> (f64, f64, Vec<Operations>) {
    let elapsed_s = seconds(elapsed_ns.max(1));
    // Counted as in the old tool: a durable write is one operation, its sync is none.
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
            latency: Latency::from_histogram(histogram)?,
            response: None,
        })
    });
    let ops_per_s = ended as f64 / elapsed_s;
    (ops_per_s, ops_per_s * record.as_mib(), kinds.collect())
}

/// The indentation of the old tool's sync lines.
const SYNC_INDENT: usize = 53;
const GIB: u64 = 1 << 30;

/// Converts events into lines of standard output.
#[derive(Clone, Debug)]
pub struct Lines {
    options: MongoperfOptions,
    echo: String,
    gib_told: u64,
}

impl Lines {
    /// Lines for a run of `options`, whose document reads `echo`.
    pub fn new(options: &MongoperfOptions, echo: &str) -> Self {
        Lines { options: options.clone(), echo: echo.to_owned(), gib_told: 0 }
    }

    /// The lines printed before any I/O.
    pub fn opening(&self) -> Vec<String> {
        let size_mb = self.options.file_bytes.get() >> 20;
        vec![
            "mongoperf".into(),
            "use -h for help".into(),
            "parsed options:".into(),
            self.echo.clone(),
            format!("creating test file size:{size_mb}MB ..."),
        ]
    }

    /// The lines for one event; often none.
    pub fn lines(&mut self, event: &MongoperfEvent<'_>) -> Vec<String> {
        match event {
            MongoperfEvent::Layout { done_bytes, .. } => self.layout(*done_bytes),
            MongoperfEvent::Testing => vec![
                "testing...".into(),
                format!("options:{}", self.echo),
                format!("wthr {}", self.options.threads),
            ],
            MongoperfEvent::Threads(running) => vec![
                format!("new thread, total running : {running}"),
                format!("read:{} write:{}", u8::from(self.options.reads), u8::from(self.options.writes)),
            ],
            MongoperfEvent::Second(second) => vec![self.second(second)],
            MongoperfEvent::Sync(sync) => {
                vec![format!("{:SYNC_INDENT$}mmf sync took {:.0} ms", "", sync.took_ms.floor())]
            }
        }
    }

    /// A line for each whole GiB, except the last if the file ends there.
    fn layout(&mut self, done_bytes: u64) -> Vec<String> {
        let passed = done_bytes.saturating_sub(1) / GIB;
        let lines = (self.gib_told + 1..=passed).map(|gib| format!("{gib}GB...")).collect();
        self.gib_told = self.gib_told.max(passed);
        lines
    }

    fn second(&self, second: &Second) -> String {
        let ops = second.ops_per_s.round();
        if self.options.mapped {
            return format!("{ops:.0} ops/sec ");
        }
        // Computed from the printed rate, so that the figures in the line agree.
        let mib = (ops * self.options.record_bytes.as_mib()).floor();
        format!("{ops:.0} ops/sec {mib:.0} MB/sec")
    }
}

/// Latencies of one second, by kind, on one line.
pub fn percentiles(second: &Second) -> String {
    let kinds: Vec<String> = second.operations.iter().map(kind).collect();
    let kinds = if kinds.is_empty() { "nothing ended".to_owned() } else { kinds.join("; ") };
    let noun = if second.threads == 1 { "thread" } else { "threads" };
    format!("{} {noun}: {kinds}", second.threads)
}

fn kind(operations: &Operations) -> String {
    let Operations { kind, per_s, latency, .. } = operations;
    // Too few operations for that tail (docs/methods.md#percentiles).
    let or_dash = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| Nanos(ns).to_string());
    format!(
        "{kind} {}/s p50 {} p99 {} p99.9 {} max {}",
        decimal(*per_s),
        Nanos(latency.p50_ns),
        or_dash(latency.p99_ns),
        or_dash(latency.p999_ns),
        Nanos(latency.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use fathom_record::disk::Latency;

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

    fn lines(document: &str) -> Lines {
        let parsed = MongoperfOptions::parse(document).unwrap();
        Lines::new(&parsed.options, &parsed.echo)
    }

    fn second(ops_per_s: f64) -> Second {
        Second { end_s: 1.0, length_s: 1.0, threads: 2, ops_per_s, mib_per_s: 0.0, operations: Vec::new() }
    }

    #[test]
    fn a_direct_run_reads_as_it_always_did() {
        let mut lines = lines("{ recSizeKB: 8, nThreads: 12, fileSizeMB: 10000, r: true, mmf: false }");
        assert_eq!(
            lines.opening(),
            [
                "mongoperf",
                "use -h for help",
                "parsed options:",
                "{ recSizeKB: 8, nThreads: 12, fileSizeMB: 10000, r: true, mmf: false }",
                "creating test file size:10000MB ...",
            ]
        );
        assert_eq!(
            lines.lines(&MongoperfEvent::Testing),
            [
                "testing...",
                "options:{ recSizeKB: 8, nThreads: 12, fileSizeMB: 10000, r: true, mmf: false }",
                "wthr 12",
            ]
        );
        assert_eq!(
            lines.lines(&MongoperfEvent::Threads(4)),
            ["new thread, total running : 4", "read:1 write:0"]
        );
        assert_eq!(lines.lines(&MongoperfEvent::Second(&second(1251.6))), ["1252 ops/sec 9 MB/sec"]);
        assert_eq!(lines.lines(&MongoperfEvent::Second(&second(0.2))), ["0 ops/sec 0 MB/sec"]);
    }

    #[test]
    fn a_mapped_run_has_no_megabytes_and_indented_syncs() {
        let mut lines = lines("{mmf:true,w:true}");
        assert_eq!(lines.lines(&MongoperfEvent::Second(&second(20_483.9))), ["20484 ops/sec "]);
        let sync = lines.lines(&MongoperfEvent::Sync(Sync { begin_s: 0.0, took_ms: 24.9 }));
        assert_eq!(sync, [format!("{}mmf sync took 24 ms", " ".repeat(53))]);
    }

    #[test]
    fn gigabytes_are_told_once_and_not_at_the_end() {
        let mut lines = lines("{r:true,fileSizeMB:3072}");
        let mut at = |gib: f64| {
            lines.lines(&MongoperfEvent::Layout {
                done_bytes: (gib * GIB as f64) as u64,
                total_bytes: 3 * GIB,
            })
        };
        assert_eq!(at(0.5), Vec::<String>::new());
        assert_eq!(at(1.0), Vec::<String>::new());
        assert_eq!(at(2.5), ["1GB...", "2GB..."]);
        assert_eq!(at(2.6), Vec::<String>::new());
        assert_eq!(at(3.0), Vec::<String>::new());
    }

    #[test]
    fn percentiles_are_one_line() {
        let latency = Latency {
            mean_ns: 9e4,
            min_ns: 50_000,
            p50_ns: 81_200,
            p99_ns: Some(1_230_000),
            p999_ns: None,
            max_ns: 4_560_000,
        };
        let read = Operations {
            kind: "read".into(),
            count: 1234,
            per_s: 1234.0,
            mib_per_s: 4.8,
            latency,
            response: None,
        };
        let second = Second { operations: vec![read], ..second(1234.0) };
        assert_eq!(
            percentiles(&second),
            "2 threads: read 1,234/s p50 81.2 µs p99 1.23 ms p99.9 - max 4.56 ms"
        );
    }
}
