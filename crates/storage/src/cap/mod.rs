//! A limit on what a group of processes may ask of one block device, set by the kernel's block throttle
//! (torvalds/linux:Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst, `io.max`).
//!
//! It stands for the provisioned limit of a cloud disk. Under cgroup version 1 the kernel charges buffered writes
//! to no group, so only direct I/O and reads are held there. It refuses to limit processes that were not put in.
//!
//! Named classes of storage are the limits that stand for them. A class says what a disk of that kind may do each
//! second, never how long a request takes: the kernel's throttle holds rates and no latencies. It limits reads and
//! writes apart, where a provider counts them together; a load of both kinds can reach up to twice the figure in sum.
//! An unknown name is `None` and no guess.

mod place;

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{DeviceNumber, View};
use fathom_process::{Guard, Ledger, Thing};
use place::{Place, Version};

/// The most that may pass each second; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapLimits {
    /// Reads per second.
    pub read_iops: Option<u64>,
    /// Writes per second.
    pub write_iops: Option<u64>,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<u64>,
}

impl CapLimits {
    /// The same number of reads and of writes per second.
    pub fn iops(limit: u64) -> CapLimits {
        CapLimits { read_iops: Some(limit), write_iops: Some(limit), ..CapLimits::default() }
    }

    /// Refuses no limit at all, and a limit of nothing.
    pub(crate) fn check(&self) -> Result<()> {
        if *self == CapLimits::default() || self.named().iter().any(|&(limit, ..)| limit == Some(0)) {
            return Err(Error::usage("an I/O cap needs at least one limit, and none of 0"));
        }
        Ok(())
    }

    /// Each limit with its name in version 1 and in version 2.
    fn named(&self) -> [(Option<u64>, &'static str, &'static str); 4] {
        [
            (self.read_iops, "read_iops", "riops"),
            (self.write_iops, "write_iops", "wiops"),
            (self.read_bytes_per_s, "read_bps", "rbps"),
            (self.write_bytes_per_s, "write_bps", "wbps"),
        ]
    }

    /// The files to write in a group, and what.
    fn settings(&self, version: Version, device: DeviceNumber) -> Vec<(String, String)> {
        let set = self.named().into_iter().filter_map(|(limit, v1, v2)| limit.map(|limit| (limit, v1, v2)));
        match version {
            Version::V1 => set
                .map(|(limit, v1, _)| (format!("blkio.throttle.{v1}_device"), format!("{device} {limit}")))
                .collect(),
            Version::V2 => {
                let limits: Vec<_> = set.map(|(limit, _, v2)| format!("{v2}={limit}")).collect();
                vec![("io.max".to_owned(), format!("{device} {}", limits.join(" ")))]
            }
        }
    }
}

impl fmt::Display for CapLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self
            .named()
            .into_iter()
            .filter_map(|(limit, name, _)| limit.map(|limit| format!("{name}={limit}")));
        f.write_str(&set.collect::<Vec<_>>().join(" "))
    }
}

/// A limit in force. When this goes, its processes move back up and the limit ends.
#[derive(Debug)]
pub struct Cap {
    group: Guard,
    path: PathBuf,
    devices: Vec<DeviceNumber>,
    limits: CapLimits,
    version: Version,
}

impl Cap {
    /// Makes a group that is limited on `device` (a whole disk, not a partition). Needs root, or a part of the
    /// cgroup tree that was handed to the user.
    pub fn new(ledger: &Ledger, device: DeviceNumber, limits: CapLimits) -> Result<Cap> {
        Cap::on_each(ledger, &[device], limits)
    }

    /// The same on several devices, each with these limits to itself.
    pub fn on_each(ledger: &Ledger, devices: &[DeviceNumber], limits: CapLimits) -> Result<Cap> {
        limits.check()?;
        let place = Place::find(&View::live())?;
        let path = place.parent.join(ledger.unique_name());
        let entry = ledger.will_make(Thing::Cgroup { path: path.clone() })?;
        if let Err(e) = fs::create_dir(&path) {
            entry.undone()?;
            return Err(advise(Error::io("create cgroup", &path, e)));
        }
        let group = entry.guard();
        for &device in devices {
            for (file, text) in limits.settings(place.version, device) {
                write_limit(&path.join(file), &text, device)?;
            }
        }
        Ok(Cap { group, path, devices: devices.to_vec(), limits, version: place.version })
    }

    /// Puts a running process, with all its threads, under the limit. Its later children follow it.
    pub fn adopt_process(&self, pid: u32) -> Result<()> {
        let file = self.processes_file();
        fs::write(&file, pid.to_string()).map_err(|e| {
            // ESRCH: there is no such process.
            let gone = e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
            let error = advise(Error::io(&format!("put process {pid} in"), &self.path, e));
            if gone { error.with_kind(Kind::NotFound) } else { error }
        })
    }

    /// The file that takes the number of a process; a shell can write itself there before it starts a program, so
    /// that the program is under the limit from its first instruction.
    pub fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// The group's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The devices that are limited.
    pub fn devices(&self) -> &[DeviceNumber] {
        &self.devices
    }

