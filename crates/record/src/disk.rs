//! The results of a run, one typed entry a line of `results.jsonl`: those of a disk probe, and loads on a server.
//!
//! Names contain the units. A figure that is not available is absent, never zero. Percentiles with fewer than
//! ten operations beyond them are absent too, because they would depend on single operations.

use fathom_stats::Histogram;
use serde::{Deserialize, Serialize};

pub use crate::entry::{Entry, burst_allowance, capacities, need_answers};

/// The probed directory or device, and the path of its requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeSubject {
    /// The directory or device named.
    pub directory: String,
    /// File system type, or `block device`.
    pub file_system: String,
    /// The device that holds it, by the kernel's name, if known.
    pub device: Option<String>,
    /// Size of the test file in bytes.
    pub size_bytes: u64,
    /// Whether the page cache was bypassed (O_DIRECT).
    pub direct: bool,
    /// The alignment that direct I/O needs here, in bytes.
    pub alignment_bytes: u64,
}

/// The layout pass: the whole test file written once, in order, with data that neither compresses nor repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    pub bytes: u64,
    /// Seconds it took, the final sync included.
    pub seconds: f64,
    /// MiB per second of the whole pass.
    pub mib_per_s: f64,
    /// A region at the file's end was written twice: the rates of both passes in MiB per second. Absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<RewriteTimes>,
    /// Whether a file kept from an earlier run was used, so that nothing was written.
    #[serde(default)]
    pub reused: bool,
    /// Whether the time budget cut the file short of the size asked for.
    #[serde(default)]
    pub cut_short: bool,
}

/// The same region written twice, each time with its sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RewriteTimes {
    /// Bytes of the region.
    pub bytes: u64,
    /// MiB per second the first time.
    pub first_mib_per_s: f64,
    /// MiB per second the second time.
    pub second_mib_per_s: f64,
}

/// A latency distribution in figures. Nanoseconds throughout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ns: f64,
    pub min_ns: u64,
    pub p50_ns: u64,
    /// The 99th percentile, with ten values beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile, with ten values beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    pub max_ns: u64,
}

impl Latency {
    /// The figures of a histogram; `None` when it is empty.
    pub fn from_histogram(histogram: &Histogram) -> Option<Self> {
        Some(Latency {
            mean_ns: histogram.mean_ns()?,
            min_ns: histogram.min_ns()?,
            p50_ns: histogram.quantile_ns(0.5)?,
            p99_ns: histogram.supported_quantile(0.99).map(|n| n.get()),
            p999_ns: histogram.supported_quantile(0.999).map(|n| n.get()),
            max_ns: histogram.max_ns()?,
        })
    }
}

/// One kind of operation within a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// `read`, `write`, `sync` or `durable` (write and its sync together; for a checkpoint, the whole burst).
    pub kind: String,
    /// The number that ended within the window.
    pub count: u64,
    /// Requests completed in a second.
    pub per_s: f64,
    /// MiB per second; 0 for syncs.
    pub mib_per_s: f64,
    /// From the send (service time).
    pub latency: Latency,
    /// From the intended start (response time); only under a fixed rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Latency>,
}

/// One stream of requests within a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// `randread`, `randwrite`, `randrw`, `append` or `checkpoint`.
    pub pattern: String,
    /// Bytes of each request.
    pub block_bytes: u64,
    /// `psync`, `io_uring` or `mmap`.
    pub engine: String,
    /// Requests kept in flight.
    pub depth: u32,
    /// `none`, `fdatasync` or `dsync`.
    pub durable: String,
    /// Arrivals per second, if the load was an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Its operations by kind.
    pub operations: Vec<Operations>,
    /// Little's law: the difference between `throughput x mean latency` and the requests in flight, as a share of them.
    /// Above 0.05 the generator was the bottleneck, or a clock is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub little_gap: Option<f64>,
    /// Blocks whose stamp was checked (`--verify`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verified: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Stream {
    /// The operations of one kind.
    pub fn kind(&self, kind: &str) -> Option<&Operations> {
        self.operations.iter().find(|operations| operations.kind == kind)
    }

    /// The operations that users count: durable writes if there are any, else reads and writes.
    pub fn headline(&self) -> impl Iterator<Item = &Operations> {
        let durable = self.kind("durable").is_some() && self.pattern != "checkpoint";
        self.operations.iter().filter(move |operations| {
            if durable {
                matches!(operations.kind.as_str(), "durable" | "read")
            } else {
                matches!(operations.kind.as_str(), "read" | "write")
            }
        })
    }

    /// Headline operations per second.
    pub fn per_s(&self) -> f64 {
        self.headline().map(|operations| operations.per_s).sum()
    }

    /// Headline MiB per second.
    pub fn mib_per_s(&self) -> f64 {
        self.headline().map(|operations| operations.mib_per_s).sum()
    }
}

/// The device's own counters over a step (docs/methods.md#device-counters), for the leaf that served the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceView {
    pub name: String,
    /// Read requests a second.
    pub reads_per_s: f64,
    /// Writes per second, without the flushes.
    pub writes_per_s: f64,
    /// Flushes per second; absent if the kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_s: Option<f64>,
    /// Mean milliseconds of a read; absent without reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_await_ms: Option<f64>,
    /// Mean milliseconds of a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub w_await_ms: Option<f64>,
    /// Mean milliseconds of a flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f_await_ms: Option<f64>,
    /// The average queue size, as in iostat.
    pub aqu_sz: f64,
    /// The share of time with a request in flight, in percent, as this kernel defines it.
    pub util_pct: f64,
}

