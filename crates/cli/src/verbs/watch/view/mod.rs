//! What the screen shows, as plain values: from the last minutes and their judgement to a [`Screen`].
//!
//! Nothing here knows of terminals, so that every number on the screen can be tested, and `--json` prints the same.

mod checkpoints;
mod devices;
pub(crate) mod heat;
mod ladder;
mod latency;
mod loops;
mod members;
mod reading;
mod suspects;

use fathom_explain::Judgement;
use fathom_record::verdict::Verdict;
use serde::Serialize;

pub(crate) use self::checkpoints::{Checkpoints, Cycle};
pub(crate) use self::devices::Device;
pub(crate) use self::heat::Heat;
pub(crate) use self::ladder::Rung;
pub(crate) use self::latency::LatencyRow;
pub(crate) use self::loops::{LoopPart, LoopRow};
pub(crate) use self::members::Member;
pub(crate) use self::suspects::Suspect;

use self::reading::{Look, SECOND_NS};
use crate::watching::Recent;

/// Everything on the screen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Screen {
    /// What is watched, in words.
    pub(crate) target: String,
    pub(crate) elapsed_s: f64,
    pub(crate) members: Vec<Member>,
    /// The newest changes of members' states and of who answers, the last one last.
    pub(crate) changes: Vec<String>,
    pub(crate) loops: Vec<LoopRow>,
    #[serde(skip)]
    pub(crate) heat: Heat,
    pub(crate) ladder: Vec<Rung>,
    pub(crate) checkpoints: Vec<Checkpoints>,
    pub(crate) latency: Vec<LatencyRow>,
    pub(crate) devices: Vec<Device>,
    /// Share of time in which some task waited for a device, 0 to 1.
    pub(crate) io_pressure_share: Option<f64>,
    pub(crate) cpu_pressure_share: Option<f64>,
    pub(crate) cpu_idle_pct: Option<f64>,
    /// Whether something holds the system back, of the last minutes; none before they were judged.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) suspects: Vec<Suspect>,
    /// What could not be read, the newest last.
    pub(crate) notes: Vec<String>,
    /// What the samplers take of a processor, 0 to 1.
    pub(crate) own_cpu_share: Option<f64>,
}

impl Screen {
    /// What there is to show of the last minutes.
    pub(crate) fn of(target: &str, recent: &Recent, judgement: &Judgement) -> Screen {
        let look = Look { evidence: &recent.evidence };
        let samplers = look.named("monitor.", ".cpu_us");
        let devices = devices::all(look);
        let own_us: Vec<f64> =
            samplers.iter().filter_map(|name| look.rate(&format!("monitor.{name}.cpu_us"))).collect();
        Screen {
            target: target.to_owned(),
            elapsed_s: recent.newest_ns() as f64 / SECOND_NS as f64,
            members: members::all(look, &devices),
            changes: members::changes(look),
            loops: loops::rows(look, judgement),
            heat: heat::strip(look),
            ladder: ladder::rungs(look),
            checkpoints: checkpoints::all(look),
            latency: latency::rows(look),
            devices,
            io_pressure_share: devices::pressure_share(look, "io"),
            cpu_pressure_share: devices::pressure_share(look, "cpu"),
            cpu_idle_pct: look.level("host.cpu.idle_pct"),
            verdict: judgement.verdict.clone(),
            suspects: suspects::top(judgement),
            notes: recent.notes.clone(),
            own_cpu_share: (!own_us.is_empty()).then(|| own_us.iter().sum::<f64>() / 1e6),
        }
    }
}
