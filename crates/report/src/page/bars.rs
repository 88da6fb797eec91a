//! Tables with a bar in each row: budgets, queues, amplification, the cost of an operation for each server, and a comparison of
//! the servers.
//!
//! They can be printed, they fit the screen of a telephone, and they need no script.

use std::collections::BTreeMap;

use fathom_record::SeriesSet;
use fathom_record::amplification::Amplification;
use fathom_record::budget::{Budget, Layer};
use fathom_record::disk::Entry;
use fathom_record::members::MemberRow;
use fathom_record::queue::QueueLadder;
use fathom_units::{count, decimal};
use serde::Serialize;

use super::svg::figure;
use crate::budget::{PrintedGaps, whole};
use crate::terminal_text::{bytes, time_us};

/// A table of bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BarTable {
    pub(super) id: String,
    pub(super) title: String,
    /// The method of its computation, and its window.
    pub(super) how: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<BarRow>,
    /// The limits of the figures, a sentence each.
    pub(super) doubts: Vec<String>,
}

/// A row: its cells, and a bar from `from_pct` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BarRow {
    pub(super) cells: Vec<String>,
    pub(super) from_pct: String,
    pub(super) wide_pct: String,
    /// `within` for a part of the row above, `unknown` for unexplained time.
    pub(super) kind: &'static str,
}

/// The tables of all such results, in their order. The readings that the budgets of a server lack are listed at the first that lacks them.
pub(super) fn tables(results: &[Entry]) -> Vec<BarTable> {
    let mut said = PrintedGaps::default();
    let tables = results.iter().enumerate().filter_map(|(number, entry)| {
        let table = match entry {
            Entry::Budget(budget) => {
                let doubts = said.not_yet(budget).into_iter().map(str::to_owned).collect();
                BarTable { doubts, ..of_budget(budget) }
            }
            Entry::Queue(ladder) => of_queue(ladder),
            Entry::Amplification(one) => of_amplification(one),
            _ => return None,
        };
        Some(BarTable { id: format!("bars-{number}"), ..table })
    });
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A position or a width for the style sheet.
fn pct(share: f64) -> String {
    figure(100.0 * if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 })
}

fn seconds((begin_ns, end_ns): (u64, u64)) -> String {
    format!("{} to {} s of the run", decimal(begin_ns as f64 / 1e9), decimal(end_ns as f64 / 1e9))
}

fn of_budget(budget: &Budget) -> BarTable {
    let (whole_us, who) = whole(budget);
    let mut from = 0.0;
    let mut rows = Vec::new();
    let row = |layer: &Layer, from: f64, kind: &'static str| BarRow {
        cells: vec![
            layer.name.replace('_', " "),
            time_us(layer.mean_us),
            layer
                .interval_us
                .map_or_else(String::new, |(low, high)| format!("{} to {}", time_us(low), time_us(high))),
            percent(layer.share),
        ],
        from_pct: pct(from),
        wide_pct: pct(layer.share),
        kind,
    };
    for layer in budget.layers.iter().filter(|layer| layer.share >= 0.0005) {
        rows.push(row(layer, from, ""));
        let mut within = from;
        for part in &layer.within {
            rows.push(row(part, within, "within"));
            within += part.share;
        }
        from += layer.share;
    }
    let unexplained = budget.unexplained_us / whole_us.max(f64::MIN_POSITIVE);
    if unexplained.abs() >= 0.0005 {
        rows.push(BarRow {
            cells: vec![
                "unexplained".into(),
                time_us(budget.unexplained_us),
                String::new(),
                percent(unexplained),
            ],
            from_pct: pct(from.min(1.0 - unexplained.abs())),
            wide_pct: pct(unexplained.abs()),
            kind: "unknown",
        });
    }
    let closes = match budget.closes {
        true => "",
        false if budget.closure < 1.0 => ", so too much of it is unexplained",
        false => ", so some of them are counted twice",
    };
    BarTable {
        id: String::new(),
        title: format!(
            "Server {}, {}: {who} {} on average",
            budget.member,
            budget.operations,
            time_us(whole_us)
        ),
        how: format!(
            "Means of {} operations, {}. The layers add up to {:.0} % of the whole{closes}. Intervals are 95 %.",
            count(budget.count),
            seconds(budget.window_ns),
            100.0 * budget.closure
        ),
        heads: ["layer", "mean", "95 % interval", "share"].map(str::to_owned).to_vec(),
        rows,
        doubts: Vec::new(),
    }
}

