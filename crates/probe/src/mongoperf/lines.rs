//! What a run measured (each second, each step of the ramp, each sync of the mapping), and the lines in which mongoperf
//! printed it, in its order, to the blank: scripts read them.
//!
//! A second is as long as it was, not as long as it was meant to be, and MB are those of the record size.
//!
//! Whole numbers are cut off as its integer division did. The line of a mapped second ends with a blank, since its
//! second half was left out. Where it printed `read:1 write:0` from every new thread, here one line speaks for all that
//! start together.

use fathom_record::disk::{Latency, Operations};
use fathom_units::{Bytes, Nanos, decimal};
use serde::Serialize;

use super::config::Options;
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

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// The layout pass goes on.
    Layout {
        /// Bytes written.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// The file stands; threads are about to start.
    Testing,
    /// So many threads run now.
    Threads(u32),
    /// A second is over.
    Second(&'a Second),
    /// A background sync of the mapping ended.
    Sync(Sync),
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

/// How far the old tool set its sync lines apart from the others.
const SYNC_INDENT: usize = 53;
const GIB: u64 = 1 << 30;

/// Turns what happens into lines of standard output.
#[derive(Clone, Debug)]
pub struct Lines {
    options: Options,
    echo: String,
    gib_told: u64,
}

impl Lines {
    /// Lines for a run of `options`, whose document reads `echo`.
    pub fn new(options: &Options, echo: &str) -> Self {
        Lines { options: options.clone(), echo: echo.to_owned(), gib_told: 0 }
    }

    /// What is printed before anything is done.
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

    /// The lines of one event; often none.
    pub fn of(&mut self, event: &Event<'_>) -> Vec<String> {
        match event {
            Event::Layout { done_bytes, .. } => self.layout(*done_bytes),
            Event::Testing => vec![
                "testing...".into(),
                format!("options:{}", self.echo),
                format!("wthr {}", self.options.threads),
            ],
            Event::Threads(running) => vec![
                format!("new thread, total running : {running}"),
                format!("read:{} write:{}", u8::from(self.options.reads), u8::from(self.options.writes)),
            ],
            Event::Second(second) => vec![self.second(second)],
            Event::Sync(sync) => {
                vec![format!("{:SYNC_INDENT$}mmf sync took {:.0} ms", "", sync.took_ms.floor())]
            }
        }
    }

    /// A line for each whole GiB, but none for the last when the file ends there.
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
        // From the printed rate, so that the line holds together.
        let mib = (ops * self.options.record_bytes.as_mib()).floor();
        format!("{ops:.0} ops/sec {mib:.0} MB/sec")
    }
}

/// Latencies of one second for a person, by kind, on one line.
pub fn percentiles(second: &Second) -> String {
    let kinds: Vec<String> = second.operations.iter().map(kind).collect();
    let kinds = if kinds.is_empty() { "nothing ended".to_owned() } else { kinds.join("; ") };
    let noun = if second.threads == 1 { "thread" } else { "threads" };
    format!("{} {noun}: {kinds}", second.threads)
}

fn kind(operations: &Operations) -> String {
    let Operations { kind, per_s, latency, .. } = operations;
    // Too few operations for that tail (analysis.md 2.3).
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
        let parsed = Options::parse(document).unwrap();
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
            lines.of(&Event::Testing),
            [
                "testing...",
                "options:{ recSizeKB: 8, nThreads: 12, fileSizeMB: 10000, r: true, mmf: false }",
                "wthr 12",
            ]
        );
        assert_eq!(lines.of(&Event::Threads(4)), ["new thread, total running : 4", "read:1 write:0"]);
        assert_eq!(lines.of(&Event::Second(&second(1251.6))), ["1252 ops/sec 9 MB/sec"]);
        assert_eq!(lines.of(&Event::Second(&second(0.2))), ["0 ops/sec 0 MB/sec"]);
    }

    #[test]
    fn a_mapped_run_has_no_megabytes_and_indented_syncs() {
        let mut lines = lines("{mmf:true,w:true}");
        assert_eq!(lines.of(&Event::Second(&second(20_483.9))), ["20484 ops/sec "]);
        let sync = lines.of(&Event::Sync(Sync { begin_s: 0.0, took_ms: 24.9 }));
        assert_eq!(sync, [format!("{}mmf sync took 24 ms", " ".repeat(53))]);
    }

    #[test]
    fn gigabytes_are_told_once_and_not_at_the_end() {
        let mut lines = lines("{r:true,fileSizeMB:3072}");
        let mut at = |gib: f64| {
            lines.of(&Event::Layout { done_bytes: (gib * GIB as f64) as u64, total_bytes: 3 * GIB })
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
