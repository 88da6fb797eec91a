//! Table: the charts over time, the series that each shows, and the method of its computation.
//!
//! For the load's client there is a chart of each load's rates and one of its latencies, with a line for each
//! kind of operation.

use std::collections::BTreeMap;

use fathom_record::{Point, Series, SeriesSet, read_together};

use super::chart::{ChartPlan, TimeGrid, whole_windows};

/// The subjects that get a chart each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PanelScope {
    /// The run as a whole: names without braces.
    Run,
    /// Each server: `{}` is its number.
    Servers,
    /// Each device: `{}` is its name.
    Devices,
}

/// The content of a line.
#[derive(Clone, Copy, Debug)]
enum LineContent {
    /// A sum per second, times a factor.
    Rate(&'static str, f64),
    /// The readings, times a factor.
    Read(&'static str, f64),
    /// One series divided by another of the same readings, times a factor.
    Over(&'static str, &'static str, f64),
}

struct Panel {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    of: PanelScope,
    is_log: bool,
    lines: &'static [(&'static str, LineContent)],
    how: &'static str,
}

const MIB: f64 = 1.0 / 1_048_576.0;

static PANELS: &[Panel] = &[
    Panel {
        id: "server-latency",
        title: "Mean time of an operation in the server",
        unit: "µs",
        of: PanelScope::Servers,
        is_log: true,
        lines: &[
            ("reads", LineContent::Over("server.{}.reads.latency_us", "server.{}.reads.operations", 1.0)),
            ("writes", LineContent::Over("server.{}.writes.latency_us", "server.{}.writes.operations", 1.0)),
            (
                "commands",
                LineContent::Over("server.{}.commands.latency_us", "server.{}.commands.operations", 1.0),
            ),
        ],
        how: "Time that opLatencies grew by, over the operations that it grew by, reading by reading.",
    },
    Panel {
        id: "server-operations",
        title: "Operations in the server",
        unit: "1/s",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("reads", LineContent::Rate("server.{}.reads.operations", 1.0)),
            ("writes", LineContent::Rate("server.{}.writes.operations", 1.0)),
            ("commands", LineContent::Rate("server.{}.commands.operations", 1.0)),
        ],
        how: "What opLatencies counted, per second.",
    },
    Panel {
        id: "cache",
        title: "The engine's cache",
        unit: "%",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("used", LineContent::Over("server.{}.cache.used_bytes", "server.{}.cache.most_bytes", 100.0)),
            ("dirty", LineContent::Over("server.{}.cache.dirty_bytes", "server.{}.cache.most_bytes", 100.0)),
        ],
        how: "Bytes in the cache, and dirty ones, over its configured size. Eviction begins at 80 % used or 5 % dirty by default; \
              operations must help at 95 % and 20 %.",
    },
    Panel {
        id: "waits",
        title: "What operations waited for inside the engine",
        unit: "ms/s",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("pages from disk", LineContent::Rate("server.{}.wait.page_read_us", 1e-3)),
            ("eviction", LineContent::Rate("server.{}.wait.evict_us", 1e-3)),
            ("room in the cache", LineContent::Rate("server.{}.wait.cache_us", 1e-3)),
            ("tickets", LineContent::Rate("server.{}.wait.ticket_us", 1e-3)),
            ("locks", LineContent::Rate("server.{}.wait.lock_us", 1e-3)),
            ("journal's syncs", LineContent::Rate("server.{}.journal.sync_us", 1e-3)),
        ],
        how: "Microseconds that the server's counters grew by, per second: 1000 ms/s is one operation waiting all the time.",
    },
    Panel {
        id: "checkpoints",
        title: "Checkpoints and the journal",
        unit: "MiB/s",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("written by the engine", LineContent::Rate("server.{}.engine.written_bytes", MIB)),
            ("of it by checkpoints", LineContent::Rate("server.{}.engine.checkpoint_bytes", MIB)),
            ("journal", LineContent::Rate("server.{}.journal.written_bytes", MIB)),
            ("compaction", LineContent::Rate("server.{}.compaction.written_bytes", MIB)),
        ],
        how: "Bytes that the engine's counters grew by, per second. Bands: a checkpoint ran.",
    },
    Panel {
        id: "tickets",
        title: "Tickets in use",
        unit: "tickets",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("read", LineContent::Read("server.{}.tickets.read.out", 1.0)),
            ("write", LineContent::Read("server.{}.tickets.write.out", 1.0)),
        ],
        how: "As the server said at each reading; what happens between readings is not seen.",
    },
    Panel {
        id: "replication",
        title: "Replication: lag, and what a write waits for members",
        unit: "ms",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("lag", LineContent::Read("server.{}.replication.lag_ms", 1.0)),
            (
                "wait for the majority",
                LineContent::Over("server.{}.wait.replication_us", "server.{}.replication.waits", 1e-3),
            ),
            (
                "flow control",
                LineContent::Over("server.{}.wait.flow_control_us", "server.{}.writes.operations", 1e-3),
            ),
        ],
        how: "Lag: the age of the oldest write that this member's journal lacks, as the primary knew it, or from heartbeats if it does \
              not report it. On a primary: the time that write concerns waited divided by their number, and the time that flow control \
              held writes back divided by the number of writes.",
    },
    Panel {
        id: "replication-behind",
        title: "Entries that the member's journal lacks",
        unit: "entries",
        of: PanelScope::Servers,
        is_log: false,
        lines: &[
            ("behind the newest write", LineContent::Read("server.{}.replication.behind", 1.0)),
            ("not yet at the majority", LineContent::Read("server.{}.replication.uncommitted", 1.0)),
        ],
        how: "Read from the primary once a second (serverStatus with repl: 1), all members at one moment.",
    },
    Panel {
        id: "router",
        title: "Mean time of an operation in the router, and of it for shards",
        unit: "µs",
        of: PanelScope::Servers,
        is_log: true,
        lines: &[
            (
                "reads, for shards",
                LineContent::Over("server.{}.reads.shards_us", "server.{}.reads.operations", 1.0),
            ),
            (
                "writes, for shards",
                LineContent::Over("server.{}.writes.shards_us", "server.{}.writes.operations", 1.0),
            ),
        ],
        how: "The time that operations waited for shards, divided by their number, for each reading; their whole time is in the chart of the server.",
    },
    Panel {
        id: "device-time",
        title: "How long the device took for a request",
        unit: "ms",
        of: PanelScope::Devices,
        is_log: true,
        lines: &[
            ("reads", LineContent::Over("device.{}.read_ms", "device.{}.reads", 1.0)),
            ("writes", LineContent::Over("device.{}.write_ms", "device.{}.writes", 1.0)),
            ("flushes", LineContent::Over("device.{}.flush_ms", "device.{}.flushes", 1.0)),
        ],
        how: "Time of requests over their number, by /proc/diskstats: iostat's r_await, w_await and f_await.",
    },
    Panel {
        id: "device-requests",
        title: "Requests to the device",
        unit: "1/s",
        of: PanelScope::Devices,
        is_log: false,
        lines: &[
            ("reads", LineContent::Rate("device.{}.reads", 1.0)),
            ("writes", LineContent::Rate("device.{}.writes", 1.0)),
            ("flushes", LineContent::Rate("device.{}.flushes", 1.0)),
        ],
        how: "Requests completed, per second, by /proc/diskstats; empty flushes are not counted as writes.",
    },
    Panel {
        id: "device-bytes",
        title: "Bytes to and from the device",
        unit: "MiB/s",
        of: PanelScope::Devices,
        is_log: false,
        lines: &[
            ("read", LineContent::Rate("device.{}.read_bytes", MIB)),
            ("written", LineContent::Rate("device.{}.written_bytes", MIB)),
        ],
        how: "Sectors of /proc/diskstats times 512, per second.",
    },
    Panel {
        id: "device-queue",
        title: "Requests in flight on the device",
        unit: "requests",
        of: PanelScope::Devices,
        is_log: false,
        lines: &[
            ("in flight", LineContent::Read("device.{}.in_flight", 1.0)),
            ("room in the queue", LineContent::Read("device.{}.queue.requests", 1.0)),
        ],
        how: "Read from /sys/block/*/inflight twenty times a second; the mean of each step is drawn.",
    },
    Panel {
        id: "processors",
        title: "Processors",
        unit: "%",
        of: PanelScope::Run,
        is_log: false,
        lines: &[
            ("user", LineContent::Read("host.cpu.user_pct", 1.0)),
            ("system", LineContent::Read("host.cpu.system_pct", 1.0)),
            ("waiting for I/O", LineContent::Read("host.cpu.iowait_pct", 1.0)),
            ("taken by the hypervisor", LineContent::Read("host.cpu.steal_pct", 1.0)),
        ],
        how: "Shares of all processors' time, by /proc/stat.",
    },
    Panel {
        id: "pressure",
        title: "Time in which some task waited",
        unit: "%",
        of: PanelScope::Run,
        is_log: false,
        lines: &[
            ("for a device", LineContent::Rate("host.pressure.io.some_us", 1e-4)),
            ("for a processor", LineContent::Rate("host.pressure.cpu.some_us", 1e-4)),
            ("for memory", LineContent::Rate("host.pressure.memory.some_us", 1e-4)),
        ],
        how: "The kernel's pressure stall information (/proc/pressure), as a share of time.",
    },
    Panel {
        id: "memory",
        title: "Memory of the host",
        unit: "MiB",
        of: PanelScope::Run,
        is_log: true,
        lines: &[
            ("available", LineContent::Read("host.memory.available_bytes", MIB)),
            ("dirty", LineContent::Read("host.memory.dirty_bytes", MIB)),
            ("being written back", LineContent::Read("host.memory.writeback_bytes", MIB)),
        ],
        how: "By /proc/meminfo.",
    },
    Panel {
        id: "network",
        title: "Network of the host",
        unit: "MiB/s",
        of: PanelScope::Run,
        is_log: false,
        lines: &[
            ("received", LineContent::Rate("host.network.received_bytes", MIB)),
            ("sent", LineContent::Rate("host.network.sent_bytes", MIB)),
        ],
        how: "By /proc/net/dev, without the loopback.",
    },
];

