//! Table: the charts over time, what each shows of which series, and how that is computed.
//!
//! Of what the load's client saw, there is a chart of each load's rates and one of its latencies, with a line for each
//! kind of operation.

use std::collections::BTreeMap;

use fathom_record::{Point, Series, SeriesSet, read_together};

use super::chart::{Grid, Plan};
use super::svg::Line;

/// What a chart is drawn for each of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The run as a whole: names without braces.
    Run,
    /// Each server: `{}` is its number.
    Servers,
    /// Each device: `{}` is its name.
    Devices,
}

/// What a line shows.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// A sum per second, times a factor.
    Rate(&'static str, f64),
    /// What was read, times a factor.
    Read(&'static str, f64),
    /// One series over another of the same readings, times a factor.
    Over(&'static str, &'static str, f64),
}

/// One chart.
struct Panel {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    of: Of,
    is_log: bool,
    lines: &'static [(&'static str, Shows)],
    how: &'static str,
}

const MIB: f64 = 1.0 / 1_048_576.0;

static PANELS: &[Panel] = &[
    Panel {
        id: "server-latency",
        title: "Mean time of an operation in the server",
        unit: "µs",
        of: Of::Servers,
        is_log: true,
        lines: &[
            ("reads", Shows::Over("server.{}.reads.latency_us", "server.{}.reads.operations", 1.0)),
            ("writes", Shows::Over("server.{}.writes.latency_us", "server.{}.writes.operations", 1.0)),
            ("commands", Shows::Over("server.{}.commands.latency_us", "server.{}.commands.operations", 1.0)),
        ],
        how: "Time that opLatencies grew by, over the operations that it grew by, reading by reading.",
    },
    Panel {
        id: "server-operations",
        title: "Operations in the server",
        unit: "1/s",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("reads", Shows::Rate("server.{}.reads.operations", 1.0)),
            ("writes", Shows::Rate("server.{}.writes.operations", 1.0)),
            ("commands", Shows::Rate("server.{}.commands.operations", 1.0)),
        ],
        how: "What opLatencies counted, per second.",
    },
    Panel {
        id: "cache",
        title: "The engine's cache",
        unit: "%",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("used", Shows::Over("server.{}.cache.used_bytes", "server.{}.cache.most_bytes", 100.0)),
            ("dirty", Shows::Over("server.{}.cache.dirty_bytes", "server.{}.cache.most_bytes", 100.0)),
        ],
        how: "Bytes in the cache, and dirty ones, over its configured size. Eviction begins at 80 % used or 5 % dirty by default; \
              operations must help at 95 % and 20 %.",
    },
    Panel {
        id: "waits",
        title: "What operations waited for inside the engine",
        unit: "ms/s",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("pages from disk", Shows::Rate("server.{}.wait.page_read_us", 1e-3)),
            ("eviction", Shows::Rate("server.{}.wait.evict_us", 1e-3)),
            ("room in the cache", Shows::Rate("server.{}.wait.cache_us", 1e-3)),
            ("tickets", Shows::Rate("server.{}.wait.ticket_us", 1e-3)),
            ("locks", Shows::Rate("server.{}.wait.lock_us", 1e-3)),
            ("journal's syncs", Shows::Rate("server.{}.journal.sync_us", 1e-3)),
        ],
        how: "Microseconds that the server's counters grew by, per second: 1000 ms/s is one operation waiting all the time.",
    },
    Panel {
        id: "checkpoints",
        title: "Checkpoints and the journal",
        unit: "MiB/s",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("written by the engine", Shows::Rate("server.{}.engine.written_bytes", MIB)),
            ("of it by checkpoints", Shows::Rate("server.{}.engine.checkpoint_bytes", MIB)),
            ("journal", Shows::Rate("server.{}.journal.written_bytes", MIB)),
            ("compaction", Shows::Rate("server.{}.compaction.written_bytes", MIB)),
        ],
        how: "Bytes that the engine's counters grew by, per second. Bands: a checkpoint ran.",
    },
    Panel {
        id: "tickets",
        title: "Tickets in use",
        unit: "tickets",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("read", Shows::Read("server.{}.tickets.read.out", 1.0)),
            ("write", Shows::Read("server.{}.tickets.write.out", 1.0)),
        ],
        how: "As the server said at each reading; what happens between readings is not seen.",
    },
    Panel {
        id: "replication",
        title: "Replication: lag, and what a write waits for members",
        unit: "ms",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("lag", Shows::Read("server.{}.replication.lag_ms", 1.0)),
            (
                "wait for the majority",
                Shows::Over("server.{}.wait.replication_us", "server.{}.replication.waits", 1e-3),
            ),
            (
                "flow control",
                Shows::Over("server.{}.wait.flow_control_us", "server.{}.writes.operations", 1e-3),
            ),
        ],
        how: "Lag: how old the oldest write is that this member's journal lacks, as the primary knew it, or by heartbeats where it does \
              not tell. Of a primary: time that write concerns waited over their number, and time that flow control held writes back \
              over writes.",
    },
    Panel {
        id: "replication-behind",
        title: "Entries that the member's journal lacks",
        unit: "entries",
        of: Of::Servers,
        is_log: false,
        lines: &[
            ("behind the newest write", Shows::Read("server.{}.replication.behind", 1.0)),
            ("not yet at the majority", Shows::Read("server.{}.replication.uncommitted", 1.0)),
        ],
        how: "Read from the primary once a second (serverStatus with repl: 1), all members at one moment.",
    },
    Panel {
        id: "router",
        title: "Mean time of an operation in the router, and of it for shards",
        unit: "µs",
        of: Of::Servers,
        is_log: true,
        lines: &[
            (
                "reads, for shards",
                Shows::Over("server.{}.reads.shards_us", "server.{}.reads.operations", 1.0),
            ),
            (
                "writes, for shards",
                Shows::Over("server.{}.writes.shards_us", "server.{}.writes.operations", 1.0),
            ),
        ],
        how: "What operations waited for shards, over their number, reading by reading; their whole time stands in the chart of the server.",
    },
    Panel {
        id: "device-time",
        title: "How long the device took for a request",
        unit: "ms",
        of: Of::Devices,
        is_log: true,
        lines: &[
            ("reads", Shows::Over("device.{}.read_ms", "device.{}.reads", 1.0)),
            ("writes", Shows::Over("device.{}.write_ms", "device.{}.writes", 1.0)),
            ("flushes", Shows::Over("device.{}.flush_ms", "device.{}.flushes", 1.0)),
        ],
        how: "Time of requests over their number, by /proc/diskstats: iostat's r_await, w_await and f_await.",
    },
    Panel {
        id: "device-requests",
        title: "Requests to the device",
        unit: "1/s",
        of: Of::Devices,
        is_log: false,
        lines: &[
            ("reads", Shows::Rate("device.{}.reads", 1.0)),
            ("writes", Shows::Rate("device.{}.writes", 1.0)),
            ("flushes", Shows::Rate("device.{}.flushes", 1.0)),
        ],
        how: "Requests completed, per second, by /proc/diskstats; empty flushes are not counted as writes.",
    },
    Panel {
        id: "device-bytes",
        title: "Bytes to and from the device",
        unit: "MiB/s",
        of: Of::Devices,
        is_log: false,
        lines: &[
            ("read", Shows::Rate("device.{}.read_bytes", MIB)),
            ("written", Shows::Rate("device.{}.written_bytes", MIB)),
        ],
        how: "Sectors of /proc/diskstats times 512, per second.",
    },
    Panel {
        id: "device-queue",
        title: "Requests in flight on the device",
        unit: "requests",
        of: Of::Devices,
        is_log: false,
        lines: &[
            ("in flight", Shows::Read("device.{}.in_flight", 1.0)),
            ("room in the queue", Shows::Read("device.{}.queue.requests", 1.0)),
        ],
        how: "Read from /sys/block/*/inflight twenty times a second; the mean of each step is drawn.",
    },
    Panel {
        id: "processors",
        title: "Processors",
        unit: "%",
        of: Of::Run,
        is_log: false,
        lines: &[
            ("user", Shows::Read("host.cpu.user_pct", 1.0)),
            ("system", Shows::Read("host.cpu.system_pct", 1.0)),
            ("waiting for I/O", Shows::Read("host.cpu.iowait_pct", 1.0)),
            ("taken by the hypervisor", Shows::Read("host.cpu.steal_pct", 1.0)),
        ],
        how: "Shares of all processors' time, by /proc/stat.",
    },
    Panel {
        id: "pressure",
        title: "Time in which some task waited",
        unit: "%",
        of: Of::Run,
        is_log: false,
        lines: &[
            ("for a device", Shows::Rate("host.pressure.io.some_us", 1e-4)),
            ("for a processor", Shows::Rate("host.pressure.cpu.some_us", 1e-4)),
            ("for memory", Shows::Rate("host.pressure.memory.some_us", 1e-4)),
        ],
        how: "The kernel's pressure stall information (/proc/pressure), as a share of time.",
    },
    Panel {
        id: "memory",
        title: "Memory of the host",
        unit: "MiB",
        of: Of::Run,
        is_log: true,
        lines: &[
            ("available", Shows::Read("host.memory.available_bytes", MIB)),
            ("dirty", Shows::Read("host.memory.dirty_bytes", MIB)),
            ("being written back", Shows::Read("host.memory.writeback_bytes", MIB)),
        ],
        how: "By /proc/meminfo.",
    },
    Panel {
        id: "network",
        title: "Network of the host",
        unit: "MiB/s",
        of: Of::Run,
        is_log: false,
        lines: &[
            ("received", Shows::Rate("host.network.received_bytes", MIB)),
            ("sent", Shows::Rate("host.network.sent_bytes", MIB)),
        ],
        how: "By /proc/net/dev, without the loopback.",
    },
];

