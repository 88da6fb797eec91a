//! `fathom compare`: runs a study from its file to its answer, and creates, measures and removes everything that it needs.
//!
//! `fathom_lab` defines studies and judges them. This module adds options, progress and a report. It creates nothing before it has
//! checked that the whole study is possible.

mod printer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_host::View;
use fathom_host::sched::CpuTimes;
use fathom_lab::{
    Bench, IncludedStudy, Journal, Study, StudyEnd, StudyProgress, TrialPlan, answer, estimate,
    planned_blindness, planned_shortage,
};
use fathom_process::{Ledger, Signals};
use fathom_record::disk::Entry;
use fathom_record::{Manifest, RunLock, RunWriter, State};
use fathom_session::run_folders;
use serde_json::json;

use crate::outcome::VerbOutcome;
use crate::output;
use crate::output::WIDTH;
use crate::run_page::{self, PageArgs};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom compare --list                                the built-in studies
  fathom compare xfs-against-ext4 --quick              a study, in small
  fathom compare xfs-against-ext4 --dry-run            its plan, time and room
  fathom compare micro-sharding --dir /data/lab
  fathom compare loops-and-flush --print > mine.yaml   a copy to edit
  fathom compare mine.yaml --size article
  fathom compare --resume                              after a crash or Ctrl-C
  fathom compare --factors                             factors and metrics

Storage, servers and files that it makes are removed at the end; after a kill
-9, by 'fathom cleanup'. The run folder gets a page, report.html. Most storage
needs root. docs/compare.md explains how to read an answer.
Exit codes: 0 ok, 1 a trial failed, 2 usage, 3 environment.";

/// The arguments that contradict `--list`.
const LONE: [&str; 8] = ["study", "quick", "size", "dry_run", "resume", "print", "runs", "dir"];

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// A study's file, or the name of one that is included
    #[arg(value_name = "STUDY", required_unless_present_any = ["list", "factors", "resume"])]
    study: Option<String>,
    /// The study's small size
    #[arg(long, conflicts_with = "size")]
    quick: bool,
    /// One of the study's sizes (quick, article ...)
    #[arg(long, value_name = "NAME")]
    size: Option<String>,
    /// Directory for storage and data
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the plan, its time and the space that it needs, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Resume an interrupted study: its run folder [default: the newest]
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "newest", conflicts_with_all = ["study", "quick", "size", "dry_run", "print", "dir"])]
    resume: Option<PathBuf>,
    /// List the built-in studies
    #[arg(long, conflicts_with_all = LONE)]
    list: bool,
    /// List all factors with their levels, and all metrics
    #[arg(long, conflicts_with_all = LONE, conflicts_with = "list")]
    factors: bool,
    /// Print the study's file
    #[arg(long, conflicts_with_all = ["dry_run", "json", "quick", "size", "dir", "runs"])]
    print: bool,
    /// Print JSON: one document at the end
    #[arg(long)]
    json: bool,
    /// Directory for run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    page: PageArgs,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("compare"))
        .about("Run a study: file systems, RAID, engines, write concern, shards, knobs; with intervals and verdicts")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs or resumes a study.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let reasons = [
        (config.json, "--json"),
        (config.list, "--list"),
        (config.factors, "--factors"),
        (config.print, "--print"),
        (config.dry_run, "--dry-run"),
    ];
    config.page.check(&reasons)?;
    if config.list || config.factors {
        output::line(&match (config.list, config.json) {
            (true, false) => printer::studies(),
            (true, true) => printer::studies_document().to_string(),
            (false, false) => printer::factors(),
            (false, true) => printer::factors_document().to_string(),
        })?;
        return Ok(VerbOutcome::Clean);
    }
    if let Some(named) = &config.resume {
        return resume(&config, named);
    }
    let size = if config.quick { Some("quick") } else { config.size.as_deref() };
    let named = config.study.as_deref().unwrap_or_default();
    let (study, text) = read(named, size)?;
    if config.print {
        output::line(text.trim_end())?;
        return Ok(VerbOutcome::Clean);
    }
    let work = config.dir.canonicalize().map_err(|error| Error::io("open", &config.dir, error))?;
    let plan = TrialPlan::new(&study)?;
    let warnings = warnings(&study, &plan)?;
    if config.dry_run {
        // Conditions that would be refused later are refused here.
        let bench = bench(&work)?;
        bench.check(&study, &plan)?;
        let made = bench.storage(&study, &plan)?;
        output::line(&printer::plan(
            &study,
            &plan,
            &estimate(&study, &plan)?,
            &made,
            &warnings,
            config.json,
        )?)?;
        return Ok(VerbOutcome::Clean);
    }
    let bench = bench(&work)?;
    bench.check(&study, &plan)?;
    warnings.iter().for_each(|warning| output::note(&format!("fathom: {warning}")));
    let mut manifest = Manifest::new("compare", env!("CARGO_PKG_VERSION"), std::env::args());
    manifest.seed = study.design.seed;
    for (name, value) in [("study", &study.name), ("study.size", &study.size)] {
        manifest.environment.insert(name.to_owned(), value.clone());
    }
    let writer = RunWriter::create(&run_folders::parent(config.runs.as_deref())?, manifest)?;
    let journal = Journal::begin(writer.folder(), &text, size, &work)?;
    go(&config, &bench, &study, &plan, writer, journal)
}

