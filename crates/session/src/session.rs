//! One measurement from its specification to its run folder: probe, loads, monitoring, judgement.
//!
//! Every result is in the run folder before the caller gets it. A session removes what it created when it ends, also after an error or a
//! signal.

use std::path::PathBuf;
use std::time::Instant;

use fathom_errors::{Error, Result};
use fathom_record::disk::Entry;
use fathom_record::{Finding, State};
use serde::{Deserialize, Serialize};

use crate::context::{Context, Tools};
use crate::{
    Assessment, Events, LiveFeed, LoadSpec, MonitorSession, MonitorSpec, ProbeSpec, RecordSpec, RunRecorder,
    SearchOutcome, load, probe, ranked_findings,
};

/// The steps of a session in their order. An absent step is left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionSpec {
    /// The run folder to write.
    pub record: Option<RecordSpec>,
    /// Earlier findings, such as those on the host's settings, to record with those of the session.
    pub findings: Vec<Finding>,
    /// The probe.
    pub probe: Option<ProbeSpec>,
    /// The loads, one after another.
    pub loads: Vec<LoadSpec>,
    /// Monitoring without a load.
    pub monitor: Option<MonitorSpec>,
}

/// The result of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// How it ended, as in the run folder.
    pub state: State,
    /// The run folder, if it is complete.
    pub folder: Option<PathBuf>,
    /// All results, in order.
    pub results: Vec<Entry>,
    /// The findings of the probe.
    pub probe_findings: Vec<Finding>,
    /// The assessment of each server.
    pub assessments: Vec<Assessment>,
    /// The outcome of a search for the highest rate.
    pub search: Option<SearchOutcome>,
    /// Whether a signal ended the session early.
    pub is_interrupted: bool,
    /// Why a load was given up, if it was.
    pub broken: Option<String>,
    /// The first error. The results before it are valid.
    pub error: Option<Error>,
}

/// How the parts of a session went.
#[derive(Default)]
struct Outcome {
    probe_findings: Vec<Finding>,
    search: Option<SearchOutcome>,
    broken: Option<String>,
    is_interrupted: bool,
    error: Option<Error>,
}

/// Runs a session.
///
/// # Errors
/// When nothing was measured, because the probe or the monitoring could not begin, and when the caller no longer takes results. A later
/// error is part of the result.
pub fn run(spec: &SessionSpec, tools: &Tools, events: &mut dyn Events) -> Result<SessionResult> {
    let recorder = RunRecorder::open(spec.record.as_ref(), tools.note);
    let mut context = Context { tools, events, recorder, results: Vec::new(), assessments: Vec::new() };
    let measured = measure(spec, &mut context);
    let Context { recorder, results, assessments, .. } = context;
    let outcome = match measured {
        Ok(outcome) => outcome,
        Err(error) => {
            let findings = spec.probe.as_ref().map(|_| spec.findings.as_slice());
            recorder.close(State::Failed, Some(error.to_string()), findings);
            return Err(error);
        }
    };
    let Outcome { probe_findings, search, broken, is_interrupted, error } = outcome;
    let state = match () {
        () if error.is_some() || broken.is_some() => State::Failed,
        () if is_interrupted => State::Interrupted,
        () => State::Complete,
    };
    let judges = spec.probe.is_some() || !assessments.is_empty();
    let found = ranked_findings(&assessments);
    let findings: Vec<Finding> = spec.findings.iter().chain(&probe_findings).chain(&found).cloned().collect();
    let why = error.as_ref().map(Error::to_string).or_else(|| broken.clone());
    let folder = recorder.close(state, why, judges.then_some(&findings));
    Ok(SessionResult {
        state,
        folder,
        results,
        probe_findings,
        assessments,
        search,
        is_interrupted,
        broken,
        error,
    })
}

fn measure(spec: &SessionSpec, context: &mut Context<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    if let Some(probe) = &spec.probe {
        let probed = probe::run(probe, context)?;
        outcome.probe_findings = probed.findings;
        (outcome.is_interrupted, outcome.error) = (probed.is_interrupted, probed.error);
    }
    for load in &spec.loads {
        if outcome.is_interrupted || outcome.error.is_some() || outcome.broken.is_some() {
            break;
        }
        let loaded = load::run(load, context);
        outcome.is_interrupted = context.is_stopped();
        match loaded {
            Ok(loaded) => {
                (outcome.broken, outcome.search) = (loaded.broken, loaded.search);
                if loaded.is_over {
                    break;
                }
            }
            Err(error) => outcome.error = Some(error),
        }
    }
    if let Some(monitor) = &spec.monitor {
        follow(monitor, context, &mut outcome)?;
    }
    Ok(outcome)
}

