//! Table: the factors that a study may vary or set, the form of their levels, and their effect on a trial.
//!
//! A level is applied to a default setup when the file is read, so that a wrong one is refused with its line before a trial runs.

use fathom_errors::{Error, Result};
use fathom_probe::{IoEngine, Pattern, WriteSync};
use fathom_storage::{ArrayKind, CapLimits, Filesystem, NamedDisk, storage_class};
use fathom_units::Bytes;
use serde_yaml_ng::Value;

use crate::Setup;
use crate::level::{bytes, count, flag, is_none, named, number, text, time, words};

/// The part of a trial that a factor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialPart {
    /// The storage, which every study has.
    Storage,
    /// The servers, in studies that load them.
    Servers,
    /// The load on them.
    Load,
    /// The probe, in studies that probe a disk.
    Probe,
    /// Any part, as its own settings require.
    Any,
}

/// Something that can be varied or set.
#[derive(Debug)]
pub struct Factor {
    /// Its name in a study's file.
    pub name: &'static str,
    /// The part of a trial that it belongs to.
    pub place: TrialPart,
    /// The form of its levels.
    pub levels: &'static str,
    /// Puts a level into a trial.
    pub(crate) put: fn(&mut Setup, &Value) -> Result<()>,
}

pub static FACTORS: &[Factor] = &[
    Factor {
        name: "variant",
        place: TrialPart::Any,
        levels: "several factors together under a name, like {name: md, filesystem: xfs, array: md-raid0, disks: 2}",
        put: put_variant,
    },
    Factor {
        name: "device",
        place: TrialPart::Storage,
        levels: "a block device with its name repeated, like {path: /dev/sdb, name: sdb}, or a list of such, for an array",
        put: put_device,
    },
    Factor {
        name: "disks",
        place: TrialPart::Storage,
        levels: "how many loop devices, 1 to 16",
        put: |s, v| {
            s.storage.disks = up_to(v, 16)?;
            Ok(())
        },
    },
    Factor {
        name: "disk_size",
        place: TrialPart::Storage,
        levels: "the size of each, like 2G",
        put: |s, v| {
            s.storage.disk_size = bytes(v)?;
            Ok(())
        },
    },
    Factor {
        name: "array",
        place: TrialPart::Storage,
        levels: "none, md-raid0, md-raid10, lvm-striped or btrfs-raid0",
        put: put_array,
    },
    Factor {
        name: "chunk",
        place: TrialPart::Storage,
        levels: "chunk of md or stripe size of LVM, like 256K",
        put: |s, v| {
            s.storage.chunk_kib = Some(bytes(v)?.0 >> 10);
            Ok(())
        },
    },
    Factor {
        name: "filesystem",
        place: TrialPart::Storage,
        levels: "none, ext4, xfs or btrfs",
        put: put_filesystem,
    },
    Factor {
        name: "mkfs",
        place: TrialPart::Storage,
        levels: "further arguments of mkfs, a list",
        put: |s, v| {
            s.storage.mkfs = words(v)?;
            Ok(())
        },
    },
    Factor {
        name: "mount",
        place: TrialPart::Storage,
        levels: "further mount options, a list",
        put: |s, v| {
            s.storage.mount = words(v)?;
            Ok(())
        },
    },
    Factor {
        name: "access_times",
        place: TrialPart::Storage,
        levels: "on, or off (noatime)",
        put: |s, v| {
            s.storage.access_times = flag(v)?;
            Ok(())
        },
    },
    Factor {
        name: "cap",
        place: TrialPart::Storage,
        levels: "none, a class (azure-100, hdd-250, ebs-300, gp3-3000, ssd-12k), or {iops: 300, bandwidth: 20M}",
        put: put_cap,
    },
    Factor {
        name: "read_ahead",
        place: TrialPart::Storage,
        levels: "a size, like 16K",
        put: |s, v| {
            s.storage.queue.read_ahead_kib = Some(bytes(v)?.0 >> 10);
            Ok(())
        },
    },
    Factor {
        name: "scheduler",
        place: TrialPart::Storage,
        levels: "the kernel's name of a scheduler, like none or mq-deadline",
        put: |s, v| {
            s.storage.queue.scheduler = Some(if v.is_null() { "none".to_owned() } else { text(v)? });
            Ok(())
        },
    },
    Factor {
        name: "nr_requests",
        place: TrialPart::Storage,
        levels: "requests that the block layer holds, 1 or more",
        put: |s, v| {
            s.storage.queue.nr_requests = Some(count(v, 1)?);
            Ok(())
        },
    },
    Factor {
        name: "per_member",
        place: TrialPart::Storage,
        levels: "on: each server's data on storage of its own; off: all on one",
        put: |s, v| {
            s.storage.per_member = flag(v)?;
            Ok(())
        },
    },
    Factor {
        name: "engine",
        place: TrialPart::Servers,
        levels: "wiredTiger or rocksdb, or a list with one for each member",
        put: put_engine,
    },
    Factor {
        name: "members",
        place: TrialPart::Servers,
        levels: "members of a replica set, or of each shard, 1 to 7",
        put: |s, v| {
            s.servers.members = up_to(v, 7)?;
            s.servers.replicated = true;
            Ok(())
        },
    },
    Factor {
        name: "shards",
        place: TrialPart::Servers,
        levels: "none (one server, no router), or how many, 1 to 16",
        put: put_shards,
    },
    Factor {
        name: "chunks",
        place: TrialPart::Servers,
        levels: "chunks that the sharded collection begins with",
        put: |s, v| {
            s.servers.chunks = Some(up_to(v, 8192)?);
            Ok(())
        },
    },
    Factor {
        name: "cache",
        place: TrialPart::Servers,
        levels: "the cache of each server, like 512M",
        put: |s, v| {
            s.servers.cache = Some(bytes(v)?);
            Ok(())
        },
    },
    Factor {
        name: "compression",
        place: TrialPart::Servers,
        levels: "none, snappy, zlib or zstd",
        put: put_compression,
    },
    Factor {
        name: "syncdelay",
        place: TrialPart::Servers,
        levels: "seconds between checkpoints",
        put: |s, v| option(s, "syncdelay", count(v, 0)?.to_string()),
    },
    Factor {
        name: "journal_interval",
        place: TrialPart::Servers,
        levels: "time between two syncs of the journal, 1ms to 500ms",
        put: |s, v| option(s, "journalCommitInterval", time(v)?.as_millis().to_string()),
    },
    Factor {
        name: "eviction",
        place: TrialPart::Servers,
        levels: "WiredTiger's eviction settings, like threads_min=1,threads_max=8",
        put: |s, v| parameter(s, "wiredTigerEngineRuntimeConfig", format!("eviction=({})", text(v)?).into()),
    },
    Factor {
        name: "runtime_config",
        place: TrialPart::Servers,
        levels: "a string for wiredTigerEngineRuntimeConfig",
        put: |s, v| parameter(s, "wiredTigerEngineRuntimeConfig", text(v)?.into()),
    },
    Factor {
        name: "rocksdb_config",
        place: TrialPart::Servers,
        levels: "RocksDB's options, like write_buffer_size=512M;level0_slowdown_writes_trigger=12",
        put: |s, v| option(s, "rocksdbConfigString", text(v)?),
    },
    Factor {
        name: "parameters",
        place: TrialPart::Servers,
        levels: "any setParameter, like {name: value}",
        put: put_parameters,
    },
    Factor {
        name: "options",
        place: TrialPart::Servers,
        levels: "any option of the servers, like {oplogSize: 512}",
        put: put_options,
    },
    Factor {
        name: "binaries",
        place: TrialPart::Servers,
        levels: "a folder with mongod and mongos, or fathom",
        put: |s, v| {
            s.servers.binaries = Some(text(v)?);
            Ok(())
        },
    },
    Factor {
        name: "workload",
        place: TrialPart::Load,
        levels: "workloada to workloadf, s1 to s5, or a file of YCSB's properties",
        put: put_workload,
    },
    Factor {
        name: "records",
        place: TrialPart::Load,
        levels: "records that are loaded first, 1 or more",
        put: |s, v| {
            s.load.records = count(v, 1)?;
            Ok(())
        },
    },
    Factor {
        name: "operations",
        place: TrialPart::Load,
        levels: "operations of a run, 1 or more",
        put: |s, v| {
            s.load.operations = Some(count(v, 1)?);
            Ok(())
        },
    },
    Factor {
        name: "time",
        place: TrialPart::Load,
        levels: "the longest time of a run, like 60s",
        put: |s, v| {
            s.load.time = Some(time(v)?);
            Ok(())
        },
    },
    Factor {
        name: "warmup",
        place: TrialPart::Load,
        levels: "time at its start that is not counted, like 10s",
        put: |s, v| {
            s.load.warmup = time(v)?;
            Ok(())
        },
    },
    Factor {
        name: "threads",
        place: TrialPart::Load,
        levels: "connections, each with one operation under way, 1 to 4096",
        put: |s, v| {
            s.load.threads = up_to(v, 4096)?;
            Ok(())
        },
    },
    Factor {
        name: "target",
        place: TrialPart::Load,
        levels: "operations a second, or none for as many as possible",
        put: |s, v| {
            s.load.target_per_s = if is_none(v) { None } else { Some(number(v)?) };
            Ok(())
        },
    },
    Factor {
        name: "write_concern",
        place: TrialPart::Load,
        levels: "0, 1, 2 ... or majority",
        put: put_write_concern,
    },
    Factor {
        name: "journaled",
        place: TrialPart::Load,
        levels: "on or off: j of the write concern",
        put: |s, v| {
            s.load.journaled = Some(flag(v)?);
            Ok(())
        },
    },
    Factor {
        name: "read_preference",
        place: TrialPart::Load,
        levels: "primary, secondary, nearest ...",
        put: |s, v| {
            s.load.read_preference = Some(text(v)?);
            Ok(())
        },
    },
    Factor {
        name: "properties",
        place: TrialPart::Load,
        levels: "any of YCSB's properties, like {fieldcount: 8}",
        put: put_properties,
    },
    Factor {
        name: "pattern",
        place: TrialPart::Probe,
        levels: "randread, randwrite, randrw, append or checkpoint",
        put: |s, v| {
            s.probe.pattern = one_of(v, Pattern::WORDS)?.parse()?;
            Ok(())
        },
    },
    Factor {
        name: "block",
        place: TrialPart::Probe,
        levels: "bytes of a request, like 4K",
        put: |s, v| {
            s.probe.block = bytes(v)?;
            Ok(())
        },
    },
    Factor {
        name: "io_engine",
        place: TrialPart::Probe,
        levels: "psync, io_uring or mmap",
        put: |s, v| {
            s.probe.engine = one_of(v, IoEngine::WORDS)?.parse()?;
            Ok(())
        },
    },
    Factor {
        name: "depth",
        place: TrialPart::Probe,
        levels: "requests in flight, 1 to 1024",
        put: |s, v| {
            s.probe.depth = up_to(v, 1024)?;
            Ok(())
        },
    },
    Factor {
        name: "file_size",
        place: TrialPart::Probe,
        levels: "size of the test file, like 1G",
        put: |s, v| {
            s.probe.size = bytes(v)?;
            Ok(())
        },
    },
    Factor {
        name: "probe_time",
        place: TrialPart::Probe,
        levels: "the time of a measurement, like 10s",
        put: |s, v| {
            s.probe.time = time(v)?;
            Ok(())
        },
    },
    Factor {
        name: "durable",
        place: TrialPart::Probe,
        levels: "none, fdatasync or dsync",
        put: |s, v| {
            s.probe.durable =
                if v.is_null() { WriteSync::None } else { one_of(v, WriteSync::WORDS)?.parse()? };
            Ok(())
        },
    },
    Factor {
        name: "buffered",
        place: TrialPart::Probe,
        levels: "on (through the page cache) or off",
        put: |s, v| {
            s.probe.buffered = flag(v)?;
            Ok(())
        },
    },
];

