//! The contents of the screen, as plain values: makes a [`Screen`] from the last minutes and their judgement.
//!
//! This module does not depend on terminals, so that every number on the screen can be tested, and `--json` prints the same.

mod checkpoints;
mod deployment;
pub(crate) mod heat;
mod operations;
mod reading;
mod work;

use std::time::Duration;

use fathom_explain::Judgement;
use fathom_record::verdict::Verdict;
use fathom_record::{Confidence, Finding, Severity};
use fathom_session::RecentWindow;
use serde::Serialize;

pub(crate) use self::checkpoints::{CheckpointView, Cycle};
pub(crate) use self::deployment::{DeviceFigures, MemberView};
pub(crate) use self::heat::Heat;
pub(crate) use self::operations::{LatencyRow, LoopPart, LoopRow, Rung};
pub(crate) use self::work::OperationView;

use self::reading::{EvidenceView, SECOND_NS};

/// The number of suspects that are shown.
const MAX_SUSPECTS: usize = 3;

/// Everything on the screen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Screen {
    /// The target, in words.
    pub(crate) target: String,
    pub(crate) elapsed_s: f64,
    pub(crate) members: Vec<MemberView>,
    /// The newest changes of members' states and of servers' reachability, the last one last.
    pub(crate) changes: Vec<String>,
    pub(crate) loops: Vec<LoopRow>,
    #[serde(skip)]
    pub(crate) heat: Heat,
    pub(crate) ladder: Vec<Rung>,
    pub(crate) checkpoints: Vec<CheckpointView>,
    pub(crate) latency: Vec<LatencyRow>,
    /// What busy servers run now, the longest time first.
    pub(crate) operations: Vec<OperationView>,
    pub(crate) devices: Vec<DeviceFigures>,
    /// Share of time in which some task waited for a device, 0 to 1.
    pub(crate) io_pressure_share: Option<f64>,
    pub(crate) cpu_pressure_share: Option<f64>,
    pub(crate) cpu_idle_pct: Option<f64>,
    /// The verdict on the last minutes; `None` before the first judgement.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) suspects: Vec<MainFinding>,
    /// Readings that failed, the newest last.
    pub(crate) notes: Vec<String>,
    /// The share of a processor that the samplers use, 0 to 1.
    pub(crate) own_cpu_share: Option<f64>,
}

impl Screen {
    /// The content of the screen for the last minutes, of servers that are read at `interval`.
    pub(crate) fn new(
        target: &str,
        recent: &RecentWindow,
        interval: Duration,
        judgement: &Judgement,
    ) -> Screen {
        // Readings come once a second, however often they are taken.
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(SECOND_NS);
        let look = EvidenceView { evidence: &recent.evidence, now_ns: recent.now_ns(), interval_ns };
        let samplers = look.named("monitor.", ".cpu_us");
        let devices = deployment::devices(look);
        let own_us: Vec<f64> =
            samplers.iter().filter_map(|name| look.rate(&format!("monitor.{name}.cpu_us"))).collect();
        Screen {
            target: target.to_owned(),
            elapsed_s: recent.now_ns() as f64 / SECOND_NS as f64,
            members: deployment::members(look, &devices),
            changes: deployment::changes(look),
            loops: operations::loop_rows(look, judgement),
            heat: heat::strip(look),
            ladder: operations::rungs(look),
            checkpoints: checkpoints::all(look),
            latency: operations::latency_rows(look),
            operations: work::operations(look),
            devices,
            io_pressure_share: deployment::pressure_share(look, "io"),
            cpu_pressure_share: deployment::pressure_share(look, "cpu"),
            cpu_idle_pct: look.level("host.cpu.idle_pct"),
            verdict: judgement.verdict.clone(),
            suspects: suspects(judgement),
            notes: recent.notes.clone(),
            own_cpu_share: (!own_us.is_empty()).then(|| own_us.iter().sum::<f64>() / 1e6),
        }
    }
}

/// The most important finding, in a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MainFinding {
    pub(crate) id: String,
    pub(crate) claim: String,
    pub(crate) confidence: Confidence,
    pub(crate) severity: Severity,
    /// The share of the mean response time that would be saved without it.
    pub(crate) cost_share: Option<f64>,
    /// The reduction by its advice, as a share, and the figure that it reduces.
    pub(crate) gain: Option<(f64, String)>,
}

/// The first findings that report a problem or a note, as they are ranked: by their cost.
fn suspects(judgement: &Judgement) -> Vec<MainFinding> {
    let is_worth_a_line = |finding: &&Finding| finding.severity > Severity::Ok;
    judgement
        .findings
        .iter()
        .filter(is_worth_a_line)
        .take(MAX_SUSPECTS)
        .map(|finding| MainFinding {
            id: finding.id.clone(),
            claim: finding.claim.clone(),
            confidence: finding.confidence,
            severity: finding.severity,
            cost_share: finding.cost.as_ref().map(|cost| cost.share),
            gain: finding.gain.as_ref().map(|gain| (gain.share, gain.of.clone())),
        })
        .collect()
}
