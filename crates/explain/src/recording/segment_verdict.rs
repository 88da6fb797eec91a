//! The judgement of one segment of a recording by the rules for runs.

use fathom_record::SeriesSet;
use fathom_record::verdict::{Domain, Verdict};

use super::recorded_facts::RecordedFacts;
use crate::{Evidence, judge};

/// Layers of the budget in which operations wait for storage.
const STORAGE_LAYERS: [&str; 2] = ["page_read", "journal"];

/// A segment in a few figures.
#[derive(Clone, Debug)]
pub(super) struct SegmentVerdict {
    /// Reads and writes that ended.
    pub(super) operations: f64,
    /// Their time, in seconds.
    pub(super) operation_s: f64,
    /// The part of that time in which they waited for storage.
    pub(super) storage_s: f64,
    /// The cause that holds the server back in this segment, what it costs in seconds, and its verdict.
    pub(super) held_back: Option<(Option<Domain>, f64, Verdict)>,
}

impl SegmentVerdict {
    /// `None` if too few operations ended for a budget.
    pub(super) fn from_series(
        member: usize,
        facts: &RecordedFacts,
        series: SeriesSet,
        window_ns: (u64, u64),
    ) -> Option<SegmentVerdict> {
        let evidence = Evidence {
            series,
            environment: facts.environment(member),
            results: Vec::new(),
            window_ns,
            seed: window_ns.0,
        };
        let judgement = judge(&evidence);
        let budget = judgement.budgets.iter().find(|budget| budget.operations == "all")?;
        let operation_s = budget.count * budget.server_mean_us / 1e6;
        let storage_us: f64 = budget
            .layers
            .iter()
            .filter(|layer| STORAGE_LAYERS.contains(&layer.name.as_str()))
            .map(|layer| layer.mean_us)
            .sum();
        let held_back = judgement.verdict.filter(|verdict| verdict.exit_code() == 1).map(|verdict| {
            let share = verdict.cost.as_ref().map_or(0.0, |cost| cost.share);
            (verdict.domain, share * operation_s, verdict)
        });
        Some(SegmentVerdict {
            operations: budget.count,
            operation_s,
            storage_s: storage_us * budget.count / 1e6,
            held_back,
        })
    }
}
