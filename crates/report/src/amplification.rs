//! Bytes written and read for each byte of a user, as a table: a row a level, from the user down. Also a table that compares the
//! servers, with a column a server and a row a figure.

use fathom_record::amplification::{Amplification, WrittenLevel};
use fathom_record::members::MemberRow;
use fathom_units::decimal;

use crate::terminal_text::{bytes, time_us, wrap};

/// The lines of one table: a heading, a row for each level, reads and space, and the limits of the figures.
pub fn amplification_lines(one: &Amplification, width: usize) -> Vec<String> {
    let seconds = one.window_ns.1.saturating_sub(one.window_ns.0) as f64 / 1e9;
    let cycles = if one.between_checkpoints {
        ", whole checkpoint cycles"
    } else {
        "; rough, since no whole checkpoint cycle is in it"
    };
    let steps: Vec<String> =
        one.written.iter().skip(1).map(|level| format!("{} {}", level.name, decimal(level.step))).collect();
    let title = format!(
        "Server {}: write amplification {} ({}) over {} s{cycles}",
        one.member,
        one.whole().map_or_else(|| "?".to_owned(), decimal),
        steps.join(" x "),
        decimal(seconds)
    );
    let mut lines = wrap(&title, "", "  ", width);
    lines.push(format!(
        "  {:<10} {:>12} {:>10} {:>8} {:>12}",
        "level", "written", "per byte", "step", "per write"
    ));
    lines.extend(one.written.iter().map(row));
    for level in one.written.iter().filter(|level| !level.parts.is_empty()) {
        let parts: Vec<String> = level
            .parts
            .iter()
            .map(|(name, bytes)| format!("{name} {:.0} %", 100.0 * bytes / level.bytes.max(1.0)))
            .collect();
        lines.extend(wrap(&format!("of the {}: {}", level.name, parts.join(", ")), "    ", "      ", width));
    }
    if let (Some(slope), Some(variation)) = (one.slope, one.variation) {
        let settled = if one.settled { "settled" } else { "not settled" };
        let text = format!(
            "Over {} windows the slope is {}, and they vary by {:.1} %: {settled}.",
            one.windows,
            decimal(slope),
            100.0 * variation
        );
        lines.extend(wrap(&text, "  ", "    ", width));
    }
    lines.extend(reads(one).into_iter().flat_map(|text| wrap(&text, "  ", "    ", width)));
    lines.extend(one.notes.iter().flat_map(|note| wrap(note, "  ? ", "    ", width)));
    lines
}

fn row(level: &WrittenLevel) -> String {
    format!(
        "  {:<10} {:>12} {:>10} {:>8} {:>12}",
        level.name,
        bytes(level.bytes),
        decimal(level.per_user_byte),
        decimal(level.step),
        level.per_operation_bytes.map_or_else(|| "-".to_owned(), bytes)
    )
}

/// The lines about reads and space.
fn reads(one: &Amplification) -> Vec<String> {
    let mut texts = Vec::new();
    if let (Some(per_operation), Some(count)) = (one.read_per_operation_bytes, one.reads_per_operation) {
        let returned = one
            .read_per_returned_byte
            .map_or_else(String::new, |ratio| format!(", {} bytes for each byte sent back", decimal(ratio)));
        let (size, count) = (bytes(per_operation), decimal(count));
        texts.push(format!("A read operation costs {size} in {count} device reads{returned}."));
    }
    if let Some(space) = one.space {
        texts.push(format!("{} bytes are allocated for each byte of the documents.", decimal(space)));
    }
    texts
}

/// The width of the column of a figure's name, and of a server's column.
const NAME: usize = 30;
const COLUMN: usize = 14;

/// The text of a figure of a server.
pub(crate) type CellText = fn(&MemberRow) -> Option<String>;

pub(crate) const ROWS: &[(&str, CellText)] = &[
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

/// The table; `header` puts the servers' numbers above it. Figures that no server has are left out, and if there are more
/// servers than fit, they are in several tables.
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

    fn level(name: &str, bytes: f64, step: f64) -> WrittenLevel {
        let parts = if name == "engine" { vec![("checkpoint".to_owned(), bytes / 4.0)] } else { Vec::new() };
        WrittenLevel {
            name: name.into(),
            bytes,
            per_user_byte: bytes / 1e9,
            step,
            per_operation_bytes: Some(bytes / 1e6),
            parts,
        }
    }

    #[test]
    fn the_steps_stand_as_a_product_and_doubts_are_told() {
        let one = Amplification {
            member: "0".into(),
            window_ns: (0, 360_000_000_000),
            between_checkpoints: true,
            written: vec![level("user", 1e9, 1.0), level("journal", 1.25e9, 1.25), level("engine", 5e9, 4.0)],
            slope: Some(5.0),
            windows: 6,
            variation: Some(0.012),
            settled: true,
            read_per_returned_byte: Some(3.0),
            read_per_operation_bytes: Some(32_768.0),
            reads_per_operation: Some(1.1),
            space: Some(0.61),
            notes: vec!["Compaction was pending at the end.".into()],
        };
        let lines = amplification_lines(&one, 80);
        let text = lines.join("\n");
        assert!(text.contains("(journal 1.25 x engine 4.00)") && text.contains("checkpoint 25 %"), "{text}");
        assert!(text.contains("1.2 %: settled") && text.contains("? Compaction"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

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