fn of_queue(ladder: &QueueLadder) -> BarTable {
    let rows = ladder.rungs.iter().map(|rung| {
        let share = rung.cap.filter(|cap| *cap > 0.0).map(|cap| rung.mean / cap);
        BarRow {
            cells: vec![
                rung.name.clone(),
                rung.cap.map_or_else(|| "not known".to_owned(), count),
                decimal(rung.mean),
                decimal(rung.p95),
                rung.share_at_cap.map_or_else(String::new, percent),
            ],
            from_pct: "0".to_owned(),
            wide_pct: pct(share.unwrap_or(0.0)),
            kind: if rung.limits { "limits" } else { "" },
        }
    });
    let device = ladder.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    BarTable {
        id: String::new(),
        title: format!("Queues of server {}{device}, from the client down", ladder.member),
        how: format!(
            "{}. A bar is the mean number of operations in a queue as a share of its limit; full is the share of readings at 95 % of the limit or more.",
            seconds(ladder.window_ns)
        ),
        heads: ["queue", "limit", "mean", "95th percentile", "full"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        doubts: ladder.rungs.iter().filter(|rung| rung.limits).map(|rung| rung.words.clone()).collect(),
    }
}

fn of_amplification(one: &Amplification) -> BarTable {
    let most = one.written.iter().map(|level| level.per_user_byte).fold(0.0, f64::max);
    let rows = one.written.iter().map(|level| BarRow {
        cells: vec![
            level.name.clone(),
            bytes(level.bytes),
            decimal(level.per_user_byte),
            level.per_operation_bytes.map_or_else(String::new, bytes),
        ],
        from_pct: "0".to_owned(),
        wide_pct: pct(level.per_user_byte / most.max(f64::MIN_POSITIVE)),
        kind: "",
    });
    BarTable {
        id: String::new(),
        title: format!("Server {}: bytes written on the way down, for each byte of the user", one.member),
        how: format!("{}; each level's own counter over that of the user.", seconds(one.window_ns)),
        heads: ["level", "written", "per byte of the user", "per write"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        doubts: one.notes.clone(),
    }
}

/// A figure: its name, its series (`{}` is the server's number, `{device}` its device), and the format of its value.
type BarFigure = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [BarFigure; 9] = [
    ("processor time of the server", "server.{}.process.cpu_us", time_us),
    ("sent to the server", "server.{}.network.in_bytes", bytes),
    ("sent back", "server.{}.network.out_bytes", bytes),
    ("read by the engine", "server.{}.engine.read_bytes", bytes),
    ("written by the engine", "server.{}.engine.written_bytes", bytes),
    ("device reads", "device.{device}.reads", decimal),
    ("read from the device", "device.{device}.read_bytes", bytes),
    ("device writes", "device.{device}.writes", decimal),
    ("written to the device", "device.{device}.written_bytes", bytes),
];

/// A table for each server that served operations.
pub(super) fn cost_tables(series: &SeriesSet, environment: &BTreeMap<String, String>) -> Vec<BarTable> {
    let members = series.words_after("server.");
    members.into_iter().filter_map(|member| table(series, environment, member)).collect()
}

fn table(series: &SeriesSet, environment: &BTreeMap<String, String>, member: &str) -> Option<BarTable> {
    let sum = |name: &str| Some(series.get(name)?.points.iter().map(|point| point.value).sum::<f64>());
    let total = |pattern: &str| {
        let name = pattern.replace("{}", member);
        if !name.contains("{device}") {
            return sum(&name);
        }
        // A device that the kernel did not count has no readings, but the devices below it do.
        let of = |fact: &str| -> Option<f64> {
            let devices = environment.get(&format!("server.{member}.{fact}"))?;
            devices.split(',').map(|device| sum(&name.replace("{device}", device))).sum()
        };
        of("device").or_else(|| of("device.leaves"))
    };
    let operations = ["reads", "writes"].map(|kind| total(&format!("server.{{}}.{kind}.operations")));
    let operations: f64 = operations.into_iter().flatten().sum();
    if operations <= 0.0 {
        return None;
    }
    let rows = FIGURES.iter().filter_map(|(name, pattern, write)| {
        let cells = vec![(*name).to_owned(), write(total(pattern)? / operations)];
        Some(BarRow { cells, ..BarRow::default() })
    });
    Some(BarTable {
        id: format!("cost-{member}"),
        title: format!("Server {member}: what a read or a write cost"),
        how: format!(
            "All I/O that was counted during the run, whatever caused it, divided by {} reads and writes in the server.",
            count(operations)
        ),
        heads: ["of", "per operation"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        doubts: Vec::new(),
    })
}

/// The table, or `None` for fewer than two servers.
pub(super) fn members_table(results: &[Entry]) -> Option<BarTable> {
    let members: Vec<&MemberRow> = results
        .iter()
        .filter_map(|entry| match entry {
            Entry::Member(row) => Some(row),
            _ => None,
        })
        .collect();
    (members.len() > 1).then(|| BarTable {
        id: "members".to_owned(),
        title: "Servers side by side".to_owned(),
        how: "Means over the run. Lag: how old the oldest write was that the member's journal lacked. A device that several servers \
              use is that of all of them."
            .to_owned(),
        heads: ["server", "engine", "lag", "operations/s", "device write"].map(str::to_owned).to_vec(),
        rows: members.into_iter().map(row).collect(),
        doubts: Vec::new(),
    })
}

fn row(member: &MemberRow) -> BarRow {
    let dash = || "-".to_owned();
    let mut name = member.member.clone();
    if let Some(role) = &member.role {
        name = format!("{name} {role}");
    }
    if let Some(part_of) = &member.part_of {
        name = format!("{name} of {part_of}");
    }
    if let Some(chunks) = member.chunks {
        name = format!("{name}, chunks: {}", decimal(chunks));
    }
    let served = match member.applied_per_s {
        Some(applied) => format!("{} applied", decimal(applied)),
        None => member.operations_per_s.map_or_else(dash, decimal),
    };
    let cells = vec![
        name,
        member.engine.clone().unwrap_or_else(dash),
        member.lag_ms.map_or_else(dash, |ms| time_us(1000.0 * ms)),
        served,
        member.device_write_us.map_or_else(dash, time_us),
    ];
    BarRow { cells, ..BarRow::default() }
}

#[cfg(test)]
mod tests {
    use fathom_record::Point;

    use super::*;

    #[test]
    fn layers_follow_each_other_and_what_is_unexplained_stands_apart() {
        let layer = |name: &str, share: f64| Layer {
            name: name.into(),
            mean_us: 1000.0 * share,
            interval_us: Some((900.0 * share, 1100.0 * share)),
            share,
            series: Vec::new(),
            within: Vec::new(),
        };
        let budget = Budget {
            member: "0".into(),
            operations: "reads".into(),
            count: 12_345.0,
            window_ns: (0, 60_000_000_000),
            client_mean_us: Some(1000.0),
            server_mean_us: 700.0,
            layers: vec![layer("network", 0.3), layer("page_read", 0.6)],
            unexplained_us: 100.0,
            closure: 0.9,
            closes: false,
            missing: vec!["No ping.".into()],
        };
        let of_another = Budget { member: "1".into(), ..budget.clone() };
        let entries = [budget.clone(), budget, of_another].map(Entry::Budget);
        let tables = tables(&entries);
        let [table, second, another] = tables.as_slice() else { panic!("{tables:#?}") };
        assert!(second.doubts.is_empty() && another.doubts == ["No ping."], "once for each server");
        let places: Vec<(&str, &str, &str)> = table
            .rows
            .iter()
            .map(|row| (row.cells[0].as_str(), row.from_pct.as_str(), row.wide_pct.as_str()))
            .collect();
        assert_eq!(places, [("network", "0", "30"), ("page read", "30", "60"), ("unexplained", "90", "10")]);
        assert!(
            table.how.contains("90 %") && table.how.contains("too much of it is unexplained"),
            "{}",
            table.how
        );
        assert_eq!(table.doubts, ["No ping."]);
    }

    #[test]
    fn what_was_counted_is_divided_by_the_operations() {
        let mut series = SeriesSet::default();
        for (name, value) in [
            ("server.0.reads.operations", 300.0),
            ("server.0.writes.operations", 100.0),
            ("server.0.process.cpu_us", 8000.0),
            ("device.sda.reads", 200.0),
        ] {
            for second in 0..2 {
                series.add(name, "1", Point { begin_ns: second, end_ns: second + 1, value: value / 2.0 });
            }
        }
        let environment = BTreeMap::from([("server.0.device".to_owned(), "sda".to_owned())]);
        let cells = |environment: &BTreeMap<String, String>| {
            let tables = cost_tables(&series, environment);
            let [table] = tables.as_slice() else { panic!("{tables:#?}") };
            table.rows.iter().map(|row| row.cells.clone()).collect::<Vec<_>>()
        };
        let expected = [["processor time of the server", "20.0 µs"], ["device reads", "0.50"]];
        assert_eq!(cells(&environment), expected);
        // btrfs over two devices of which one was not read; its sum is not known.
        let two = BTreeMap::from([("server.0.device".to_owned(), "sda,sdb".to_owned())]);
        assert_eq!(cells(&two), expected[..1]);
        let paths = [("server.0.device", "nvme0n1"), ("server.0.device.leaves", "sda")];
        let paths = paths.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(cells(&paths), expected, "the head of a multipath disk was not read");
        assert!(super::cost_tables(&SeriesSet::default(), &environment).is_empty());
    }

    #[test]
    fn a_row_says_what_a_server_is_and_one_server_needs_no_table() {
        let primary = MemberRow {
            member: "0".into(),
            engine: Some("wiredTiger".into()),
            role: Some("primary".into()),
            part_of: Some("rs0".into()),
            operations_per_s: Some(1200.0),
            ..MemberRow::default()
        };
        let secondary = MemberRow {
            member: "1".into(),
            role: Some("secondary".into()),
            lag_ms: Some(12.5),
            applied_per_s: Some(600.0),
            ..MemberRow::default()
        };
        let entries = [Entry::Member(primary), Entry::Member(secondary)];
        let table = members_table(&entries).unwrap();
        assert_eq!(table.rows[0].cells, ["0 primary of rs0", "wiredTiger", "-", "1,200", "-"]);
        assert_eq!(table.rows[1].cells, ["1 secondary", "-", "12.5 ms", "600 applied", "-"]);
        assert!(super::members_table(&entries[..1]).is_none());
    }
}
