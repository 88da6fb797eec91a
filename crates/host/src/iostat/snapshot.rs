//! The input of a report: the counters, read together; the stack of devices, so that a request
//! is shown at every layer and counted at one; and the head line.
//!
//! [`BlockTree`] knows partitions, device mapper and md. A loop device is above the disks under its backing file, which
//! only the mounts show; without them a total would count a loop device's requests twice. Dates are written in the forms
//! that sysstat prints in the C locale, or ISO 8601 on request.
//!
//! Notes are warnings on the figures of this kernel; they are for standard error, never in the report.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_errors::Result;
use jiff::Zoned;
use rustix::time::ClockId;

use super::CounterFolder;
use crate::diskstats::{self, DiskSampler, Line, NO_COUNTERS, monotonic_ns, nanoseconds};
use crate::environment::cpu_count;
use crate::kernel::KernelVersion;
use crate::sched::CpuTimes;
use crate::{BlockTree, Device, DeviceKind, DeviceStack, Mounts, View, sysfs_counters};

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

/// Reads the counters of the kernel, of a folder, or of both.
#[derive(Debug)]
pub struct IostatSampler {
    view: View,
    /// `None` without the kernel's counters: a folder's are read alone, or no device has any.
    disks: Option<DiskSampler>,
    folder: Option<CounterFolder>,
    /// Whether the times of processors are read.
    reads_cpu: bool,
}

impl IostatSampler {
    pub fn open(view: &View, folder: Option<CounterFolder>) -> Self {
        let reads_kernel = folder.as_ref().is_none_or(|folder| folder.with_kernel);
        let disks = reads_kernel.then(|| DiskSampler::open(view).ok()).flatten();
        IostatSampler { view: view.clone(), disks, folder, reads_cpu: true }
    }

    /// Reads the times of processors only if they are shown: a container may hide them.
    #[must_use]
    pub fn with_cpu(self, reads_cpu: bool) -> Self {
        IostatSampler { reads_cpu, ..self }
    }

    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let disks = self.disks.as_mut().map(DiskSampler::sample).transpose()?;
        let (taken_ns, mut lines) =
            disks.map_or_else(|| (monotonic_ns(), Vec::new()), |disks| (disks.taken_ns, disks.lines));
        let uptime_ns = nanoseconds(ClockId::Boottime);
        let cpu = match self.reads_cpu {
            true => CpuTimes::read(&self.view)
                .map_err(|error| error.advise("iostat -d shows the devices without them"))?,
            false => CpuTimes::default(),
        };
        for line in self.folder.iter().flat_map(|folder| folder_lines(&folder.path)) {
            // The folder's counters replace the kernel's of a device with the same name.
            match lines.iter_mut().find(|known| known.name == line.name) {
                Some(known) => known.counters = line.counters,
                None => lines.push(line),
            }
        }
        Ok(Snapshot { taken_ns, uptime_ns, cpu, lines })
    }

    /// A note on devices that are hidden here, and on the source of the counters that are shown.
    pub fn note(&self, first: &Snapshot) -> Option<String> {
        match &self.disks {
            _ if first.lines.is_empty() && self.folder.is_none() => Some(NO_COUNTERS.to_owned()),
            Some(disks) => disks.note(),
            None => None,
        }
    }
}

/// The counters in a folder that a driver in user space writes.
fn folder_lines(folder: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(folder.join("diskstats")).unwrap_or_default();
    let mut lines = diskstats::parse(&text);
    for line in sysfs_counters::read(folder) {
        if !lines.iter().any(|known| known.name == line.name) {
            lines.push(line);
        }
    }
    lines
}

/// The machine's block devices with loop devices placed on the devices under their files.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    tree: BlockTree,
    backing: BTreeMap<String, Vec<String>>,
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
            let under = DeviceStack::under(view, &mounts, &tree, Path::new(&file)).top_names();
            backing.insert(device.name.clone(), under);
        }
        let frozen =
            tree.iter().filter(|device| device.is_frozen(view)).map(|device| device.name.clone()).collect();
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
        let below = self.backing.get(name).or_else(|| self.device(name).map(|device| &device.below));
        below.into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns whether zeros of the device mean nothing ([`BlockTree::is_silent`]).
    pub fn is_silent(&self, name: &str, has_counted: &dyn Fn(&str) -> bool) -> bool {
        let is_frozen = |device: &Device| self.is_frozen(&device.name);
        self.device(name).is_some_and(|device| self.tree.is_silent(device, &is_frozen, has_counted))
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

/// The form of dates and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeForm {
    /// ISO 8601 (`S_TIME_FORMAT=ISO`) in place of the C locale's form.
    pub iso: bool,
    /// Time stamps in seconds since 1970 (`-U`).
    pub seconds: bool,
}

impl LocalTime {
    pub fn now(form: TimeForm) -> Self {
        LocalTime::new(&Zoned::now(), form)
    }

