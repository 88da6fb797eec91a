//! Servers side by side as a table for people: a column a server, a row a figure.

use fathom_record::members::MemberRow;
use fathom_units::decimal;

use crate::figures::{bytes, time_us};
use crate::wrap::wrap;

/// Columns of a figure's name, and of a server.
const NAME: usize = 30;
const COLUMN: usize = 14;

/// How a figure of a server is written.
pub(crate) type Cell = fn(&MemberRow) -> Option<String>;

pub(crate) const ROWS: &[(&str, Cell)] = &[
    ("role", |row| row.role.clone()),
    ("part of", |row| row.part_of.clone()),
    ("engine", |row| row.engine.clone()),
    ("lag", |row| row.lag_ms.map(|ms| time_us(1000.0 * ms))),
    ("oplog reaches back", |row| row.oplog_s.map(|seconds| format!("{} s", decimal(seconds)))),
    ("chunks", |row| row.chunks.map(decimal)),
    ("entries applied/s", |row| row.applied_per_s.map(decimal)),
    ("operations/s", |row| row.operations_per_s.map(decimal)),
    ("device read", |row| row.device_read_us.map(time_us)),
    ("device write", |row| row.device_write_us.map(time_us)),
    ("device reads/s", |row| row.device_reads_per_s.map(decimal)),
    ("device writes/s", |row| row.device_writes_per_s.map(decimal)),
    ("device read per operation", |row| row.read_per_operation_bytes.map(bytes)),
    ("device written per operation", |row| row.written_per_operation_bytes.map(bytes)),
    ("engine written per operation", |row| row.engine_written_per_operation_bytes.map(bytes)),
];

/// The table; `header` puts the servers' numbers above it. Figures that no server has are left out, and where there are more
/// servers than fit, they stand in several tables.
pub fn member_lines(rows: &[MemberRow], header: bool, width: usize) -> Vec<String> {
    let fit = (width.saturating_sub(NAME + 2) / COLUMN).max(1);
    let mut lines = Vec::new();
    for part in rows.chunks(fit) {
        if header {
            let heads: String =
                part.iter().map(|row| format!("{:>COLUMN$}", format!("server {}", row.member))).collect();
            lines.push(format!("  {:<NAME$}{heads}", ""));
        }
        for (name, cell) in ROWS {
            let cells: Vec<Option<String>> = part.iter().map(cell).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells: String =
                cells.iter().map(|cell| format!("{:>COLUMN$}", cell.as_deref().unwrap_or("-"))).collect();
            lines.push(format!("  {name:<NAME$}{cells}"));
        }
    }
    for row in rows.iter().filter(|row| !row.shared_devices.is_empty()) {
        let text = format!(
            "Server {} shares {} with another: the figures of that device are those of both.",
            row.member,
            row.shared_devices.join(", ")
        );
        lines.extend(wrap(&text, "  ? ", "    ", width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_stand_in_columns_and_absent_figures_are_dashes() {
        let row = |member: &str, engine: &str, write_us: f64| MemberRow {
            member: member.into(),
            engine: Some(engine.into()),
            device_write_us: Some(write_us),
            ..MemberRow::default()
        };
        let mut rows = vec![row("0", "wiredTiger", 8000.0), row("1", "rocksdb", 900.0)];
        rows[1].device_read_us = Some(400.0);
        rows[1].shared_devices = vec!["sdb".into()];
        let lines = member_lines(&rows, true, 80);
        let text = lines.join("\n");
        assert!(lines[0].contains("server 0") && lines[1].contains("wiredTiger"), "{text}");
        assert!(lines[2].starts_with("  device read ") && lines[2].contains("-"), "{text}");
        assert!(text.contains("8.00 ms") && text.contains("900 µs") && text.contains("? Server 1"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(member_lines(&rows, true, 10).len() > lines.len(), "a narrow page has a table each");
        assert!(member_lines(&[], true, 80).is_empty());
    }
}