/// One shape, or several together, over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The part of a profile that it belongs to (`cache misses`, `journal`).
    pub phase: String,
    /// Start, nanoseconds since the run's start.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The streams that ran together.
    pub streams: Vec<Stream>,
    /// The share of their time in which the probe's threads were ready but waited for a CPU, in percent; absent if the
    /// kernel does not count it. Above 5 the verdict is withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_pct: Option<f64>,
    /// CPU time of the probe per operation, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_operation: Option<f64>,
    /// The machine's busy share over the step, percent of all CPUs, steal included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_busy_pct: Option<f64>,
    /// CPU time of the probe as a share of the time available to its threads, in percent. Near 100 the generator,
    /// not the disk, was the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_busy_pct: Option<f64>,
    /// The time until all threads or rings were ready to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_after_ns: Option<u64>,
    /// The devices under the test file.
    #[serde(default)]
    pub devices: Vec<DeviceView>,
    /// Headline operations per second in each interval of the window, a second or a quarter of the window long.
    #[serde(default)]
    pub per_interval: Vec<f64>,
}

impl Step {
    /// The share of run-queue wait above which a verdict on the disk is withheld (docs/methods.md#waiting-for-a-processor).
    pub const MAX_RUN_QUEUE_WAIT_PCT: f64 = 5.0;

    /// The share of its CPU time above which the generator is the bottleneck.
    pub const MAX_GENERATOR_CPU_PCT: f64 = 90.0;

    /// Whether the figures say more about the CPU than about the disk: the probe waited for a CPU, or used all the CPU time
    /// available to it.
    pub fn cpu_bound(&self) -> bool {
        self.run_queue_wait_pct.is_some_and(|pct| pct > Self::MAX_RUN_QUEUE_WAIT_PCT)
            || self.generator_busy_pct.is_some_and(|pct| pct > Self::MAX_GENERATOR_CPU_PCT)
    }

    /// The share of the time in which the CPU may have kept requests from the disk: all of it if the probe used all CPU time available to it.
    pub fn cpu_wait_share(&self) -> f64 {
        match self.generator_busy_pct {
            Some(pct) if pct > Self::MAX_GENERATOR_CPU_PCT => 1.0,
            _ => self.run_queue_wait_pct.unwrap_or(0.0) / 100.0,
        }
    }

    /// Headline operations per second of all streams.
    pub fn per_s(&self) -> f64 {
        self.streams.iter().map(Stream::per_s).sum()
    }

    /// Headline MiB per second of all streams.
    pub fn mib_per_s(&self) -> f64 {
        self.streams.iter().map(Stream::mib_per_s).sum()
    }

    /// The mean latency of the first stream's headline operations.
    pub fn mean_latency_ns(&self) -> Option<f64> {
        let stream = self.streams.first()?;
        let total: f64 = stream.headline().map(|o| o.latency.mean_ns * o.count as f64).sum();
        let count: f64 = stream.headline().map(|o| o.count as f64).sum();
        (count > 0.0).then(|| total / count)
    }
}

/// The point at which throughput stops growing with requests in flight (docs/methods.md#the-knee-of-a-disk).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The phase whose steps it was computed from.
    pub phase: String,
    /// R1: mean latency with one request in flight.
    pub latency_at_one_ns: f64,
    /// Xmax: the plateau, operations per second.
    pub throughput_max_per_s: f64,
    /// N* = Xmax x R1: the knee of a disk that serves in perfect order; a real one needs more.
    pub concurrency: f64,
    /// The fewest requests in flight that were measured to give 90 % of Xmax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_for_90_pct: Option<u32>,
    /// The model that fits best: `linear`, `Amdahl`, `cap` or `USL`, or `too few steps` without a fit.
    pub model: String,
    /// The fit of each model, best first: name, AICc, residual standard deviation of log throughput.
    pub rivals: Vec<(String, f64, f64)>,
    /// The answer in words.
    pub words: String,
    /// The reason why a verdict is withheld, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// The answer to `--slo`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The objective as typed: `p99<5ms`.
    pub objective: String,
    /// The highest rate that held it; absent if no rate did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Every rate tried: offered per second, achieved per second, the quantile in ns, whether it held the objective.
    pub tried: Vec<(f64, f64, Option<u64>, bool)>,
    /// The answer in words.
    pub words: String,
}

/// The meaning of the figures for a user's data, with its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meaning {
    /// A stable name: `cold-scan`.
    pub id: String,
    pub sentence: String,
    /// The arithmetic behind it.
    pub arithmetic: String,
}

/// Whether a disk is fit to be judged by its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitnessOutcome {
    /// The probe found nothing that spoils the disk.
    Sound,
    /// A cap, a burst bucket, false answers to syncs or a wrong place spoils it.
    Spoiled,
    /// The evidence does not decide.
    CannotTell,
}

/// The probe's judgement of a disk: the answer to "does anything spoil this disk?". It is evidence for the verdict of a run ([`crate::RunVerdict`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFitness {
    pub outcome: FitnessOutcome,
    /// The answer in a sentence.
    pub words: String,
}
