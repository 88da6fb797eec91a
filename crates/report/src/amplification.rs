//! What is written and read for each byte of a user, as a table for people: a row a level, from the user down.

use fathom_record::amplification::{Amplification, WrittenLevel};
use fathom_units::decimal;

use crate::figures::bytes;
use crate::wrap::wrap;

/// A heading, a row for each level, what is read and the space taken, and what the figures cannot bear.
pub fn amplification_lines(one: &Amplification, width: usize) -> Vec<String> {
    let seconds = one.window_ns.1.saturating_sub(one.window_ns.0) as f64 / 1e9;
    let between = if one.between_checkpoints {
        "between ends of checkpoints"
    } else {
        "not between ends of checkpoints"
    };
    let steps: Vec<String> = one.written.iter().skip(1).map(|level| decimal(level.step)).collect();
    let title = format!(
        "Server {}: {} bytes written for each byte of the user ({}), over {} s {between}",
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

/// What is read, and the space taken.
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
        assert!(text.contains("1.25 x 4.00") && text.contains("checkpoint 25 %"), "{text}");
        assert!(text.contains("1.2 %: settled") && text.contains("? Compaction"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }
}
