//! The control groups of a process and the caps they put on it: configured limits that look like a slow disk.
//!
//! A process is in one group per hierarchy: one of version 2, and on older or mixed systems several of version 1
//! (cgroups(7)). In version 2 every ancestor's `io.max` binds as well, so the walk continues up to the mount's root. In
//! version 1 throttling is flat: the kernel links a group's throttle to its parent's only in version 2
//! (torvalds/linux:block/blk-throttle.c `throtl_pd_init`), so an ancestor's `blkio.throttle` file does not bind the groups
//! below and is not reported. Caps are set on whole disks and on dm or md devices, never on partitions: ask for every
//! layer under a file. This module changes nothing.

use std::path::{Component, Path, PathBuf};

use crate::{DeviceNumber, View};

/// The resource that a cap limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// Read requests a second.
    ReadIops,
    /// Write requests a second.
    WriteIops,
    /// Bytes read per second.
    ReadBytes,
    /// Bytes written per second.
    WriteBytes,
}

impl LimitKind {
    /// A name for records and messages.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::ReadIops => "read_iops",
            LimitKind::WriteIops => "write_iops",
            LimitKind::ReadBytes => "read_bytes_per_s",
            LimitKind::WriteBytes => "write_bytes_per_s",
        }
    }

    fn is_of_writes(self) -> bool {
        matches!(self, LimitKind::WriteIops | LimitKind::WriteBytes)
    }

    fn is_of_bytes(self) -> bool {
        matches!(self, LimitKind::ReadBytes | LimitKind::WriteBytes)
    }

    /// The file of version 1 that counts the I/O that passed the throttle.
    fn version_1_counts(self) -> &'static str {
        if self.is_of_bytes() { "blkio.throttle.io_service_bytes" } else { "blkio.throttle.io_serviced" }
    }
}

/// A cap on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub kind: LimitKind,
    /// The limit per second.
    pub value: u64,
    /// The file that sets it, as an absolute path.
    pub file: String,
    /// The group's use since it was made, by its own counters: the throttle charges requests before the kernel merges them, with flushes
    /// and discards among the writes. `None` if that cannot be read.
    pub counted: Option<u64>,
}

/// A limit on a group's memory, including its pages in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The memory that it may use.
    pub max_bytes: u64,
    /// Bytes in use, or `None` if they cannot be read.
    pub used_bytes: Option<u64>,
}

/// A limit on the processors of a group, and the group's use of it since it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuQuota {
    /// The number of processors that it may use: 1.5 is one and a half.
    pub processors: f64,
    /// Processor time used, in microseconds; `None` if this group does not count it.
    pub used_us: Option<u64>,
    /// Periods in which a thread of the group wanted to run, and those of them in which the quota was used up (`nr_periods`, `nr_throttled`).
    pub periods: Option<(u64, u64)>,
}

/// The file that sets a quota, as an absolute path, and its text: `6000 100000`, or `6000` in version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaSetting {
    pub file: String,
    pub text: String,
}

/// One hierarchy that a process is in: the folder of its group's files, and the mount above it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupFolder {
    /// Folder of the group in a [`View`], without a leading slash.
    folder: PathBuf,
    /// Folder of the topmost group that can be seen.
    top: PathBuf,
}

impl GroupFolder {
    /// The group and its ancestors, innermost first.
    fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top))
    }
}

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of this hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// The group's path in the hierarchy, beginning with `/`.
    pub path: String,
}

/// Parses `/proc/PID/cgroup`; a line that does not follow the grammar is passed over.
pub fn parse_membership(text: &str) -> Vec<Membership> {
    let parse = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        path.starts_with('/').then(|| Membership { controllers, path: path.to_owned() })
    };
    text.lines().filter_map(parse).collect()
}

#[derive(Clone, Debug)]
struct Hierarchy {
    version_2: bool,
    options: Vec<String>,
    /// The group of the hierarchy that is mounted: `/`, or a container's own group.
    root: String,
    mount_point: PathBuf,
}

fn parse_hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let fs_type = right.next()?;
        if !matches!(fs_type, "cgroup" | "cgroup2") {
            return None;
        }
        let options = right.nth(1).unwrap_or("").split(',').map(str::to_owned).collect();
        let mut left = left.split(' ').skip(3);
        let root = left.next()?.to_owned();
        let mount_point = PathBuf::from(left.next()?.trim_start_matches('/'));
        Some(Hierarchy { version_2: fs_type == "cgroup2", options, root, mount_point })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// The control groups that one process is in.
