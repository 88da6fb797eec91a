//! `fathom disk`: measures what a disk can do for a database, finds its knee, and names the causes that spoil it.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use fathom_errors::Error;
use fathom_probe::{
    IoEngine, Job, LadderPlan, MAX_DEPTH, Pace, Pattern, Permits, Slo, SustainPlan, WindowPlan, WriteSync,
};
use fathom_process::Signals;
use fathom_record::disk::Entry;
use fathom_report::fio_json;
use fathom_session::{ProbePlan, ProbeSpec, RecordSpec, SessionResult, SessionSpec, SessionTools};
use fathom_units::{Bytes, Nanos};
use serde_json::json;

use crate::arguments::{DocumentArgs, default_engine, parse_rate, parse_seed};
use crate::outcome::VerbOutcome;
use crate::output;
use crate::result_printer::{Format, ResultPrinter, disk_answer};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom disk --dir /var/lib/mongodb               all patterns of mongod
  fathom disk --pattern randread --depth 1..1024   every step of the ladder
  fathom disk --pattern append --durable fdatasync --time 30s
  fathom disk --pattern randread --block 32K --slo 'p99<5ms'
  fathom disk --sustain                            whether the rate lasts
  fathom disk --sustain 1h --pattern randwrite
  fathom disk --pattern randrw --depth 32 --verify
  fathom disk --pattern randread --rate 500 --json=fio > job.json

Sizes are powers of two (4K = 4096 bytes); durations are like 30s, 2m, 500ms.
Results are written to standard output and a run folder, notes to standard
error.
Exit codes: 0 ok, 1 a finding or failed operations, 2 usage, 3 environment.";

/// The least time for `--sustain`.
const MIN_SUSTAIN: Nanos = Nanos::secs(20);
const MAX_SUSTAIN: Nanos = Nanos::secs(30 * 86_400);

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Directory on the disk to probe (or a block device; see --destroy)
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Size of the test file [default: a quarter of the free space, 2G at most]
    #[arg(long)]
    size: Option<Bytes>,
    /// The shapes to run in turn, unless --pattern picks one
    #[arg(long, value_enum, default_value = "mongodb", conflicts_with = "pattern")]
    profile: ProfileName,
    /// One shape: randread, randwrite, randrw, append or checkpoint
    #[arg(long)]
    pattern: Option<Pattern>,
    /// Bytes per request; 4K for reads, writes and appends, 32K for randrw and checkpoint
    #[arg(long)]
    block: Option<Bytes>,
    /// psync (a thread per request), io_uring, or mmap (through the page cache) [default: io_uring; psync for
    /// append, and where the kernel has no io_uring]
    #[arg(long)]
    engine: Option<IoEngine>,
    /// Requests in flight: a number, or a ladder such as 1..1024 [default: a ladder up to the knee; 1 for
    /// append, 4 for checkpoint, 128 with --rate or --slo]
    #[arg(long)]
    depth: Option<Depth>,
    /// How long each step is measured [default: 2.5s in a ladder, 5s with --slo, else 10s]
    #[arg(long)]
    time: Option<Nanos>,
    /// What makes a write durable: none, fdatasync (after each) or dsync [default: fdatasync for append, else
    /// none]
    #[arg(long)]
    durable: Option<WriteSync>,
    /// Open loop: Poisson arrivals per second; latency counts from the intended start
    #[arg(long, allow_negative_numbers = true, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Find the highest rate that holds a latency objective, such as 'p99<5ms'
    #[arg(long, conflicts_with = "rate")]
    slo: Option<Slo>,
    /// Drive one shape until it is known whether its rate lasts, for this long at most [default: 10m]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10m", conflicts_with_all = ["time", "rate", "slo"])]
    sustain: Option<Nanos>,
    /// Stamp every block, check every read, and read all back at the end
    #[arg(long)]
    verify: bool,
    /// Keep the test file, so that the next run need not lay it out
    #[arg(long)]
    keep: bool,
    /// Take ten seconds instead of two minutes: fewer and shorter steps, a smaller file
    #[arg(long)]
    quick: bool,
    /// Go through the page cache instead of O_DIRECT
    #[arg(long)]
    buffered: bool,
    /// Probe a network or FUSE file system anyway
    #[arg(long)]
    any_fs: bool,
    /// Write to the block device that --dir names; NAME is its kernel name, typed out
    #[arg(long, value_name = "NAME")]
    destroy: Option<String>,
    #[command(flatten)]
    documents: DocumentArgs,
    /// Seed of all random streams
    #[arg(long, default_value_t = 42, value_parser = parse_seed)]
    seed: u64,
    /// Print JSON: one document, a line per result, or fio's json+ document
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "document", value_name = "SHAPE")]
    json: Option<Json>,
    /// Directory for run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    runs: Option<PathBuf>,
    /// Keep no run folder
    #[arg(long)]
    no_record: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    Mongodb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Json {
    Document,
    Lines,
    Fio,
}

/// One depth or a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Depth {
    first: u32,
    last: u32,
}

