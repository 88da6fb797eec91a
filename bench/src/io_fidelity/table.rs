//! The comparison as a Markdown table, ready for the journal.

use super::FidelityFigures;
use super::rows::{FidelityRow, ROWS};
use crate::lab::BenchEngine;

/// The permitted deviation of a ratio from mongod's.
const MAX_DEVIATION: f64 = 0.15;

/// One table for each load.
pub(super) fn text(all: &[FidelityFigures]) -> String {
    let mut text = String::new();
    for (load, title) in
        ["load, 300,000 inserts", "workload A, uniform, 2,000 operations/s"].into_iter().enumerate()
    {
        text.push_str(&format!("\n{title}\n\n| | mongod 4.0.3 |"));
        for figures in all {
            text.push_str(&format!(" {} |", figures.engine.name()));
            if figures.engine == BenchEngine::WiredTiger {
                text.push_str(" quotient | within 15 % |");
            }
        }
        text.push_str("\n|---|---|");
        for figures in all {
            text.push_str(if figures.engine == BenchEngine::WiredTiger { "---|---|---|" } else { "---|" });
        }
        text.push('\n');
        for row in ROWS {
            text.push_str(&line(row, load, all));
        }
    }
    text
}

fn line(row: &FidelityRow, load: usize, all: &[FidelityFigures]) -> String {
    let reference = row.reference.get(load).copied().flatten();
    let mut line = format!("| {} | {} |", row.name, shown(reference, row.places));
    for figures in all {
        let value = (row.value)(if load == 0 { &figures.load } else { &figures.update });
        line.push_str(&format!(" {} |", shown(value, row.places)));
        if figures.engine == BenchEngine::WiredTiger {
            line.push_str(&verdict(reference, value));
        }
    }
    line.push('\n');
    line
}

fn shown(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
}

/// The quotient and whether it is near enough to 1; a reference of zero has no quotient.
fn verdict(reference: Option<f64>, value: Option<f64>) -> String {
    match (reference, value) {
        (None, _) => " | |".to_owned(),
        (Some(_), None) => " - | missing |".to_owned(),
        (Some(0.0), Some(value)) => {
            format!(" - | {} |", if value == 0.0 { "yes" } else { "no" })
        }
        (Some(reference), Some(value)) => {
            let quotient = value / reference;
            let near = (quotient - 1.0).abs() <= MAX_DEVIATION;
            format!(" {quotient:.2} | {} |", if near { "yes" } else { "no" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_is_judged_and_zero_only_equals_zero() {
        assert_eq!(verdict(Some(2.0), Some(2.2)), " 1.10 | yes |");
        assert_eq!(verdict(Some(2.0), Some(1.6)), " 0.80 | no |");
        assert_eq!(verdict(Some(0.0), Some(0.0)), " - | yes |");
        assert_eq!(verdict(Some(1.0), None), " - | missing |");
    }
}
