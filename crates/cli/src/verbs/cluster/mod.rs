//! `fathom cluster`: mlaunch's command line, for mongod and mongos if they are installed, and otherwise for Fathom's own servers.
//!
//! `fathom_cluster` defines clusters and starts them. This module adds options, output lines and a table. It refuses to
//! signal or remove anything that it did not start.

mod acts;
mod common;
mod init;
mod list;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use fathom_cluster::{become_server, serve_proxy};
use fathom_errors::Error;

use common::ClusterFolder;
pub(crate) use words::plain;

use crate::outcome::VerbOutcome;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster init --single                       one server at port 27017
  fathom cluster --replicaset --nodes 3 --arbiter    init is the default action
  fathom cluster init --sharded 2 --single --dir /data/shards
  fathom cluster init --file cluster.yaml            engines, limits, tags ...
  fathom cluster list --tags
  fathom cluster stop shard 2 secondary              all of these tags
  fathom cluster kill --signal KILL 27018            one server, by its port
  fathom cluster start
  fathom cluster pause primary && fathom cluster resume
  fathom cluster init --replicaset --proxied && fathom cluster partition primary
  fathom cluster collect evidence                    logs and diagnostics
  fathom cluster destroy                             the servers and their data
  fathom ycsb load mongodb -P workloada \\
      -p mongodb.url=\"$(fathom cluster list --uri)\"

Unknown options are passed to the servers if their --help lists them.
Exit codes: 0 ok, 1 a finding, 2 usage, 3 environment (ports, programs, time).";

const START_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster start
  fathom cluster start shard 2 secondary
  fathom cluster start --binarypath /opt/mongodb-7.0/bin --slowms 20";

const STOP_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster stop
  fathom cluster stop shard 2 secondary          servers with all of these tags
  fathom cluster stop 27018                      one server, by its port";

const KILL_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster kill --signal KILL primary      a crash
  fathom cluster kill --signal HUP";

const RESTART_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster restart secondary
  fathom cluster restart --setParameter syncdelay=5";

const LIST_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster list --tags
  fathom cluster list --uri
  fathom cluster list down --json --dir /data/cluster";

const DESTROY_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster destroy
  fathom cluster destroy --dir /data/cluster";

const PAUSE_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster pause primary";

const RESUME_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster resume";

const PARTITION_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster partition primary               the other members lose it
  fathom cluster partition primary --clients     its clients too";

const DELAY_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster delay secondary --round-trip 20ms
  fathom cluster delay --round-trip 0            no delay";

const HEAL_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster heal";

const COLLECT_EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster collect evidence
  fathom cluster collect /tmp/evidence --dir /data/cluster";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: ClusterSubcommand,
    /// mlaunch's option; there is no progress bar here
    #[arg(long, global = true, hide = true)]
    no_progressbar: bool,
    #[arg(skip)]
    tls: Vec<(String, Option<String>)>,
}

#[derive(Debug, Subcommand)]
enum ClusterSubcommand {
    /// Make a cluster and start it
    Init(Box<init::InitArgs>),
    /// Start servers that are down
    #[command(after_help = START_EXAMPLES)]
    Start(acts::StartArgs),
    /// Stop servers, and wait until they have ended
    #[command(after_help = STOP_EXAMPLES)]
    Stop(acts::StopArgs),
    /// Send servers a signal
    #[command(after_help = KILL_EXAMPLES)]
    Kill(acts::KillArgs),
    /// Stop servers and start them again
    #[command(after_help = RESTART_EXAMPLES)]
    Restart(acts::StartArgs),
    /// List the servers, or print a connection string
    #[command(after_help = LIST_EXAMPLES)]
    List(list::ListArgs),
    /// End all servers and remove their data
    #[command(after_help = DESTROY_EXAMPLES)]
    Destroy(acts::DestroyArgs),
    /// Pause servers with the signal SIGSTOP
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(acts::TaggedArgs),
    /// Resume paused servers with the signal SIGCONT
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(acts::TaggedArgs),
    /// Cut servers off from all others (of a cluster made with --proxied)
    #[command(after_help = PARTITION_EXAMPLES)]
    Partition(acts::PartitionArgs),
    /// Add latency to the connections of servers (of a cluster made with --proxied)
    #[command(after_help = DELAY_EXAMPLES)]
    Delay(acts::DelayArgs),
    /// End all partitions and delays
    #[command(after_help = HEAL_EXAMPLES)]
    Heal(acts::HealArgs),
    /// Copy logs and diagnostics of all servers into a folder
    #[command(after_help = COLLECT_EXAMPLES)]
    Collect(acts::CollectArgs),
    /// Become a server; for use by the other actions
    #[command(hide = true)]
    Launch(LaunchArgs),
    /// Run the proxies of a cluster; for use by the other actions
    #[command(hide = true)]
    Proxy(ClusterFolder),
}

#[derive(Debug, Args)]
struct LaunchArgs {
    #[arg(long)]
    join: Vec<PathBuf>,
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    let command = Config::augment_args(Command::new("cluster"))
        .about("Start replica sets and sharded clusters on this machine, with mlaunch's options")
        .long_about(None)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        // An alias may give an option that its user gives again, as with mlaunch.
        .args_override_self(true);
    command.mut_subcommand("init", |init| init.args(init::tls_arguments()))
}

impl Config {
    /// Reads the command line.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Config> {
        let mut config = Config::from_arg_matches(matches)?;
        if let Some(("init", matches)) = matches.subcommand() {
            config.tls = init::tls_given(matches);
        }
        Ok(config)
    }
}

/// Runs the chosen action.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    match config.action {
        ClusterSubcommand::Init(args) => init::run(*args, &config.tls),
        ClusterSubcommand::Start(args) => acts::start(args),
        ClusterSubcommand::Stop(args) => acts::stop(args),
        ClusterSubcommand::Kill(args) => acts::kill(args),
        ClusterSubcommand::Restart(args) => acts::restart(args),
        ClusterSubcommand::List(args) => list::run(&args),
        ClusterSubcommand::Destroy(args) => acts::destroy(&args),
        ClusterSubcommand::Pause(args) => acts::pause(&args, true),
        ClusterSubcommand::Resume(args) => acts::pause(&args, false),
        ClusterSubcommand::Collect(args) => acts::collect(&args),
        ClusterSubcommand::Partition(args) => acts::partition(&args),
        ClusterSubcommand::Delay(args) => acts::delay(&args),
        ClusterSubcommand::Heal(args) => acts::heal(&args),
        ClusterSubcommand::Proxy(folder) => {
            serve_proxy(&folder.dir)?;
            Ok(VerbOutcome::Clean)
        }
        ClusterSubcommand::Launch(args) => match args.words.split_first() {
            Some((program, arguments)) => Err(become_server(&args.join, program, arguments).into()),
            None => Err(Error::usage("no program was named").into()),
        },
    }
}
