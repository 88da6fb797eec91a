//! The lines that mongoperf printed, in its order, to the blank: scripts read them.
//!
//! Whole numbers, cut off as its integer division did. The line of a mapped second ends with a blank, since its
//! second half was left out. Where it printed `read:1 write:0` from every new thread, here one line speaks for
//! all that start together.

use fathom_record::disk::Operations;
use fathom_units::{Nanos, decimal};

use super::config::Options;
use super::figures::Second;
use super::run::Event;

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
    use super::super::figures::Sync;
    use super::*;
    use fathom_record::disk::Latency;

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
