//! Everything that makes one trial what it is: the storage, the servers, the load or the probe.
//!
//! It starts from what a person would get without saying anything; a study's settings are put over that, then the levels of the cell.
//! Nothing is opened here.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_probe::{Durable, Engine, Pattern};
use fathom_storage::{ArrayKind, CapLimits, Filesystem, NamedDisk, QueueSettings};
use fathom_units::Bytes;
use serde_json::Value;

/// What one trial is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Where the data goes.
    pub storage: Storage,
    /// What serves it.
    pub servers: Servers,
    /// What is asked of it.
    pub load: Load,
    /// What the disk itself is asked.
    pub probe: Probe,
}

/// Where data goes. Without anything said, a folder beside the study's other ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Whole block devices, the name of each typed once more.
    pub devices: Vec<NamedDisk>,
    /// Loop devices on files, where there is a file system or an array and no device.
    pub disks: u32,
    /// The size of each.
    pub disk_size: Bytes,
    /// How several are joined.
    pub array: Option<ArrayKind>,
    /// Chunk of md, stripe size of LVM, in KiB.
    pub chunk_kib: Option<u64>,
    /// What they are formatted with.
    pub filesystem: Option<Filesystem>,
    /// Further arguments of mkfs.
    pub mkfs: Vec<String>,
    /// Further options of the mount.
    pub mount: Vec<String>,
    /// Whether reads write access times.
    pub access_times: bool,
    /// What may pass each second.
    pub cap: Option<CapLimits>,
    /// Read-ahead, scheduler, requests.
    pub queue: QueueSettings,
    /// Whether each member of a set, and each shard, gets storage of its own, or all share one.
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
    /// Whether something has to be made for it, for which one has to be root.
    pub fn is_made(&self) -> bool {
        !self.devices.is_empty() || self.array.is_some() || self.filesystem.is_some()
    }

    /// How many disks it stands on.
    pub(crate) fn count(&self) -> usize {
        if self.devices.is_empty() { self.disks as usize } else { self.devices.len() }
    }
}

/// What serves the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Servers {
    /// Engines by member; the last holds for those after it.
    pub engines: Vec<String>,
    /// Members of the set, or of each shard; one server alone where it is 1 and there are no shards.
    pub members: u32,
    /// Whether one member alone is a set all the same.
    pub replicated: bool,
    /// Shards; without, no router.
    pub shards: Option<u32>,
    /// Chunks of the collection at the start, over all shards.
    pub chunks: Option<u32>,
    /// The cache of each server.
    pub cache: Option<Bytes>,
    /// Compression of collections.
    pub compression: Option<String>,
    /// Options of the servers, name and value.
    pub options: BTreeMap<String, String>,
    /// Parameters at their start.
    pub parameters: BTreeMap<String, Value>,
    /// Where `mongod` and `mongos` are; the built-in servers otherwise.
    pub binaries: Option<String>,
}

impl Default for Servers {
    fn default() -> Servers {
        Servers {
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

impl Servers {
    /// The engine of the member at this place.
    pub fn engine(&self, at: usize) -> &str {
        self.engines.get(at).or(self.engines.last()).map_or("wiredTiger", String::as_str)
    }

    /// How many servers hold data.
    pub fn data_servers(&self) -> u32 {
        self.members.saturating_mul(self.shards.unwrap_or(1))
    }
}

/// What is asked of the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The name of one of the workloads that are included, or a file of properties.
    pub workload: String,
    /// Records that are loaded first.
    pub records: u64,
    /// Operations of a run; without, it goes by time alone.
    pub operations: Option<u64>,
    /// How long a run goes at most.
    pub time: Option<Duration>,
    /// What is not counted at its start.
    pub warmup: Duration,
    /// Connections, each with one operation under way.
    pub threads: u32,
    /// Operations a second; without, as many as go.
    pub target_per_s: Option<f64>,
    /// `w`: how many members must have a write.
    pub write_concern: Option<String>,
    /// `j`: whether it must be in the journal.
    pub journaled: Option<bool>,
    /// Which members reads go to.
    pub read_preference: Option<String>,
    /// YCSB's properties beyond these.
    pub properties: BTreeMap<String, String>,
}

impl Default for Load {
    fn default() -> Load {
        Load {
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

/// What the disk itself is asked (`fathom disk`).
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Where requests go, and what they are.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block: Bytes,
    /// Through which system calls.
    pub engine: Engine,
    /// Requests in flight.
    pub depth: u32,
    /// Size of the test file.
    pub size: Bytes,
    /// How long it is measured.
    pub time: Duration,
    /// What makes a write durable.
    pub durable: Durable,
    /// Whether it goes through the page cache.
    pub buffered: bool,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe {
            pattern: Pattern::RandRead,
            block: Bytes(4096),
            engine: Engine::IoUring,
            depth: 32,
            size: Bytes(1 << 30),
            time: Duration::from_secs(10),
            durable: Durable::None,
            buffered: false,
        }
    }
}