/// The times of each server's checkpoints, in seconds.
pub(super) type Checkpoints = BTreeMap<String, Vec<(f64, f64)>>;

/// Every chart over time for which the run has series.
pub(super) fn plans(series: &SeriesSet, checkpoints: &Checkpoints, grid: TimeGrid) -> Vec<ChartPlan> {
    let mut bands: Vec<(f64, f64)> = checkpoints.values().flatten().copied().collect();
    bands.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut plans: Vec<ChartPlan> = client_plans(series, grid)
        .into_iter()
        .map(|plan| match bands.is_empty() {
            true => plan,
            false => ChartPlan {
                bands: bands.clone(),
                how: format!("{} Bands: a checkpoint ran.", plan.how),
                ..plan
            },
        })
        .collect();
    for panel in PANELS {
        let (prefix, names) = match panel.of {
            PanelScope::Run => {
                plans.push(plan(panel, None, series, grid));
                continue;
            }
            PanelScope::Servers => ("server.", series.words_after("server.")),
            PanelScope::Devices => ("device.", series.words_after("device.")),
        };
        // A chart for each second word of the names that begin so.
        plans.extend(names.into_iter().map(|name| {
            let bands = (panel.of == PanelScope::Servers).then(|| checkpoints.get(name).cloned()).flatten();
            ChartPlan { bands: bands.unwrap_or_default(), ..plan(panel, Some((prefix, name)), series, grid) }
        }));
    }
    plans
}

