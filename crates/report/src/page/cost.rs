//! What an operation cost each server: processor time, bytes and requests, over the whole run.

use std::collections::BTreeMap;

use fathom_record::SeriesSet;
use fathom_units::{count, decimal};

use super::bars::{BarRow, BarTable};
use crate::figures::{bytes, time_us};

/// A figure: its name, its series (`{}` is the server's number, `{device}` its device), and how it is written.
type Figure = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [Figure; 9] = [
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

/// A table for each server that did operations.
pub(super) fn tables(series: &SeriesSet, environment: &BTreeMap<String, String>) -> Vec<BarTable> {
    let members = series.words_after("server.");
    members.into_iter().filter_map(|member| table(series, environment, member)).collect()
}

fn table(series: &SeriesSet, environment: &BTreeMap<String, String>, member: &str) -> Option<BarTable> {
    let device = environment.get(&format!("server.{member}.device"));
    let total = |pattern: &str| {
        let name = pattern.replace("{}", member);
        let name = match device {
            Some(device) => name.replace("{device}", device),
            None if name.contains("{device}") => return None,
            None => name,
        };
        Some(series.get(&name)?.points.iter().map(|point| point.value).sum::<f64>())
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
            "Everything that was counted over the run, whoever caused it, over {} reads and writes in the server.",
            count(operations)
        ),
        heads: ["of", "per operation"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        doubts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::Point;

    use super::*;

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
        let tables = tables(&series, &environment);
        let [table] = tables.as_slice() else { panic!("{tables:#?}") };
        let cells: Vec<&[String]> = table.rows.iter().map(|row| row.cells.as_slice()).collect();
        assert_eq!(cells, [["processor time of the server", "20.0 µs"], ["device reads", "0.50"]]);
        assert!(super::tables(&SeriesSet::default(), &environment).is_empty());
    }
}