/// The names of arrays in a file.
static ARRAYS: &[(&str, ArrayKind)] = &[
    ("md-raid0", ArrayKind::MdRaid0),
    ("md-raid10", ArrayKind::MdRaid10),
    ("lvm-striped", ArrayKind::LvmStriped),
    ("btrfs-raid0", ArrayKind::BtrfsRaid0),
];

impl Factor {
    /// The factor of this name; an unknown one is refused with the nearest name.
    pub fn named(name: &str) -> Result<&'static Factor> {
        FACTORS.iter().find(|factor| factor.name == name).ok_or_else(|| {
            let near = FACTORS.iter().min_by_key(|factor| strsim::damerau_levenshtein(factor.name, name));
            let near = near.filter(|factor| strsim::jaro_winkler(factor.name, name) > 0.8);
            let hint = near.map_or_else(String::new, |factor| format!(", did you mean '{}'?", factor.name));
            Error::usage(format!("there is no factor '{name}'{hint}"))
                .advise("'fathom compare --factors' lists all with their levels")
        })
    }

    /// Puts a level into a setup; an invalid one is refused with the form of a valid one.
    pub(crate) fn put(&self, setup: &mut Setup, value: &Value) -> Result<()> {
        (self.put)(setup, value).map_err(|cause| {
            let label = crate::level::FactorLevel::from_value(value.clone()).label;
            Error::usage(format!("'{label}' is not a level of '{}' (levels: {})", self.name, self.levels))
                .because(cause)
        })
    }
}