fn plan(panel: &Panel, of: Option<(&str, &str)>, series: &SeriesSet, grid: TimeGrid) -> ChartPlan {
    let name = of.map(|(_, name)| name);
    let mut readings = 0;
    let mut lines = Vec::new();
    for (label, shows) in panel.lines {
        let points = points(*shows, name, series);
        readings += points.len();
        lines.push(grid.line(label, points));
    }
    let (id, title) = match of {
        Some((prefix, name)) => (
            format!("{}-{name}", panel.id),
            format!("{}: {} {name}", panel.title, prefix.trim_end_matches('.')),
        ),
        None => (panel.id.to_owned(), panel.title.to_owned()),
    };
    ChartPlan {
        id,
        title,
        unit: panel.unit,
        across: grid.across(),
        lines,
        is_log: panel.is_log,
        readings,
        window: grid.window(),
        how: panel.how.to_owned(),
        bands: Vec::new(),
    }
}

fn points(shows: LineContent, name: Option<&str>, series: &SeriesSet) -> Vec<Point> {
    let of = |pattern: &str| -> &[Point] {
        let full = name.map_or_else(|| pattern.to_owned(), |name| pattern.replace("{}", name));
        series.get(&full).map_or(&[][..], |series: &Series| whole_windows(&series.points))
    };
    match shows {
        LineContent::Read(pattern, factor) => {
            of(pattern).iter().map(|point| Point { value: point.value * factor, ..*point }).collect()
        }
        LineContent::Rate(pattern, factor) => {
            let rate = |point: &Point| Some(Point { value: point.per_s()? * factor, ..*point });
            of(pattern).iter().filter_map(rate).collect()
        }
        LineContent::Over(pattern, below, factor) => {
            let both = read_together(of(pattern), of(below)).filter(|(_, below)| below.value > 0.0);
            both.map(|(point, below)| Point { value: point.value * factor / below.value, ..*point }).collect()
        }
    }
}