/// When checkpoints of each server ran, in seconds.
pub(super) type Checkpoints = BTreeMap<String, Vec<(f64, f64)>>;

/// Every chart over time that the run has series for.
pub(super) fn plans(series: &SeriesSet, checkpoints: &Checkpoints, grid: Grid) -> Vec<Plan> {
    let mut plans = client_plans(series, grid);
    for panel in PANELS {
        let (prefix, names) = match panel.of {
            Of::Run => {
                plans.push(plan(panel, None, series, grid));
                continue;
            }
            Of::Servers => ("server.", series.words_after("server.")),
            Of::Devices => ("device.", series.words_after("device.")),
        };
        // A chart for each second word of the names that begin so.
        plans.extend(names.into_iter().map(|name| {
            let bands = (panel.of == Of::Servers).then(|| checkpoints.get(name).cloned()).flatten();
            Plan { bands: bands.unwrap_or_default(), ..plan(panel, Some((prefix, name)), series, grid) }
        }));
    }
    plans
}

fn plan(panel: &Panel, of: Option<(&str, &str)>, series: &SeriesSet, grid: Grid) -> Plan {
    let name = of.map(|(_, name)| name);
    let mut readings = 0;
    let mut lines = Vec::new();
    for (label, shows) in panel.lines {
        let points = points(*shows, name, series);
        readings += points.len();
        lines.push(Line { name: (*label).to_owned(), values: grid.means(points) });
    }
    let (id, title) = match of {
        Some((prefix, name)) => (
            format!("{}-{name}", panel.id),
            format!("{}: {} {name}", panel.title, prefix.trim_end_matches('.')),
        ),
        None => (panel.id.to_owned(), panel.title.to_owned()),
    };
    Plan {
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

fn points(shows: Shows, name: Option<&str>, series: &SeriesSet) -> Vec<Point> {
    let of = |pattern: &str| -> &[Point] {
        let full = name.map_or_else(|| pattern.to_owned(), |name| pattern.replace("{}", name));
        series.get(&full).map_or(&[][..], |series: &Series| series.points.as_slice())
    };
    match shows {
        Shows::Read(pattern, factor) => {
            of(pattern).iter().map(|point| Point { value: point.value * factor, ..*point }).collect()
        }
        Shows::Rate(pattern, factor) => {
            let rate = |point: &Point| Some(Point { value: point.per_s()? * factor, ..*point });
            of(pattern).iter().filter_map(rate).collect()
        }
        Shows::Over(pattern, below, factor) => {
            let both = read_together(of(pattern), of(below)).filter(|(_, below)| below.value > 0.0);
            both.map(|(point, below)| Point { value: point.value * factor / below.value, ..*point }).collect()
        }
    }
}

/// What a chart of a load shows: its name, what its series end with, title, unit, factor, whether by decades, how.
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
        ".response.mean_ns",
        "Mean response time of the client",
        "µs",
        1e-3,
        true,
        "From when each operation was due: what a user waits.",
    ),
    (
        "service-mean",
        ".service.mean_ns",
        "Mean service time of the client",
        "µs",
        1e-3,
        true,
        "From the send: what the network and the server took.",
    ),
];