fn up_to(value: &Value, most: u32) -> Result<u32> {
    let number = u32::try_from(count(value, 1)?).ok().filter(|number| *number <= most);
    number.ok_or_else(|| Error::usage(format!("at most {most} are possible")))
}

fn one_of(value: &Value, words: &[&str]) -> Result<String> {
    let word = text(value)?;
    if words.contains(&word.as_str()) { Ok(word) } else { Err(Error::usage("it is none of these words")) }
}

fn option(setup: &mut Setup, name: &str, value: String) -> Result<()> {
    setup.servers.options.insert(name.to_owned(), value);
    Ok(())
}

fn parameter(setup: &mut Setup, name: &str, value: serde_json::Value) -> Result<()> {
    setup.servers.parameters.insert(name.to_owned(), value);
    Ok(())
}

/// The further settings in a level of `variant`, besides its name.
pub(crate) fn parts(value: &Value) -> Result<Vec<(&'static Factor, &Value)>> {
    let parts = named(value)?.into_iter().filter(|(name, _)| name != "name");
    parts.map(|(name, value)| Ok((Factor::named(&name)?, value))).collect()
}

fn put_variant(setup: &mut Setup, value: &Value) -> Result<()> {
    if value.get("name").and_then(Value::as_str).is_none() {
        return Err(Error::usage("it has no 'name'"));
    }
    for (factor, value) in parts(value)? {
        if factor.place == TrialPart::Any {
            return Err(Error::usage("a variant holds no other variant"));
        }
        factor.put(setup, value)?;
    }
    Ok(())
}

