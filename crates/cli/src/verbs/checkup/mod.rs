//! `fathom checkup`: judges whether storage will hold MongoDB back on this host, and at which load.
//!
//! It reads the host's settings, probes the disk, and searches on the built-in server for the highest rate of reads past memory, of
//! journaled writes and of a mix that holds an objective. It removes the files that it creates in the directory, and does not touch a
//! database there. A deployment is watched by reading commands; it is loaded only if the user asks for that and agrees to it.

mod answer;
mod config;
mod deployment;
mod outcome;
mod plan;
mod printer;

use anyhow::Result;
use clap::{Args, Command};
use fathom_host::doctor::{self, DoctorOptions};
use fathom_host::{MachineSize, View};
use fathom_process::Signals;
use fathom_session::{IS_BUILT_IN, SessionTools};

use crate::outcome::VerbOutcome;
use crate::output;
use crate::result_printer::Format;
use crate::run_page;
pub(crate) use config::Config;
use config::Json;
use printer::{CheckupPrinter, show_end, show_host};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom checkup --dir /var/lib/mongodb            at most 4 minutes
  fathom checkup --dir /data --quick               about 45 seconds
  fathom checkup --dir /data --slo 'p99<5ms' --storageEngine both
  fathom checkup --dir /data --need reads=5000,writes=800,p99=10ms,data=500G,memory=64G
  fathom checkup --uri mongodb://db1               a deployment, read only
  fathom checkup --uri mongodb://db1 --dir /data   also the capacity of /data
  fathom checkup --uri mongodb://test1 --load      also load it
  fathom checkup --dir /data --mongodb 7.0 --json > checkup.json

The probe and the built-in server make files in the directory and remove them.
A deployment is only read, unless --load is given; clusterMonitor is enough.
Commands that would change the host are printed, never run.
Exit codes: 0 a capacity was found, 1 also a cap or a device slower than its
class or, of a deployment, another named cause that holds it back, 2 usage,
3 environment, 4 no capacity or cause was found.
With --need: 0 yes, 1 no, 4 cannot tell. Host settings alone never cause a 1.";

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("checkup"))
        .about("Say whether storage will hold MongoDB back here, and at what load: the main job")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Checks the host, probes the disk, and measures the capacity of a server on it; watches or loads a deployment.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    config.page.check(&[(config.json.is_some(), "--json"), (config.no_record, "--no-record")])?;
    config.check()?;
    let tools = SessionTools { signals: Signals::install()?, note: output::note };
    let format = match config.json {
        None => Format::Text,
        Some(Json::Document) => Format::Document,
        Some(Json::Lines) => Format::Lines,
    };
    let options = DoctorOptions { dir: Some(config.directory().to_owned()), mongodb: config.mongodb };
    let examine = || doctor::examine(&View::live(), &options);
    let diagnosis = config.examines_directory().then(examine).transpose()?;
    let mut database = None;
    if let Some(uri) = &config.uri {
        deployment::check_reachable(&config, uri)?;
    }
    if let Some(uri) = config.uri.as_ref().filter(|_| config.load) {
        let name = fathom_session::new_database_name()?;
        if !deployment::agrees(&config, uri, &name)? {
            output::note("fathom: nothing was loaded");
            return Ok(VerbOutcome::Clean);
        }
        database = Some(name);
    }
    let host_findings = diagnosis.as_ref().map_or_else(Vec::new, |diagnosis| diagnosis.findings.clone());
    let spec = config.session(host_findings, database)?;
    if !IS_BUILT_IN && !config.no_load && !config.load && config.examines_directory() {
        output::note(
            "fathom: this build has no server to load, so the disk alone is judged; --uri and --load name one",
        );
    }
    let is_brief = format == Format::Text
        && !config.verbose
        && (config.measures_capacity() || !config.examines_directory());
    if is_brief {
        output::line(&config.plan_in_words())?;
        show_machine_size(&config)?;
    } else if let Some(diagnosis) = &diagnosis {
        show_host(format, diagnosis, config.verbose)?;
    }
    let mut printer = CheckupPrinter::new(format, is_brief, &config);
    let result = fathom_session::run(&spec, &tools, &mut printer)?;
    show_end(format, is_brief, printer.unfinished(), diagnosis.as_ref(), &result, spec.monitor.is_some())?;
    drop(printer);
    if format == Format::Text
        && let Some(page) = run_page::of_ended_run(&config.page, result.folder.as_deref())
    {
        output::line(&page)?;
    }
    let outcome = outcome::verb_outcome(config.need.is_some(), &result);
    match result.error {
        Some(error) => Err(error.into()),
        None => Ok(outcome.or_by(config.fail_if.as_ref(), &result.results)),
    }
}

/// Prints the part of the machine that a container or a control group leaves, if a directory is measured in it.
fn show_machine_size(config: &Config) -> Result<()> {
    let size = MachineSize::read(&View::live()).filter(|_| config.examines_directory());
    let sentence = size.and_then(|size| size.limit_sentence());
    Ok(sentence.map_or(Ok(()), |sentence| output::line(&sentence))?)
}
