//! `fathom mongoperf`: the old disk test, drop-in: its document in, its lines out, until Ctrl-C.
//!
//! Standard output holds nothing but the old lines, so that old scripts go on; what it never told goes to standard
//! error (`--percentiles`) or takes the lines' place (`--json`). It refuses to wait on a terminal for a document.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_probe::Permits;
use fathom_probe::mongoperf::{self, Event, Lines, Options, Parsed, Plan, Run, Second, Sync};
use fathom_process::{Ledger, Signals};
use fathom_record::State;
use fathom_record::disk::{Step as DiskStep, Subject};
use fathom_units::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::outcome::Outcome;
use crate::output;

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// The old tool read 1000 bytes; a document beyond this is the wrong file.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom mongoperf <<EOF
  { nThreads:1024, fileSizeMB:1000, mmf:false, r:true, w:true, syncDelay:60 }
  EOF
  echo \"{nThreads:16,fileSizeMB:1000,r:true,w:true}\" | fathom mongoperf
  fathom mongoperf settings.js --dir /data/db --seconds 60
  fathom mongoperf settings.js --percentiles 2> latencies.txt
  fathom mongoperf settings.js --json --seconds 60 > result.json

The document (defaults in brackets; // and /* */ comments, unquoted keys):
  {
    nThreads:<n>,     // threads at the top of the ramp [1]
    fileSizeMB:<n>,   // size of the test file [1]
    sleepMicros:<n>,  // pause of sleepMicros / running threads after each
                      // round of a thread [0]
    mmf:<bool>,       // through a mapping of the file [false]
    r:<bool>,         // read [false]
    w:<bool>,         // write [false]
    recSizeKB:<n>,    // size of a record, at most 64000 [4]
    syncDelay:<n>     // seconds between syncs of the mapping, 0 never [0]
  }

Threads double every 8 s up to nThreads. Without mmf, I/O is direct and every
write is synced. docs/mongoperf.md lists each difference from the old tool.

Exit codes: 0 ended by --seconds or Ctrl-C, 1 failed operations, 2 usage,
3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The document of options; - or nothing reads standard input
    #[arg(value_name = "FILE")]
    document: Option<PathBuf>,
    /// The folder that the test file is made in
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// End after S seconds of testing [default: at Ctrl-C]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Double the threads every S seconds
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
    /// Tell each second's latencies on standard error
    #[arg(long)]
    percentiles: bool,
    /// Print one JSON document at the end instead of the lines
    #[arg(long)]
    json: bool,
    /// Go through the page cache where mmf is false, instead of direct I/O
    #[arg(long)]
    buffered: bool,
    /// Work on a network or FUSE file system all the same
    #[arg(long)]
    any_fs: bool,
    /// Seed of all random streams [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("mongoperf"))
        .about("Run the old mongoperf's document: its ramp and its lines, with honest figures")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Reads the document, runs it, and prints.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let parsed = Options::parse(&read_document(config.document.as_deref())?)?;
    for warning in &parsed.warnings {
        output::note(&format!("fathom mongoperf: {warning}"));
    }
    // Only now: until the document is there, Ctrl-C should simply end us.
    let signals = Signals::install()?;
    let ledger = Ledger::open()?;
    let permits = Permits { any_file_system: config.any_fs, destroy: None };
    let mut target = mongoperf::open(&config.dir, &parsed.options, !config.buffered, &permits, &ledger)?;
    let plan = Plan {
        options: parsed.options.clone(),
        seconds: config.seconds.map(|seconds| Nanos::secs(seconds.into())),
        step_ticks: config.step,
        seed: config.seed.unwrap_or_else(fresh_seed),
    };
    let mut news = News::new(&config, &parsed);
    news.open()?;
    let ran = mongoperf::run(&mut target, &plan, &signals, &mut |event| news.tell(event));
    let subject = mongoperf::subject(&target);
    // The file goes whatever happened; an error of the run matters more than one of the removal.
    let closed = target.close(false);
    news.progress.finish_and_clear();
    let run = ran?;
    closed?;
    warn_of_busy_cpu(&run);
    if config.json {
        output::line(&news.document(&plan, &parsed, &subject, &run).to_string())?;
    }
    match run.error {
        Some(error) => Err(error.into()),
        None => Ok(Outcome::Clean),
    }
}

