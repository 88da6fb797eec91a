//! `fathom report`: writes a run, or a mongod's recording of itself, as one HTML file that needs neither Fathom nor a network.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_explain::recording::RecordingTimeline;
use fathom_record::Redaction;
use fathom_report::{RecordedServer, RecordingSource, Strip, printable, recording_page, wrapped};
use fathom_session::{JudgedRecording, run_folders};
use jiff::tz::TimeZone;

use crate::outcome::VerbOutcome;
use crate::output::{self, WIDTH};
use crate::recording_arguments::{TimeRangeArgs, parse_zone, short_time};
use crate::recording_inputs::{JudgedInputs, RecordingInputs, clock_sentences, process_of};
use crate::run_page::{PageStyle, RunPage, address_line, keep, page_of, page_of_two, place_of};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom report                                    the newest run folder
  fathom report runs/20261121T093000Z-ycsb-4711    that one
  fathom report runs/A runs/B                      two runs side by side
  fathom report --output findings.html             write to another file
  fathom report --redact --open                    without names, and open it
  fathom report /var/lib/mongodb/diagnostic.data   days that mongod recorded
  fathom report member1 member2 member3 --tz Europe/Berlin   a set
  fathom report --output - | gzip > findings.html.gz

One HTML file with everything in it: the answer and a picture of it, findings by
what they cost, host settings with commands, charts with their data as CSV. It
needs no network. --redact leaves out names of hosts, paths and
namespaces; figures and device names stay. The page of recordings has days as
strips of colour, members on one axis, and the hour around each incident.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// The mark of a page in its head, which is at most so long up to it.
const GENERATOR: &str = "<meta name=\"generator\" content=\"Fathom ";
const MAX_HEAD_BYTES: u64 = 4096;

/// The default file of the page of recordings.
const RECORDING_PAGE: &str = "recording.html";

/// The arguments of `fathom report`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The run folder [default: the newest], two of them for a page of both, or recordings (diagnostic.data, folders above, archives) and logs
    #[arg(value_name = "RUN|RECORDING")]
    paths: Vec<PathBuf>,
    /// The file of the page; '-' is standard output [default: report.html in the run folder, of two
    /// report-with-RUN.html in the second, of recordings recording.html in the working directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    time_range: TimeRangeArgs,
    /// The time zone of a recording's times [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = parse_zone)]
    tz: Option<TimeZone>,
    /// Logs of a recorded server, for the slow operations [default: those in its folder or above]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    log: Vec<PathBuf>,
    #[command(flatten)]
    style: PageStyle,
    /// Directory of run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("report"))
        .about("Make one HTML file of a run folder or a recording: verdict, evidence, charts")
        .long_about(None)
        .after_help(EXAMPLES)
}

pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let style = &config.style;
    if config.output.as_ref().is_some_and(|file| file.as_os_str() == "-") {
        style.refuse_open("--output - writes no file")?;
    }
    let (page, place) = match RecordingInputs::from_paths(&config.paths, &config.log) {
        Some(inputs) => {
            let text = of_recordings(&config, &inputs)?;
            (RunPage { text, verdict: None }, PathBuf::from(RECORDING_PAGE))
        }
        None => of_runs(&config)?,
    };
    match &config.output {
        Some(file) if file.as_os_str() == "-" => output::line(page.text.trim_end())?,
        Some(file) => keep_and_tell(file, &page, style)?,
        None => keep_and_tell(&place, &page, style)?,
    }
    Ok(VerbOutcome::Clean)
}

/// The page of one run or of two, and its default file.
fn of_runs(config: &Config) -> Result<(RunPage, PathBuf)> {
    let of_recordings =
        [config.tz.is_some(), config.time_range.is_given(), !config.log.is_empty()].contains(&true);
    if of_recordings {
        let what = "--from, --to, --tz and --log are for recordings, and none is named";
        return Err(Error::usage(what).advise("name a folder diagnostic.data or an archive of it").into());
    }
    let style = &config.style;
    let find = |path: &PathBuf| run_folders::find(path, config.runs.as_deref());
    match config.paths.as_slice() {
        [] | [_] => {
            let named = config.paths.first().map(PathBuf::as_path);
            let folder = run_folders::named_or_newest(named, config.runs.as_deref())?;
            Ok((page_of(&folder, style)?, place_of(&folder, None)))
        }
        [run, other] => {
            let (run, other) = (find(run)?, find(other)?);
            let text = page_of_two(&run, &other, style)?;
            Ok((RunPage { text, verdict: None }, place_of(&other, Some(&run))))
        }
        [_, _, third, ..] => {
            let what = format!("a page has one run or two, and {} is a third", third.display());
            Err(Error::usage(what).into())
        }
    }
}

