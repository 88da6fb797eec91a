//! The words that text and page of a study share: names, values, effects, results of a cell. This module judges nothing.

use fathom_record::study::{
    StudyCell, StudyComparison, StudyInteraction, StudyMetric, StudyResult, StudyVerdict, level_name,
};
use fathom_stats::median;
use fathom_units::{Nanos, decimal};

use crate::terminal_text::bytes;

/// Effects of at least this ratio are written as times, not as percent.
const MIN_TIMES_RATIO: f64 = 3.0;

/// A name in readable form: `update_p99` is `update p99`.
pub(crate) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// The same at the beginning of a title.
pub(crate) fn capital(name: &str) -> String {
    let spaced = spaced(name);
    let mut letters = spaced.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A value in the unit of a metric.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ns" => Nanos(value.max(0.0).round() as u64).to_string(),
        "1/s" => format!("{}/s", decimal(value)),
        "bytes" => bytes(value),
        "1" => decimal(value),
        unit => format!("{} {unit}", decimal(value)),
    }
}

/// A share as percent: `3.1 %`.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        whole if !whole.is_finite() => "?".to_owned(),
        whole if whole.abs() < 99.95 => format!("{whole:.1} %"),
        whole => format!("{whole:.0} %"),
    }
}

/// A ratio as an effect: `+12.0 %`, `-94.0 %`, `4.20 times`.
pub(crate) fn effect(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "?".to_owned(),
        ratio if ratio >= MIN_TIMES_RATIO => format!("{} times", decimal(ratio)),
        ratio => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
    }
}

/// The ends of an effect, in the same form.
pub(crate) fn effect_interval(interval: Option<(f64, f64)>) -> String {
    match interval {
        None => "none: too few pairs".to_owned(),
        Some((low, high)) if high < MIN_TIMES_RATIO => format!("{} to {}", effect(low), effect(high)),
        Some((low, high)) => format!("{} to {} times", decimal(low), decimal(high)),
    }
}

/// The ends of a ratio: `0.87 to 0.89`.
pub(crate) fn ratio_interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{} to {}", decimal(low), decimal(high)))
}

/// The result of an interaction, with its figures.
pub(crate) fn interaction(one: &StudyInteraction) -> String {
    let interval = ratio_interval(one.interval);
    format!("{} ({}; 95 %: {interval}; p {})", one.words.trim(), decimal(one.ratio), chance(one.adjusted_p))
}

/// A probability: `0.016`, `< 0.001`.
pub(crate) fn chance(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// `, uncapped and 4 threads`, or empty without conditions.
pub(crate) fn given(levels: &[(String, String)]) -> String {
    let all: Vec<String> = levels.iter().map(|(factor, level)| level_name(factor, level)).collect();
    if all.is_empty() { String::new() } else { format!(", {}", all.join(" and ")) }
}

/// `filesystem: xfs against ext4, uncapped`.
pub(crate) fn versus(one: &StudyComparison) -> String {
    format!("{}: {} against {}{}", one.factor, one.level, one.baseline, given(&one.given))
}

/// The metric of this name.
pub(crate) fn metric<'s>(study: &'s StudyResult, name: &str) -> Option<&'s StudyMetric> {
    study.metrics.iter().find(|metric| metric.name == name)
}

/// Whether the answer rests on a comparison: its metric is primary.
pub(crate) fn is_primary(study: &StudyResult, one: &StudyComparison) -> bool {
    metric(study, &one.metric).is_some_and(|metric| metric.primary)
}

/// The comparisons on which the answer rests: those over all levels of the other factors, or all comparisons if there are none of these. If the
/// effect depends on another factor, its mean over that factor's levels answers nothing, and the comparisons at each level replace it.
pub(crate) fn answers(study: &StudyResult) -> Vec<&StudyComparison> {
    let primary = || study.comparisons.iter().filter(|one| is_primary(study, one));
    let whole: Vec<&StudyComparison> = primary().filter(|one| one.given.is_empty()).collect();
    if whole.is_empty() {
        return primary().collect();
    }
    let by_condition = |whole: &StudyComparison| -> Vec<&StudyComparison> {
        primary().filter(|one| !one.given.is_empty() && is_same_change(one, whole)).collect()
    };
    let answers = |one| match depends(study, one) {
        true => Some(by_condition(one)).filter(|all| !all.is_empty()).unwrap_or_else(|| vec![one]),
        false => vec![one],
    };
    whole.into_iter().flat_map(answers).collect()
}

fn is_same_change(one: &StudyComparison, other: &StudyComparison) -> bool {
    (&one.factor, &one.level, &one.metric) == (&other.factor, &other.level, &other.metric)
}

/// Whether the effect of a comparison certainly depends on another factor.
pub(crate) fn depends(study: &StudyResult, one: &StudyComparison) -> bool {
    study.interactions.iter().any(|interaction| {
        let names = [
            (&interaction.factors.0, &interaction.levels.0),
            (&interaction.factors.1, &interaction.levels.1),
        ];
        interaction.is_sure()
            && interaction.metric == one.metric
            && names.contains(&(&one.factor, &one.level))
    })
}

/// The answer of a comparison. If it is undecided, the sentence adds the number of blocks that would decide it.
pub(crate) fn sentence(one: &StudyComparison) -> String {
    let words = one.words.trim();
    match one.needs_blocks.filter(|_| one.verdict == StudyVerdict::Undecided) {
        // Added only if it is missing: most sentences contain the number themselves.
        Some(blocks) if !words.contains(&blocks.to_string()) => {
            format!("{} Needs {} to tell.", words, more_blocks(blocks))
        }
        _ => words.to_owned(),
    }
}

