//! A table of texts in columns for a terminal: what does not fit beside each other stands below each other, each part with the first column.

use crate::printable::{cut, printable};

/// A cell is cut beyond this many characters; the record has it whole.
const WIDEST: usize = 34;
/// Between two columns.
const GAP: usize = 2;

/// The table below its heads, every line within `width` characters and safe for a terminal.
pub(super) fn columns(heads: &[String], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let safe = |cells: &[String]| -> Vec<String> {
        cells.iter().map(|cell| cut(&printable(cell), WIDEST.min(width.max(1)))).collect()
    };
    let table: Vec<Vec<String>> =
        std::iter::once(safe(heads)).chain(rows.iter().map(|row| safe(row))).collect();
    let widest = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
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
            let mut line = format!("{:<first$}", row.first().map_or("", String::as_str));
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
        let hostile = columns(&text(&["\x1b[2Jx", "y"]), &[text(&[&"w".repeat(500), "\n"])], 40);
        assert!(
            hostile.iter().all(|line| line.chars().count() <= 40 && !line.contains('\x1b')),
            "{hostile:#?}"
        );
        assert!(columns(&[], &rows, 20).is_empty());
        assert_eq!(columns(&heads[..1], &rows, 20), ["of", "a", "bb"]);
    }
}
