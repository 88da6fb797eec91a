//! Limits the I/O of a group of processes on one block device with the kernel's block throttle
//! (torvalds/linux:Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst, `io.max`).
//!
//! The limit models the provisioned limit of a cloud disk. Under cgroup version 1 the kernel charges buffered writes to
//! no group, so only direct I/O and reads are limited. Processes that were not put into the group are never limited.
//!
//! Named classes of storage are sets of such limits. A class gives the rate of a disk of that kind, never the latency
//! of a request: the kernel's throttle limits rates only. It limits reads and writes separately, although a provider
//! counts them together; a mixed load can reach up to twice the figure in sum. An unknown name gives `None`, never a
//! guess.

mod group_parent;

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{DeviceNumber, View};
use fathom_process::{Guard, Ledger, Resource};
use group_parent::{CgroupVersion, GroupParent};

/// The maximum rates per second; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapLimits {
    /// The limit of read requests a second.
    pub read_iops: Option<u64>,
    /// The limit of write requests a second.
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

    /// Refuses a cap without any limit, and a limit of zero.
    pub(crate) fn check(&self) -> Result<()> {
        if *self == CapLimits::default() || self.named().iter().any(|&(limit, ..)| limit == Some(0)) {
            return Err(Error::usage("an I/O cap needs at least one limit, and each limit must be above 0"));
        }
        Ok(())
    }

    /// Each limit with its names in version 1 and in version 2.
    fn named(&self) -> [(Option<u64>, &'static str, &'static str); 4] {
        [
            (self.read_iops, "read_iops", "riops"),
            (self.write_iops, "write_iops", "wiops"),
            (self.read_bytes_per_s, "read_bps", "rbps"),
            (self.write_bytes_per_s, "write_bps", "wbps"),
        ]
    }

    /// The files of the group to write, and their contents.
    fn settings(&self, version: CgroupVersion, device: DeviceNumber) -> Vec<(String, String)> {
        let set = self.named().into_iter().filter_map(|(limit, v1, v2)| limit.map(|limit| (limit, v1, v2)));
        match version {
            CgroupVersion::V1 => set
                .map(|(limit, v1, _)| (format!("blkio.throttle.{v1}_device"), format!("{device} {limit}")))
                .collect(),
            CgroupVersion::V2 => {
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

/// A limit in force. Dropping it moves the processes back to the parent group and ends the limit.
#[derive(Debug)]
pub struct Cap {
    group: Guard,
    path: PathBuf,
    devices: Vec<DeviceNumber>,
    limits: CapLimits,
    version: CgroupVersion,
}

impl Cap {
    /// Makes a group that is limited on `device` (a whole disk, not a partition). Needs root, or a part of the
    /// cgroup tree that was delegated to the user.
    pub fn new(ledger: &Ledger, device: DeviceNumber, limits: CapLimits) -> Result<Cap> {
        Cap::on_each(ledger, &[device], limits)
    }

    /// The same on several devices; each device gets the full limits.
    pub fn on_each(ledger: &Ledger, devices: &[DeviceNumber], limits: CapLimits) -> Result<Cap> {
        limits.check()?;
        let place = GroupParent::find(&View::live())?;
        let path = place.parent.join(ledger.unique_name());
        let entry = ledger.will_make(Resource::Cgroup { path: path.clone() })?;
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

    /// The file that takes the number of a process. A shell can write its own number to it before it starts a program,
    /// so that the program is limited from its first instruction.
    pub fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The devices that the cap limits.
    pub fn devices(&self) -> &[DeviceNumber] {
        &self.devices
    }

    /// The limits as the kernel shows them: `read_iops 7:3 100` under version 1, `io.max 7:3 rbps=max riops=100 ...`
    /// under version 2.
    pub fn in_force(&self) -> Vec<String> {
        let files: Vec<_> = match self.version {
            CgroupVersion::V1 => {
                let names = self.limits.named().into_iter().filter_map(|(limit, v1, _)| limit.map(|_| v1));
                names.map(|v1| (v1, format!("blkio.throttle.{v1}_device"))).collect()
            }
            CgroupVersion::V2 => vec![("io.max", "io.max".to_owned())],
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

    /// Ends the limit now and returns whether that worked; its processes continue without it.
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

/// A named class of storage, as studies use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoragePreset {
    /// Its name in studies.
    pub name: &'static str,
    /// Its limits per second.
    pub limits: CapLimits,
    /// The source of the figures.
    pub source: &'static str,
}

const fn class(
    name: &'static str,
    iops: u64,
    bytes_per_s: Option<u64>,
    source: &'static str,
) -> StoragePreset {
    let limits = CapLimits {
        read_iops: Some(iops),
        write_iops: Some(iops),
        read_bytes_per_s: bytes_per_s,
        write_bytes_per_s: bytes_per_s,
    };
    StoragePreset { name, limits, source }
}

/// All classes, from the slowest to the fastest.
pub const STORAGE_CLASSES: [StoragePreset; 5] = [
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
pub fn storage_class(name: &str) -> Option<StoragePreset> {
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
        let v1 = limits.settings(CgroupVersion::V1, LOOP);
        assert_eq!(v1[0], ("blkio.throttle.read_iops_device".into(), "7:3 100".into()));
        assert_eq!(v1[1], ("blkio.throttle.write_bps_device".into(), "7:3 1048576".into()));
        assert_eq!(
            limits.settings(CgroupVersion::V2, LOOP),
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