fn put_device(setup: &mut Setup, value: &Value) -> Result<()> {
    let several = match value {
        Value::Sequence(values) if values.is_empty() => return Err(Error::usage("it names no device")),
        Value::Sequence(values) => values.iter().map(device).collect::<Result<_>>()?,
        one => vec![device(one)?],
    };
    setup.storage.devices = several;
    Ok(())
}

fn device(value: &Value) -> Result<NamedDisk> {
    let (mut path, mut name) = (None, None);
    for (key, value) in named(value)? {
        match key.as_str() {
            "path" => path = Some(text(value)?.into()),
            "name" => name = Some(text(value)?),
            _ => return Err(Error::usage(format!("'{key}' is neither 'path' nor 'name'"))),
        }
    }
    let (path, typed_name) =
        path.zip(name).ok_or_else(|| Error::usage("both 'path' and 'name' are needed"))?;
    Ok(NamedDisk { path, typed_name })
}

fn put_array(setup: &mut Setup, value: &Value) -> Result<()> {
    setup.storage.array = if is_none(value) {
        None
    } else {
        let word = text(value)?;
        let kind = ARRAYS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
        Some(kind.ok_or_else(|| Error::usage("it is not an array"))?)
    };
    Ok(())
}

fn put_filesystem(setup: &mut Setup, value: &Value) -> Result<()> {
    setup.storage.filesystem = if is_none(value) {
        None
    } else {
        let word = text(value)?;
        let found = Filesystem::ALL.into_iter().find(|one| one.name() == word);
        Some(found.ok_or_else(|| Error::usage("it is not a file system that Fathom can make"))?)
    };
    Ok(())
}

