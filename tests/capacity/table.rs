//! The table of the attempts in `docs/known-truth.md`.

use std::collections::BTreeSet;

use fathom_record::capacity::CapacityLoad;
use fathom_stats::median;
use fathom_units::count;

use super::disk::DiskKind;
use super::{Attempt, Trial};
use crate::docs_section;

const BEGIN: &str = "<!-- Attempts at stated capacities: make refresh writes this. -->";
const END: &str = "<!-- End of the attempts. -->";

/// The rows: each disk and load that was tried.
pub(crate) fn rows(trials: &[Trial]) -> BTreeSet<(DiskKind, CapacityLoad)> {
    trials.iter().map(|trial| (trial.disk, trial.load())).collect()
}

/// Compares the docs with these attempts; `FATHOM_UPDATE_DOCS=1` writes them.
pub(crate) fn check(trials: &[Trial]) {
    docs_section::check("known-truth.md", (BEGIN, END), &table(trials), 2, |shown, present| {
        shown.iter().zip(present).any(|(shown, present)| match (share(shown), share(present)) {
            (Some(shown), Some(present)) => present < shown,
            _ => false,
        })
    });
}

/// The share that a cell such as `9 of 10` gives.
fn share(cell: &str) -> Option<f64> {
    let (part, whole) = cell.split_once(" of ")?;
    Some(part.parse::<f64>().ok()? / whole.parse::<f64>().ok()?)
}

fn table(trials: &[Trial]) -> String {
    let mut text = "\n| disk | load | stated lower end: median (range) | upper end | p99 at 0.9 of the lower: median (highest) | 0.9 held | 1.2 of the upper broke |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (disk, load) in rows(trials) {
        let of_row: Vec<&Trial> =
            trials.iter().filter(|trial| trial.disk == disk && trial.load() == load).collect();
        let lower = summary(of_row.iter().filter_map(|trial| Some(trial.capacity.stated_per_s()?.0)));
        let upper = summary(of_row.iter().filter_map(|trial| Some(trial.capacity.stated_per_s()?.1)));
        let p99 = summary(of_row.iter().filter_map(|trial| Some(trial.below.as_ref()?.p99_us / 1e3)));
        let of = |attempt: fn(&Trial) -> Option<&Attempt>, holds: bool| {
            let tried: Vec<bool> =
                of_row.iter().filter_map(|trial| Some(attempt(trial)?.holds() == holds)).collect();
            format!("{} of {}", tried.iter().filter(|is_true| **is_true).count(), tried.len())
        };
        let row = format!(
            "| {} | {} | {} ({} to {}) | {} ({} to {}) | {:.1} ms ({:.1}) | {} | {} |\n",
            disk.words(),
            load.name(),
            count(lower[0]),
            count(lower[1]),
            count(lower[2]),
            count(upper[0]),
            count(upper[1]),
            count(upper[2]),
            p99[0],
            p99[2],
            of(|trial| trial.below.as_ref(), true),
            of(|trial| trial.above.as_ref(), false),
        );
        text.push_str(&row);
    }
    text.push('\n');
    text
}

/// Median, lowest and highest; zeros without a value.
fn summary(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let values: Vec<f64> = values.collect();
    let bound = |choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose);
    [median(&values), bound(f64::min), bound(f64::max)].map(Option::unwrap_or_default)
}