/// The page of recordings.
fn of_recordings(config: &Config, inputs: &RecordingInputs) -> Result<String> {
    if config.runs.is_some() {
        let what = "--runs is the place of run folders, and recordings are named";
        return Err(Error::usage(what).into());
    }
    let zone = config.tz.clone().unwrap_or(TimeZone::UTC);
    let judged = inputs.judge(config.time_range.range_ms(&zone)?)?;
    if !judged.only_logs.is_empty() {
        let what = "a page of recordings needs a recording, and only logs are named";
        return Err(Error::usage(what).advise("'fathom explain' reads logs alone").into());
    }
    let JudgedInputs { servers, problems, .. } = &judged;
    let shown: Vec<RecordedServer<'_>> = servers.iter().map(recorded_server).collect();
    let notes: Vec<String> = problems.iter().map(|problem| printable(&problem.to_string())).collect();
    let redaction = config.style.redact.then(|| {
        let tables = servers.iter().filter_map(|server| server.slow_operations.as_ref());
        let namespaces = tables.flat_map(|table| table.shapes.iter().map(|shape| shape.namespace.as_str()));
        let hosts = servers.iter().flat_map(|server| server.facts.hosts.iter().map(String::as_str));
        let short: Vec<String> = servers.iter().map(|server| short_directory(&server.directory)).collect();
        let directories = servers.iter().map(|server| server.directory.as_str());
        let folders = short.iter().chain(&judged.log_folders).map(String::as_str);
        let hosts = hosts.chain(judged.log_hosts.iter().map(String::as_str));
        Redaction::from_names(hosts, namespaces, directories.chain(folders))
    });
    let moment = |at_ms: i64| short_time(at_ms, &zone);
    Ok(recording_page(&RecordingSource {
        servers: &shown,
        moment: &moment,
        clocks: &clock_sentences(servers),
        notes: &notes,
        redaction: redaction.as_ref(),
    })?)
}

/// The last two names of a directory; the names above are the same for all directories.
fn short_directory(directory: &str) -> String {
    let names: Vec<&str> = directory.split('/').filter(|name| !name.is_empty()).collect();
    names.get(names.len().saturating_sub(2)..).unwrap_or_default().join("/")
}

fn recorded_server(server: &JudgedRecording) -> RecordedServer<'_> {
    let judgement = &server.judgement;
    let timeline = &judgement.timeline;
    let strip = |name, values, is_share| Strip {
        name,
        begin_ms: timeline.begin_ms,
        step_ms: RecordingTimeline::STEP_MS,
        values,
        is_share,
    };
    let mut strips = vec![
        strip("a read or write within the server", &timeline.operation_us, false),
        strip("a sync of the journal", &timeline.sync_us, false),
        strip("a read of a page", &timeline.page_read_us, false),
        strip("the database's disk: time with requests", &timeline.disk_busy, true),
    ];
    if let Some(disk) = judgement.disks.iter().find(|disk| disk.is_database == Some(true)) {
        let shares = [
            strip("the database's disk: mongod's share of its reads, at most", &disk.reads.steps, true),
            strip("the database's disk: mongod's share of its writes, at most", &disk.writes.steps, true),
        ];
        strips.extend(shares.into_iter().filter(|one| one.values.iter().any(Option::is_some)));
    }
    RecordedServer {
        name: format!("{} ({})", process_of(server), short_directory(&server.directory)),
        verdict: &judgement.verdict,
        incidents: &judgement.incidents,
        missing: &judgement.missing,
        window_ms: (judgement.begin_ms, judgement.end_ms),
        restarts_ms: &judgement.restarts_ms,
        strips,
        slow_operations: server.slow_operations.as_ref(),
    }
}

/// Writes the page, and prints the verdict and the address of the file.
fn keep_and_tell(file: &Path, page: &RunPage, style: &PageStyle) -> Result<()> {
    refuse_foreign(file)?;
    keep(file, &page.text)?;
    let verdict = page.verdict.iter().flat_map(|verdict| wrapped(verdict, "", "  ", WIDTH));
    for line in verdict.chain([address_line(file)]) {
        output::line(&line)?;
    }
    style.open(file);
    Ok(())
}

/// Refuses to replace a file that is no page of this program. An empty one, as `mktemp` makes it, has nothing to lose.
fn refuse_foreign(file: &Path) -> Result<(), Error> {
    // A pipe would be waited for; what is no file is refused when the page is written.
    if !file.is_file() {
        return Ok(());
    }
    let open = File::open(file).map_err(|cause| Error::io("read", file, cause))?;
    let mut head = Vec::new();
    open.take(MAX_HEAD_BYTES).read_to_end(&mut head).map_err(|cause| Error::io("read", file, cause))?;
    if head.is_empty() || String::from_utf8_lossy(&head).contains(GENERATOR) {
        return Ok(());
    }
    let what = format!("{} already exists and is not a page of Fathom", file.display());
    Err(Error::new(Kind::NotOurs, what).advise("name another file with --output"))
}
