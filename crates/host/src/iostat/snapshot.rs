//! The input of a report: the counters, read together; the stack of devices, so that a request
//! is shown at every layer and counted at one; and the head line.
//!
//! [`BlockTree`] knows partitions, device mapper and md. A loop device is above the disk under its backing file, which
//! only the mounts show; without it a total would count a loop device's requests twice. Dates are written in the forms
//! that sysstat prints in the C locale, or ISO 8601 on request.
//!
//! Notes are warnings on the figures of this kernel; they are for standard error, never in the report.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_errors::Result;
use jiff::Zoned;
use rustix::time::ClockId;

use crate::diskstats::{DiskSampler, Line, nanoseconds};
use crate::environment::cpu_count;
use crate::kernel::KernelVersion;
use crate::sched::CpuTimes;
use crate::{BlockTree, Device, DeviceKind, Mounts, View};

/// The counters of every device and of the CPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The time of `CLOCK_MONOTONIC`, in nanoseconds.
    pub taken_ns: u64,
    /// Time since boot with sleep included, in nanoseconds: the interval of the first report.
    pub uptime_ns: u64,
    /// The times of the CPUs since boot.
    pub cpu: CpuTimes,
    /// Every device's counters, in the kernel's order.
    pub lines: Vec<Line>,
}

#[derive(Debug)]
pub struct IostatSampler {
    view: View,
    disks: DiskSampler,
}

impl IostatSampler {
    pub fn open(view: &View) -> Result<Self> {
        Ok(IostatSampler { view: view.clone(), disks: DiskSampler::open(view)? })
    }

    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let disks = self.disks.sample()?;
        let uptime_ns = nanoseconds(ClockId::Boottime);
        let cpu = CpuTimes::read(&self.view)?;
        Ok(Snapshot { taken_ns: disks.taken_ns, uptime_ns, cpu, lines: disks.lines })
    }
}

/// The machine's block devices with loop devices placed on their disks.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    tree: BlockTree,
    backing: BTreeMap<String, String>,
    frozen: Vec<String>,
    detached: Vec<String>,
}

impl Stack {
    /// Reads the tree; a machine without sysfs has an empty one.
    pub fn read(view: &View) -> Self {
        let tree = BlockTree::read(view);
        let mounts = Mounts::read(view).unwrap_or_default();
        let (mut backing, mut detached) = (BTreeMap::new(), Vec::new());
        for device in tree.iter().filter(|device| device.kind == DeviceKind::Loop) {
            let Some(file) = view.value(&format!("{}/loop/backing_file", device.sysfs())) else {
                detached.push(device.name.clone());
                continue;
            };
            let disk = mounts.containing(Path::new(&file)).and_then(|mount| tree.under(mount));
            backing.extend(disk.map(|disk| (device.name.clone(), disk.name.clone())));
        }
        let frozen = |device: &&Device| view.number(&format!("{}/iostats", device.queue())) == Some(0);
        let frozen = tree.iter().filter(frozen).map(|device| device.name.clone()).collect();
        Stack { tree, backing, frozen, detached }
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.tree.iter().find(|device| device.name == name)
    }

    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.tree.iter()
    }

    /// The device of a name that a user types (`/dev/sda`, a mapper name).
    pub fn find(&self, name: &str) -> Option<&Device> {
        self.tree.by_name(name)
    }

    /// The devices directly below one; empty for a bottom device or an unknown one.
    pub fn below(&self, name: &str) -> Vec<&str> {
        match self.backing.get(name) {
            Some(disk) => vec![disk.as_str()],
            None => self.device(name).map_or_else(Vec::new, |d| d.below.iter().map(String::as_str).collect()),
        }
    }

    /// Returns whether the device's counters are frozen because `queue/iostats` is 0.
    pub fn is_frozen(&self, name: &str) -> bool {
        self.frozen.iter().any(|frozen| frozen == name)
    }

    /// Returns whether it is a loop device without a file, which keeps its counters but is not a disk.
    pub fn is_detached(&self, name: &str) -> bool {
        self.detached.iter().any(|detached| detached == name)
    }
}

