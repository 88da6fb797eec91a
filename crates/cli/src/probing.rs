//! One disk probing from the first look to the findings: what `disk` and `checkup` share.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use fathom_errors::{Error, Kind};
use fathom_host::cgroup::{Cgroups, Limit};
use fathom_host::{BlockTree, View};
use fathom_probe::judge::{self, Documents, Evidence};
use fathom_probe::{
    Engine, Job, LadderPlan, LayoutPlan, Needs, Pace, Pattern, Permits, Place, Session, Slo, Target,
    WindowPlan,
};
use fathom_process::{Ledger, Signals};
use fathom_record::disk::{Entry, Layout};
use fathom_record::{Finding, Manifest, RunWriter, State};
use fathom_units::{Bytes, Nanos};

use crate::live::Live;
use crate::loading::LoadPlan;
use crate::watched_load::{self, Judged};
use crate::{output, run_folders};

/// What to run once the file is laid out.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// All shapes in turn.
    Profile(Pace, Engine),
    /// One shape up the ladder.
    Ladder(LadderPlan),
    /// One shape at one depth or rate.
    Window(WindowPlan),
    /// The highest rate that holds an objective.
    Objective(Job, Slo, Nanos),
}

impl Plan {
    fn needs(&self) -> Needs {
        let of = |jobs: &[Job]| Needs {
            writes: jobs.iter().any(|job| job.pattern.writes()),
            journal: jobs.iter().any(|job| job.pattern == Pattern::Append),
        };
        match self {
            Plan::Profile(..) => Needs { writes: true, journal: true },
            Plan::Ladder(ladder) => of(std::slice::from_ref(&ladder.job)),
            Plan::Window(window) => of(&window.jobs),
            Plan::Objective(job, ..) => of(std::slice::from_ref(job)),
        }
    }

    /// The jobs that a person named, at their deepest; a profile chooses its own.
    fn named_jobs(&self) -> Vec<Job> {
        match self {
            Plan::Profile(..) => Vec::new(),
            Plan::Ladder(ladder) => {
                let depth = if ladder.complete { ladder.depth_max } else { ladder.depth_min };
                vec![Job { depth, ..ladder.job.clone() }]
            }
            Plan::Window(window) => window.jobs.clone(),
            Plan::Objective(job, ..) => vec![job.clone()],
        }
    }
}

/// The documents that the sentences speak of, on the command line of every verb that says such sentences.
#[derive(Clone, Debug, Args)]
pub(crate) struct DocumentArgs {
    /// Documents to speak of in sentences
    #[arg(long, default_value_t = Documents::default().count, value_parser = clap::value_parser!(u64).range(1..))]
    documents: u64,
    /// Bytes of each of them
    #[arg(long, default_value = "1K")]
    document_size: Bytes,
}

impl DocumentArgs {
    /// The same, refused where it makes no sense.
    pub(crate) fn documents(&self) -> Result<Documents> {
        if self.document_size == Bytes(0) {
            return Err(Error::usage("documents of 0 bytes make no sense").into());
        }
        Ok(Documents { count: self.documents, bytes: self.document_size })
    }
}

/// Where, how and what to probe.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) dir: PathBuf,
    pub(crate) size: Option<Bytes>,
    pub(crate) direct: bool,
    pub(crate) permits: Permits,
    pub(crate) verify: bool,
    pub(crate) keep: bool,
    pub(crate) seed: u64,
    pub(crate) documents: Documents,
    pub(crate) layout_budget: Option<Nanos>,
    pub(crate) plan: Plan,
    /// What is loaded after it.
    pub(crate) load: Option<LoadPlan>,
}

/// What a probing brought; the results themselves are with the [`Live`].
#[derive(Debug, Default)]
pub(crate) struct Probed {
    pub(crate) findings: Vec<Finding>,
    /// What was seen of each server that was loaded.
    pub(crate) loads: Vec<Judged>,
    pub(crate) interrupted: bool,
    /// The first operation that failed; what was measured before it stands.
    pub(crate) error: Option<Error>,
}

