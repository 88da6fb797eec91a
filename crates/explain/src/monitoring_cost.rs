//! The cost of monitoring for the host and the servers, from the samplers' own counters.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Evidence;

const SECOND_NS: f64 = 1e9;

/// The cost of monitoring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonitoringCost {
    /// Processor time of all samplers, as a share of one core.
    pub core_share: f64,
    /// The share of one core by sampler.
    pub core_share_by_sampler: BTreeMap<String, f64>,
    /// Time that all servers together spent on the samplers' commands, in milliseconds a second.
    pub server_ms_per_s: f64,
}

impl MonitoringCost {
    /// The cost over the window of the evidence, if it was counted.
    pub fn from_evidence(evidence: &Evidence) -> Option<MonitoringCost> {
        let (begin_ns, end_ns) = evidence.window_ns;
        let seconds = end_ns.saturating_sub(begin_ns) as f64 / SECOND_NS;
        let total = |name: &str, ending: &str| {
            let sampler = name.strip_suffix(ending)?.to_owned();
            Some((sampler, evidence.sum(&format!("monitor.{name}"))?))
        };
        let all = |ending: &str| -> BTreeMap<String, f64> {
            evidence.series.starting("monitor.").filter_map(|(name, _)| total(name, ending)).collect()
        };
        let by_sampler = all(".cpu_us");
        if by_sampler.is_empty() || seconds <= 0.0 {
            return None;
        }
        let of_core = |us: f64| us / 1e6 / seconds;
        Some(MonitoringCost {
            core_share: of_core(by_sampler.values().sum()),
            core_share_by_sampler: by_sampler.into_iter().map(|(name, us)| (name, of_core(us))).collect(),
            server_ms_per_s: all(".command_us").values().sum::<f64>() / 1000.0 / seconds,
        })
    }
}