/// A moment as text, in the local time zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalTime {
    /// The date for the head line.
    pub date: String,
    /// Date and time for `-t`.
    pub timestamp: String,
}

impl LocalTime {
    /// Now; `iso` is what `S_TIME_FORMAT=ISO` asks for.
    pub fn now(iso: bool) -> Self {
        LocalTime::new(&Zoned::now(), iso)
    }

    fn new(time: &Zoned, iso: bool) -> Self {
        let (date, timestamp) =
            if iso { ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z") } else { ("%m/%d/%y", "%m/%d/%y %H:%M:%S") };
        LocalTime { date: time.strftime(date).to_string(), timestamp: time.strftime(timestamp).to_string() }
    }
}

/// The first line's description of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IostatHeader {
    pub release: String,
    pub nodename: String,
    /// The hardware's name (`x86_64`).
    pub machine: String,
    /// The number of CPUs that exist.
    pub cpus: usize,
    pub date: String,
}

impl IostatHeader {
    /// Reads the running machine's.
    pub fn read(view: &View, stamp: &LocalTime) -> Self {
        let setting = |name: &str| view.value(&format!("proc/sys/kernel/{name}")).unwrap_or_default();
        IostatHeader {
            release: setting("osrelease"),
            nodename: setting("hostname"),
            machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
            cpus: cpu_count(view).unwrap_or(1),
            date: stamp.date.clone(),
        }
    }
}

/// The meaning of `%util` on a kernel. The counter behind it has had three meanings (`docs/iostat.md`).
pub fn util_meaning(version: &KernelVersion) -> String {
    let meaning = if !version.at_least(5, 0) {
        "the time with a request in flight, exactly (kernels before 5.0)"
    } else if !version.at_least(6, 10) {
        "a whole clock tick for every tick in which a request began, so light load shows too high (kernels 5.0 to 6.9)"
    } else {
        "the clock ticks that a request spans, so requests shorter than a tick are caught by chance (kernels 6.10 and later)"
    };
    format!(
        "%util on {version} counts {meaning}; near 100 it means a full device only if that serves one request at a time"
    )
}

/// The notes for a report of these devices; `util` tells whether it has the `%util` column.
pub fn notes(version: Option<&KernelVersion>, stack: &Stack, shown: &[&str], util: bool) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(version.filter(|_| util).map(util_meaning));
    for name in shown.iter().filter(|name| stack.is_frozen(name)) {
        notes.push(format!("{name}: queue/iostats is 0, so the kernel does not count its requests"));
    }
    let stacked = |name: &&&str| {
        let kind = stack.device(name).map(|device| device.kind);
        matches!(kind, Some(DeviceKind::Mapper | DeviceKind::Raid))
    };
    let old = version.filter(|version| !version.at_least(6, 3));
    if let (Some(version), Some(name)) = (old, shown.iter().find(stacked)) {
        notes.push(format!(
            "{name}: dm and md before kernel 6.3 (and its stable backports) count a request at its start and its time at \
             its end, so on {version} their await may be far off; trust the devices below"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let time = jiff::Timestamp::from_second(1_700_000_000).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        let plain = LocalTime::new(&time, false);
        assert_eq!((plain.date.as_str(), plain.timestamp.as_str()), ("11/14/23", "11/14/23 22:13:20"));
        assert_eq!(LocalTime::new(&time, true).timestamp, "2023-11-14T22:13:20+0000");
    }

    #[test]
    fn each_age_of_kernel_has_its_meaning() {
        for (version, words) in [
            ("3.10.0-1160.el7.x86_64", "exactly"),
            ("5.0.0", "shows too high"),
            ("6.9.12", "shows too high"),
            ("6.10.0", "by chance"),
            ("6.18.44-fc-v595", "by chance"),
        ] {
            let meaning = util_meaning(&KernelVersion::parse(version).unwrap());
            assert!(meaning.contains(words) && meaning.contains(version), "{meaning}");
        }
    }
}
