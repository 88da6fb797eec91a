//! The figures of a stretch of a recording: the waits of operations, the disk's work and for whom it was done, and the free processors.

use super::bins::Bins;
use super::signals::SIGNALS;

/// The most bytes that a device reads for one block that the engine reads (the kernel's default readahead).
const READAHEAD_BYTES: f64 = 131_072.0;

/// Means over some bins of one server's recording. A figure that was not recorded is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    /// The mean time of an operation within the server, in microseconds.
    pub(super) operation_us: f64,
    pub(super) operations_per_s: f64,
    /// The number of clients' connections.
    pub(super) connections: Option<f64>,
    /// The mean of each signal in microseconds, in the order of [`SIGNALS`].
    pub(super) signals_us: Vec<Option<f64>>,
    /// Waits of the mean operation in microseconds, by their layer.
    pub(super) waits_us: Vec<(WaitLayer, f64)>,
    pub(super) disk: Option<DiskFigures>,
    /// Processors that did nothing, or waited for a device, in percent.
    pub(super) idle_pct: Option<f64>,
    /// Runnable tasks for each processor.
    pub(super) runnable: Option<f64>,
    /// Pages read from and written to swap, a second.
    pub(super) swap_per_s: Option<f64>,
}

/// A wait that servers sum over their operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitLayer {
    PageRead,
    Cache,
    Ticket,
    Lock,
    FlowControl,
    Replication,
    Journal,
    /// The wait that no counter explains.
    Rest,
}

impl WaitLayer {
    /// What operations wait for in it.
    pub(super) fn words(self) -> &'static str {
        match self {
            WaitLayer::PageRead => "pages",
            WaitLayer::Cache => "room in the cache",
            WaitLayer::Ticket => "a ticket",
            WaitLayer::Lock => "a lock",
            WaitLayer::FlowControl => "flow control",
            WaitLayer::Replication => "other members",
            WaitLayer::Journal => "the journal",
            WaitLayer::Rest => "processors, or what no counter tells",
        }
    }
}

/// A disk, and the owners of its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskFigures {
    pub(super) requests_per_s: f64,
    /// Mean time of a request, in microseconds.
    pub(super) await_us: f64,
    /// Requests within the disk, by Little's law.
    pub(super) in_flight: f64,
    pub(super) bytes_per_s: f64,
    /// Bytes a second that are not the engine's.
    pub(super) others_bytes_per_s: f64,
}

const WAITS: [(WaitLayer, &[&str]); 7] = [
    (WaitLayer::PageRead, &["wait.page_read_us", "wait.page_write_us"]),
    (WaitLayer::Cache, &["wait.evict_us", "wait.cache_us"]),
    (WaitLayer::Ticket, &["wait.ticket_us"]),
    (WaitLayer::Lock, &["wait.lock_us"]),
    (WaitLayer::FlowControl, &["wait.flow_control_us"]),
    (WaitLayer::Replication, &["wait.replication_us"]),
    (WaitLayer::Journal, &["wait.journal_us"]),
];

impl Stretch {
    /// The figures of some bins.
    pub(super) fn from_bins(bins: &Bins, member: usize, disk: Option<&str>, over: &[usize]) -> Stretch {
        let name = |series: &str| format!("server.{member}.{series}");
        let kinds = |last: &str| ["reads", "writes"].map(|kind| name(&format!("{kind}.{last}")));
        let operations = bins.sum_of(&kinds("operations"), over).unwrap_or(0.0);
        let time_us = bins.sum_of(&kinds("latency_us"), over).unwrap_or(0.0);
        let per_operation = |us: f64| if operations > 0.0 { us / operations } else { 0.0 };
        let operation_us = per_operation(time_us);
        let mut waits_us: Vec<(WaitLayer, f64)> = WAITS
            .iter()
            .filter_map(|(layer, series)| {
                let sums = series.iter().filter_map(|series| bins.sum(&name(series), over));
                // Time waiting for room in the cache includes the time evicting, if both are counted.
                let us = match layer {
                    WaitLayer::Cache => sums.reduce(f64::max),
                    _ => sums.reduce(|one, other| one + other),
                };
                Some((*layer, per_operation(us?)))
            })
            .collect();
        let counted: f64 = waits_us.iter().map(|(_, us)| us).sum();
        waits_us.push((WaitLayer::Rest, (operation_us - counted).max(0.0)));
        let idle_pct = bins
            .rate("host.cpu.idle_pct", over)
            .map(|idle| idle + bins.rate("host.cpu.iowait_pct", over).unwrap_or(0.0));
        let processors = bins.rate("host.cpu.count", over);
        let swap =
            ["host.swap.in_pages", "host.swap.out_pages"].iter().filter_map(|name| bins.rate(name, over));
        Stretch {
            operation_us,
            operations_per_s: kinds("operations").iter().filter_map(|name| bins.rate(name, over)).sum(),
            connections: bins.rate(&name("connections.current"), over),
            signals_us: SIGNALS
                .iter()
                .map(|signal| signal.mean_us(bins, member, over).map(|(us, _)| us))
                .collect(),
            waits_us,
            disk: disk.and_then(|disk| DiskFigures::from_bins(bins, member, disk, over)),
            idle_pct,
            runnable: bins
                .rate("host.runnable", over)
                .zip(processors)
                .map(|(runnable, processors)| runnable / processors.max(1.0)),
            swap_per_s: swap.reduce(|one, other| one + other),
        }
    }

    /// The wait of the mean operation in a layer, in microseconds.
    pub(super) fn wait_us(&self, layer: WaitLayer) -> Option<f64> {
        self.waits_us.iter().find(|(one, _)| *one == layer).map(|(_, us)| *us)
    }
}

impl DiskFigures {
    fn from_bins(bins: &Bins, member: usize, disk: &str, over: &[usize]) -> Option<DiskFigures> {
        let rate = |name: &str| bins.rate(&format!("device.{disk}.{name}"), over);
        let server = |name: &str| bins.rate(&format!("server.{member}.{name}"), over).unwrap_or(0.0);
        let (reads, writes) = (rate("reads")?, rate("writes")?);
        let time_ms = rate("read_ms").unwrap_or(0.0) + rate("write_ms").unwrap_or(0.0);
        let requests = reads + writes;
        let (read, written) = (rate("read_bytes")?, rate("written_bytes")?);
        let own_read = server("engine.read_bytes").max(server("engine.reads") * READAHEAD_BYTES);
        let own_written = server("engine.written_bytes") + server("journal.written_bytes");
        Some(DiskFigures {
            requests_per_s: requests,
            await_us: if requests > 0.0 { time_ms * 1e3 / requests } else { 0.0 },
            in_flight: time_ms / 1e3,
            bytes_per_s: read + written,
            others_bytes_per_s: (read - own_read).max(0.0) + (written - own_written).max(0.0),
        })
    }
}