fn put_cap(setup: &mut Setup, value: &Value) -> Result<()> {
    if is_none(value) {
        setup.storage.cap = None;
        return Ok(());
    }
    if let Some(name) = value.as_str() {
        let class = storage_class(name).ok_or_else(|| Error::usage("it is not a class of storage"))?;
        setup.storage.cap = Some(class.limits);
        return Ok(());
    }
    let mut limits = CapLimits::default();
    for (name, value) in named(value)? {
        match name.as_str() {
            "iops" => {
                (limits.read_iops, limits.write_iops) = (Some(count(value, 1)?), Some(count(value, 1)?))
            }
            "read_iops" => limits.read_iops = Some(count(value, 1)?),
            "write_iops" => limits.write_iops = Some(count(value, 1)?),
            "bandwidth" => {
                let Bytes(most) = bytes(value)?;
                (limits.read_bytes_per_s, limits.write_bytes_per_s) = (Some(most), Some(most));
            }
            _ => return Err(Error::usage(format!("'{name}' is not a limit"))),
        }
    }
    setup.storage.cap = Some(limits);
    Ok(())
}

fn put_engine(setup: &mut Setup, value: &Value) -> Result<()> {
    let engines = words(value)?;
    if engines.is_empty()
        || engines.iter().any(|engine| !["wiredTiger", "rocksdb"].contains(&engine.as_str()))
    {
        return Err(Error::usage("it is not an engine"));
    }
    setup.servers.engines = engines;
    Ok(())
}

fn put_shards(setup: &mut Setup, value: &Value) -> Result<()> {
    setup.servers.shards = if is_none(value) { None } else { Some(up_to(value, 16)?) };
    Ok(())
}

fn put_compression(setup: &mut Setup, value: &Value) -> Result<()> {
    let word =
        if value.is_null() { "none".to_owned() } else { one_of(value, &["none", "snappy", "zlib", "zstd"])? };
    setup.servers.compression = Some(word);
    Ok(())
}

fn put_parameters(setup: &mut Setup, value: &Value) -> Result<()> {
    for (name, value) in named(value)? {
        let value =
            serde_json::to_value(value).map_err(|cause| Error::usage("it is not a value").because(cause))?;
        setup.servers.parameters.insert(name, value);
    }
    Ok(())
}

fn put_options(setup: &mut Setup, value: &Value) -> Result<()> {
    for (name, value) in named(value)? {
        setup.servers.options.insert(name, text(value)?);
    }
    Ok(())
}

fn put_workload(setup: &mut Setup, value: &Value) -> Result<()> {
    setup.load.workload = text(value)?;
    crate::included_studies::workload(&setup.load.workload).map(drop)
}

fn put_write_concern(setup: &mut Setup, value: &Value) -> Result<()> {
    let word = text(value)?;
    if word != "majority" && word.parse::<u32>().is_err() {
        return Err(Error::usage("it is neither a number nor 'majority'"));
    }
    setup.load.write_concern = Some(word);
    Ok(())
}

