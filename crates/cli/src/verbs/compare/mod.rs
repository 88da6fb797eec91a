//! `fathom compare`: a study from its file to its answer, with everything between made, measured and taken away.
//!
//! What a study is and what it says stands in `fathom_lab`; here it becomes options, progress and a report. It makes nothing before the
//! whole study was found possible.

mod printer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_host::View;
use fathom_host::sched::CpuTimes;
use fathom_lab::{
    Bench, Ended, Journal, Plan, Resumed, Shipped, Study, answer, estimate, planned_blindness,
    planned_shortage,
};
use fathom_process::{Ledger, Signals};
use fathom_record::disk::Entry;
use fathom_record::{Manifest, RunLock, RunWriter, State};
use fathom_session::run_folders;
use serde_json::json;

use crate::outcome::Outcome;
use crate::output;
use crate::output::WIDTH;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom compare --list                                the studies that are included
  fathom compare xfs-against-ext4 --quick              one of them, in its small size
  fathom compare xfs-against-ext4 --dry-run            its plan, time and room
  fathom compare micro-sharding --dir /data/lab
  fathom compare loops-and-flush --print > mine.yaml   to change it
  fathom compare mine.yaml --size article
  fathom compare --resume                              go on after a crash or Ctrl-C
  fathom compare --factors                             all that can be varied or measured

Storage, servers and files that it makes are taken away again; after a kill -9, by
'fathom cleanup'. Most storage needs root. docs/compare.md tells how to read an answer.
Exit codes: 0 ok, 1 a trial failed, 2 usage, 3 environment.";

/// What the command line may say.
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
    /// Where storage and data go
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the plan, the time and the room, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on with a study that was broken off: its run folder, or the newest
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "newest", conflicts_with_all = ["study", "quick", "size", "dry_run"])]
    resume: Option<PathBuf>,
    /// List the studies that are included
    #[arg(long, exclusive = true)]
    list: bool,
    /// List all factors with their levels, and all metrics
    #[arg(long, exclusive = true)]
    factors: bool,
    /// Print the study's file
    #[arg(long)]
    print: bool,
    /// Print JSON: one document at the end
    #[arg(long)]
    json: bool,
    /// Where run folders go [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("compare"))
        .about("Run a study: file systems, RAID, engines, write concern, shards, knobs; with intervals and verdicts")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs or goes on with a study.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    if config.list {
        output::line(&printer::studies())?;
        return Ok(Outcome::Clean);
    }
    if config.factors {
        output::line(&printer::factors())?;
        return Ok(Outcome::Clean);
    }
    if let Some(named) = &config.resume {
        return resume(&config, named);
    }
    let size = if config.quick { Some("quick") } else { config.size.as_deref() };
    let named = config.study.as_deref().unwrap_or_default();
    let (study, text) = read(named, size)?;
    if config.print {
        output::line(text.trim_end())?;
        return Ok(Outcome::Clean);
    }
    let work = config.dir.canonicalize().map_err(|error| Error::io("open", &config.dir, error))?;
    let plan = Plan::of(&study)?;
    let warnings = warnings(&study, &plan)?;
    if config.dry_run {
        // What would be refused later is refused now.
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
        return Ok(Outcome::Clean);
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

/// What the figures of a study will not bear, known before its first trial: too few blocks, trials that are too short, a machine that is busy.
fn warnings(study: &Study, plan: &Plan) -> Result<Vec<String>> {
    let warnings = [planned_shortage(study, plan), planned_blindness(study, plan)?, busy_machine()];
    Ok(warnings.into_iter().flatten().collect())
}

/// What the processors do for others at the moment, where that is much.
fn busy_machine() -> Option<String> {
    const LOOK: Duration = Duration::from_millis(500);
    const MAX_BUSY_PCT: f64 = 20.0;
    let view = View::live();
    let before = CpuTimes::read(&view).ok()?;
    std::thread::sleep(LOOK);
    let shares = CpuTimes::read(&view).ok()?.shares_since(&before);
    let busy_pct = 100.0 - shares.idle_pct - shares.iowait_pct;
    (busy_pct > MAX_BUSY_PCT).then(|| {
        format!(
            "The processors are busy for {busy_pct:.0} % of their time with other work: trials will scatter, and small effects will not be found. \
             Stop it, or take more blocks."
        )
    })
}

/// A file, or a study that is included.
fn read(named: &str, size: Option<&str>) -> Result<(Study, String)> {
    let path = Path::new(named);
    if let Some(shipped) = Shipped::named(named).filter(|_| !path.exists()) {
        return Ok((Study::parse(shipped.text, size)?, shipped.text.to_owned()));
    }
    if !path.exists() && !named.contains(['/', '.']) {
        let what = format!("'{named}' is neither a file nor a study that is included");
        return Err(Error::usage(what).advise("'fathom compare --list' lists these").into());
    }
    Ok(Study::read(path, size)?)
}

fn bench(work: &Path) -> Result<Bench> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| Error::new(Kind::Unsupported, "cannot find this program").because(error))?;
    Ok(Bench { program, ledger: Ledger::open()?, signals: Signals::install()?, work: work.to_owned() })
}

fn resume(config: &Config, named: &Path) -> Result<Outcome> {
    let folder = if named == Path::new("newest") {
        newest(config.runs.as_deref())?
    } else {
        run_folders::find(named, config.runs.as_deref())?
    };
    // Before the journal is read: reading cuts off a torn line, which another process may be about to end.
    let lock = RunLock::take(&folder)?;
    let Resumed { journal, text, size, work } = Journal::resume(&folder)?;
    let study = Study::parse(&text, size.as_deref())?;
    let plan = Plan::of(&study)?;
    let bench = bench(&work)?;
    bench.check(&study, &plan)?;
    warnings(&study, &plan)?.iter().for_each(|warning| output::note(&format!("fathom: {warning}")));
    let writer = RunWriter::resume(lock)?;
    go(config, &bench, &study, &plan, writer, journal)
}

/// The newest study that was not ended.
fn newest(runs: Option<&Path>) -> Result<PathBuf> {
    let (place, scan) = run_folders::scan(runs)?;
    let open = scan.runs.iter().find(|run| {
        run.manifest.verb == "compare"
            && run.manifest.state != State::Complete
            && Journal::is_begun(&run.path)
    });
    let run = open.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("no study that was broken off is under {}", place.display()))
    })?;
    Ok(run.path.clone())
}

/// Runs what has not run yet, judges, and reports.
fn go(
    config: &Config,
    bench: &Bench,
    study: &Study,
    plan: &Plan,
    mut writer: RunWriter,
    mut journal: Journal,
) -> Result<Outcome> {
    let mut shown = printer::ProgressPrinter::new(config.json);
    let ended = fathom_lab::run(bench, study, plan, &mut journal, &mut |progress| shown.show(progress));
    shown.end();
    let result = answer(study, plan, journal.records());
    let broken: usize = result.cells.iter().map(|cell| cell.broken.len()).sum();
    let entry = Entry::Study(Box::new(result.clone()));
    writer.result(&entry)?;
    let (state, error) = match &ended {
        Ok(Ended::Complete | Ended::Settled(_)) => (State::Complete, None),
        Ok(Ended::Stopped) => (State::Interrupted, None),
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
    }
    match ended? {
        Ended::Stopped => output::note("fathom: stopped; 'fathom compare --resume' goes on where it was"),
        Ended::Settled(blocks) => output::note(&format!("fathom: settled at the look after {blocks} blocks")),
        Ended::Complete => {}
    }
    Ok(if broken > 0 { Outcome::Findings } else { Outcome::Clean })
}