/// The charts; none where no client was recorded.
pub(super) fn client_plans(series: &SeriesSet, grid: Grid) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (id, ending, title, unit, factor, is_log, how) in SHOWN {
        let mut loads: BTreeMap<&str, Vec<(&str, &[Point])>> = BTreeMap::new();
        for (name, one) in series.starting("client.") {
            let Some(operation) = name.strip_suffix(ending) else { continue };
            let (load, operation) = operation.rsplit_once('.').unwrap_or(("", operation));
            if !operation.is_empty() && operation != "failed" {
                loads.entry(load).or_default().push((operation, &one.points));
            }
        }
        for (load, operations) in loads {
            let mut readings = 0;
            let mut lines = Vec::new();
            for (operation, points) in operations {
                readings += points.len();
                let scaled = points.iter().map(|point| Point { value: point.value * factor, ..*point });
                lines.push(Line { name: operation.to_owned(), values: grid.means(scaled) });
            }
            let (id, title) = match load {
                "" => (format!("client-{id}"), title.to_owned()),
                load => (format!("client-{id}-{load}"), format!("{title}: {load}")),
            };
            plans.push(Plan {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::chart::Chart;

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
        let plans = plans(&series, &ran, Grid::until(4 * second));
        assert!(
            plans
                .iter()
                .all(|plan| plan.bands.is_empty() || plan.bands == [(1.0, 3.0)] && plan.id.ends_with("-0"))
        );
        let charts: Vec<Chart> = plans.into_iter().filter_map(Plan::draw).collect();
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
                    Shows::Rate(name, _) | Shows::Read(name, _) => vec![name],
                    Shows::Over(above, below, _) => vec![above, below],
                };
                for name in names {
                    assert!(fathom_record::catalog::kind_of(&name.replace("{}", "x")).is_some(), "{name}");
                }
            }
        }
    }
}
