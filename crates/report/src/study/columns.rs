//! A table of texts in columns for a terminal. Columns that do not fit the width continue below, each part with the first column.

use crate::terminal_text::{cut, printable, wrap};

/// Longer texts are neither figures nor short names.
const MAX_COLUMN_WIDTH: usize = 34;
/// Blanks between two columns.
const GAP: usize = 2;

/// The table below its heads, every line within `width` characters and safe for a terminal. A row with a long name has it on a line
/// of its own. If figures are sentences, they are listed below each other under their heads.
pub(super) fn columns(heads: &[String], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let is_long = |cell: &String| cell.chars().count() > MAX_COLUMN_WIDTH;
    if rows.iter().any(|row| row.iter().skip(1).any(is_long)) {
        return rows.iter().flat_map(|row| listed(heads, row, width)).collect();
    }
    let safe = |cells: &[String]| -> Vec<String> {
        cells.iter().map(|cell| cut(&printable(cell), width.max(1))).collect()
    };
    let table: Vec<Vec<String>> =
        std::iter::once(safe(heads)).chain(rows.iter().map(|row| safe(row))).collect();
    let widest = |column: usize| {
        let cells =
            table.iter().filter_map(|row| row.get(column)).filter(|cell| column > 0 || !is_long(cell));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(widest).collect();
    let Some(first) = widths.first() else { return Vec::new() };
    let mut lines = Vec::new();
    let mut from = 1;
    loop {
        let mut to = from;
        let mut total = *first;
        while let Some(next) = widths.get(to).filter(|next| to == from || total + GAP + **next <= width) {
            total += GAP + next;
            to += 1;
        }
        for row in &table {
            let mut name = row.first().map_or("", String::as_str);
            if name.chars().count() > *first {
                lines.push(cut(name, width));
                name = "";
            }
            let mut line = format!("{name:<first$}");
            for column in from..to {
                let (cell, wide) = (row.get(column).map_or("", String::as_str), widths.get(column));
                line.push_str(&format!("{:GAP$}{cell:>wide$}", "", wide = wide.copied().unwrap_or(0)));
            }
            lines.push(cut(line.trim_end(), width));
        }
        from = to;
        if from >= heads.len() {
            return lines;
        }
        lines.push(String::new());
    }
}

/// A row as sentences: its name, then each of the others after its head.
fn listed(heads: &[String], row: &[String], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (head, cell) in heads.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
        let is_name = lines.is_empty();
        let text = if is_name { cell.clone() } else { format!("{head}: {cell}") };
        let (begin, rest) = if is_name { ("", "  ") } else { ("  ", "    ") };
        // A single word can be longer than a line.
        lines.extend(wrap(&printable(&text), begin, rest, width).iter().map(|line| cut(line, width)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_stands_below_with_the_first_column_again() {
        let text = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let heads = text(&["of", "one", "two"]);
        let rows = [text(&["a", "1", "22"]), text(&["bb", "-"])];
        assert_eq!(columns(&heads, &rows, 20), ["of  one  two", "a     1   22", "bb    -"]);
        assert_eq!(
            columns(&heads, &rows, 8),
            ["of  one", "a     1", "bb    -", "", "of  two", "a    22", "bb"]
        );
        for row in [text(&[&"w".repeat(500), "\n"]), text(&["\x1b[2J", &"w ".repeat(500)])] {
            let hostile = columns(&text(&["\x1b[2Jx", "y"]), &[row], 40);
            assert!(
                hostile.iter().all(|line| line.chars().count() <= 40 && !line.contains('\x1b')),
                "{hostile:#?}"
            );
        }
        assert!(columns(&[], &rows, 20).is_empty());
        assert_eq!(columns(&heads[..1], &rows, 20), ["of", "a", "bb"]);
    }

    #[test]
    fn long_names_and_sentences_are_there_whole() {
        let text = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let name = "wiredTiger + wiredTiger + rocksdb, majority, off";
        let rows = [text(&[name, "1", "2"]), text(&["wiredTiger", "11", "-"])];
        assert_eq!(
            columns(&text(&["engine", "one", "two"]), &rows, 60),
            ["engine      one  two", name, "              1    2", "wiredTiger   11    -"]
        );
        let sentence = "XFS up to 50 % faster at few threads, ahead until the hardware limits both";
        let rows = [text(&["c3.large, RAID0 of SSDs, 6 M records, 10 M operations", sentence])];
        let lines = columns(&text(&["rig", "what it showed"]), &rows, 60);
        assert_eq!(
            lines,
            [
                "c3.large, RAID0 of SSDs, 6 M records, 10 M operations",
                "  what it showed: XFS up to 50 % faster at few threads,",
                "    ahead until the hardware limits both",
            ]
        );
    }
}