/// A run folder for `verb` under `parent`, or a note why there is none: a measurement is worth having without.
pub(crate) fn open_run(
    verb: &str,
    parent: Option<PathBuf>,
    seed: u64,
    dir: &std::path::Path,
) -> Option<RunWriter> {
    let mut manifest = Manifest::new(verb, env!("CARGO_PKG_VERSION"), std::env::args());
    manifest.seed = seed;
    manifest.environment = fathom_host::environment::facts(&View::live(), Some(dir));
    match run_folders::parent(parent.as_deref()).and_then(|parent| RunWriter::create(&parent, manifest)) {
        Ok(run) => Some(run),
        Err(error) => {
            output::note(&format!("fathom: this run is not kept: {error}"));
            None
        }
    }
}

/// How a probing ended, with its run folder closed.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it brought.
    pub(crate) probed: Probed,
    /// How the run folder says it ended.
    pub(crate) state: State,
    /// Where that is, when it was written whole.
    pub(crate) folder: Option<PathBuf>,
}

/// Probes and closes the run folder, whatever happens; `already` are findings made before, kept in it too.
pub(crate) fn probe_and_record(
    wanted: &Wanted,
    live: &mut Live,
    signals: &Signals,
    already: &[Finding],
) -> Result<Ended> {
    let folder = live.run.as_ref().map(|run| run.folder().to_owned());
    let probed = match probe(wanted, live, signals) {
        Ok(probed) => with_load(wanted, live, signals, probed),
        Err(error) => {
            live.end(State::Failed, Some(error.to_string()), already);
            return Err(error);
        }
    };
    let state = match &probed {
        Probed { error: Some(_), .. } => State::Failed,
        Probed { interrupted: true, .. } => State::Interrupted,
        _ => State::Complete,
    };
    let under_load = watched_load::ranked(&probed.loads);
    let all: Vec<Finding> = already.iter().chain(&probed.findings).chain(&under_load).cloned().collect();
    live.end(state, probed.error.as_ref().map(Error::to_string), &all);
    Ok(Ended { probed, state, folder: folder.filter(|_| live.run_is_kept()) })
}

/// Loads a server after the probe, where that is wanted and nothing went wrong before.
fn with_load(wanted: &Wanted, live: &mut Live, signals: &Signals, mut probed: Probed) -> Probed {
    if let (Some(plan), false, None) = (&wanted.load, probed.interrupted, &probed.error) {
        probed.error = crate::loading::load(plan, live, signals, &mut probed.loads).err();
        probed.interrupted = signals.stopped();
    }
    probed
}

/// Looks, lays out, runs, judges. Whatever was made is undone when this returns, also by an error.
fn probe(wanted: &Wanted, live: &mut Live, signals: &Signals) -> Result<Probed> {
    let ledger = Ledger::open()?;
    let place = Place::look(&wanted.dir, wanted.plan.needs().writes, &wanted.permits)?;
    let target = Target::open(place.clone(), wanted.size, wanted.direct, wanted.plan.needs(), &ledger)?;
    if wanted.verify && place.is_device && !wanted.plan.needs().writes {
        let what = "--verify has nothing to compare a device with that it does not write";
        return Err(Error::usage(what).advise("take a --pattern that writes, or name a directory").into());
    }
    if target.is_broken() {
        let path = target.path().display();
        output::note(&format!("fathom: the kept file {path} is damaged or incomplete; it is laid out again"));
    }
    let zero = live.run.as_ref().map_or_else(Instant::now, RunWriter::started);
    let mut session = Session::new(target, wanted.seed, wanted.verify, signals.clone(), zero, live);
    let second_pass = if matches!(wanted.plan, Plan::Profile(..)) { Bytes::mib(64) } else { Bytes(0) };
    let layout_plan = LayoutPlan { budget_ns: wanted.layout_budget.map(Nanos::get), second_pass };
    wanted.plan.named_jobs().iter().try_for_each(|job| session.check(job))?;
    let layout = session.begin(&layout_plan, wanted.plan.needs().writes)?;
    let mut probed = Probed::default();
    if !session.interrupted() {
        probed.error = match carry_out(&mut session, &wanted.plan) {
            // Nobody reads on. Any other error comes after figures that are worth having.
            Err(error) if error.kind() == Kind::OutputClosed => return Err(error.into()),
            outcome => outcome.unwrap_or_else(Some),
        };
    }
    if probed.error.is_none() && wanted.verify {
        probed.error = recheck(&mut session);
    }
    probed.interrupted = session.interrupted();
    let cache_is_volatile = session.cache_is_volatile();
    // What cannot be removed is told too, but not instead of what went wrong before it.
    let closed = session.close(wanted.keep);
    probed.error = probed.error.or(closed.err());
    if probed.error.is_none() && !probed.interrupted && live.steps().is_empty() {
        let what = "no request came back within the time of a step";
        probed.error = Some(Error::new(Kind::Io, what).advise("take a longer --time, or an idle machine"));
    }
    judge(wanted, live, &place, layout.as_ref(), cache_is_volatile, &mut probed)?;
    Ok(probed)
}