impl FromStr for Depth {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| {
            text.trim_start_matches('=').trim().parse::<u32>().ok().filter(|n| (1..=MAX_DEPTH).contains(n))
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Depth { first, last }),
            _ => Err(Error::usage(format!(
                "'{text}' is not a depth; give a number from 1 to {MAX_DEPTH} or a ladder such as 1..{MAX_DEPTH}"
            ))),
        }
    }
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("disk"))
        .about("Probe a disk: IOPS, latency, the knee, caps, and what they mean for a database")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Probes, prints, and judges.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let tools = SessionTools { signals: Signals::install()?, note: output::note };
    let probe = config.probe()?;
    let format = match config.json {
        None => Format::Text,
        Some(Json::Document) => Format::Document,
        Some(Json::Lines) => Format::Lines,
        Some(Json::Fio) => Format::Fio,
    };
    let record = RecordSpec::new("disk", config.runs.clone(), &config.dir).seed(config.seed);
    let spec = SessionSpec {
        record: (!config.no_record).then_some(record),
        probe: Some(probe),
        ..SessionSpec::default()
    };
    let mut printer = ResultPrinter::new(format);
    let result = fathom_session::run(&spec, &tools, &mut printer)?;
    show(&printer, &result)?;
    match result.error {
        Some(error) => Err(error.into()),
        None if result.probe_findings.iter().any(fathom_record::Finding::is_alarm) => {
            Ok(VerbOutcome::Findings)
        }
        None => Ok(VerbOutcome::Clean),
    }
}

fn show(printer: &ResultPrinter, result: &SessionResult) -> Result<()> {
    let document = || {
        json!({
            "schema": fathom_record::SCHEMA,
            "fathom_version": env!("CARGO_PKG_VERSION"),
            "verb": "disk",
            "state": result.state,
            "error": result.error.as_ref().map(Error::to_string),
            "run_folder": result.folder,
            "findings": result.probe_findings,
        })
    };
    match printer.format {
        Format::Text => {
            if result.is_interrupted {
                output::line("\nInterrupted: the figures above are what was measured until then.")?;
            }
            let answer = disk_answer(&result.results, &result.probe_findings);
            answer.iter().try_for_each(|block| output::line(block))?;
            if let Some(folder) = &result.folder {
                output::line(&format!("\nRun folder: {}", folder.display()))?;
            }
        }
        Format::Lines => {
            let mut last = document();
            last["type"] = json!("end");
            output::line(&last.to_string())?;
        }
        Format::Document => {
            let mut whole = document();
            whole["results"] = json!(result.results);
            output::line(&whole.to_string())?;
        }
        Format::Fio => {
            let (directory, size) = subject(&result.results);
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let unix_ms = u64::try_from(now.as_millis()).unwrap_or(0);
            let text = fio_json(&printer.fio, env!("CARGO_PKG_VERSION"), directory, size, unix_ms);
            output::line(&text.to_string())?;
        }
    }
    Ok(())
}

/// The directory probed and the size of its file.
fn subject(results: &[Entry]) -> (&str, u64) {
    let subject = results.iter().find_map(|entry| match entry {
        Entry::Subject(subject) => Some((subject.directory.as_str(), subject.size_bytes)),
        _ => None,
    });
    subject.unwrap_or_default()
}

impl Config {
    /// The probe that the flags describe; refuses contradictory flags.
    fn probe(&self) -> Result<ProbeSpec> {
        let plan = self.plan()?;
        if self.keep && self.block.is_some_and(|block| block.get() % 4096 != 0) {
            let what =
                "--keep needs a --block that is a multiple of 4K, or later runs could not check the file";
            return Err(Error::usage(what).into());
        }
        if self.keep && self.destroy.is_some() {
            let what = "--keep keeps the test file, and a block device has none";
            return Err(Error::usage(what).advise("leave it out").into());
        }
        if self.destroy.is_some()
            && std::fs::metadata(&self.dir).is_ok_and(|found| !found.file_type().is_block_device())
        {
            let what = format!("--destroy is for a block device, and {} is none", self.dir.display());
            return Err(Error::usage(what)
                .advise("name the device with --dir, or leave --destroy out")
                .into());
        }
        let documents = self.documents.documents()?;
        let pace = self.pace();
        Ok(ProbeSpec {
            size: self.size.or_else(|| ProbeSpec::size_for(&self.dir, pace)),
            is_direct: !self.buffered,
            permits: Permits { any_file_system: self.any_fs, destroy: self.destroy.clone() },
            is_verified: self.verify,
            keeps_file: self.keep,
            seed: self.seed,
            documents,
            // A requested size is laid out completely, however long that takes.
            layout_budget: self.size.is_none().then_some(ProbeSpec::layout_budget_for(pace)),
            ..ProbeSpec::new(&self.dir, plan)
        })
    }

    fn pace(&self) -> Pace {
        if self.quick { Pace::Quick } else { Pace::Full }
    }

