//! `fathom doctor`: compares the settings of this host, or of a saved host, with the advice of MongoDB's vendor.
//!
//! It prints the commands that would fix each setting, or writes them all into one script with their undo, and runs none. It refuses to
//! save while it judges a snapshot: a copy of a copy would look like a real host.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_host::View;
use fathom_host::doctor::{self, Diagnosis, DoctorOptions, MongoVersion, Script};
use fathom_record::{Finding, Priority};
use fathom_report::{findings_text, wrapped};
use serde_json::json;

use crate::outcome::VerbOutcome;
use crate::output;

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// The width of the text, which is read in tickets and logs as often as on a terminal.
const WIDTH: usize = 80;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom doctor                                    judge this host
  fathom doctor --dir /data/db --mongodb 7.0       another dbPath and version
  fathom doctor --verbose                          each setting, with its undo
  fathom doctor --script fix.sh                    all commands and their undo
  sudo fathom doctor --save /tmp/db1               save what the rules read
  fathom doctor --snapshot /tmp/db1 --mongodb 8.0  judge it elsewhere
  fathom doctor --json                             one JSON document

Findings are ranked by what acting on them is worth: critical (costs latency or
risks data now), worth doing (matters to a database on this host), hygiene (the
vendor's advice, no effect measured). Commands are printed, never run. As root
more can be read (the limits and environment of another user's mongod).

Exit codes: 0 nothing to change, 1 a warning or worse, 2 usage, 3 environment.";

/// The arguments of `fathom doctor`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The folder of the data [default: the running mongod's dbPath, else /var/lib/mongodb, else here]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The version of MongoDB to judge for [default: the running mongod's, else the current release]
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    mongodb: Option<MongoVersion>,
    /// Save what the rules read of this host into DIR, and judge nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["snapshot", "json", "verbose", "mongodb", "force"])]
    save: Option<PathBuf>,
    /// Judge a host saved with --save
    #[arg(long, value_name = "DIR")]
    snapshot: Option<PathBuf>,
    /// Write all commands and their undo to FILE, as a shell script for you to read and run
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    script: Option<PathBuf>,
    /// Overwrite FILE of --script
    #[arg(long, requires = "script")]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show each setting in full, including those that are OK (--json has them anyway)
    #[arg(long, short)]
    verbose: bool,
}

fn parse_version(text: &str) -> Result<MongoVersion, fathom_errors::Error> {
    text.parse()
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("doctor"))
        .about("Judge a host's settings by MongoDB's advice, and print the commands that would fix them")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Saves, or judges and shows.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let options = DoctorOptions { dir: config.dir, mongodb: config.mongodb };
    if let Some(into) = &config.save {
        let saved = doctor::save(&View::live(), &options, into)?;
        let folder = into.display();
        let (files, kib) = (saved.files, saved.bytes.div_ceil(1024));
        output::line(&format!(
            "saved {files} files ({kib} KiB) to {folder}; judge them with: fathom doctor --snapshot {folder}"
        ))?;
        return Ok(VerbOutcome::Clean);
    }
    let view = config.snapshot.map_or_else(|| Ok(View::live()), View::snapshot)?;
    let diagnosis = doctor::examine(&view, &options)?;
    let Diagnosis { subject, assumptions, findings } = &diagnosis;
    if config.json {
        let document = json!({
            "schema": SCHEMA,
            "subject": subject,
            "assumptions": assumptions,
            "findings": findings,
        });
        output::line(&serde_json::to_string_pretty(&document)?)?;
    } else {
        output::line(&text(&diagnosis, config.verbose))?;
    }
    if let Some(file) = &config.script {
        let told = write_script(&diagnosis, file, config.force)?;
        if config.json { output::note(&told) } else { output::line(&told)? }
    }
    Ok(if findings.iter().any(Finding::is_alarm) { VerbOutcome::Findings } else { VerbOutcome::Clean })
}

/// Writes the script. Returns the lines that name the file and the command that runs it.
fn write_script(diagnosis: &Diagnosis, file: &Path, force: bool) -> Result<String, Error> {
    let Some(script) = Script::new(diagnosis) else {
        return Ok(format!("No command would change anything, so {} was not written.", file.display()));
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).truncate(force).create(force).create_new(!force);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::new(Kind::NotOurs, format!("{} already exists", file.display()))
                .advise("name another file, or replace it with --force")
        }
        _ => Error::io("write the script to", file, error),
    };
    let written = options.open(file).and_then(|mut open| open.write_all(script.text.as_bytes()));
    written.map_err(failed)?;
    let noun = if script.changes == 1 { "change" } else { "changes" };
    let comments = match script.comments {
        0 => String::new(),
        count => format!(", {count} more as comments"),
    };
    let shown = file.display();
    Ok(format!(
        "{} {noun} with their undo{comments}: {shown}\nRead it, then: sudo sh {shown} apply",
        script.changes
    ))
}

/// The summary in one sentence: the settings to change, and those that only differ from the advice.
fn summary(findings: &[Finding]) -> String {
    let of = |priority| findings.iter().filter(|finding| finding.priority() == Some(priority)).count();
    let parts = [
        (of(Priority::Critical), "costs latency or risks data now", "cost latency or risk data now"),
        (of(Priority::WorthDoing), "is worth changing", "are worth changing"),
        (of(Priority::Hygiene), "is hygiene", "are hygiene"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    match parts.as_slice() {
        [] => "Nothing to change.".to_owned(),
        parts => format!("Settings of this host: {}.", parts.join(", ")),
    }
}

/// The summary, the judged host, the assumptions, and the findings.
fn text(diagnosis: &Diagnosis, verbose: bool) -> String {
    let Diagnosis { subject, assumptions, findings } = diagnosis;
    let mut lines = wrapped(&summary(findings), "", "", WIDTH);
    lines.extend([
        String::new(),
        format!("data     {}", subject.dir),
        format!("mount    {}", subject.mount.as_deref().unwrap_or("unknown")),
    ]);
    if !subject.devices.is_empty() {
        lines.push(format!("devices  {}", subject.devices.join(", ")));
    }
    lines.push(format!("kernel   {} ({})", subject.kernel, subject.architecture));
    lines.push(format!("MongoDB  {}", subject.mongodb));
    lines.extend(assumptions.iter().map(|assumption| format!("assumed  {assumption}")));
    lines.push(String::new());
    lines.push(findings_text(findings, WIDTH, verbose));
    if findings.iter().any(|finding| finding.priority().is_some()) {
        lines.push(String::new());
        lines.push("Measure before and after a change. 'fathom doctor --script FILE' writes all".to_owned());
        lines.push("commands with their undo; '--verbose' shows each setting in full.".to_owned());
    }
    lines.join("\n")
}