fn carry_out(session: &mut Session<'_>, plan: &Plan) -> Result<Option<Error>, Error> {
    Ok(match plan {
        Plan::Profile(pace, engine) => session.profile(*pace, *engine)?.error,
        Plan::Ladder(ladder) => session.climb(ladder)?.error,
        Plan::Window(window) => session.measure_step(window)?.error,
        Plan::Objective(job, slo, step) => {
            let closed = session.measure_step(&WindowPlan::new("closed loop", vec![job.clone()], *step))?;
            match closed.error {
                Some(error) => Some(error),
                None if session.interrupted() => None,
                None => session.hold(job, slo, closed.step.per_s(), *step)?.1,
            }
        }
    })
}

/// Reads everything back; damage is an error to report beside the figures.
fn recheck(session: &mut Session<'_>) -> Option<Error> {
    match session.recheck() {
        // Cut short by a signal before it began.
        Ok(0) => None,
        Ok(checked) => {
            output::note(&format!("verified: {checked} blocks of 4 KiB hold what was written"));
            None
        }
        Err(error) => Some(error),
    }
}

fn judge(
    wanted: &Wanted,
    live: &mut Live,
    place: &Place,
    layout: Option<&Layout>,
    cache_is_volatile: Option<bool>,
    probed: &mut Probed,
) -> Result<()> {
    let steps = live.steps();
    for meaning in judge::meanings(&steps, live.knee(), wanted.documents) {
        fathom_probe::Sink::result(live, &Entry::Meaning(meaning))?;
    }
    let evidence = Evidence {
        steps: &steps,
        knee: live.knee(),
        layout,
        limits: limits(place),
        cache_is_volatile,
        in_memory: place.is_memory().then_some(place.file_system.as_str()),
    };
    probed.findings = judge::findings(&evidence);
    // One shape alone answers its own question; only the ladder and the profile answer the large one.
    if matches!(wanted.plan, Plan::Profile(..) | Plan::Ladder(..)) {
        let verdict = judge::verdict(&probed.findings, live.knee());
        fathom_probe::Sink::result(live, &Entry::Verdict(verdict))?;
    }
    Ok(())
}

/// The I/O limits that our own cgroup sets on the devices under a place, at any layer.
fn limits(place: &Place) -> Vec<(String, Limit)> {
    let view = View::live();
    let (tree, groups) = (BlockTree::read(&view), Cgroups::of(&view, None));
    let Some(top) = place.device.as_deref().and_then(|name| tree.by_name(name)) else { return Vec::new() };
    let mut limits = Vec::new();
    for device in tree.layers(top) {
        limits.extend(groups.io_limits(device.number).into_iter().map(|limit| (device.name.clone(), limit)));
    }
    limits
}
