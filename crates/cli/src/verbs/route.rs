//! `fathom route`: the router of a sharded cluster, with mongos' options, in the foreground or (`--fork`) in the background.
//!
//! It refuses to run in the background without a log file, and refuses options of mongos that it lacks by name.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bson::Bson;
use clap::{ArgAction, Args, Command, value_parser};
use fathom_client::AddressList;
use fathom_errors::Error;
use fathom_process::{ServiceSignals, SignalRequest};
use fathom_router::{Config as RouterConfig, LogRotate, Router, claimed_version};

use crate::background;
use crate::outcome::VerbOutcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom serve --configsvr --dbpath /data/config    config server, port 27019
  fathom serve --shardsvr --dbpath /data/s1         a shard, port 27018
  fathom route --configdb 127.0.0.1:27019           the router, port 27017
  fathom route --configdb cfg/a:27019,b:27019 --port 27117 --logpath route.log

Then, in mongosh: sh.addShard(\"127.0.0.1:27018\"), sh.enableSharding(\"ycsb\"),
sh.shardCollection(\"ycsb.usertable\", {_id: \"hashed\"}).
SIGTERM or Ctrl-C stops it; SIGUSR1 or SIGHUP begins a new log file.
Exit codes: 0 stopped cleanly, 2 usage, 3 environment.";

/// The arguments of `fathom route`.
#[derive(Args, Debug)]
pub(crate) struct Config {
    /// The config servers: SET/HOST:PORT,HOST:PORT of a replica set, or one HOST:PORT
    #[arg(long, value_name = "SERVERS", value_parser = servers, required_unless_present = "version")]
    configdb: Option<AddressList>,
    /// Port to listen on; 0 takes a free one and logs which
    #[arg(long, default_value_t = 27017)]
    port: u16,
    /// Addresses or names to listen on, separated by commas
    #[arg(long = "bind_ip", value_name = "HOSTS", value_delimiter = ',', default_value = "127.0.0.1")]
    bind_ip: Vec<String>,
    /// Listen on all addresses of the machine
    #[arg(long = "bind_ip_all", conflicts_with = "bind_ip")]
    bind_ip_all: bool,
    /// Maximum number of connections; others are closed at once
    #[arg(long = "maxConns", value_name = "N", default_value_t = 65_536, value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Compressors of messages, separated by commas; `disabled` for none
    #[arg(
        long = "networkMessageCompressors",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "snappy,zstd,zlib"
    )]
    compressors: Vec<String>,
    /// Log to this file; an old one is moved aside
    #[arg(long, value_name = "FILE")]
    logpath: Option<PathBuf>,
    /// Add to an old log file
    #[arg(long)]
    logappend: bool,
    /// What rotating does to the log file
    #[arg(long = "logRotate", value_name = "HOW", default_value = "rename", value_parser = ["rename", "reopen"])]
    log_rotate: String,
    /// Do not log connections and disconnections
    #[arg(long)]
    quiet: bool,
    /// Log more; may be repeated up to five times
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Continue in the background once ready
    #[arg(long, requires = "logpath")]
    fork: bool,
    /// Leave moving chunks to other routers
    #[arg(long = "noBalancer")]
    no_balancer: bool,
    /// The version of MongoDB that the router claims, 4.0 to 4.4
    #[arg(long = "claimedVersion", value_name = "VERSION", default_value = "4.4.29")]
    claimed_version: String,
    /// Print the claimed version, and that of the program
    #[arg(long)]
    version: bool,
    /// Refused: the router has no users
    #[arg(long = "keyFile", value_name = "FILE", hide = true)]
    key_file: Option<PathBuf>,
    /// Refused: the router takes its options from the command line alone
    #[arg(short = 'f', long = "config", value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    /// Refused: the router has no parameters to start with
    #[arg(long = "setParameter", value_name = "NAME=VALUE", hide = true)]
    set_parameter: Vec<String>,
}

fn servers(text: &str) -> Result<AddressList, String> {
    text.parse().map_err(|error: Error| error.to_string())
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("route"))
        .about("Route commands to the shards of a cluster, with mongos' options")
        .long_about(None)
        .disable_version_flag(true)
        .after_help(EXAMPLES)
}

