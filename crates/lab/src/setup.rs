//! The set-up of one trial: the storage, the servers, the load or the probe.
//!
//! It starts from the defaults, then applies a study's settings, then the levels of the cell. This module opens
//! nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_probe::{IoEngine, Pattern, WriteSync};
use fathom_storage::{ArrayKind, CapLimits, Filesystem, NamedDisk, QueueSettings};
use fathom_units::Bytes;
use serde_json::Value;

/// The set-up of one trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The storage of the data.
    pub storage: Storage,
    pub servers: TrialServers,
    /// The load on the servers.
    pub load: TrialLoad,
    /// The probe of the disk.
    pub probe: Probe,
}

/// The storage of the data. The default is a folder next to the study's others.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Whole block devices, each with its name repeated as a confirmation.
    pub devices: Vec<NamedDisk>,
    /// Loop devices on files, for a file system or an array without a device.
    pub disks: u32,
    /// The size of each.
    pub disk_size: Bytes,
    /// The array that joins several disks.
    pub array: Option<ArrayKind>,
    /// Chunk of md, stripe size of LVM, in KiB.
    pub chunk_kib: Option<u64>,
    /// The file system that they are formatted with.
    pub filesystem: Option<Filesystem>,
    /// Further arguments of mkfs.
    pub mkfs: Vec<String>,
    /// Further options of the mount.
    pub mount: Vec<String>,
    /// True if reads write access times.
    pub access_times: bool,
    /// The limits of each second.
    pub cap: Option<CapLimits>,
    pub queue: QueueSettings,
    /// True if each member of a set, and each shard, gets its own storage; otherwise all share one.
    pub per_member: bool,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            devices: Vec::new(),
            disks: 1,
            disk_size: Bytes(2 << 30),
            array: None,
            chunk_kib: None,
            filesystem: None,
            mkfs: Vec::new(),
            mount: Vec::new(),
            access_times: false,
            cap: None,
            queue: QueueSettings::default(),
            per_member: false,
        }
    }
}

impl Storage {
    /// Returns whether something has to be made for it, which requires root.
    pub fn is_made(&self) -> bool {
        !self.devices.is_empty() || self.array.is_some() || self.filesystem.is_some()
    }

    /// The number of its disks.
    pub(crate) fn count(&self) -> usize {
        if self.devices.is_empty() { self.disks as usize } else { self.devices.len() }
    }
}

/// The servers of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialServers {
    /// Engines by member; the last holds for those after it.
    pub engines: Vec<String>,
    /// Members of the set, or of each shard; a standalone server if it is 1 and there are no shards.
    pub members: u32,
    /// True if a single member is a replica set too.
    pub replicated: bool,
    /// Shards; without, no router.
    pub shards: Option<u32>,
    /// Chunks of the collection at the start, over all shards.
    pub chunks: Option<u32>,
    /// The cache of each server.
    pub cache: Option<Bytes>,
    pub compression: Option<String>,
    /// Options of the servers, name and value.
    pub options: BTreeMap<String, String>,
    /// Parameters at their start.
    pub parameters: BTreeMap<String, Value>,
    /// The folder of `mongod` and `mongos`; the built-in servers if absent.
    pub binaries: Option<String>,
}

impl Default for TrialServers {
    fn default() -> TrialServers {
        TrialServers {
            engines: vec!["wiredTiger".to_owned()],
            members: 1,
            replicated: false,
            shards: None,
            chunks: None,
            cache: None,
            compression: None,
            options: BTreeMap::new(),
            parameters: BTreeMap::new(),
            binaries: None,
        }
    }
}

impl TrialServers {
    /// The engine of the member at this place.
    pub fn engine(&self, at: usize) -> &str {
        self.engines.get(at).or(self.engines.last()).map_or("wiredTiger", String::as_str)
    }

    /// The number of servers that hold data.
    pub fn data_servers(&self) -> u32 {
        self.members.saturating_mul(self.shards.unwrap_or(1))
    }
}

/// The load on the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialLoad {
    /// The name of one of the workloads that are included, or a file of properties.
    pub workload: String,
    /// The records that are loaded first.
    pub records: u64,
    /// Operations of a run; without a number, only time ends it.
    pub operations: Option<u64>,
    /// The longest time of a run.
    pub time: Option<Duration>,
    /// The time at its start that is not counted.
    pub warmup: Duration,
    /// Connections, each with one operation under way.
    pub threads: u32,
    /// Operations a second; without it, as many as possible.
    pub target_per_s: Option<f64>,
    /// `w`: the members that must acknowledge a write.
    pub write_concern: Option<String>,
    /// `j`: true if a write must be in the journal.
    pub journaled: Option<bool>,
    /// The members that reads are sent to.
    pub read_preference: Option<String>,
    /// YCSB's properties beyond these.
    pub properties: BTreeMap<String, String>,
}

impl Default for TrialLoad {
    fn default() -> TrialLoad {
        TrialLoad {
            workload: "workloada".to_owned(),
            records: 100_000,
            operations: None,
            time: None,
            warmup: Duration::ZERO,
            threads: 16,
            target_per_s: None,
            write_concern: None,
            journaled: None,
            read_preference: None,
            properties: BTreeMap::new(),
        }
    }
}

/// The probe of the disk (`fathom disk`).
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The access pattern of its requests.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block: Bytes,
    /// The system calls that it uses.
    pub engine: IoEngine,
    /// Requests in flight at a time.
    pub depth: u32,
    /// Size of the test file.
    pub size: Bytes,
    /// The time that is measured.
    pub time: Duration,
    /// The means to make a write durable.
    pub durable: WriteSync,
    /// True if it uses the page cache.
    pub buffered: bool,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe {
            pattern: Pattern::RandRead,
            block: Bytes(4096),
            engine: IoEngine::IoUring,
            depth: 32,
            size: Bytes(1 << 30),
            time: Duration::from_secs(10),
            durable: WriteSync::None,
            buffered: false,
        }
    }
}
