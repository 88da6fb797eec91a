//! Table: every sampler with its period, its source, its cost, and the finding that is lost without it.
//!
//! Units are in `fathom_record::catalog`, by series; a test keeps both in step. The actual cost of a sampler is measured in
//! every run (`monitor.{sampler}.cpu_us`); the class here names only the quantity that it grows with.

use std::time::Duration;

/// The quantity that the cost of one sample grows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// One or two files of fixed length.
    Fixed,
    PerDevice,
    /// The threads of the process watched.
    PerThread,
    /// The processes of the host, while one of them is suspected.
    PerProcess,
    /// A round trip to the server, and the server's work for the reply.
    PerServer,
    /// The requests that the devices serve.
    PerRequest,
}

/// The thread that a sampler shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The thread of samplers that read many times a second.
    Fast,
    /// The thread of samplers that read each second.
    Second,
    /// A separate thread, because the source may make it wait.
    Own,
}

/// One kind of sampler.
#[derive(Clone, Copy, Debug)]
pub struct SamplerRow {
    /// Its name, before the dot if there are several (`process.0`).
    pub name: &'static str,
    /// The period of its readings unless the plan sets another.
    pub period: Duration,
    /// The thread that it runs on.
    pub lane: Lane,
    /// The series it writes, as in the catalog, cut where a family begins.
    pub series: &'static [&'static str],
    /// The source that it reads.
    pub source: &'static str,
    /// The quantity that its cost grows with.
    pub cost: CostClass,
    /// The information that is lost without it, to end the sentence "without it there is …".
    pub without: &'static str,
}

const SECOND: Duration = Duration::from_secs(1);

pub static SAMPLERS: &[SamplerRow] = &[
    SamplerRow {
        name: "devices",
        period: SECOND,
        lane: Lane::Second,
        series: &["device.{device}.reads", "device.{device}.write_ms", "device.{device}.flushes"],
        source: "/proc/diskstats; where it lacks a device, /sys/block/*/stat",
        cost: CostClass::Fixed,
        without: "no share of the device in the mean and no amplification at the disk",
    },
    SamplerRow {
        name: "in_flight",
        period: Duration::from_millis(50),
        lane: Lane::Fast,
        series: &["device.{device}.in_flight"],
        source: "/sys/block/*/inflight",
        cost: CostClass::PerDevice,
        without: "no finding about a queue at its cap, and no audit by Little's law",
    },
    SamplerRow {
        name: "queues",
        period: SECOND,
        lane: Lane::Second,
        series: &["device.{device}.queue.requests", "device.{device}.cap.", "device.{device}.throttle_"],
        source: "/sys/block/*/queue/nr_requests, mq, device/queue_depth; io.max with io.stat, and blkio.throttle, of the process's groups",
        cost: CostClass::PerDevice,
        without: "no finding about a queue at its cap or an IOPS cap",
    },
    SamplerRow {
        name: "pressure",
        period: SECOND,
        lane: Lane::Second,
        series: &["host.pressure."],
        source: "/proc/pressure",
        cost: CostClass::Fixed,
        without: "one witness less that tasks waited for I/O or a processor",
    },
    SamplerRow {
        name: "cpu",
        period: SECOND,
        lane: Lane::Second,
        series: &["host.cpu.", "host.runnable", "host.run_wait_us"],
        source: "/proc/stat, /proc/loadavg, /proc/schedstat",
        cost: CostClass::Fixed,
        without: "no guard against a processor that is short, so no verdict on the disk",
    },
    SamplerRow {
        name: "memory",
        period: SECOND,
        lane: Lane::Second,
        series: &["host.memory."],
        source: "/proc/meminfo",
        cost: CostClass::Fixed,
        without: "no sign of write-back in spikes",
    },
    SamplerRow {
        name: "network",
        period: SECOND,
        lane: Lane::Second,
        series: &["host.network."],
        source: "/proc/net/dev, /proc/net/snmp",
        cost: CostClass::Fixed,
        without: "no sign of a full or lossy network",
    },
    SamplerRow {
        name: "journal",
        period: SECOND,
        lane: Lane::Second,
        series: &["host.journal.{device}."],
        source: "/proc/fs/jbd2, /sys/fs/xfs",
        cost: CostClass::PerDevice,
        without: "no share of the file system's journal in waits and writes",
    },
    SamplerRow {
        name: "process",
        period: SECOND,
        lane: Lane::Second,
        series: &["server.{member}.process."],
        source: "/proc/PID/stat, io, task/*/schedstat; cpu.max and cpu.stat of its control groups",
        cost: CostClass::PerThread,
        without: "no sign that the server's process itself waited for a processor",
    },
    SamplerRow {
        name: "threads",
        period: SECOND,
        lane: Lane::Second,
        series: &[],
        source: "/proc/PID/stat, io; task/*/schedstat, comm, io while the server is busy",
        cost: CostClass::PerThread,
        without: "no connection that is known by its processor time and its reads of the disk",
    },
    SamplerRow {
        name: "top_processes",
        period: Duration::from_secs(5),
        lane: Lane::Second,
        series: &[],
        source: "/proc/stat, /proc/diskstats, /proc/PID/io of the servers; /proc/*/stat and io while processors or a device are busy with others",
        cost: CostClass::PerProcess,
        without: "no name of who takes the processors or the device",
    },
    SamplerRow {
        name: "trace",
        period: Duration::from_millis(100),
        lane: Lane::Own,
        series: &[
            "device.{device}.queued.mean_us",
            "device.{device}.served.mean_us",
            "device.{device}.traced",
        ],
        source: "tracepoints block_bio_queue, block_rq_issue, block_rq_complete through perf_event_open",
        cost: CostClass::PerRequest,
        without: "no split of a device's time into waiting in the kernel and being served",
    },
    SamplerRow {
        name: "server",
        period: SECOND,
        lane: Lane::Own,
        series: &["server.{member}."],
        source: "serverStatus, $collStats, replSetGetStatus, the log",
        cost: CostClass::PerServer,
        without: "no share of the server in the mean",
    },
    SamplerRow {
        name: "watcher",
        period: SECOND,
        lane: Lane::Second,
        series: &["monitor.run_wait_pct", "monitor.throttled_us", "monitor.processors", "monitor.quota."],
        source: "/proc/self/task/*/schedstat of the samplers' threads; cpu.max and cpu.stat of Fathom's groups",
        cost: CostClass::Fixed,
        without: "no guard against samples that were taken late",
    },
];

/// The row of a sampler by its name or by a name under it (`server.0`, `server.0.log`).
pub fn row(name: &str) -> Option<&'static SamplerRow> {
    SAMPLERS
        .iter()
        .find(|row| name.strip_prefix(row.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use fathom_record::catalog::CATALOG;

    use super::*;

    #[test]
    fn every_family_is_in_the_catalog_and_no_name_stands_twice() {
        for (at, one) in SAMPLERS.iter().enumerate() {
            assert!(SAMPLERS[at + 1..].iter().all(|other| other.name != one.name), "{}", one.name);
            for series in one.series {
                assert!(CATALOG.iter().any(|kind| kind.name.starts_with(series)), "{series}");
            }
        }
        assert_eq!(row("server.0.log").map(|row| row.lane), Some(Lane::Own));
        assert!(row("serverless").is_none());
    }
}
