//! The I/O shapes of a database, as jobs: the requests to the disk, their engine, and their rate.
//!
//! A job is validated text; this module opens no files. Depth means requests in flight, whatever the engine: threads for psync and
//! mmap, ring slots for io_uring. fio's sync engines silently cap depth at 1 (axboe/fio#1388); ours start that many threads.

use std::fmt;
use std::str::FromStr;

use fathom_errors::{Error, Result};
use fathom_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The most requests in flight that a job may ask for.
pub const MAX_DEPTH: u32 = 1024;

/// The kind and order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// Reads at uniformly random blocks: cache misses.
    RandRead,
    /// Writes at uniformly random blocks: eviction.
    RandWrite,
    /// Half reads, half writes at random blocks.
    RandRw,
    /// Writes one after another in a preallocated file: the journal.
    Append,
    /// Bursts of random writes, each followed by one fsync: the checkpoint.
    Checkpoint,
}

/// The interface that passes requests to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoEngine {
    /// A thread per request in flight, `pread` and `pwrite`.
    Psync,
    /// One submission queue with many requests in flight.
    IoUring,
    /// Loads and stores in a mapping of the file, through the page cache.
    Mmap,
}

/// The mechanism that makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteSync {
    /// Nothing: the device's volatile cache may hold it.
    None,
    /// `fdatasync` after each write, timed separately.
    Fdatasync,
    /// The file is opened with O_DSYNC.
    Dsync,
}