#[derive(Clone, Debug)]
pub struct Cgroups {
    view: View,
    memberships: Vec<Membership>,
    hierarchies: Vec<Hierarchy>,
}

impl Cgroups {
    /// The groups of a process, or of this one. A machine without control groups gives an empty answer, and so
    /// does a process that has ended.
    pub fn read(view: &View, pid: Option<u32>) -> Self {
        let pid = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let memberships = view.text(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        let mountinfo = view.text("proc/self/mountinfo").unwrap_or_default();
        Cgroups {
            view: view.clone(),
            memberships: parse_membership(&memberships),
            hierarchies: parse_hierarchies(&mountinfo),
        }
    }

    /// Every hierarchy's membership, as the kernel lists them.
    pub fn memberships(&self) -> &[Membership] {
        &self.memberships
    }

    /// The absolute path of the version 2 group, if version 2 is mounted.
    pub fn unified_folder(&self) -> Option<PathBuf> {
        Some(Path::new("/").join(self.unified()?.folder))
    }

    /// The absolute path of the version 1 group of `controller` (`blkio`), if that is mounted.
    pub fn controller_folder(&self, controller: &str) -> Option<PathBuf> {
        Some(Path::new("/").join(self.version_1(controller)?.folder))
    }

    /// Every cap on the device's reads and writes that binds this process, smallest of each kind first.
    pub fn io_limits(&self, device: DeviceNumber) -> Vec<Limit> {
        let mut limits = Vec::new();
        for folder in self.unified().iter().flat_map(GroupFolder::upwards) {
            let file = folder.join("io.max");
            let text = self.text(&file).unwrap_or_default();
            let found = parse_io_max(&text, device);
            let counted = match found.is_empty() {
                true => None,
                false => self.text(&folder.join("io.stat")),
            };
            let counted = |kind| parse_io_stat(counted.as_deref()?, device, kind);
            limits.extend(found.into_iter().map(|(kind, value)| limit(kind, value, &file, counted(kind))));
        }
        if let Some(own) = self.version_1("blkio") {
            for (kind, name) in THROTTLES {
                let file = own.folder.join(name);
                let text = self.text(&file).unwrap_or_default();
                let Some(value) = parse_throttle(&text, device) else { continue };
                let counts = self.text(&own.folder.join(kind.version_1_counts()));
                let counted = counts.and_then(|text| parse_serviced(&text, device, *kind));
                limits.push(limit(*kind, value, &file, counted));
            }
        }
        limits.sort_by_key(|limit| (limit.kind, limit.value));
        limits
    }

    /// The least memory, in bytes, that this group or one above it may use; `None` without a limit.
    pub fn memory_max_bytes(&self) -> Option<u64> {
        self.memory_limit().map(|limit| limit.max_bytes)
    }

    /// The smallest limit of memory of this group or one above it; `None` without a limit.
    pub fn memory_limit(&self) -> Option<MemoryLimit> {
        let unified = self.unified();
        let version_1 = self.version_1("memory");
        let new = unified
            .iter()
            .flat_map(GroupFolder::upwards)
            .map(|folder| (folder, "memory.max", "memory.current"));
        let old = version_1.iter().flat_map(GroupFolder::upwards);
        let old = old.map(|folder| (folder, "memory.limit_in_bytes", "memory.usage_in_bytes"));
        let number = |file: &Path| self.text(file)?.trim().parse::<u64>().ok();
        // Version 1 writes "no limit" as the largest multiple of a page, so values from 2^62 on are no limit.
        let limits = new.chain(old).filter_map(|(folder, max, used)| {
            let max_bytes = number(&folder.join(max)).filter(|max| *max < 1 << 62)?;
            Some((max_bytes, folder.join(used)))
        });
        let (max_bytes, used) = limits.min_by_key(|(max_bytes, _)| *max_bytes)?;
        Some(MemoryLimit { max_bytes, used_bytes: number(&used) })
    }

    /// The least CPU quota of this group or one above it, in CPUs (1.5 = one and a half); `None` without a quota.
    pub fn cpu_max(&self) -> Option<f64> {
        self.least_cpu_quota().map(|(processors, _)| processors)
    }

    /// The same with the use of the group that has it; of equal quotas, that of the innermost group.
    pub fn cpu_quota(&self) -> Option<CpuQuota> {
        let (processors, file) = self.least_cpu_quota()?;
        let folder = file.parent()?;
        let stat = self.text(&folder.join("cpu.stat")).unwrap_or_default();
        let field = |name| field_of(&stat, name);
        Some(CpuQuota {
            processors,
            used_us: field("usage_usec").or_else(|| self.used_us_by_version_1(folder)),
            periods: field("nr_periods").zip(field("nr_throttled")),
        })
    }

    /// The setting of the least quota.
    pub fn cpu_quota_setting(&self) -> Option<QuotaSetting> {
        let (_, file) = self.least_cpu_quota()?;
        let text = self.text(&file)?.trim().to_owned();
        Some(QuotaSetting { file: format!("/{}", file.display()), text })
    }

    /// The least quota, and the file that sets it.
    fn least_cpu_quota(&self) -> Option<(f64, PathBuf)> {
        let unified = self.unified();
        let version_1 = self.version_1("cpu");
        let new = unified.iter().flat_map(GroupFolder::upwards).filter_map(|folder| {
            let file = folder.join("cpu.max");
            let text = self.text(&file)?;
            let (quota, period) = text.trim().split_once(' ')?;
            Some((quotient(quota, period)?, file))
        });
        let old = version_1.iter().flat_map(GroupFolder::upwards).filter_map(|folder| {
            let file = folder.join("cpu.cfs_quota_us");
            let period = self.text(&folder.join("cpu.cfs_period_us"))?;
            Some((quotient(self.text(&file)?.trim(), period.trim())?, file))
        });
        new.chain(old).min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// The processor time of a group of version 1. `cpuacct` counts it, and its group is the same only if both controllers are mounted together.
    fn used_us_by_version_1(&self, folder: &Path) -> Option<u64> {
        let accounts = self.version_1("cpuacct")?;
        let is_together = accounts.top == self.version_1("cpu")?.top;
        let text = self.text(&folder.join("cpuacct.usage")).filter(|_| is_together)?;
        text.trim().parse::<u64>().ok().map(|ns| ns / 1000)
    }

    /// The time for which the processor quota throttled this group, or the ancestor throttled longest, since the group was made, in microseconds:
    /// `cpu.stat`, whose `throttled_usec` is `throttled_time` in nanoseconds in version 1. `None` if no quota is set or nothing counts.
    pub fn cpu_throttled_us(&self) -> Option<u64> {
        self.cpu_max()?;
        let unified = self.unified();
        let version_1 = self.version_1("cpu");
        let new = unified.iter().flat_map(GroupFolder::upwards);
        let old = version_1.iter().flat_map(GroupFolder::upwards);
        let texts = new.chain(old).filter_map(|folder| self.text(&folder.join("cpu.stat")));
        // Nested groups may be throttled at the same time, so their times are not added up.
        texts.filter_map(|text| parse_throttled_us(&text)).max()
    }

    fn unified(&self) -> Option<GroupFolder> {
        let path = &self.memberships.iter().find(|membership| membership.controllers.is_empty())?.path;
        self.hierarchies
            .iter()
            .filter(|hierarchy| hierarchy.version_2)
            .find_map(|hierarchy| place(hierarchy, path))
    }

    fn version_1(&self, controller: &str) -> Option<GroupFolder> {
        let has = |names: &[String]| names.iter().any(|name| name == controller);
        let path = &self.memberships.iter().find(|membership| has(&membership.controllers))?.path;
        let mut mounted = self.hierarchies.iter().filter(|one| !one.version_2 && has(&one.options));
        mounted.find_map(|hierarchy| place(hierarchy, path))
    }

    fn text(&self, file: &Path) -> Option<String> {
        self.view.text(file.to_str()?)
    }
}

/// The folder of a group's files, if the mount shows it. A path with `..` is outside our namespace's root.
fn place(hierarchy: &Hierarchy, path: &str) -> Option<GroupFolder> {
    let below = Path::new(path).strip_prefix(&hierarchy.root).ok()?;
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return None;
    }
    Some(GroupFolder { folder: hierarchy.mount_point.join(below), top: hierarchy.mount_point.clone() })
}

fn limit(kind: LimitKind, value: u64, file: &Path, counted: Option<u64>) -> Limit {
    Limit { kind, value, file: format!("/{}", file.display()), counted }
}

const THROTTLES: &[(LimitKind, &str)] = &[
    (LimitKind::ReadIops, "blkio.throttle.read_iops_device"),
    (LimitKind::WriteIops, "blkio.throttle.write_iops_device"),
    (LimitKind::ReadBytes, "blkio.throttle.read_bps_device"),
    (LimitKind::WriteBytes, "blkio.throttle.write_bps_device"),
];

/// A line of `io.max`: `8:16 rbps=max wbps=1048576 riops=max wiops=120`.
fn parse_io_max(text: &str, device: DeviceNumber) -> Vec<(LimitKind, u64)> {
    let words = lines_of(text, device).flat_map(str::split_ascii_whitespace);
    let parse = |word: &str| {
        let (key, value) = word.split_once('=')?;
        let kind = match key {
            "riops" => LimitKind::ReadIops,
            "wiops" => LimitKind::WriteIops,
            "rbps" => LimitKind::ReadBytes,
            "wbps" => LimitKind::WriteBytes,
            _ => return None,
        };
        Some((kind, value.parse().ok()?))
    };
    words.filter_map(parse).collect()
}

/// A line of `blkio.throttle.*_device`: `8:16 120`.
fn parse_throttle(text: &str, device: DeviceNumber) -> Option<u64> {
    lines_of(text, device).find_map(|rest| rest.trim().parse().ok())
}

/// A line of `io.stat`: `8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`. The throttle charges discards as writes
/// (torvalds/linux:block/blk-throttle.c, `bio_data_dir`).
fn parse_io_stat(text: &str, device: DeviceNumber, kind: LimitKind) -> Option<u64> {
    let keys: &[&str] = match kind {
        LimitKind::ReadIops => &["rios"],
        LimitKind::WriteIops => &["wios", "dios"],
        LimitKind::ReadBytes => &["rbytes"],
        LimitKind::WriteBytes => &["wbytes", "dbytes"],
    };
    let words = lines_of(text, device).flat_map(str::split_ascii_whitespace);
    let counts = words.filter_map(|word| word.split_once('=')).filter(|(key, _)| keys.contains(key));
    sum_of(counts.map(|(_, count)| count))
}

/// Lines of `blkio.throttle.io_serviced`: `8:16 Read 12`, `8:16 Write 34`, `8:16 Discard 5`.
fn parse_serviced(text: &str, device: DeviceNumber, kind: LimitKind) -> Option<u64> {
    let keys: &[&str] = if kind.is_of_writes() { &["Write", "Discard"] } else { &["Read"] };
    let counts = lines_of(text, device).filter_map(|rest| rest.trim().split_once(' '));
    sum_of(counts.filter(|(key, _)| keys.contains(key)).map(|(_, count)| count))
}

/// The time in `cpu.stat` of either version, in microseconds.
fn parse_throttled_us(text: &str) -> Option<u64> {
    field_of(text, "throttled_usec").or_else(|| Some(field_of(text, "throttled_time")? / 1000))
}

/// The number behind a name in a file of such lines.
fn field_of(text: &str, name: &str) -> Option<u64> {
    let mut fields = text.lines().filter_map(|line| line.split_once(' '));
    fields.find_map(|(key, value)| if key == name { value.trim().parse().ok() } else { None })
}

/// The sum of numbers; `None` if there are none.
fn sum_of<'t>(numbers: impl Iterator<Item = &'t str>) -> Option<u64> {
    let numbers = numbers.filter_map(|number| number.trim().parse::<u64>().ok());
    numbers.fold(None, |sum, number| Some(sum.unwrap_or(0u64).saturating_add(number)))
}

fn lines_of(text: &str, device: DeviceNumber) -> impl Iterator<Item = &str> {
    text.lines().filter_map(move |line| {
        let (number, rest) = line.split_once(' ')?;
        number.parse().is_ok_and(|number: DeviceNumber| number == device).then_some(rest)
    })
}

fn quotient(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
