//! `fathom serve`: the lab server, with mongod's options, in the foreground or (`--fork`) in the background.
//!
//! The options come from the server's table (`fathom_server::config`), and become a command line here. It refuses to run in
//! the background without a log file, and refuses whatever the server itself refuses.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use fathom_errors::Error;
use fathom_process::{ServiceSignals, SignalRequest};
use fathom_server::Server;
use fathom_server::config::{Flag, SETTINGS, Sets, Setting, Shape, TypedFlag};

use crate::background;
use crate::outcome::VerbOutcome;
use crate::{allocator, output};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom serve --dbpath /data/lab                    WiredTiger, 127.0.0.1:27017
  fathom serve --dbpath /data/rocks --storageEngine rocksdb --port 27018
  fathom serve --config lab.yaml --port 0            YAML with mongod's keys
  fathom serve --dbpath /data/lab --syncdelay 5 --wiredTigerCacheSizeGB 2
  fathom serve --dbpath /data/lab --fork --logpath /var/log/lab.log

SIGTERM or Ctrl-C stops the server after a last checkpoint, a second signal at
once. SIGUSR1 or SIGHUP begins a new log file.
Exit codes: 0 stopped cleanly, 2 usage, 3 environment, or a failure stopped it.";

/// The arguments of `fathom serve`.
#[derive(Debug)]
pub(crate) struct Config {
    server: fathom_server::Config,
    version: bool,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    let command = Command::new("serve")
        .about("Serve MongoDB's protocol on WiredTiger or RocksDB, with mongod's options and I/O")
        .disable_version_flag(true)
        .after_help(EXAMPLES)
        .arg(
            Arg::new("config")
                .short('f')
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Read options from this YAML file; options of the command line override it"),
        )
        .arg(
            Arg::new("version")
                .long("version")
                .action(ArgAction::SetTrue)
                .help("Print the claimed version, and that of the program"),
        );
    SETTINGS.iter().fold(command, |command, setting| {
        setting.flags.iter().fold(command, |command, flag| command.arg(argument(setting, flag)))
    })
}

fn argument(setting: &Setting, flag: &'static Flag) -> Arg {
    let refused = matches!(setting.shape, Shape::Refused(_));
    let heading = match setting.key.split('.').next() {
        _ if refused => "Refused",
        Some("net") => "Network",
        Some("storage") => "Storage",
        Some("operationProfiling") => "Slow operations",
        Some("systemLog") => "Log",
        Some("processManagement") => "Process",
        Some("security") => "Security",
        _ => "Parameters",
    };
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .visible_aliases(flag.aliases.iter().copied())
        .help(flag.help)
        .help_heading(heading)
        .hide(refused);
    match flag.sets {
        Sets::Value(name) | Sets::Place(name) => {
            argument.value_name(name).value_parser(value_parser!(OsString)).allow_hyphen_values(true)
        }
        Sets::Pair => {
            argument.value_name("NAME=VALUE").value_parser(value_parser!(OsString)).action(ArgAction::Append)
        }
        Sets::Always(_) => argument.action(ArgAction::SetTrue),
        Sets::Count(short) => argument.short(short).action(ArgAction::Count),
    }
}

impl Config {
    /// Reads the command line, and the configuration file that it names.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self> {
        let mut given = Vec::new();
        for flag in SETTINGS.iter().flat_map(|setting| setting.flags) {
            let values = match flag.sets {
                Sets::Always(_) => matches.get_flag(flag.name).then(Vec::new),
                Sets::Count(_) => Some(matches.get_count(flag.name))
                    .filter(|count| *count > 0)
                    .map(|count| vec![String::new(); usize::from(count)]),
                _ => matches
                    .get_many::<OsString>(flag.name)
                    .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect()),
            };
            given.extend(values.map(|values| TypedFlag { flag: flag.name.to_owned(), values }));
        }
        let argv = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let file = matches.get_one::<PathBuf>("config").map(PathBuf::as_path);
        let server = fathom_server::Config::assemble(argv, &given, file)?;
        Ok(Config { server, version: matches.get_flag("version") })
    }
}

/// Runs the server until a signal, a client or a failure ends it.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    if config.version {
        output::line(&format!("db version v{}", config.server.claimed_version))?;
        output::line(&format!("fathom {}", env!("CARGO_PKG_VERSION")))?;
        return Ok(VerbOutcome::Clean);
    }
    // This comes before anything is opened, and before a background process leaves the directory to which its arguments are relative.
    allocator::settle();
    if !config.server.fork {
        return serve(config.server, || ());
    }
    match background::parent()? {
        None => background::go("server", config.server.log_path.as_deref()),
        Some(parent) => {
            let parent = Cell::new(Some(parent));
            let tell = || parent.take().map_or((), background::Parent::ready);
            serve(config.server, tell).inspect_err(|error| {
                if let (Some(parent), Some(error)) = (parent.take(), error.downcast_ref::<Error>()) {
                    parent.failed(error);
                }
            })
        }
    }
}

fn serve(config: fathom_server::Config, ready: impl FnOnce()) -> Result<VerbOutcome> {
    let signals = ServiceSignals::install()?;
    let server = Server::start(config)?;
    ready();
    server.wait(&|pause| match signals.wait(pause) {
        Some(SignalRequest::Stop) => true,
        Some(SignalRequest::Rotate) => {
            server.rotate_log();
            false
        }
        None => false,
    });
    server.stop()?;
    Ok(VerbOutcome::Clean)
}