/// A closed set of words for an enum: parse, print and list them from one table.
macro_rules! words {
    ($type:ident, $what:literal, $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// Every word, in the order help lists them.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word on the command line and in records.
            pub fn word(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($word => Ok($type::$variant),)+
                    _ => Err(Error::usage(format!(
                        concat!("'{}' is not a valid ", $what, "; use one of {}"), text, $type::WORDS.join(", ")
                    ))),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words!(
    Pattern,
    "pattern",
    RandRead = "randread",
    RandWrite = "randwrite",
    RandRw = "randrw",
    Append = "append",
    Checkpoint = "checkpoint"
);
words!(IoEngine, "engine", Psync = "psync", IoUring = "io_uring", Mmap = "mmap");
words!(WriteSync, "durability", None = "none", Fdatasync = "fdatasync", Dsync = "dsync");

impl Pattern {
    pub fn reads(self) -> bool {
        matches!(self, Pattern::RandRead | Pattern::RandRw)
    }

    pub fn writes(self) -> bool {
        self != Pattern::RandRead
    }
}

/// One stream of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The order of offsets.
    pub pattern: Pattern,
    /// Bytes of each request.
    pub block: Bytes,
    /// The interface to the kernel.
    pub engine: IoEngine,
    /// Requests in flight at a time.
    pub depth: u32,
    /// The mechanism that makes writes durable.
    pub durable: WriteSync,
    /// Open loop: Poisson arrivals per second; closed loop if absent.
    pub rate_per_s: Option<f64>,
    /// Bytes written between two fsyncs of a checkpoint.
    pub burst: Bytes,
    /// Rest between two bursts of a checkpoint; mongod rests 60 s (`syncdelay`).
    pub burst_rest: Nanos,
}

impl Job {
    /// A closed-loop job without durability. A checkpoint's burst is 32 MiB, small enough to fit in a step of
    /// seconds and large enough to outgrow a device's write queue.
    pub fn new(pattern: Pattern, block: Bytes, engine: IoEngine, depth: u32) -> Self {
        let burst = Bytes::mib(32);
        Job {
            pattern,
            block,
            engine,
            depth,
            durable: WriteSync::None,
            rate_per_s: None,
            burst,
            burst_rest: Nanos(0),
        }
    }

    /// The same job with `durable`.
    #[must_use]
    pub fn durable(mut self, durable: WriteSync) -> Self {
        self.durable = durable;
        self
    }

    /// The same job as an open loop.
    #[must_use]
    pub fn rate(mut self, per_s: f64) -> Self {
        self.rate_per_s = Some(per_s);
        self
    }

    /// Requests in one checkpoint burst, at least one per slot.
    pub fn burst_requests(&self) -> u64 {
        (self.burst.get() / self.block.get().max(1)).max(u64::from(self.depth))
    }

    /// Refuses jobs that cannot be run, with a reason.
    pub fn check(&self) -> Result<()> {
        if self.depth == 0 || self.depth > MAX_DEPTH {
            return Err(Error::usage(format!("the depth must be 1 to {MAX_DEPTH}, not {}", self.depth)));
        }
        if self.block.get() < 512 || self.block > Bytes::mib(64) || !self.block.get().is_multiple_of(512) {
            return Err(Error::usage(format!(
                "the block must be a multiple of 512 bytes, from 512 to 64M, not {} bytes",
                self.block.get()
            )));
        }
        if let Some(rate) = self.rate_per_s {
            if !(rate.is_finite() && (0.01..=10e6).contains(&rate)) {
                let shown = if rate.abs() < 1e12 { rate.to_string() } else { format!("{rate:e}") };
                return Err(Error::usage(format!(
                    "the rate must be 0.01 to 10 million a second, not {shown}"
                )));
            }
            if self.pattern == Pattern::Checkpoint {
                return Err(Error::usage("a checkpoint is a burst and has no rate")
                    .advise("leave --rate and --slo out"));
            }
        }
        if self.durable != WriteSync::None && !self.pattern.writes() {
            return Err(Error::usage(format!(
                "--durable {} has no effect on reads; leave it out, or name a pattern that writes",
                self.durable
            )));
        }
        if self.durable == WriteSync::Fdatasync && self.pattern == Pattern::Checkpoint {
            let what = "a checkpoint syncs once after each burst, not after each write";
            return Err(Error::usage(what).advise("leave --durable out, or use dsync"));
        }
        if self.durable == WriteSync::Dsync && self.engine == IoEngine::Mmap {
            return Err(Error::usage("a mapping ignores O_DSYNC").advise("use --durable fdatasync with mmap"));
        }
        Ok(())
    }
}

/// The shape and the length of a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowPlan {
    /// The name of the part of a profile it belongs to.
    pub phase: String,
    /// The jobs that run concurrently.
    pub jobs: Vec<Job>,
    /// The length of the measurement.
    pub length: Nanos,
    /// The time before it that is discarded.
    pub warm_up: Nanos,
}

impl WindowPlan {
    /// One job for `length`, after a warm-up of a tenth of it, between 50 ms and 2 s.
    pub fn new(phase: &str, jobs: Vec<Job>, length: Nanos) -> Self {
        let warm_up = Nanos((length.get() / 10).clamp(50_000_000, 2_000_000_000));
        WindowPlan { phase: phase.to_owned(), jobs, length, warm_up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_both_ways() {
        for word in Pattern::WORDS {
            assert_eq!(word.parse::<Pattern>().unwrap().to_string(), *word);
        }
        assert!("randomread".parse::<Pattern>().unwrap_err().to_string().contains("randread"));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let job = |depth, block| Job::new(Pattern::RandRead, Bytes(block), IoEngine::Psync, depth);
        assert!(job(1, 4096).check().is_ok());
        for (depth, block) in [(0, 4096), (1025, 4096), (1, 0), (1, 100), (1, 1 << 40)] {
            assert!(job(depth, block).check().is_err(), "{depth} {block}");
        }
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(job(1, 4096).rate(rate).check().is_err(), "{rate}");
        }
        assert!(job(1, 4096).durable(WriteSync::Dsync).check().is_err());
        let checkpoint = Job::new(Pattern::Checkpoint, Bytes::kib(32), IoEngine::Psync, 4);
        assert!(checkpoint.clone().durable(WriteSync::Dsync).check().is_ok());
        assert!(checkpoint.durable(WriteSync::Fdatasync).check().is_err());
    }
}
