//! Runs one measurement from its specification to its run folder: probe, loads, monitoring, judgement.
//!
//! Every result is in the run folder before the caller gets it. A session removes what it created when it ends, also after an error or a
//! signal.

use std::path::PathBuf;
use std::time::Instant;

use fathom_errors::{Error, Result};
use fathom_record::burst_allowance::BurstVerdict;
use fathom_record::capacity::NeedAnswer;
use fathom_record::disk::{Entry, capacities};
use fathom_record::{Finding, RunVerdict, State};
use serde::{Deserialize, Serialize};

use crate::burst_check::{ReadCount, unknown};
use crate::context::{SessionContext, SessionTools};
use crate::{
    Assessment, Events, LiveFeed, LoadSpec, MonitorSession, MonitorSpec, ProbeSpec, RecordSpec, RunRecorder,
    SearchOutcome, WorkloadSpec, load, probe, ranked_findings,
};

/// The steps of a session in their order. An absent step is left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionSpec {
    /// The run folder to write.
    pub record: Option<RecordSpec>,
    /// Earlier findings, such as those on the host's settings, to record with those of the session.
    pub findings: Vec<Finding>,
    /// Monitoring without a load.
    pub monitor: Option<MonitorSpec>,
    pub probe: Option<ProbeSpec>,
    /// The loads, one after another.
    pub loads: Vec<LoadSpec>,
}

/// The result of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// The final state, as in the run folder.
    pub state: State,
    /// The run folder, if it is complete.
    pub folder: Option<PathBuf>,
    /// All results, in order.
    pub results: Vec<Entry>,
    /// The findings of the probe.
    pub probe_findings: Vec<Finding>,
    /// The assessment of monitoring without a load, if it was judged, and then that of each server.
    pub assessments: Vec<Assessment>,
    /// The outcome of a search for the highest rate.
    pub search: Option<SearchOutcome>,
    /// True if a signal ended the session early.
    pub is_interrupted: bool,
    /// Why a load was given up, if it was.
    pub broken: Option<String>,
    /// The first error. The results before it are valid.
    pub error: Option<Error>,
}

impl SessionResult {
    /// The one verdict of the session; `None` if nothing was judged.
    pub fn verdict(&self) -> Option<RunVerdict<'_>> {
        let servers = self.assessments.iter().filter_map(|one| one.judgement.verdict.as_ref());
        RunVerdict::with_servers(&self.results, &self.probe_findings, servers)
    }
}

/// The outcome of the parts of a session.
#[derive(Default)]
struct SessionOutcome {
    probe_findings: Vec<Finding>,
    search: Option<SearchOutcome>,
    broken: Option<String>,
    is_interrupted: bool,
    error: Option<Error>,
}

impl SessionOutcome {
    /// Returns whether the parts that follow are left out.
    fn is_over(&self) -> bool {
        self.is_interrupted || self.error.is_some() || self.broken.is_some()
    }
}