/// The weaknesses of a study that are known before its first trial: too few blocks, trials that are too short, a busy machine.
fn warnings(study: &Study, plan: &TrialPlan) -> Result<Vec<String>> {
    let warnings = [planned_shortage(study, plan), planned_blindness(study, plan)?, busy_machine()];
    Ok(warnings.into_iter().flatten().collect())
}

/// The share of the processors that other programs use now, if it is large.
fn busy_machine() -> Option<String> {
    const LOOK: Duration = Duration::from_millis(500);
    const MAX_BUSY_PCT: f64 = 20.0;
    let view = View::live();
    let before = CpuTimes::read(&view).ok()?;
    std::thread::sleep(LOOK);
    let shares = CpuTimes::read(&view).ok()?.shares_since(&before)?;
    let busy_pct = 100.0 - shares.idle_pct - shares.iowait_pct;
    (busy_pct > MAX_BUSY_PCT).then(|| {
        format!(
            "The processors are busy for {busy_pct:.0} % of their time with other work: trials will scatter, and small effects will not be found. \
             Stop it, or take more blocks."
        )
    })
}

/// Reads a study from a file, or a built-in one.
fn read(named: &str, size: Option<&str>) -> Result<(Study, String)> {
    let path = Path::new(named);
    if let Some(shipped) = IncludedStudy::named(named).filter(|_| !path.exists()) {
        let study = Study::parse(shipped.text, size).map_err(|error| error.or_id("bad-study"))?;
        return Ok((study, shipped.text.to_owned()));
    }
    if !path.exists() && !named.contains(['/', '.']) {
        let what = format!("'{named}' is neither a file nor a study that is included");
        return Err(Error::usage(what)
            .with_id("unknown-study")
            .advise("'fathom compare --list' lists these")
            .into());
    }
    Ok(Study::read(path, size)?)
}

fn bench(work: &Path) -> Result<Bench> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| Error::new(Kind::Unsupported, "cannot find this program").because(error))?;
    Ok(Bench { program, ledger: Ledger::open()?, signals: Signals::install()?, work: work.to_owned() })
}

fn resume(config: &Config, named: &Path) -> Result<VerbOutcome> {
    let folder = if named == Path::new("newest") {
        newest(config.runs.as_deref())?
    } else {
        run_folders::find(named, config.runs.as_deref())?
    };
    // The lock comes first: reading the journal cuts off a torn line, which another process may be about to complete.
    let lock = RunLock::take(&folder)?;
    let StudyProgress { journal, text, size, work } = Journal::resume(&folder)?;
    let study = Study::parse(&text, size.as_deref())?;
    let plan = TrialPlan::new(&study)?;
    let bench = bench(&work)?;
    bench.check(&study, &plan)?;
    warnings(&study, &plan)?.iter().for_each(|warning| output::note(&format!("fathom: {warning}")));
    let writer = RunWriter::resume(lock)?;
    go(config, &bench, &study, &plan, writer, journal)
}

/// The newest study that has not ended.
fn newest(runs: Option<&Path>) -> Result<PathBuf> {
    let (place, scan) = run_folders::scan(runs)?;
    let open = scan.runs.iter().find(|run| {
        run.manifest.verb == "compare"
            && run.manifest.state != State::Complete
            && Journal::is_begun(&run.path)
    });
    let run = open.ok_or_else(|| {
        let what = format!("no interrupted study is in {}", place.display());
        Error::new(Kind::NotFound, what).with_id("no-interrupted-study")
    })?;
    Ok(run.path.clone())
}

/// Runs the remaining trials, judges, and reports.
fn go(
    config: &Config,
    bench: &Bench,
    study: &Study,
    plan: &TrialPlan,
    mut writer: RunWriter,
    mut journal: Journal,
) -> Result<VerbOutcome> {
    let mut shown = printer::ProgressPrinter::new(config.json);
    let ended = fathom_lab::run(bench, study, plan, &mut journal, &mut |progress| shown.show(progress));
    shown.end();
    let result = answer(study, plan, journal.records());
    let broken: usize = result.cells.iter().map(|cell| cell.broken.len()).sum();
    let entry = Entry::Study(Box::new(result.clone()));
    writer.result(&entry)?;
    let (state, error) = match &ended {
        Ok(StudyEnd::Complete | StudyEnd::Settled(_)) => (State::Complete, None),
        Ok(StudyEnd::Stopped) => (State::Interrupted, None),
        Err(error) => (State::Failed, Some(error.to_string())),
    };
    let folder = writer.finish(state, error)?;
    if config.json {
        let document = json!({
            "schema": fathom_record::SCHEMA,
            "fathom_version": env!("CARGO_PKG_VERSION"),
            "verb": "compare",
            "state": state,
            "study": result,
            "run_folder": folder,
        });
        output::line(&output::json(&document)?)?;
    } else {
        for line in fathom_report::entry_lines(&entry, true, WIDTH) {
            output::line(&line)?;
        }
        output::line(&format!("\nRun folder: {}", folder.display()))?;
        run_page::of_ended_run(&config.page, Some(&folder)).map_or(Ok(()), |page| output::line(&page))?;
    }
    match ended? {
        StudyEnd::Stopped => output::note("fathom: stopped; 'fathom compare --resume' continues the study"),
        StudyEnd::Settled(blocks) => output::note(&format!(
            "fathom: stopped early: the interim analysis after {blocks} blocks decided the study"
        )),
        StudyEnd::Complete => {}
    }
    Ok(if broken > 0 { VerbOutcome::Findings } else { VerbOutcome::Clean })
}