fn put_properties(setup: &mut Setup, value: &Value) -> Result<()> {
    for (name, value) in named(value)? {
        let value = crate::level::FactorLevel::from_value(value.clone()).label;
        let value = match value.as_str() {
            "on" => "true".to_owned(),
            "off" => "false".to_owned(),
            _ => value,
        };
        setup.load.properties.insert(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, level: &str) -> Result<Setup> {
        let mut setup = Setup::default();
        Factor::named(name)?.put(&mut setup, &serde_yaml_ng::from_str(level).unwrap())?;
        Ok(setup)
    }

    #[test]
    fn names_are_unique_and_a_typing_error_is_answered() {
        let mut names: Vec<&str> = FACTORS.iter().map(|factor| factor.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FACTORS.len());
        let said = put("filesytem", "xfs").unwrap_err().to_string();
        assert!(said.contains("did you mean 'filesystem'?"), "{said}");
        assert!(!put("colour", "red").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn levels_change_what_they_name() {
        assert_eq!(put("filesystem", "xfs").unwrap().storage.filesystem, Some(Filesystem::Xfs));
        assert_eq!(put("cap", "{iops: 300}").unwrap().storage.cap, Some(CapLimits::iops(300)));
        assert_eq!(put("cap", "none").unwrap().storage.cap, None);
        assert!(put("cap", "ebs-300").unwrap().storage.cap.is_some());
        assert_eq!(put("engine", "[wiredTiger, rocksdb]").unwrap().servers.engine(5), "rocksdb");
        let setup = put("variant", "{name: striped, filesystem: xfs, disks: 2, chunk: 256K}").unwrap();
        assert_eq!((setup.storage.disks, setup.storage.chunk_kib), (2, Some(256)));
        let one = "{path: /dev/sdb, name: sdb}";
        assert_eq!(put("device", one).unwrap().storage.devices.len(), 1);
        let two = put("device", &format!("[{one}, {{path: /dev/sdc, name: /dev/sdc}}]")).unwrap();
        let names: Vec<_> = two.storage.devices.iter().map(|device| device.typed_name.as_str()).collect();
        assert_eq!(names, ["sdb", "/dev/sdc"]);
        assert_eq!(put("shards", "none").unwrap().servers.shards, None);
        let setup = put("eviction", "threads_min=1,threads_max=8").unwrap();
        let config = &setup.servers.parameters["wiredTigerEngineRuntimeConfig"];
        assert_eq!(config, "eviction=(threads_min=1,threads_max=8)");
        assert_eq!(
            put("properties", "{readallfields: false}").unwrap().load.properties["readallfields"],
            "false"
        );
        assert_eq!(put("write_concern", "majority").unwrap().load.write_concern.as_deref(), Some("majority"));
    }

    #[test]
    fn a_wrong_level_is_refused_with_the_right_ones() {
        for (name, level) in [
            ("filesystem", "zfs"),
            ("cap", "ebs-999"),
            ("cap", "{speed: 3}"),
            ("threads", "0"),
            ("threads", "1.5"),
            ("engine", "mmapv1"),
            ("engine", "[]"),
            ("shards", "17"),
            ("syncdelay", "often"),
            ("write_concern", "most"),
            ("workload", "workloadz"),
            ("device", "/dev/sdb"),
            ("device", "{path: /dev/sdb}"),
            ("device", "[{path: /dev/sdb, name: sdb}, {path: /dev/sdc}]"),
            ("device", "[]"),
            ("parameters", "fast"),
            ("variant", "{filesystem: xfs}"),
            ("variant", "{name: x, colour: red}"),
        ] {
            let said = put(name, level).unwrap_err().to_string();
            let levels = Factor::named(name).unwrap().levels;
            assert!(said.contains(levels), "{name} {level}: {said}");
        }
    }
}
