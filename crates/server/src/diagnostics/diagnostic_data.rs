//! The command `getDiagnosticData`: one sample of the data that mongod's FTDC collects: `serverStatus`, and the machine in `systemMetrics`
//! (CPU, memory, network, disks and file systems, from `/proc`, proc(5)).
//!
//! mongod answers with the newest sample of its recording; here the sample is taken for the request. The parts that
//! only a member of a set has (`replSetGetStatus`, `local.oplog.rs.stats`) are missing.
//!
//! Names are those of mongod's FTDC: the kernel's, with `_kb`, `_ms` for the units. Values that cannot be read are left out.

use std::path::Path;

use bson::{DateTime, RawDocument};
use fathom_host::{Mounts, View, diskstats};
use fathom_wire::DocumentWriter;

use super::server_status;
use crate::Result;
use crate::instance::Instance;
use crate::stats::output::{counter, number};

pub(crate) fn write(instance: &Instance, writer: &mut DocumentWriter<'_>) -> Result<()> {
    write_sample(instance, &mut writer.begin_document("data"))
}

/// Writes the fields of a sample.
pub(super) fn write_sample(instance: &Instance, data: &mut DocumentWriter<'_>) -> Result<()> {
    data.date_time("start", DateTime::now());
    timed(data, "serverStatus", |part| {
        let everything: &RawDocument = crate::parse::empty();
        server_status::write(instance, everything, part)?;
        part.f64("ok", 1.0);
        Ok(())
    })?;
    timed(data, "systemMetrics", |part| {
        write_system(part);
        Ok(())
    })?;
    data.date_time("end", DateTime::now());
    Ok(())
}

/// Writes one part of the sample between its start and end times.
fn timed(
    writer: &mut DocumentWriter<'_>,
    name: &str,
    write: impl FnOnce(&mut DocumentWriter<'_>) -> Result<()>,
) -> Result<()> {
    let mut part = writer.begin_document(name);
    part.date_time("start", DateTime::now());
    write(&mut part)?;
    part.date_time("end", DateTime::now());
    Ok(())
}

/// The columns of the first line of `/proc/stat`.
const CPU: [&str; 10] = [
    "user_ms",
    "nice_ms",
    "system_ms",
    "idle_ms",
    "iowait_ms",
    "irq_ms",
    "softirq_ms",
    "steal_ms",
    "guest_ms",
    "guest_nice_ms",
];
/// The lines of `/proc/stat` that hold one number.
const CPU_COUNTS: [&str; 5] = ["ctxt", "btime", "processes", "procs_running", "procs_blocked"];
/// The lines of `/proc/meminfo` that mongod records.
const MEMORY: [&str; 22] = [
    "MemTotal",
    "MemFree",
    "Cached",
    "Dirty",
    "Buffers",
    "SwapTotal",
    "SwapFree",
    "Active",
    "Inactive",
    "Active(anon)",
    "Inactive(anon)",
    "Active(file)",
    "Inactive(file)",
    "Mapped",
    "Slab",
    "SReclaimable",
    "SUnreclaim",
    "Writeback",
    "AnonPages",
    "Shmem",
    "CommitLimit",
    "Committed_AS",
];
/// File systems that hold no user data.
const PSEUDO: [&str; 14] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "devtmpfs",
    "mqueue",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "configfs",
    "fusectl",
];

fn write_system(writer: &mut DocumentWriter<'_>) {
    let view = View::live();
    if let Ok(text) = std::fs::read_to_string("/proc/stat") {
        cpu(&text, rustix::param::clock_ticks_per_second(), &mut writer.begin_document("cpu"));
    }
    if let Ok(text) = std::fs::read_to_string("/proc/meminfo") {
        memory(&text, &mut writer.begin_document("memory"));
    }
    let mut netstat = writer.begin_document("netstat");
    for path in ["/proc/net/netstat", "/proc/net/snmp"] {
        if let Ok(text) = std::fs::read_to_string(path) {
            network(&text, &mut netstat);
        }
    }
    netstat.end();
    if let Ok(lines) = diskstats::read(&view) {
        disks(&lines, &mut writer.begin_document("disks"));
    }
    if let Ok(mounts) = Mounts::read(&view) {
        file_systems(&mounts, &mut writer.begin_document("mounts"));
    }
}

