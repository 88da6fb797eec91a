//! What is judged: one server of a run, and the latency of its operations.

use fathom_record::Finding;
use fathom_stats::EventCycle;

use super::latency::Latency;
use crate::Evidence;
use crate::windows::in_ns;

/// What is judged: one server of a run, and the latency of its operations.
pub(crate) struct Subject<'e> {
    pub(super) evidence: &'e Evidence,
    pub(super) member: &'e str,
    pub(super) latency: &'e Latency,
    /// When its checkpoints ran.
    pub(super) checkpoints: &'e [(f64, f64)],
}

impl Subject<'_> {
    /// The name of a series of this server.
    pub(super) fn name(&self, last: &str) -> String {
        format!("server.{}.{last}", self.member)
    }

    /// ` on HOST` where there are several servers, for sentences.
    pub(super) fn at(&self) -> String {
        if self.evidence.members().len() < 2 {
            return String::new();
        }
        let host = self.evidence.environment.get(&format!("server.{}", self.member));
        host.map_or_else(|| format!(" on server {}", self.member), |host| format!(" on {host}"))
    }

    /// Adds the series that exist, those of the latency, and the windows of the cycles.
    pub(super) fn cite(
        &self,
        finding: Finding,
        names: impl IntoIterator<Item = String>,
        cycles: &[EventCycle],
    ) -> Finding {
        let there: Vec<String> =
            names.into_iter().filter(|name| self.evidence.series.get(name).is_some()).collect();
        let finding = finding.series(self.latency.series.clone()).series(there);
        cycles.iter().fold(finding, |finding, cycle| finding.window(in_ns(cycle.event_s)))
    }
}
