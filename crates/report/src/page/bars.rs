//! Budgets, queues and amplification as tables with a bar in each row: they print, they fit a telephone, and they need no script.

use fathom_record::amplification::Amplification;
use fathom_record::budget::{Budget, Layer};
use fathom_record::disk::Entry;
use fathom_record::queue::QueueLadder;
use fathom_units::{count, decimal};
use serde::Serialize;

use super::chart::figure;
use crate::budget::{Said, whole};
use crate::figures::{bytes, time_us};

/// A table of bars.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BarTable {
    pub(super) id: String,
    pub(super) title: String,
    /// How it was computed, and over which window.
    pub(super) how: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<BarRow>,
    /// What could not be told.
    pub(super) doubts: Vec<String>,
}

/// A row: its cells, and a bar from `from_pct` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BarRow {
    pub(super) cells: Vec<String>,
    pub(super) from_pct: String,
    pub(super) wide_pct: String,
    /// `within` for a part of the row above, `unknown` for what is not explained.
    pub(super) kind: &'static str,
}

/// The tables of all such results, in their order. What the budgets of a server miss is said at the first that misses it.
pub(super) fn tables(results: &[Entry]) -> Vec<BarTable> {
    let mut said = Said::default();
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

/// A place or a width for the style sheet.
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
    let closes = if budget.closes { "" } else { ", which does not close" };
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
            "{}. A bar is the mean number within over how many are let in; full is the share of readings at 95 % of that or more.",
            seconds(ladder.window_ns)
        ),
        heads: ["queue", "lets in", "mean", "95th percentile", "full"].map(str::to_owned).to_vec(),
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

#[cfg(test)]
mod tests {
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
        assert!(table.how.contains("90 %") && table.how.contains("does not close"), "{}", table.how);
        assert_eq!(table.doubts, ["No ping."]);
    }
}
