//! `fathom doctor`: this host's settings, or a saved host's, against what MongoDB's vendor advises.
//!
//! It prints the command that would fix each setting and runs none. It refuses to mix saving with judging a
//! snapshot: a copy of a copy would claim to be a host.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command};
use fathom_host::View;
use fathom_host::doctor::{self, Diagnosis, MongoVersion, Options};
use fathom_record::Finding;
use fathom_report::findings_text;
use serde_json::json;

use crate::outcome::Outcome;
use crate::output;

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// Columns of the text, which is read in tickets and logs as often as on a terminal.
const WIDTH: usize = 80;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom doctor                                    judge this host
  fathom doctor --dir /data/db --mongodb 7.0       another dbPath and version
  fathom doctor --verbose                          also what is as wanted
  sudo fathom doctor --save /tmp/db1               save what the rules read
  fathom doctor --snapshot /tmp/db1 --mongodb 8.0  judge it elsewhere
  fathom doctor --json                             one JSON document, for scripts

Commands that would fix a setting are printed, never run. As root more can be
read (the limits and environment of another user's mongod).

Exit codes: 0 nothing to change, 1 a warning or worse, 2 usage, 3 environment.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The folder of the data [default: the running mongod's dbPath, else /var/lib/mongodb, else here]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The version of MongoDB to judge for [default: the running mongod's, else the current release]
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    mongodb: Option<MongoVersion>,
    /// Save what the rules read of this host into DIR, and judge nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["snapshot", "json", "verbose"])]
    save: Option<PathBuf>,
    /// Judge a host saved with --save
    #[arg(long, value_name = "DIR")]
    snapshot: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show also what is as wanted
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
pub(crate) fn run(config: Config) -> Result<Outcome> {
    let options = Options { dir: config.dir, mongodb: config.mongodb };
    if let Some(into) = &config.save {
        let saved = doctor::save(&View::live(), &options, into)?;
        let folder = into.display();
        let (files, kib) = (saved.files, saved.bytes.div_ceil(1024));
        output::line(&format!(
            "saved {files} files ({kib} KiB) to {folder}; judge them with: fathom doctor --snapshot {folder}"
        ))?;
        return Ok(Outcome::Clean);
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
    Ok(if findings.iter().any(Finding::is_alarm) { Outcome::Findings } else { Outcome::Clean })
}

/// Who was judged, what was assumed, what was found, and the sum.
fn text(diagnosis: &Diagnosis, verbose: bool) -> String {
    let Diagnosis { subject, assumptions, findings } = diagnosis;
    let mut lines = vec![
        format!("data     {}", subject.dir),
        format!("mount    {}", subject.mount.as_deref().unwrap_or("unknown")),
    ];
    if !subject.devices.is_empty() {
        lines.push(format!("devices  {}", subject.devices.join(", ")));
    }
    lines.push(format!("kernel   {} ({})", subject.kernel, subject.architecture));
    lines.push(format!("MongoDB  {}", subject.mongodb));
    lines.extend(assumptions.iter().map(|assumption| format!("assumed  {assumption}")));
    lines.push(String::new());
    lines.push(findings_text(findings, WIDTH, verbose));
    lines.push(String::new());
    let alarms = findings.iter().filter(|finding| finding.is_alarm()).count();
    lines.push(match alarms {
        0 => "Nothing to change.".to_owned(),
        1 => "1 setting differs from the advice. Measure before and after you change it.".to_owned(),
        _ => format!("{alarms} settings differ from the advice. Measure before and after you change them."),
    });
    lines.join("\n")
}
