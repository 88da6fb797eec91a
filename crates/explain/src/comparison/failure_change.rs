//! Failed operations of the same load in two runs. Where their shares differ, the speeds are not compared: an operation that fails at once
//! makes a server look fast.

use fathom_record::disk::Entry;
use fathom_record::figure::{BetterDirection, named_loads};
use fathom_record::load::Load;
use fathom_stats::wilson_interval;

/// The failed operations of one kind, or of all kinds of a load, in both runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FailureCounts {
    /// Failed and all operations of the first run.
    a: (u64, u64),
    b: (u64, u64),
}

impl FailureCounts {
    /// Whether the 95 % intervals of the shares lie apart.
    fn differ(self) -> bool {
        let intervals = wilson_interval(self.a.0, self.a.1).zip(wilson_interval(self.b.0, self.b.1));
        intervals.is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0)
    }

    fn shares(self) -> [f64; 2] {
        [self.a, self.b].map(|(failed, all)| failed as f64 / all.max(1) as f64)
    }

    /// Whether two counts of failures differ by more than chance. Unknown where the counts and the shares point in different directions, as
    /// when one run attempted far more operations.
    pub(super) fn beyond_noise(self, better: BetterDirection, a: f64, b: f64) -> Option<bool> {
        let [share_a, share_b] = self.shares();
        let agree = better.is_better(a, b) == better.is_better(share_a, share_b);
        if self.differ() { agree.then_some(true) } else { Some(false) }
    }
}

/// The failed operations of one load in both runs.
#[derive(Debug)]
pub(super) struct FailureChange {
    /// The subject of the load's figures.
    pub(super) subject: String,
    /// By the name of the kind, in lower case.
    kinds: Vec<(String, FailureCounts)>,
}

impl FailureChange {
    /// The counts of the kind whose failures this metric is (`read failed`).
    pub(super) fn of_metric(&self, metric: &str) -> Option<FailureCounts> {
        let kind = metric.strip_suffix(" failed")?;
        self.kinds.iter().find(|(name, _)| name == kind).map(|(_, counts)| *counts)
    }

    /// The reason why the speeds of this load are not compared, as a sentence.
    pub(super) fn obstacle(&self) -> Option<String> {
        let sum = |side: fn(&FailureCounts) -> (u64, u64)| {
            let sides = self.kinds.iter().map(|(_, counts)| side(counts));
            sides.fold((0, 0), |(failed, all), one| (failed + one.0, all + one.1))
        };
        let all = FailureCounts { a: sum(|counts| counts.a), b: sum(|counts| counts.b) };
        let differs = all.differ() || self.kinds.iter().any(|(_, counts)| counts.differ());
        let [a, b] = all.shares().map(|share| percent(100.0 * share));
        differs.then(|| {
            format!(
                "{}: {a} % of the operations failed in A, {b} % in B. A failed operation can be fast, so the speeds are not compared.",
                self.subject
            )
        })
    }
}

/// Three digits at most.
fn percent(pct: f64) -> String {
    match pct {
        0.0 => "0".to_owned(),
        pct if pct < 0.001 => "under 0.001".to_owned(),
        pct if pct < 0.1 => format!("{pct:.3}"),
        pct if pct < 10.0 => format!("{pct:.1}"),
        pct => format!("{pct:.0}"),
    }
}

/// The failures of each load that both runs have.
pub(super) fn failure_changes(a: &[Entry], b: &[Entry]) -> Vec<FailureChange> {
    let others = named_loads(b);
    let pairs = named_loads(a).into_iter().filter_map(|(subject, one)| {
        let (_, two) = others.iter().find(|(other, _)| *other == subject)?;
        Some(FailureChange { subject, kinds: kinds(one, two) })
    });
    pairs.collect()
}

fn kinds(one: &Load, two: &Load) -> Vec<(String, FailureCounts)> {
    let counts = |load: &Load, name: &str| {
        let operation = load.by_operation.iter().find(|operation| operation.name == name);
        operation.map_or((0, 0), |operation| (operation.failed, operation.count + operation.failed))
    };
    let mut names: Vec<&str> =
        one.by_operation.iter().chain(&two.by_operation).map(|operation| operation.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &str| (name.to_lowercase(), FailureCounts { a: counts(one, name), b: counts(two, name) });
    names.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_differ_by_chance_are_noise_and_contradictions_are_not_told() {
        let counts = |a, b| FailureCounts { a, b };
        let lower = BetterDirection::Lower;
        assert_eq!(counts((0, 1000), (500, 1000)).beyond_noise(lower, 0.0, 500.0), Some(true));
        assert_eq!(counts((0, 1000), (1, 1000)).beyond_noise(lower, 0.0, 1.0), Some(false));
        // Ten times as many failures among a thousand times as many operations.
        assert_eq!(counts((10, 100), (100, 100_000)).beyond_noise(lower, 10.0, 100.0), None);
    }

    #[test]
    fn shares_have_three_digits() {
        assert_eq!([0.0, 0.0004, 0.05, 3.21, 49.6].map(percent), ["0", "under 0.001", "0.050", "3.2", "50"]);
    }
}