/// Monitors until the time is over or the caller ends it, and judges the window.
fn follow(spec: &MonitorSpec, context: &mut Context<'_>, outcome: &mut Outcome) -> Result<()> {
    let mut session = MonitorSession::start(spec, context.recorder.clock())?;
    let until = spec.time.map(|time| Instant::now() + time);
    let mut feed = LiveFeed::new(&mut session, &mut context.recorder);
    let followed = context.events.follow(&mut feed, until, &context.tools.signals);
    session.stop(&mut context.recorder);
    outcome.error = followed.err();
    if spec.is_judged && outcome.error.is_none() {
        let mut window = session.window;
        window.evidence.results.extend(spec.known_results.iter().cloned());
        let assessment = Assessment::of_window(spec.subject(), window);
        context.recorder.judgement(&assessment.judgement);
        context.assessments.push(assessment);
        // A judgement of a shorter time than requested counts as interrupted. A view without a judgement may end at any time.
        outcome.is_interrupted = context.is_stopped();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fathom_probe::{Durable, Engine, Job, Pattern, WindowPlan};
    use fathom_process::Signals;
    use fathom_testkit::{Scratch, assert, assert_eq, test};
    use fathom_units::{Bytes, Nanos};

    use super::*;
    use crate::{CoreLoad, Driver, NoEvents, ProbePlan, SearchSpec, ServerSpec, WorkloadSpec};

    fn tools() -> Tools {
        Tools { signals: Signals::install().unwrap(), note: |_| () }
    }

    fn probe(dir: &Path) -> ProbeSpec {
        let job = Job::new(Pattern::RandWrite, Bytes::kib(4), Engine::Psync, 1).durable(Durable::Fdatasync);
        let window = WindowPlan::new("randwrite", vec![job], Nanos::millis(100));
        let plan = ProbePlan::Window(window);
        ProbeSpec { size: Some(Bytes::mib(16)), is_direct: false, ..ProbeSpec::new(dir, plan) }
    }

    #[test]
    fn a_specification_survives_json() {
        let slo = "p99<10ms".parse().unwrap();
        let load = CoreLoad { name: "run".to_owned(), records: Some(7), ..CoreLoad::default() };
        let spec = SessionSpec {
            record: Some(RecordSpec::new("ycsb", None, Path::new("/data")).seed(3)),
            probe: Some(probe(Path::new("/data"))),
            loads: vec![LoadSpec {
                server: ServerSpec::Url,
                workload: WorkloadSpec::Search(SearchSpec { load, slo, step: Nanos::secs(9) }),
                driver: Driver::Official,
                monitor: Some(MonitorSpec { uris: vec!["mongodb://h".to_owned()], ..MonitorSpec::default() }),
                is_strict: true,
                has_points: false,
            }],
            ..SessionSpec::default()
        };
        let text = serde_json::to_string(&spec).unwrap();
        let read: SessionSpec = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(text.contains("p99<10ms"), "{text}");
    }

    #[test]
    fn a_probe_is_in_its_run_folder_and_nothing_else_stays() {
        let scratch = Scratch::new().unwrap();
        let (data, runs) = (scratch.path().join("data"), scratch.path().join("runs"));
        std::fs::create_dir(&data).unwrap();
        let record = Some(RecordSpec::new("disk", Some(runs.clone()), &data));
        let spec = SessionSpec { record, probe: Some(probe(&data)), ..SessionSpec::default() };
        let result = run(&spec, &tools(), &mut NoEvents).unwrap();
        assert_eq!(result.state, State::Complete, "{:?}", result.error);
        let folder = result.folder.unwrap();
        let recorded = fathom_record::Run::open(&folder).unwrap().results().unwrap();
        assert_eq!(recorded, result.results);
        assert!(recorded.iter().any(|entry| matches!(entry, Entry::Step(_))), "{recorded:?}");
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    }

    #[test]
    fn a_run_folder_that_cannot_be_made_costs_a_note_and_no_measurement() {
        static NOTED: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "no folder").unwrap();
        let record = Some(RecordSpec::new("disk", Some(file), &scratch.path()));
        let spec = SessionSpec { record, probe: Some(probe(&scratch.path())), ..SessionSpec::default() };
        let note = |sentence: &str| NOTED.lock().unwrap().push(sentence.to_owned());
        let result = run(&spec, &Tools { note, ..tools() }, &mut NoEvents).unwrap();
        assert_eq!((result.state, result.folder), (State::Complete, None));
        assert!(result.results.iter().any(|entry| matches!(entry, Entry::Step(_))));
        let noted = NOTED.lock().unwrap().join("\n");
        assert!(noted.contains("this run is not kept"), "{noted}");
    }
}