    fn new(time: &Zoned, form: TimeForm) -> Self {
        let (date, stamp) =
            if form.iso { ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z") } else { ("%m/%d/%y", "%m/%d/%y %H:%M:%S") };
        let stamp = if form.seconds { "%s" } else { stamp };
        LocalTime { date: time.strftime(date).to_string(), timestamp: time.strftime(stamp).to_string() }
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
    // The hidden paths of NVMe multipath have a 'c' for the controller in their names.
    let is_head =
        |name: &&&str| name.starts_with("nvme") && stack.below(name).iter().any(|path| path.contains('c'));
    let uncounted = version.filter(|version| !version.at_least(6, 5));
    if let (Some(version), Some(name)) = (uncounted, shown.iter().find(is_head)) {
        notes.push(format!(
            "{name}: NVMe multipath before kernel 6.5 counts requests only on the paths, so on {version} see {}",
            stack.below(name).join(", ")
        ));
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
        let plain = LocalTime::new(&time, TimeForm::default());
        assert_eq!((plain.date.as_str(), plain.timestamp.as_str()), ("11/14/23", "11/14/23 22:13:20"));
        let iso = TimeForm { iso: true, seconds: false };
        assert_eq!(LocalTime::new(&time, iso).timestamp, "2023-11-14T22:13:20+0000");
        let seconds = LocalTime::new(&time, TimeForm { seconds: true, ..iso });
        assert_eq!((seconds.date.as_str(), seconds.timestamp.as_str()), ("2023-11-14", "1700000000"));
    }

    #[test]
    fn a_folder_of_counters_is_read_alone_or_with_the_kernels() {
        let root = tempfile::TempDir::new().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/stat", "cpu  1 0 1 1\n");
        put("proc/diskstats", "8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n8 16 sdb 2 0 8 1 0 0 0 0 0 1 1\n");
        put("sys/block/sda/dev", "8:0\n");
        put("spdk/diskstats", "8 16 sdb 30 0 8 1 0 0 0 0 0 1 1\n");
        put("spdk/block/nvme9n1/stat", "4 0 8 1 0 0 0 0 0 1 1\n");
        let view = View::snapshot(root.path()).unwrap();
        let reads = |folder: Option<bool>| {
            let folder =
                folder.map(|with_kernel| CounterFolder { path: root.path().join("spdk"), with_kernel });
            let lines = IostatSampler::open(&view, folder).snapshot().unwrap().lines;
            lines.iter().map(|line| format!("{}={}", line.name, line.counters.reads)).collect::<Vec<_>>()
        };
        assert_eq!(reads(None), ["sda=1", "sdb=2"]);
        assert_eq!(reads(Some(false)), ["sdb=30", "nvme9n1=4"]);
        assert_eq!(reads(Some(true)), ["sda=1", "sdb=30", "nvme9n1=4"]);
    }

    /// An empty `/proc/stat` ended `iostat -d` too, with the exit code of a usage error.
    #[test]
    fn hidden_processors_hide_no_devices() {
        let root = tempfile::TempDir::new().unwrap();
        ["proc", "sys"].iter().for_each(|folder| std::fs::create_dir(root.path().join(folder)).unwrap());
        std::fs::write(root.path().join("proc/stat"), "").unwrap();
        std::fs::write(root.path().join("proc/diskstats"), "8 0 sda 1 0 8 1 1 0 8 1 0 2 2\n").unwrap();
        let view = View::snapshot(root.path()).unwrap();
        let refused = IostatSampler::open(&view, None).snapshot().unwrap_err();
        assert_eq!(refused.kind(), fathom_errors::Kind::Unsupported);
        assert!(refused.to_string().contains("iostat -d"), "{refused}");
        let devices = IostatSampler::open(&view, None).with_cpu(false).snapshot().unwrap();
        assert_eq!(devices.lines.len(), 1);
    }

    #[test]
    fn hidden_devices_have_a_note() {
        let root = tempfile::TempDir::new().unwrap();
        for folder in ["proc", "sys/block/vda"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("proc/stat"), "cpu  1 0 1 1\n").unwrap();
        std::fs::write(root.path().join("proc/diskstats"), "").unwrap();
        let view = View::snapshot(root.path()).unwrap();
        let note = || {
            let mut sampler = IostatSampler::open(&view, None);
            let first = sampler.snapshot().unwrap();
            (first.lines.len(), sampler.note(&first).unwrap())
        };
        let (count, hidden) = note();
        assert!(
            count == 0 && hidden.contains("hides the block devices") && hidden.contains("still work"),
            "{hidden}"
        );
        std::fs::remove_file(root.path().join("proc/diskstats")).unwrap();
        assert_eq!(note().1, hidden, "a missing file is the same");
        std::fs::write(root.path().join("sys/block/vda/stat"), "4 0 8 1 0 0 0 0 0 1 1\n").unwrap();
        let (count, from_sysfs) = note();
        assert!(count == 1 && from_sysfs.contains("counters are read from /sys/block"), "{from_sysfs}");
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