    /// What the kernel says of the limits: `read_iops 7:3 100` under version 1, `io.max 7:3 rbps=max riops=100 ...`
    /// under version 2.
    pub fn in_force(&self) -> Vec<String> {
        let files: Vec<_> = match self.version {
            Version::V1 => {
                let names = self.limits.named().into_iter().filter_map(|(limit, v1, _)| limit.map(|_| v1));
                names.map(|v1| (v1, format!("blkio.throttle.{v1}_device"))).collect()
            }
            Version::V2 => vec![("io.max", "io.max".to_owned())],
        };
        let lines = files.into_iter().flat_map(|(name, file)| {
            let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
            text.lines().map(|line| format!("{name} {line}")).collect::<Vec<_>>()
        });
        lines.collect()
    }

    /// The limits in force.
    pub fn limits(&self) -> CapLimits {
        self.limits
    }

    /// Ends the limit now and tells whether that worked; its processes run on without it.
    pub fn lift(self) -> Result<()> {
        self.group.undo()
    }
}

fn write_limit(file: &Path, text: &str, device: DeviceNumber) -> Result<()> {
    fs::write(file, text).map_err(|e| {
        let absent = e.kind() == std::io::ErrorKind::NotFound;
        let no_device = e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error());
        let error = Error::io("set the limit in", file, e);
        if absent {
            let advice = "this kernel was built without block throttling (CONFIG_BLK_DEV_THROTTLING)";
            error.with_kind(Kind::Unsupported).advise(advice)
        } else if no_device {
            error.advise(format!("{device} must be a whole disk, not a partition"))
        } else {
            advise(error)
        }
    })
}

fn advise(error: Error) -> Error {
    match error.kind() {
        Kind::Permission => error.advise("an I/O cap needs root"),
        Kind::ReadOnly => error.advise("a container needs its cgroup tree mounted writable for an I/O cap"),
        _ => error,
    }
}

/// A kind of storage that studies name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// What a study calls it.
    pub name: &'static str,
    /// What it may do each second.
    pub limits: CapLimits,
    /// Where the figures come from.
    pub source: &'static str,
}

const fn class(
    name: &'static str,
    iops: u64,
    bytes_per_s: Option<u64>,
    source: &'static str,
) -> StorageClass {
    let limits = CapLimits {
        read_iops: Some(iops),
        write_iops: Some(iops),
        read_bytes_per_s: bytes_per_s,
        write_bytes_per_s: bytes_per_s,
    };
    StorageClass { name, limits, source }
}

/// Every class, slowest first.
pub const STORAGE_CLASSES: [StorageClass; 5] = [
    class(
        "azure-100",
        100,
        None,
        "mongoperf on a cloud disk, random and sequential alike near 100 operations/s (study 1, 2014)",
    ),
    class("hdd-250", 250, None, "mongoperf on one hard disk, about 250 operations/s (study 1, 2014)"),
    class("ebs-300", 300, None, "an EBS volume with 300 provisioned IOPS (study 3, 2016)"),
    class(
        "gp3-3000",
        3000,
        Some(125 << 20),
        "the baseline of an EBS gp3 volume, 3000 IOPS and 125 MiB/s (Amazon EBS user guide)",
    ),
    class(
        "ssd-12k",
        12_000,
        None,
        "mongoperf on a laptop's SATA SSD, 12.2 to 12.5 thousand operations/s at 128 threads (study 1, 2014)",
    ),
];

/// The class of that name.
pub fn storage_class(name: &str) -> Option<StorageClass> {
    STORAGE_CLASSES.into_iter().find(|class| class.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: DeviceNumber = DeviceNumber { major: 7, minor: 3 };

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let limits =
            CapLimits { read_iops: Some(100), write_bytes_per_s: Some(1 << 20), ..CapLimits::default() };
        let v1 = limits.settings(Version::V1, LOOP);
        assert_eq!(v1[0], ("blkio.throttle.read_iops_device".into(), "7:3 100".into()));
        assert_eq!(v1[1], ("blkio.throttle.write_bps_device".into(), "7:3 1048576".into()));
        assert_eq!(
            limits.settings(Version::V2, LOOP),
            [("io.max".into(), "7:3 riops=100 wbps=1048576".into())]
        );
        assert_eq!(limits.to_string(), "read_iops=100 write_bps=1048576");
    }

    #[test]
    fn no_limit_and_a_limit_of_nothing_are_refused() {
        let state = tempfile::tempdir().unwrap();
        let ledger = Ledger::open_in(state.path()).unwrap();
        for limits in [CapLimits::default(), CapLimits::iops(0)] {
            assert_eq!(Cap::new(&ledger, LOOP, limits).unwrap_err().kind(), Kind::Usage);
        }
    }

    #[test]
    fn each_class_has_its_name_its_limits_and_a_source() {
        for name in ["azure-100", "hdd-250", "ebs-300", "gp3-3000", "ssd-12k"] {
            let class = storage_class(name).unwrap();
            class.limits.check().unwrap();
            assert!(!class.source.is_empty());
        }
        assert_eq!(storage_class("gp3-3000").unwrap().limits.write_bytes_per_s, Some(131_072_000));
        assert_eq!(storage_class("floppy"), None);
    }
}
