//! `fathom report`: a run folder as one HTML file that needs neither the tool nor a network.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_explain::{Evidence, ReadRun, compare, histories_up_to, judge, judge_in_turn, pictures};
use fathom_record::disk::Entry;
use fathom_record::history::History;
use fathom_record::pictures::Pictures;
use fathom_record::{Finding, Run, folders};
use fathom_report::{OverTime, PageSource, page, pair_page};

use super::runs::look_at;
use crate::outcome::Outcome;
use crate::output;
use fathom_session::run_folders;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom report                                    of the newest run folder
  fathom report runs/20261121T093000Z-ycsb-4711    of that one
  fathom report runs/A runs/B                      two runs side by side
  fathom report --output findings.html             to another place
  fathom report --output - | gzip > findings.html.gz

One HTML file with everything in it: the verdict, findings with their evidence,
charts with their data as CSV. It asks no network for anything.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The run folder [default: the newest]
    #[arg(value_name = "RUN")]
    run: Option<PathBuf>,
    /// Another, to stand beside it
    #[arg(value_name = "RUN2")]
    other: Option<PathBuf>,
    /// Where the page goes; '-' is standard output [default: report.html in the run folder, of two
    /// report-with-RUN.html in the second]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where run folders are [default: the state folder's runs/]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("report"))
        .about("Make one HTML file of a run folder: verdict, evidence, charts, data")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Makes the page.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let folder = run_folders::named_or_newest(config.run.as_deref(), config.runs.as_deref())?;
    let (text, place) = match &config.other {
        None => (page_of(&folder)?, folder.join("report.html")),
        Some(other) => {
            let other = run_folders::find(other, config.runs.as_deref())?;
            let name = format!("report-with-{}.html", name_of(&folder));
            (page_of_two(&folder, &other)?, other.join(name))
        }
    };
    match config.output {
        Some(file) if file.as_os_str() == "-" => output::line(text.trim_end())?,
        Some(file) => keep_and_tell(&file, &text)?,
        None => keep_and_tell(&place, &text)?,
    }
    Ok(Outcome::Clean)
}

/// The folder's own name.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The page of one run, with the runs of its kind beside it that came before.
pub(crate) fn page_of(folder: &Path) -> Result<String> {
    let shown = Shown::open(folder)?;
    let histories = shown.histories();
    Ok(page(&PageSource { histories: &histories, ..shown.source() })?)
}

/// The page of a run folder that lies where it was unpacked to, under a name of its own.
pub(super) fn page_named(folder: &Path, name: &str) -> Result<String> {
    let shown = Shown::open(folder)?;
    Ok(page(&PageSource { name, ..shown.source() })?)
}

/// The page of two.
pub(crate) fn page_of_two(a: &Path, b: &Path) -> Result<String> {
    let (a, b) = (Shown::open(a)?, Shown::open(b)?);
    Ok(pair_page(&compare(&a.read, &b.read), &a.source(), &b.source())?)
}

/// A run with all that its page is made of.
struct Shown {
    read: ReadRun,
    evidence: Evidence,
    results: Vec<Entry>,
    findings: Vec<Finding>,
    latencies: Vec<OverTime>,
    pictures: Pictures,
    notes: Vec<String>,
}

impl Shown {
    fn open(folder: &Path) -> Result<Shown> {
        let read = ReadRun::of(look_at(folder)?)?;
        let evidence = Evidence::with_results(&read.run, read.results.clone())?;
        let (mut results, mut findings) = (read.results.clone(), read.findings.clone());
        let was_judged = results.iter().any(|entry| matches!(entry, Entry::Judged(_)));
        let is_watched =
            !evidence.members().is_empty() || results.iter().any(|entry| matches!(entry, Entry::Load(_)));
        // A checkup has judged each server by its own loads, and the whole of it would mix them.
        let is_checkup = read.run.manifest.verb == "checkup";
        let judgement = match is_checkup {
            _ if !is_watched => None,
            false => Some(judge(&evidence)),
            true => (!was_judged).then(|| judge_in_turn(&evidence)),
        };
        let pictures = pictures(&evidence, judgement.as_ref());
        if let Some(judgement) = judgement {
            // Judged by the rules of today, as `explain` does, whatever an older version made of the same series.
            results.retain(|entry| !is_judged(entry));
            results.extend(judgement.results());
            // Settings of the host and findings of a probe rest on no series.
            findings.retain(|finding| is_checkup && finding.series.is_empty());
            findings.extend(judgement.findings);
        }
        // What was measured before what is only set so; otherwise as they were ranked, by what they cost.
        findings.sort_by_key(Finding::is_setting);
        let (latencies, notes) = (latencies(&read.run), read.run.manifest.notes());
        Ok(Shown { read, evidence, results, findings, latencies, pictures, notes })
    }

    /// Its figures over the runs of its kind that lie beside it; nothing where these cannot be listed.
    fn histories(&self) -> Vec<History> {
        let beside = self.read.folder.path.parent().and_then(|place| folders::scan(place).ok());
        beside.map_or_else(Vec::new, |beside| histories_up_to(&self.read.folder, &beside.runs))
    }

    fn source(&self) -> PageSource<'_> {
        PageSource {
            name: &self.read.folder.name,
            manifest: &self.read.run.manifest,
            results: &self.results,
            findings: &self.findings,
            series: &self.evidence.series,
            latencies: &self.latencies,
            pictures: &self.pictures,
            histories: &[],
            notes: &self.notes,
        }
    }
}

/// Whether an entry is the work of a rule rather than of a measurement.
fn is_judged(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Budget(_) | Entry::Queue(_) | Entry::Amplification(_) | Entry::Member(_) | Entry::Judged(_)
    )
}

/// Every latency log that can be read; one that is broken must not cost the page.
fn latencies(run: &Run) -> Vec<OverTime> {
    let names = run.latency_names().unwrap_or_default();
    let read = |name: String| match run.latency_over_time(&name) {
        Ok((whole, map)) => Some((name, whole, map)),
        Err(error) => {
            output::note(&format!("fathom: {error}; the page goes without it"));
            None
        }
    };
    names.into_iter().filter_map(read).collect()
}

fn keep_and_tell(file: &Path, text: &str) -> Result<()> {
    keep(file, text)?;
    output::line(&file.display().to_string())?;
    Ok(())
}

/// Writes the page beside its place and puts it there whole.
pub(super) fn keep(file: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::io("write", file, error)
            .with_kind(Kind::Unsupported)
            .advise("name another place with --output")
    };
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    beside.write_all(text.as_bytes()).map_err(failed)?;
    readable_by_all(beside.as_file()).map_err(failed)?;
    beside.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

/// A temporary file is its owner's only; a page is made to be handed on.
fn readable_by_all(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}