    fn plan(&self) -> Result<ProbePlan> {
        let one_shape = self.pattern.is_some()
            || self.block.is_some()
            || self.depth.is_some()
            || self.durable.is_some()
            || self.rate.is_some()
            || self.slo.is_some()
            || self.sustain.is_some();
        let ProfileName::Mongodb = self.profile;
        if !one_shape {
            if self.time.is_some() {
                let what = "a profile sets the length of its steps itself, so --time has no effect";
                return Err(Error::usage(what)
                    .advise("name one shape with --pattern, or use --quick")
                    .into());
            }
            return Ok(ProbePlan::Profile(self.pace(), self.engine.unwrap_or_else(default_engine)));
        }
        let pattern = self.pattern.unwrap_or(if self.durable.is_some() {
            Pattern::RandWrite
        } else {
            Pattern::RandRead
        });
        let mut job = self.job(pattern);
        if let Some(time) = self.sustain {
            return Ok(ProbePlan::Sustain(self.sustain_plan(job, time)?));
        }
        let climbs = self.rate_flag().is_none() && !matches!(pattern, Pattern::Append | Pattern::Checkpoint);
        match self.depth {
            Some(Depth { first, last }) if first < last => {
                if let Some(flag) = self.rate_flag() {
                    let what =
                        format!("{flag} sends requests at a rate, which a ladder of depths cannot have");
                    return Err(Error::usage(what).advise("give --depth one number, or leave it out").into());
                }
                Ok(ProbePlan::Ladder(self.ladder(job, first, last, true)?))
            }
            None if climbs => Ok(ProbePlan::Ladder(self.ladder(job, 1, MAX_DEPTH, false)?)),
            depth => {
                let open_loop = self.rate_flag().is_some();
                let otherwise = match pattern {
                    _ if open_loop => 128,
                    Pattern::Checkpoint => 4,
                    _ => 1,
                };
                job.depth = depth.map_or(otherwise, |depth| depth.first);
                job.rate_per_s = self.rate;
                job.check()?;
                if let Some(slo) = &self.slo {
                    job.clone().rate(1.0).check()?;
                    return Ok(ProbePlan::Objective(job, slo.clone(), self.step(Nanos::secs(5))?));
                }
                let window = WindowPlan::new(pattern.word(), vec![job], self.step(Nanos::secs(10))?);
                Ok(ProbePlan::Window(window))
            }
        }
    }

    /// The given flag that asks for requests at a rate.
    fn rate_flag(&self) -> Option<&'static str> {
        self.rate.map(|_| "--rate").or(self.slo.as_ref().map(|_| "--slo"))
    }

    fn sustain_plan(&self, mut job: Job, time: Nanos) -> Result<SustainPlan> {
        if !(MIN_SUSTAIN..=MAX_SUSTAIN).contains(&time) {
            let what = format!("--sustain must be {MIN_SUSTAIN} to 30 days, not {time}");
            return Err(Error::usage(what).into());
        }
        let depth = match self.depth {
            Some(Depth { first, last }) if first < last => {
                let what = "--sustain drives one depth, and finds the knee itself if no depth is given";
                return Err(Error::usage(what).advise("leave --depth out, or give it one number").into());
            }
            depth => depth.map(|depth| depth.first),
        };
        let own_depth = match job.pattern {
            Pattern::Append => Some(1),
            Pattern::Checkpoint => Some(4),
            _ => None,
        };
        let depth = depth.or(own_depth);
        job.depth = depth.unwrap_or(1);
        job.check()?;
        Ok(SustainPlan { job, finds_knee: depth.is_none(), time })
    }

    fn job(&self, pattern: Pattern) -> Job {
        let page = matches!(pattern, Pattern::RandRw | Pattern::Checkpoint);
        let block = self.block.unwrap_or(if page { Bytes::kib(32) } else { Bytes::kib(4) });
        let engine = self
            .engine
            .unwrap_or_else(|| if pattern == Pattern::Append { IoEngine::Psync } else { default_engine() });
        let durable = if pattern == Pattern::Append { WriteSync::Fdatasync } else { WriteSync::None };
        Job::new(pattern, block, engine, 1).durable(self.durable.unwrap_or(durable))
    }

    fn ladder(&self, job: Job, depth_min: u32, depth_max: u32, complete: bool) -> Result<LadderPlan> {
        job.check()?;
        let phase = job.pattern.word().to_owned();
        let step = self.step(if self.quick { Nanos::millis(500) } else { Nanos::millis(2_500) })?;
        Ok(LadderPlan {
            phase,
            job,
            depth_min,
            depth_max,
            step,
            complete,
            factor: if self.quick { 4 } else { 2 },
            is_brief: false,
        })
    }

    fn step(&self, default: Nanos) -> Result<Nanos> {
        let time = self.time.unwrap_or(default);
        if !(Nanos::millis(10)..=Nanos::secs(30 * 86_400)).contains(&time) {
            return Err(Error::usage(format!("--time must be 10ms to 30 days, not {time}")).into());
        }
        Ok(time)
    }
}
