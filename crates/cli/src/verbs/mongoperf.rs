//! `fathom mongoperf`: a drop-in replacement of the old disk test. It reads that test's document and prints its lines until Ctrl-C.
//!
//! Standard output has only the old lines, so that old scripts keep working; further figures are on standard
//! error (`--percentiles`) or replace the lines (`--json`). It refuses to wait for a document on a terminal.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_probe::Permits;
use fathom_probe::mongoperf::{
    self, Lines, MongoperfEvent, MongoperfOptions, MongoperfPlan, MongoperfRun, ParsedOptions, Second, Sync,
};
use fathom_process::{Ledger, Signals};
use fathom_record::State;
use fathom_record::disk::{ProbeSubject, Step as DiskStep};
use fathom_units::{Nanos, count};
use indicatif::ProgressBar;
use serde_json::json;

use crate::outcome::VerbOutcome;
use crate::output;
use crate::progress::layout_bar;

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// The old tool read 1000 bytes; a document larger than this is the wrong file.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

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

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The document of options; - or nothing reads standard input
    #[arg(value_name = "FILE")]
    document: Option<PathBuf>,
    /// Folder of the test file
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// End after S seconds of testing [default: at Ctrl-C]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Double the threads every S seconds
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
    /// Print each second's latencies to standard error
    #[arg(long)]
    percentiles: bool,
    /// Print one JSON document at the end instead of the lines
    #[arg(long)]
    json: bool,
    /// Go through the page cache where mmf is false, instead of direct I/O
    #[arg(long)]
    buffered: bool,
    /// Use a network or FUSE file system anyway
    #[arg(long)]
    any_fs: bool,
    /// Seed of all random streams [default: random]
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
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let parsed = MongoperfOptions::parse(&read_document(config.document.as_deref())?)?;
    for warning in &parsed.warnings {
        output::note(&format!("fathom mongoperf: {warning}"));
    }
    // Installed here and not earlier: while the document is awaited, Ctrl-C should simply end the program.
    let signals = Signals::install()?;
    let ledger = Ledger::open()?;
    let permits = Permits { any_file_system: config.any_fs, destroy: None };
    let mut target = mongoperf::open(&config.dir, &parsed.options, !config.buffered, &permits, &ledger)?;
    let plan = MongoperfPlan {
        options: parsed.options.clone(),
        seconds: config.seconds.map(|seconds| Nanos::secs(seconds.into())),
        step_ticks: config.step,
        seed: config.seed.unwrap_or_else(fresh_seed),
    };
    let mut news = ResultOutput::new(&config, &parsed);
    news.open()?;
    let ran = mongoperf::run(&mut target, &plan, &signals, &mut |event| news.tell(event));
    let subject = mongoperf::subject(&target);
    // The file is deleted in any case; an error of the run takes precedence over one of the removal.
    let closed = target.close(false);
    news.progress.finish_and_clear();
    let run = ran?;
    closed?;
    warn_of_busy_cpu(&run);
    if config.json {
        output::line(&news.document(&plan, &parsed, &subject, &run).to_string())?;
    } else if let Some(summary) = summary(&run, &config.dir) {
        output::note(&summary);
    }
    match run.error {
        Some(error) => Err(error.into()),
        None => Ok(VerbOutcome::Clean),
    }
}

/// The document's text, from a file or from standard input.
fn read_document(path: Option<&Path>) -> Result<String> {
    let mut bytes = Vec::new();
    let name = match path.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
            let read = file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes);
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
            let read = io::stdin().lock().take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes);
            read.map_err(|e| Error::io("read", "standard input", e))?;
            "standard input".to_owned()
        }
    };
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let what = format!("{name} is larger than 1 MiB, the limit of an options document");
        return Err(Error::new(Kind::Malformed, what).into());
    }
    String::from_utf8(bytes).map_err(|_| {
        let what = format!("{name} is not UTF-8 text, so it is not an options document");
        Error::new(Kind::Malformed, what).into()
    })
}

/// A new seed for each run, so that no two runs touch the same offsets; it is in the JSON document.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_left(40)
}