impl Config {
    /// The router's configuration; an error if a required argument is missing.
    fn router(self) -> Result<(RouterConfig, bool)> {
        for (given, name, why) in [
            (self.key_file.is_some(), "--keyFile", "the router has no users, and must stay on loopback"),
            (self.config.is_some(), "--config", "the router takes its options from the command line alone"),
            (
                !self.set_parameter.is_empty(),
                "--setParameter",
                "the router has no parameters to set at its start",
            ),
        ] {
            if given {
                return Err(Error::usage(format!("fathom route has no {name}: {why}")).into());
            }
        }
        let Some(config_db) = self.configdb else {
            return Err(Error::usage("--configdb is missing").into());
        };
        if self.log_rotate == "reopen" && !self.logappend {
            let what = "--logRotate reopen needs --logappend, or a restart would empty the log";
            return Err(Error::usage(what).into());
        }
        let mut config = RouterConfig::new(config_db);
        config.port = self.port;
        config.bind_ip = if self.bind_ip_all { vec!["0.0.0.0".to_owned()] } else { self.bind_ip };
        config.max_connections = usize::try_from(self.max_connections)?;
        config.compressors = compressors(self.compressors)?;
        config.balancer = !self.no_balancer;
        config.claimed_version = claimed_version(&self.claimed_version)?;
        // A router in the background works in another directory.
        config.log.path = self.logpath.map(std::path::absolute).transpose()?;
        config.log.append = self.logappend;
        config.log.rotate = if self.log_rotate == "reopen" { LogRotate::Reopen } else { LogRotate::Rename };
        config.log.quiet = self.quiet;
        config.log.verbosity = self.verbose.min(5);
        config.argv = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        config.parsed = parsed(&config);
        Ok((config, self.fork))
    }
}

fn compressors(names: Vec<String>) -> Result<Vec<String>> {
    if names == ["disabled"] {
        return Ok(Vec::new());
    }
    match names.iter().find(|name| !["snappy", "zlib", "zstd"].contains(&name.as_str())) {
        Some(name) => {
            let what =
                format!("--networkMessageCompressors takes snappy, zlib, zstd or disabled, not '{name}'");
            Err(Error::usage(what).into())
        }
        None => Ok(names),
    }
}

/// The options as `getCmdLineOpts` shows them, under mongos' keys.
fn parsed(config: &RouterConfig) -> BTreeMap<String, Bson> {
    let net = bson::doc! { "bindIp": config.bind_ip.join(","), "port": i32::from(config.port) };
    let sharding = bson::doc! { "configDB": config.config_db.to_string() };
    let mut parsed =
        BTreeMap::from([("net".to_owned(), net.into()), ("sharding".to_owned(), sharding.into())]);
    if let Some(path) = &config.log.path {
        let log = bson::doc! { "destination": "file", "path": path.display().to_string() };
        parsed.insert("systemLog".to_owned(), log.into());
    }
    parsed
}

/// Runs the router until a signal or a client ends it.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    if config.version {
        output::line(&format!("mongos version v{}", claimed_version(&config.claimed_version)?))?;
        output::line(&format!("fathom {}", env!("CARGO_PKG_VERSION")))?;
        return Ok(VerbOutcome::Clean);
    }
    let (config, fork) = config.router()?;
    if !fork {
        return route(config, || ());
    }
    match background::parent()? {
        None => background::go("router", config.log.path.as_deref()),
        Some(parent) => {
            let parent = Cell::new(Some(parent));
            let tell = || parent.take().map_or((), background::Parent::ready);
            route(config, tell).inspect_err(|error| {
                if let (Some(parent), Some(error)) = (parent.take(), error.downcast_ref::<Error>()) {
                    parent.failed(error);
                }
            })
        }
    }
}

fn route(config: RouterConfig, ready: impl FnOnce()) -> Result<VerbOutcome> {
    let signals = ServiceSignals::install()?;
    let asked = || matches!(signals.wait(Duration::ZERO), Some(SignalRequest::Stop));
    let router = Router::start_unless(config, &asked)?;
    ready();
    router.wait(&|pause| match signals.wait(pause) {
        Some(SignalRequest::Stop) => true,
        Some(SignalRequest::Rotate) => {
            router.rotate_log();
            false
        }
        None => false,
    });
    router.stop();
    Ok(VerbOutcome::Clean)
}