fn cpu(text: &str, ticks_per_second: u64, writer: &mut DocumentWriter<'_>) {
    let cores = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    number(writer, "num_cpus", i64::try_from(cores).unwrap_or(0));
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if name == "cpu" {
            for (name, ticks) in CPU.iter().zip(words.filter_map(|word| word.parse::<u64>().ok())) {
                counter(writer, name, ticks.saturating_mul(1000) / ticks_per_second.max(1));
            }
        } else if CPU_COUNTS.contains(&name)
            && let Some(value) = words.next().and_then(|word| word.parse().ok())
        {
            counter(writer, name, value);
        }
    }
}

fn memory(text: &str, writer: &mut DocumentWriter<'_>) {
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let value = rest.split_whitespace().next().and_then(|word| word.parse().ok());
        if let (true, Some(value)) = (MEMORY.contains(&name), value) {
            counter(writer, &format!("{name}_kb"), value);
        }
    }
}

/// Parses two lines for each protocol: the names, and the values below them.
fn network(text: &str, writer: &mut DocumentWriter<'_>) {
    const PROTOCOLS: [&str; 4] = ["TcpExt:", "IpExt:", "Ip:", "Tcp:"];
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let Some(protocol) = names.split_whitespace().next().filter(|name| PROTOCOLS.contains(name)) else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
            if let Ok(value) = value.parse::<i64>() {
                writer.i64(&format!("{protocol}{name}"), value);
            }
        }
    }
}

/// Writes whole disks that were ever used; partitions and unused disks add no information.
fn disks(lines: &[diskstats::Line], writer: &mut DocumentWriter<'_>) {
    for line in lines {
        let counters = &line.counters;
        let whole = Path::new("/sys/block").join(&line.name).exists();
        if !whole || !counters.any_io() {
            continue;
        }
        let mut disk = writer.begin_document(&line.name);
        let fields = [
            ("reads", counters.reads),
            ("reads_merged", counters.read_merges),
            ("read_sectors", counters.read_sectors),
            ("read_time_ms", counters.read_ms),
            ("writes", counters.writes),
            ("writes_merged", counters.write_merges),
            ("write_sectors", counters.write_sectors),
            ("write_time_ms", counters.write_ms),
            ("io_in_progress", counters.in_flight),
            ("io_time_ms", counters.io_ms),
            ("io_queued_ms", counters.weighted_ms),
        ];
        fields.iter().for_each(|(name, value)| counter(&mut disk, name, *value));
    }
}

fn file_systems(mounts: &Mounts, writer: &mut DocumentWriter<'_>) {
    let mut seen: Vec<&Path> = Vec::new();
    for mount in mounts.iter() {
        let place = mount.mount_point.as_path();
        if PSEUDO.contains(&mount.fs_type.as_str()) || seen.contains(&place) {
            continue;
        }
        let (Some(name), Ok(system)) = (place.to_str(), rustix::fs::statvfs(place)) else { continue };
        if system.f_blocks == 0 {
            continue;
        }
        seen.push(place);
        let mut one = writer.begin_document(name);
        counter(&mut one, "capacity", system.f_blocks.saturating_mul(system.f_frsize));
        counter(&mut one, "available", system.f_bavail.saturating_mul(system.f_frsize));
        counter(&mut one, "free", system.f_bfree.saturating_mul(system.f_frsize));
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn written(write: impl FnOnce(&mut DocumentWriter<'_>)) -> Document {
        let mut bytes = Vec::new();
        write(&mut DocumentWriter::new(&mut bytes));
        Document::from_reader(bytes.as_slice()).unwrap()
    }

    #[test]
    fn kernel_tables_are_read() {
        let text = "cpu  10 0 20 300 4 0 0 0 0 0\ncpu0 5 0 1 1\ncpu1 5 0 1 1\nctxt 77\nsoftirq 1 2\n";
        let cpu = written(|writer| cpu(text, 100, writer));
        assert_eq!((cpu.get_i32("num_cpus").unwrap(), cpu.get_i64("iowait_ms").unwrap()), (2, 40));
        assert_eq!((cpu.get_i64("ctxt").unwrap(), cpu.contains_key("softirq")), (77, false));
        let memory = written(|writer| memory("MemTotal:  16 kB\nHugePages_Total: 3\n", writer));
        assert_eq!(memory, doc! { "MemTotal_kb": 16_i64 });
        let network = written(|writer| network("Tcp: A B\nTcp: 1 -1\nUdp: A\nUdp: 9\n", writer));
        assert_eq!(network, doc! { "Tcp:A": 1_i64, "Tcp:B": -1_i64 });
    }
}