/// `1 more block`, `12 more blocks`.
pub(crate) fn more_blocks(blocks: usize) -> String {
    format!("{blocks} more block{}", if blocks == 1 { "" } else { "s" })
}

/// The number of comparisons with each answer, in a sentence.
pub(crate) fn tally(of: &[&StudyComparison]) -> String {
    let parts: Vec<String> = ["better", "worse", "too small", "no difference", "cannot tell"]
        .into_iter()
        .filter_map(|answer| match of.iter().filter(|one| one.answer() == answer).count() {
            0 => None,
            count => Some(format!("{count} {answer}")),
        })
        .collect();
    match of.len() {
        0 => "Nothing could be compared.".to_owned(),
        1 => format!("One comparison: {}.", parts.concat().trim_start_matches("1 ")),
        count => format!("Of {count} comparisons: {}.", parts.join(", ")),
    }
}

/// The name of a cell: its levels.
pub(crate) fn cell_name(study: &StudyResult, cell: &StudyCell) -> String {
    let names = cell.levels.iter().enumerate().map(|(at, level)| {
        study.factors.get(at).map_or_else(|| level.clone(), |factor| level_name(&factor.name, level))
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The result of a cell in a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellResult {
    /// The median over blocks.
    pub(crate) median: f64,
    /// The highest less the lowest, as a share of the median, or `None` for a single block or a median of 0.
    pub(crate) spread: Option<f64>,
    /// Blocks with a value.
    pub(crate) blocks: usize,
}

/// The median of a cell's values in the metric at an index; `None` if no block has one.
pub(crate) fn middle(cell: &StudyCell, metric: usize) -> Option<CellResult> {
    let values: Vec<f64> =
        cell.values.get(metric)?.iter().flatten().copied().filter(|value| value.is_finite()).collect();
    let median = median(&values)?;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spread = (values.len() > 1 && median != 0.0).then(|| (high - low) / median.abs());
    Some(CellResult { median, spread, blocks: values.len() })
}

/// `12,345/s (3.1 %)`, or a dash without a value.
pub(crate) fn middle_words(middle: Option<CellResult>, unit: &str) -> String {
    match middle {
        None => "-".to_owned(),
        Some(CellResult { median, spread: Some(spread), .. }) => {
            format!("{} ({})", amount(median, unit), percent(spread))
        }
        Some(CellResult { median, spread: None, .. }) => amount(median, unit),
    }
}

/// The metrics with their indices: those on which the answer rests, or the others.
pub(crate) fn metrics_of(study: &StudyResult, primary: bool) -> Vec<(usize, &StudyMetric)> {
    study.metrics.iter().enumerate().filter(|(_, metric)| metric.primary == primary).collect()
}

/// The design of the study, in sentences.
pub(crate) fn design(study: &StudyResult) -> String {
    let levels: Vec<String> = study
        .factors
        .iter()
        .map(|factor| format!("{} ({})", factor.name, factor.levels.join(", ")))
        .collect();
    format!(
        "{} cells over {}; {} of {} blocks are complete. Size {}, seed {}.",
        study.cells.len(),
        levels.join("; "),
        study.blocks_complete,
        study.blocks_planned,
        study.size,
        study.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_and_values_are_told_as_people_read_them() {
        let effects = [1.0, 1.1234, 0.06, 4.2, f64::NAN].map(effect);
        assert_eq!(effects, ["+0.0 %", "+12.3 %", "-94.0 %", "4.20 times", "?"]);
        assert_eq!(effect_interval(Some((0.995, 1.2))), "-0.5 % to +20.0 %");
        assert_eq!(effect_interval(Some((2.5, 4.0))), "2.50 to 4.00 times");
        assert_eq!(effect_interval(None), "none: too few pairs");
        let amounts = [(1.5e6, "ns"), (12_345.6, "1/s"), (4096.0, "bytes"), (3.25, "1"), (7.0, "parsecs")];
        let told = amounts.map(|(value, unit)| amount(value, unit));
        assert_eq!(told, ["1.50 ms", "12,346/s", "4 KiB", "3.25", "7.00 parsecs"]);
        assert_eq!([0.0004, 0.0156].map(chance), ["< 0.001", "0.016"]);
    }

    #[test]
    fn levels_say_what_they_are_of() {
        let names = [
            ("cap", "none"),
            ("threads", "4"),
            ("threads", "1"),
            ("syncdelay", "5"),
            ("filesystem", "xfs"),
            ("journaled", "off"),
            ("read_ahead", "none"),
            ("cap", "ebs-300"),
        ]
        .map(|(factor, level)| level_name(factor, level));
        assert_eq!(
            names,
            [
                "uncapped",
                "4 threads",
                "1 thread",
                "syncdelay 5",
                "xfs",
                "journaled off",
                "no read ahead",
                "ebs-300"
            ]
        );
    }

    #[test]
    fn a_cell_whose_trials_broke_has_no_middle_and_no_zero() {
        let cell = StudyCell {
            levels: vec!["a".into()],
            values: vec![vec![None, None], vec![Some(4.0), None], vec![Some(1.0), Some(3.0)]],
            broken: Vec::new(),
            runs: Vec::new(),
            facts: Vec::new(),
            members: Vec::new(),
        };
        assert_eq!(middle(&cell, 0), None);
        assert_eq!(middle_words(middle(&cell, 1), "1"), "4.00");
        assert_eq!(middle(&cell, 2), Some(CellResult { median: 2.0, spread: Some(1.0), blocks: 2 }));
        assert_eq!(middle(&cell, 3), None, "a record may have fewer rows than metrics");
    }
}
