//! Table: the host's metrics of a recording (`systemMetrics`) and the series that they become.

use std::path::Path;

use fathom_host::diskstats::SECTOR_BYTES;

use super::cpu_times::RecordedCpuTimes;

/// Counters of a disk: the field of a recording, the series behind `device.{device}.`, and the factor. The counters of Windows are named rates and
/// shares but are running totals, times in units of 100 ns.
const DISK_FIELDS: [(&str, &str, f64); 13] = [
    ("reads", "reads", 1.0),
    ("read_sectors", "read_bytes", SECTOR_BYTES as f64),
    ("read_time_ms", "read_ms", 1.0),
    ("writes", "writes", 1.0),
    ("write_sectors", "written_bytes", SECTOR_BYTES as f64),
    ("write_time_ms", "write_ms", 1.0),
    ("io_time_ms", "busy_ms", 1.0),
    ("\\PhysicalDisk\\Disk Reads/sec", "reads", 1.0),
    ("\\PhysicalDisk\\Disk Read Bytes/sec", "read_bytes", 1.0),
    ("\\PhysicalDisk\\% Disk Read Time", "read_ms", 1e-4),
    ("\\PhysicalDisk\\Disk Writes/sec", "writes", 1.0),
    ("\\PhysicalDisk\\Disk Write Bytes/sec", "written_bytes", 1.0),
    ("\\PhysicalDisk\\% Disk Write Time", "write_ms", 1e-4),
];
/// Other metrics: the path below `systemMetrics`, the series, and the factor.
const FIELDS: [(&str, &str, f64); 14] = [
    ("cpu.num_cpus", "host.cpu.count", 1.0),
    ("cpu.num_logical_cores", "host.cpu.count", 1.0),
    ("cpu.procs_running", "host.runnable", 1.0),
    ("memory.MemAvailable_kb", "host.memory.available_bytes", 1024.0),
    ("memory.Dirty_kb", "host.memory.dirty_bytes", 1024.0),
    ("memory.Writeback_kb", "host.memory.writeback_bytes", 1024.0),
    ("vmstat.pswpin", "host.swap.in_pages", 1.0),
    ("vmstat.pswpout", "host.swap.out_pages", 1.0),
    ("pressure.cpu.some.totalMicros", "host.pressure.cpu.some_us", 1.0),
    ("pressure.io.some.totalMicros", "host.pressure.io.some_us", 1.0),
    ("pressure.io.full.totalMicros", "host.pressure.io.full_us", 1.0),
    ("pressure.memory.some.totalMicros", "host.pressure.memory.some_us", 1.0),
    ("memory.MemTotal_kb", "host.memory.total_bytes", 1024.0),
    ("memory.\\Memory\\Available Bytes", "host.memory.available_bytes", 1.0),
];

/// The use of a column below `systemMetrics`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostColumn {
    /// A value of a series, times a factor.
    Series(String, f64),
    /// A time of the processors, by its number.
    CpuTime(usize),
    /// A figure of the file system that is mounted at this path.
    Mount(String, MountFigure),
}

/// A figure of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountFigure {
    Capacity,
    Available,
}

impl MountFigure {
    /// The series of a server whose data the file system holds.
    pub(super) fn series(self, member: usize) -> String {
        let name = match self {
            MountFigure::Capacity => "capacity_bytes",
            MountFigure::Available => "available_bytes",
        };
        format!("server.{member}.volume.{name}")
    }
}

/// The mount among `mounts` that holds a path: the longest one that is a prefix of the path, by whole names.
pub(super) fn mount_of<'m>(path: &str, mounts: impl Iterator<Item = &'m str>) -> Option<&'m str> {
    let path = Path::new(path);
    mounts.filter(|mount| path.starts_with(mount)).max_by_key(|mount| mount.len())
}

impl HostColumn {
    /// The use of the column of a path below `systemMetrics`.
    pub(super) fn parse(path: &str) -> Option<HostColumn> {
        if let Some((_, series, factor)) = FIELDS.iter().find(|(field, ..)| *field == path) {
            return Some(HostColumn::Series((*series).to_owned(), *factor));
        }
        let (section, rest) = path.split_once('.')?;
        match section {
            "mounts" => {
                let (mount, field) = rest.rsplit_once('.')?;
                let figure = match field {
                    "capacity" => MountFigure::Capacity,
                    "available" => MountFigure::Available,
                    _ => return None,
                };
                Some(HostColumn::Mount(mount.to_owned(), figure))
            }
            "cpu" => RecordedCpuTimes::number(rest).map(HostColumn::CpuTime),
            "disks" => {
                let (disk, field) = rest.rsplit_once('.')?;
                let (_, series, factor) = DISK_FIELDS.iter().find(|(name, ..)| *name == field)?;
                Some(HostColumn::Series(format!("device.{disk}.{series}"), *factor))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::catalog::kind_of;

    use super::*;

    #[test]
    fn each_series_is_in_the_catalog() {
        let disk = |name: &str| format!("device.sda.{name}");
        let names = FIELDS.iter().map(|(_, series, _)| (*series).to_owned());
        for name in names.chain(DISK_FIELDS.iter().map(|(_, series, _)| disk(series))) {
            assert!(kind_of(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_name_of_a_disk_may_hold_dots() {
        let series = |name: &str, factor| Some(HostColumn::Series(name.to_owned(), factor));
        assert_eq!(HostColumn::parse("disks.a.b.read_sectors"), series("device.a.b.read_bytes", 512.0));
        assert_eq!(HostColumn::parse("memory.Dirty_kb"), series("host.memory.dirty_bytes", 1024.0));
        assert_eq!(HostColumn::parse("cpu.idle_ms"), Some(HostColumn::CpuTime(7)));
        let windows = "disks.0 C: D:.\\PhysicalDisk\\% Disk Read Time";
        assert_eq!(HostColumn::parse(windows), series("device.0 C: D:.read_ms", 1e-4));
        assert_eq!(HostColumn::parse("netstat.Tcp:.InSegs"), None);
        let mount = HostColumn::Mount("/data.new/db".to_owned(), MountFigure::Available);
        assert_eq!(HostColumn::parse("mounts./data.new/db.available"), Some(mount));
        assert_eq!(HostColumn::parse("mounts./data.free"), None);
    }

    #[test]
    fn the_file_system_of_a_path_is_the_one_mounted_next_to_it() {
        let mounts = ["/", "/data", "/data/db2", "/etc/hosts"];
        let of = |path| mount_of(path, mounts.into_iter());
        assert_eq!(
            (of("/data/db"), of("/data/db2/x"), of("/database")),
            (Some("/data"), Some("/data/db2"), Some("/"))
        );
        assert_eq!(mount_of("C:\\data", ["/"].into_iter()), None);
    }
}
