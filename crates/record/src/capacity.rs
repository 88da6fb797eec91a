//! The capacity of a server for one kind of load: the highest rate that holds a latency objective, and the limit of that rate. Also the
//! answer to whether the capacities cover a need.

use serde::{Deserialize, Serialize};

/// A kind of load whose capacity is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacityLoad {
    /// Point reads of uniformly chosen records that are in neither the engine's cache nor the kernel's.
    Reads,
    /// Updates that wait until the journal is on the device. Their records are in the cache.
    JournaledWrites,
    /// One half of each, on records that are in no cache, over whole checkpoint cycles.
    Mix,
}

impl CapacityLoad {
    /// Its operations, in words.
    pub fn words(self) -> &'static str {
        match self {
            CapacityLoad::Reads => "point reads past memory",
            CapacityLoad::JournaledWrites => "journaled writes",
            CapacityLoad::Mix => "mixed operations (half reads, half writes)",
        }
    }

    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            CapacityLoad::Reads => "reads past memory",
            CapacityLoad::JournaledWrites => "journaled writes",
            CapacityLoad::Mix => "reads and writes",
        }
    }
}

/// The resource that operations wait for when a server gets more than its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacityLimit {
    /// The device that the data files are on.
    Disk,
    /// The sync of the journal.
    JournalSync,
    /// A limit of the control group or of the provider in front of the device.
    Cap,
    /// The processors of the host, which server and client share.
    Processors,
    /// The readings do not decide.
    Unknown,
}

impl CapacityLimit {
    /// In words, after "the limit is".
    pub fn words(self) -> &'static str {
        match self {
            CapacityLimit::Disk => "the disk",
            CapacityLimit::JournalSync => "the journal's sync",
            CapacityLimit::Cap => "the cap on the device",
            CapacityLimit::Processors => "the processors",
            CapacityLimit::Unknown => "unknown",
        }
    }

    /// Whether storage is the limit.
    pub fn is_storage(self) -> bool {
        matches!(self, CapacityLimit::Disk | CapacityLimit::JournalSync | CapacityLimit::Cap)
    }
}

/// The cost of checkpoints during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointCost {
    /// Checkpoints that ended during the step at the capacity.
    pub count: u64,
    /// Bytes that one of them wrote, on average.
    pub bytes: f64,
    /// How long one of them took, on average.
    pub seconds: f64,
}

/// The load just above the capacity, or the closed loop: the load in which the limit shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// Operations a second that hold the objective.
    pub per_s: f64,
    /// Reads of the device a second; absent if its counters cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads_per_s: Option<f64>,
    /// The share of the processors' time in which nothing ran, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_pct: Option<f64>,
}

/// The capacity of a server for one kind of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    pub server: String,
    pub load: CapacityLoad,
    /// The objective, as it was written: `p99<10ms`.
    pub objective: String,
    /// The highest rate that held the objective each time, less the margin of a quick search; absent if no rate did, or if the readings do not
    /// decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// The lowest rate above it that did not hold the objective, plus the margin of a quick search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_per_s: Option<f64>,
    /// The objective's quantile at the highest rate that held, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile_ns: Option<u64>,
    /// Reads of the device for each operation at the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads_per_operation: Option<f64>,
    /// Reads of the device for each page that the engine read, over the whole search. Below [`MIN_DEVICE_READS_PER_PAGE`] the kernel's
    /// page cache served the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads_per_page: Option<f64>,
    /// Whether these reads were counted by the server's process, because its device is not on this host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_counted_by_process: bool,
    pub limit: CapacityLimit,
    /// The reason for the limit in one sentence, with its figures.
    pub limit_reason: String,
    /// The load in which the limit showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// Checkpoints during the step at the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointCost>,
    /// The reason why the capacity is withheld, and the one thing to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

/// At this factor between the rate that held and the one that broke, a single figure would claim more than was measured.
const MIN_WIDE_BRACKET: f64 = 1.2;

impl Capacity {
    /// The rates of operations between which the capacity is stated. Both are the same unless the lowest rate that broke is far above the highest
    /// that held.
    pub fn bracket_per_s(&self) -> Option<(f64, f64)> {
        let held = self.rate_per_s?;
        let broken = self.broken_per_s.filter(|broken| *broken > MIN_WIDE_BRACKET * held);
        Some((held, broken.unwrap_or(held)))
    }

    /// The same rates in the form in which they are stated. Reads are counted at the device, since a read from the cache is no read past memory.
    pub fn stated_per_s(&self) -> Option<(f64, f64)> {
        let is_reads = self.load == CapacityLoad::Reads;
        let factor = self.device_reads_per_operation.filter(|_| is_reads).unwrap_or(1.0);
        self.bracket_per_s().map(|(lower, upper)| (factor * lower, factor * upper))
    }

    /// Reads of the device a second at the capacity: operations, less those that found their record in the cache.
    pub fn device_reads_per_s(&self) -> Option<f64> {
        Some(self.rate_per_s? * self.device_reads_per_operation?)
    }
}

/// The least share of the pages read that must have come from the device for a capacity of reads that miss memory.
pub const MIN_DEVICE_READS_PER_PAGE: f64 = 0.9;

/// Whether capacities cover a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedVerdict {
    /// The disk carries the need.
    Yes,
    /// The disk does not carry the need.
    No,
    /// The figures do not decide.
    CannotTell,
}

/// The answer to `checkup --need` for one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeedAnswer {
    pub server: String,
    /// The need, as it was written.
    pub need: String,
    pub verdict: NeedVerdict,
    /// The answer in one sentence.
    pub sentence: String,
    /// Reads of the device a second that the need comes to.
    pub device_reads_per_s: f64,
    /// Journaled writes a second.
    pub writes_per_s: f64,
    /// The capacity divided by the need: the objective still holds with every rate of the need times this factor. Above 1 there is a reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The same for the lowest rates that broke the objective: it breaks with every rate of the need times this factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_factor: Option<f64>,
    /// Assumptions about caches and access, one sentence each.
    pub assumptions: Vec<String>,
}