const RESPONSE: &str = ".response.mean_ns";
const SERVICE: &str = ".service.mean_ns";
/// Response times that are longer than service times by at most this share are drawn only once.
const MAX_WAIT_SHARE: f64 = 0.01;

/// The contents of a load's chart: its name, the end of its series' names, title, unit, factor, whether the scale is in decades, method.
const SHOWN: [(&str, &str, &str, &str, f64, bool, &str); 4] = [
    (
        "rate",
        ".per_s",
        "Operations of the client",
        "1/s",
        1.0,
        false,
        "Operations that succeeded, per second.",
    ),
    (
        "response-p99",
        ".response.p99_ns",
        "99th percentile of the client's response time",
        "µs",
        1e-3,
        true,
        "Of the operations that ended in a second, from when each was due: what a user waits. Steps longer than a second show the \
         mean of their seconds' percentiles.",
    ),
    (
        "response-mean",
        RESPONSE,
        "Mean response time of the client",
        "µs",
        1e-3,
        true,
        "From when each operation was due: what a user waits.",
    ),
    (
        "service-mean",
        SERVICE,
        "Mean service time of the client",
        "µs",
        1e-3,
        true,
        "From the send: what the network and the server took.",
    ),
];

/// The charts. Empty if no client was recorded.
pub(super) fn client_plans(series: &SeriesSet, grid: TimeGrid) -> Vec<ChartPlan> {
    let mut plans = Vec::new();
    for (id, ending, title, unit, factor, is_log, how) in SHOWN {
        let mut loads: BTreeMap<&str, Vec<(&str, &[Point])>> = BTreeMap::new();
        for (name, one) in series.starting("client.") {
            let Some(operation) = name.strip_suffix(ending) else { continue };
            let (load, operation) = operation.rsplit_once('.').unwrap_or(("", operation));
            if !operation.is_empty() && operation != "failed" {
                loads.entry(load).or_default().push((operation, whole_windows(&one.points)));
            }
        }
        for (load, operations) in loads {
            // A closed loop sends each operation when it is due.
            if ending == SERVICE && operations.iter().all(|one| is_response(series, load, *one)) {
                continue;
            }
            let mut readings = 0;
            let mut lines = Vec::new();
            for (operation, points) in operations {
                readings += points.len();
                let scaled = points.iter().map(|point| Point { value: point.value * factor, ..*point });
                lines.push(grid.line(operation, scaled.collect()));
            }
            let (id, title) = match load {
                "" => (format!("client-{id}"), title.to_owned()),
                load => (format!("client-{id}-{load}"), format!("{title}: {load}")),
            };
            plans.push(ChartPlan {
                id,
                title,
                unit,
                across: grid.across(),
                lines,
                is_log,
                readings,
                window: grid.window(),
                how: how.to_owned(),
                bands: Vec::new(),
            });
        }
    }
    plans
}

