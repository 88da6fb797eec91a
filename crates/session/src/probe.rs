//! Runs a disk probe, from the check of the directory to the findings.

use fathom_errors::{Error, Kind, Result};
use fathom_host::cgroup::{Cgroups, Limit};
use fathom_host::{BlockTree, View};
use fathom_probe::judge::{self, DiskEvidence, Medium};
use fathom_probe::{LayoutPlan, ProbeLocation, ProbeSession, ProbeTarget};
use fathom_process::Ledger;
use fathom_record::Finding;
use fathom_record::disk::{Entry, Layout, burst_allowance};
use fathom_units::{Bytes, Nanos};

use crate::context::SessionContext;
use crate::probe_spec::{ProbePlan, ProbeSpec};

/// The outcome of a probe.
#[derive(Debug, Default)]
pub(crate) struct ProbeOutcome {
    pub(crate) findings: Vec<Finding>,
    pub(crate) is_interrupted: bool,
    /// The error of the first operation that failed. The figures before it are valid.
    pub(crate) error: Option<Error>,
}

/// Checks the directory, lays out the file, runs the plan and judges. Removes what it created, also after an error.
///
/// # Errors
/// When nothing could be measured, and when the caller no longer takes results.
pub(crate) fn run(spec: &ProbeSpec, context: &mut SessionContext<'_>) -> Result<ProbeOutcome> {
    let ledger = Ledger::open()?;
    let needs = spec.plan.needs();
    let place = ProbeLocation::look(&spec.dir, needs.writes, &spec.permits)?;
    let target = ProbeTarget::open(place.clone(), spec.size, spec.is_direct, needs, &ledger)?;
    if spec.is_verified && place.is_device && !needs.writes {
        let what = "--verify has nothing to compare a device with that it does not write";
        return Err(Error::usage(what).advise("take a --pattern that writes, or name a directory"));
    }
    if target.is_broken() {
        let path = target.path().display();
        context.note(&format!("fathom: the kept file {path} is damaged or incomplete; it is laid out again"));
    }
    let (signals, zero) = (context.tools.signals.clone(), context.recorder.started());
    let note = context.tools.note;
    let mut session = ProbeSession::new(target, spec.seed, spec.is_verified, signals, zero, context);
    if let Some(text) = session.counter_note() {
        note(&format!("fathom: note: {text}"));
    }
    let second_pass = if matches!(spec.plan, ProbePlan::Profile(..)) { Bytes::mib(64) } else { Bytes(0) };
    let layout_plan = LayoutPlan { budget_ns: spec.layout_budget.map(Nanos::get), second_pass };
    spec.plan.named_jobs().iter().try_for_each(|job| session.check(job))?;
    let layout = session.begin(&layout_plan, needs.writes)?;
    let mut outcome = ProbeOutcome::default();
    if !session.interrupted() {
        outcome.error = match carry_out(&mut session, &spec.plan) {
            // The reader closed the output. Any other error leaves figures that are valid.
            Err(error) if error.kind() == Kind::OutputClosed => return Err(error),
            carried_out => carried_out.unwrap_or_else(Some),
        };
    }
    if outcome.error.is_none() && spec.is_verified {
        outcome.error = recheck(&mut session, note);
    }
    outcome.is_interrupted = session.interrupted();
    let cache_is_volatile = session.cache_is_volatile();
    // A file that cannot be removed is an error only if there was none before.
    let closed = session.close(spec.keeps_file);
    outcome.error = outcome.error.or(closed.err());
    if outcome.error.is_none() && !outcome.is_interrupted && context.steps().is_empty() {
        let what = "no request came back within the time of a step";
        outcome.error = Some(Error::new(Kind::Io, what).advise("take a longer --time, or an idle machine"));
    }
    judge(spec, context, &place, layout.as_ref(), cache_is_volatile, &mut outcome)?;
    Ok(outcome)
}

fn carry_out(session: &mut ProbeSession<'_>, plan: &ProbePlan) -> Result<Option<Error>> {
    Ok(match plan {
        ProbePlan::Profile(pace, engine) => session.profile(*pace, *engine)?.error,
        ProbePlan::Ladder(ladder) => session.climb(ladder)?.error,
        ProbePlan::Window(window) => session.measure_step(window)?.error,
        ProbePlan::Sustain(sustain) => session.sustain(sustain)?,
        ProbePlan::Objective(job, slo, step) => session.objective(job, slo, *step)?,
    })
}

/// Reads all blocks back. Damage is an error, and the figures stay valid.
fn recheck(session: &mut ProbeSession<'_>, note: fn(&str)) -> Option<Error> {
    match session.recheck() {
        // A signal came before it began.
        Ok(0) => None,
        Ok(checked) => {
            note(&format!("verified: {checked} blocks of 4 KiB hold what was written"));
            None
        }
        Err(error) => Some(error),
    }
}

fn judge(
    spec: &ProbeSpec,
    context: &mut SessionContext<'_>,
    place: &ProbeLocation,
    layout: Option<&Layout>,
    cache_is_volatile: Option<bool>,
    outcome: &mut ProbeOutcome,
) -> Result<()> {
    let steps = context.steps();
    for meaning in judge::meanings(&steps, context.knee(), spec.documents) {
        context.result(&Entry::Meaning(meaning))?;
    }
    let evidence = DiskEvidence {
        steps: &steps,
        knee: context.knee(),
        burst_allowance: burst_allowance(&context.results),
        layout,
        limits: limits(place),
        cache_is_volatile,
        medium: medium(place),
        in_memory: place.in_memory(),
    };
    outcome.findings = judge::findings(&evidence);
    // A single window has no knee and no verdict; only a ladder or a profile has.
    if matches!(spec.plan, ProbePlan::Profile(..) | ProbePlan::Ladder(..)) {
        let fitness = judge::fitness(&outcome.findings, context.knee());
        context.result(&Entry::Fitness(fitness))?;
    }
    Ok(())
}

fn medium(place: &ProbeLocation) -> Option<Medium> {
    let view = View::live();
    let tree = BlockTree::read(&view);
    Medium::slowest(place.leaves.iter().filter_map(|name| tree.by_name(name)), &view)
}

/// The I/O limits of this process's control group on the devices under a directory, at any layer of the stack.
fn limits(place: &ProbeLocation) -> Vec<(String, Limit)> {
    let view = View::live();
    let (tree, groups) = (BlockTree::read(&view), Cgroups::read(&view, None));
    let mut limits = Vec::new();
    for device in tree.layers(place.devices.iter().filter_map(|name| tree.by_name(name))) {
        limits.extend(groups.io_limits(device.number).into_iter().map(|limit| (device.name.clone(), limit)));
    }
    limits
}