/// Runs a session.
///
/// # Errors
/// When nothing was measured, because the probe or the monitoring could not begin, and when the caller no longer takes results. A later
/// error is part of the result.
pub fn run(spec: &SessionSpec, tools: &SessionTools, events: &mut dyn Events) -> Result<SessionResult> {
    let recorder = RunRecorder::open(spec.record.as_ref(), tools.note);
    let mut context =
        SessionContext { tools, events, recorder, results: Vec::new(), assessments: Vec::new() };
    let measured = measure(spec, &mut context);
    let SessionContext { mut recorder, results, assessments, .. } = context;
    if let Some(error) = measured.as_ref().map_or_else(Some, |outcome| outcome.error.as_ref()) {
        recorder.error_id(error);
    }
    let outcome = match measured {
        Ok(outcome) => outcome,
        Err(error) => {
            let findings = spec.probe.as_ref().map(|_| spec.findings.as_slice());
            recorder.close(State::Failed, Some(error.to_string()), findings);
            return Err(error);
        }
    };
    let SessionOutcome { probe_findings, search, broken, is_interrupted, error } = outcome;
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

fn measure(spec: &SessionSpec, context: &mut SessionContext<'_>) -> Result<SessionOutcome> {
    let mut outcome = SessionOutcome::default();
    // A probe and loads would disturb the monitored system.
    if let Some(monitor) = &spec.monitor {
        follow(monitor, context, &mut outcome)?;
    }
    let mut reads = spec.probe.as_ref().and_then(|probe| ReadCount::start(&probe.dir));
    if let Some(probe) = spec.probe.as_ref().filter(|_| !outcome.is_over()) {
        let probed = probe::run(probe, context)?;
        outcome.probe_findings = probed.findings;
        (outcome.is_interrupted, outcome.error) = (probed.is_interrupted, probed.error);
    }
    for load in &spec.loads {
        if outcome.is_over() {
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
    let is_sustained = match &spec.probe {
        Some(probe) if !capacities(&context.results).is_empty() => {
            let allowance = reads
                .as_mut()
                .map_or_else(|| unknown(&probe.dir), |reads| reads.judge(&probe.dir, context.knee()));
            let is_sustained = allowance.verdict == BurstVerdict::Sustained;
            context.result(&Entry::BurstAllowance(Box::new(allowance)))?;
            is_sustained
        }
        _ => false,
    };
    answer_needs(spec, is_sustained, context)?;
    Ok(outcome)
}

/// Records for each server whether its capacities cover the need, if there is one. An interrupted search leaves the answer to what was measured.
fn answer_needs(spec: &SessionSpec, is_sustained: bool, context: &mut SessionContext<'_>) -> Result<()> {
    let need = spec.loads.iter().find_map(|load| match &load.workload {
        WorkloadSpec::Capacity(capacity) => capacity.need.as_ref(),
        _ => None,
    });
    let Some(need) = need else { return Ok(()) };
    let mut answers: Vec<NeedAnswer> = capacities(&context.results)
        .chunk_by(|one, next| one.server == next.server)
        .map(|of_server| need.answer(&of_server[0].server, of_server, is_sustained))
        .collect();
    if answers.is_empty() {
        answers.push(need.answer("the server", &[], false));
    }
    answers.into_iter().try_for_each(|answer| context.result(&Entry::Need(Box::new(answer))))
}

/// Monitors until the time is over or the caller ends it, and judges the window.
fn follow(spec: &MonitorSpec, context: &mut SessionContext<'_>, outcome: &mut SessionOutcome) -> Result<()> {
    let mut session = MonitorSession::start(spec, context.recorder.clock())?;
    let until = spec.time.map(|time| Instant::now() + time);
    let mut feed = LiveFeed::new(&mut session, &mut context.recorder);
    let followed = context.events.follow(&mut feed, until, &context.tools.signals);
    session.stop(&mut context.recorder);
    outcome.error = followed.err();
    if spec.is_judged && outcome.error.is_none() {
        let mut window = session.window;
        window.evidence.results.extend(spec.known_results.iter().cloned());
        let mut assessment = Assessment::from_window(spec.subject(), window);
        assessment.judgement.verdict.iter_mut().for_each(|verdict| verdict.is_of_deployment = true);
        context.recorder.judgement(&assessment.judgement);
        context.events.assessed(&assessment)?;
        context.assessments.push(assessment);
        // A judgement of a shorter time than requested counts as interrupted. A view without a judgement may end at any time.
        outcome.is_interrupted = context.is_stopped();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fathom_probe::{IoEngine, Job, Pattern, WindowPlan, WriteSync};
    use fathom_process::Signals;
    use fathom_testkit::{Scratch, assert, assert_eq, test};
    use fathom_units::{Bytes, Nanos};

    use super::*;
    use crate::{CoreLoad, Driver, NoEvents, ProbePlan, SearchSpec, ServerSpec, WorkloadSpec};

    fn tools() -> SessionTools {
        SessionTools { signals: Signals::install().unwrap(), note: |_| () }
    }

    fn probe(dir: &Path) -> ProbeSpec {
        let job =
            Job::new(Pattern::RandWrite, Bytes::kib(4), IoEngine::Psync, 1).durable(WriteSync::Fdatasync);
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
        let result = run(&spec, &SessionTools { note, ..tools() }, &mut NoEvents).unwrap();
        assert_eq!((result.state, result.folder), (State::Complete, None));
        assert!(result.results.iter().any(|entry| matches!(entry, Entry::Step(_))));
        let noted = NOTED.lock().unwrap().join("\n");
        assert!(noted.contains("this run is not kept"), "{noted}");
    }
}