fn warn_of_busy_cpu(run: &MongoperfRun) {
    let waits = run.steps.iter().filter_map(|step| Some((step.run_queue_wait_pct?, step.threads)));
    let worst = waits.max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((pct, threads)) = worst.filter(|(pct, _)| *pct > DiskStep::MAX_RUN_QUEUE_WAIT_PCT) {
        output::note(&format!(
            "fathom mongoperf: at {threads} running, threads waited {pct:.0} % of their time for a CPU: \
             such figures say more about the CPU than about the disk"
        ));
    }
}

/// The best step of a ramp, and the verb that explains it; `None` if there was no ramp.
fn summary(run: &MongoperfRun, dir: &Path) -> Option<String> {
    let best = run.steps.iter().max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s))?;
    (run.steps.len() > 1).then(|| {
        let threads = if best.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", best.threads) };
        format!(
            "best: {} operations a second with {threads}; 'fathom disk --dir {}' finds the knee and its reason",
            count(best.ops_per_s),
            dir.display()
        )
    })
}

/// The results so far, and the writer of output.
struct ResultOutput {
    lines: Lines,
    as_json: bool,
    percentiles: bool,
    progress: ProgressBar,
    seconds: Vec<Second>,
    syncs: Vec<Sync>,
}

impl ResultOutput {
    fn new(config: &Config, parsed: &ParsedOptions) -> Self {
        ResultOutput {
            lines: Lines::new(&parsed.options, &parsed.echo),
            as_json: config.json,
            percentiles: config.percentiles,
            progress: layout_bar(0),
            seconds: Vec::new(),
            syncs: Vec::new(),
        }
    }

    fn open(&self) -> Result<(), Error> {
        self.print(self.lines.opening())
    }

    fn tell(&mut self, event: &MongoperfEvent<'_>) -> Result<(), Error> {
        match event {
            MongoperfEvent::Layout { done_bytes, total_bytes } => {
                self.progress.set_length(*total_bytes);
                self.progress.set_position(*done_bytes);
            }
            MongoperfEvent::Testing => self.progress.finish_and_clear(),
            MongoperfEvent::Second(second) if self.percentiles => {
                output::note(&mongoperf::percentiles(second))
            }
            _ => {}
        }
        if self.as_json {
            match event {
                MongoperfEvent::Second(second) => self.seconds.push((*second).clone()),
                MongoperfEvent::Sync(sync) => self.syncs.push(*sync),
                _ => {}
            }
        }
        let lines = self.lines.lines(event);
        self.print(lines)
    }

    fn print(&self, lines: Vec<String>) -> Result<(), Error> {
        if self.as_json {
            return Ok(());
        }
        self.progress.suspend(|| lines.iter().try_for_each(|line| output::line(line)))
    }

    fn document(
        &self,
        plan: &MongoperfPlan,
        parsed: &ParsedOptions,
        subject: &ProbeSubject,
        run: &MongoperfRun,
    ) -> serde_json::Value {
        let state = match run {
            MongoperfRun { error: Some(_), .. } => State::Failed,
            MongoperfRun { interrupted: true, .. } => State::Interrupted,
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

#[cfg(test)]
mod tests {
    use fathom_probe::mongoperf::MongoperfStep;

    use super::*;

    fn step(threads: u32, ops_per_s: f64) -> MongoperfStep {
        MongoperfStep {
            threads,
            begin_s: 0.0,
            length_s: 8.0,
            ops_per_s,
            mib_per_s: 1.0,
            run_queue_wait_pct: None,
            operations: Vec::new(),
        }
    }

    #[test]
    fn a_ramp_ends_with_its_best_step() {
        let steps = vec![step(1, 9_000.0), step(2, 35_871.2), step(4, 30_000.0)];
        let told = summary(&MongoperfRun { steps, ..MongoperfRun::default() }, Path::new("/data")).unwrap();
        assert!(
            told.starts_with("best: 35,871 operations a second with 2 threads; 'fathom disk --dir /data'"),
            "{told}"
        );
        assert_eq!(
            summary(&MongoperfRun { steps: vec![step(1, 9.0)], ..MongoperfRun::default() }, Path::new(".")),
            None
        );
    }
}