/// Whether the service times of an operation are its response times in each reading.
fn is_response(series: &SeriesSet, load: &str, (operation, service): (&str, &[Point])) -> bool {
    let name = if load.is_empty() { operation.to_owned() } else { format!("{load}.{operation}") };
    let response = series.get(&format!("client.{name}{RESPONSE}"));
    let response = response.map_or(&[][..], |response| whole_windows(&response.points));
    let waits_little = |(service, response): (&Point, &Point)| {
        service.end_ns == response.end_ns && response.value <= (1.0 + MAX_WAIT_SHARE) * service.value
    };
    service.len() == response.len() && service.iter().zip(response).all(waits_little)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::chart::Chart;

    #[test]
    fn a_closed_loop_has_one_chart_of_means() {
        let second = 1_000_000_000;
        for (wait_share, ids) in [
            (0.005, &["client-response-mean-a"][..]),
            (0.05, &["client-response-mean-a", "client-service-mean-a"]),
        ] {
            let mut series = SeriesSet::default();
            for at in 0..4 {
                let point = |value| Point { begin_ns: at * second, end_ns: (at + 1) * second, value };
                series.add("client.a.read.service.mean_ns", "ns", point(1e6));
                let wait_ns = if at == 2 { wait_share * 1e6 } else { 0.0 };
                series.add("client.a.read.response.mean_ns", "ns", point(1e6 + wait_ns));
            }
            let plans = client_plans(&series, TimeGrid::until(4 * second));
            assert_eq!(plans.iter().map(|plan| plan.id.as_str()).collect::<Vec<_>>(), ids);
        }
    }

    #[test]
    fn rates_means_and_readings_come_from_their_series() {
        let mut series = SeriesSet::default();
        let second = 1_000_000_000;
        for at in 0..4u64 {
            let point = |value| Point { begin_ns: at * second, end_ns: (at + 1) * second, value };
            series.add("device.sda.reads", "1", point(10.0));
            series.add("device.sda.read_ms", "ms", point(if at == 2 { 0.0 } else { 50.0 }));
            series.add("server.0.tickets.read.out", "1", point(3.0));
        }
        let ran = Checkpoints::from([("0".to_owned(), vec![(1.0, 3.0)])]);
        let plans = plans(&series, &ran, TimeGrid::until(4 * second));
        assert!(
            plans
                .iter()
                .all(|plan| plan.bands.is_empty() || plan.bands == [(1.0, 3.0)] && plan.id.ends_with("-0"))
        );
        let charts: Vec<Chart> = plans.into_iter().filter_map(ChartPlan::draw).collect();
        let chart = |id: &str| charts.iter().find(|chart| chart.id == id).unwrap();
        assert_eq!(chart("device-time-sda").csv, "second,reads (ms)\n1,5\n2,5\n3,0\n4,5");
        assert_eq!(chart("device-requests-sda").csv, "second,reads (1/s)\n1,10\n2,10\n3,10\n4,10");
        assert_eq!(chart("tickets-0").lines, ["read"]);
        assert!(chart("tickets-0").svg.contains("class=\"band\""));
        assert!(charts.iter().all(|chart| chart.id != "memory"), "what has no series has no chart");
    }

    #[test]
    fn every_series_of_the_table_is_in_the_catalog() {
        for panel in PANELS {
            for (_, shows) in panel.lines {
                let names: Vec<&str> = match shows {
                    LineContent::Rate(name, _) | LineContent::Read(name, _) => vec![name],
                    LineContent::Over(above, below, _) => vec![above, below],
                };
                for name in names {
                    assert!(fathom_record::catalog::kind_of(&name.replace("{}", "x")).is_some(), "{name}");
                }
            }
        }
    }
}