/// The document's text, from a file or from standard input.
fn read_document(path: Option<&Path>) -> Result<String> {
    let mut bytes = Vec::new();
    let name = match path.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
            let read = file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|e| Error::io("read", path, e).with_kind(Kind::Usage))?;
            path.display().to_string()
        }
        None if io::stdin().is_terminal() => {
            let what = "mongoperf needs a document of options, and standard input is a terminal";
            let advice = "name a file, or feed one: \
                          echo '{nThreads:16,fileSizeMB:1000,r:true,w:true}' | fathom mongoperf";
            return Err(Error::usage(what).advise(advice).into());
        }
        None => {
            let read = io::stdin().lock().take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes);
            read.map_err(|e| Error::io("read", "standard input", e))?;
            "standard input".to_owned()
        }
    };
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        let what = format!("{name} holds more than 1 MiB, so it is no document of options");
        return Err(Error::new(Kind::Malformed, what).into());
    }
    String::from_utf8(bytes).map_err(|_| {
        let what = format!("{name} is no text in UTF-8, so it is no document of options");
        Error::new(Kind::Malformed, what).into()
    })
}

/// Another one each time, so that no two runs touch the same places; it stands in the JSON document.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_left(40)
}

fn warn_of_busy_cpu(run: &Run) {
    let waits = run.steps.iter().filter_map(|step| Some((step.run_queue_wait_pct?, step.threads)));
    let worst = waits.max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((pct, threads)) = worst.filter(|(pct, _)| *pct > DiskStep::RUN_QUEUE_LIMIT_PCT) {
        output::note(&format!(
            "fathom mongoperf: at {threads} running, threads waited {pct:.0} % of their time for a CPU: \
             such figures say more about the CPU than about the disk"
        ));
    }
}

/// What became known so far, and where it goes.
struct News {
    lines: Lines,
    as_json: bool,
    percentiles: bool,
    progress: ProgressBar,
    seconds: Vec<Second>,
    syncs: Vec<Sync>,
}

impl News {
    fn new(config: &Config, parsed: &Parsed) -> Self {
        let visible = io::stderr().is_terminal();
        let style =
            ProgressStyle::with_template("laying out {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        News {
            lines: Lines::new(&parsed.options, &parsed.echo),
            as_json: config.json,
            percentiles: config.percentiles,
            progress: if visible { ProgressBar::new(0).with_style(style) } else { ProgressBar::hidden() },
            seconds: Vec::new(),
            syncs: Vec::new(),
        }
    }

    fn open(&self) -> Result<(), Error> {
        self.print(self.lines.opening())
    }

    fn tell(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Layout { done_bytes, total_bytes } => {
                self.progress.set_length(*total_bytes);
                self.progress.set_position(*done_bytes);
            }
            Event::Testing => self.progress.finish_and_clear(),
            Event::Second(second) if self.percentiles => output::note(&mongoperf::percentiles(second)),
            _ => {}
        }
        if self.as_json {
            match event {
                Event::Second(second) => self.seconds.push((*second).clone()),
                Event::Sync(sync) => self.syncs.push(*sync),
                _ => {}
            }
        }
        let lines = self.lines.of(event);
        self.print(lines)
    }

    fn print(&self, lines: Vec<String>) -> Result<(), Error> {
        if self.as_json {
            return Ok(());
        }
        self.progress.suspend(|| lines.iter().try_for_each(|line| output::line(line)))
    }

    fn document(&self, plan: &Plan, parsed: &Parsed, subject: &Subject, run: &Run) -> serde_json::Value {
        let state = match run {
            Run { error: Some(_), .. } => State::Failed,
            Run { interrupted: true, .. } => State::Interrupted,
            _ => State::Complete,
        };
        json!({
            "schema": SCHEMA,
            "fathom_version": env!("CARGO_PKG_VERSION"),
            "verb": "mongoperf",
            "state": state,
            "error": run.error.as_ref().map(Error::to_string),
            "warnings": parsed.warnings,
            "options": plan.options,
            "seed": plan.seed,
            "step_s": plan.step_ticks,
            "subject": subject,
            "layout": run.layout,
            "seconds": self.seconds,
            "steps": run.steps,
            "syncs": self.syncs,
        })
    }
}
