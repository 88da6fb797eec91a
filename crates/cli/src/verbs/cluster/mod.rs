//! `fathom cluster`: mlaunch's command line, for real servers where they are installed and for our own where not.
//!
//! What a cluster is and how it is started stands in `fathom_cluster`; here it becomes options, lines and a table. It refuses to
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

use crate::outcome::Outcome;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cluster init --single                       one server at port 27017
  fathom cluster --replicaset --nodes 3 --arbiter    init goes without saying
  fathom cluster init --replicaset --sharded 2 --nodes 1 --dir /data/shards
  fathom cluster init --file cluster.yaml            engines, limits, tags ...
  fathom cluster list --tags
  fathom cluster stop shard 2 secondary              all of these tags
  fathom cluster kill --signal KILL 27018            one server, by its port
  fathom cluster start
  fathom cluster pause primary && fathom cluster resume
  fathom cluster init --replicaset --proxied && fathom cluster partition primary
  fathom cluster collect evidence                    logs and diagnostics
  fathom cluster destroy                             the servers and their data
  fathom ycsb load mongodb -P workloads/workloada \\
      -p mongodb.url=\"$(fathom cluster list --uri)\"

Options that are not ours go to the servers that list them in their --help.
Exit codes: 0 ok, 1 a finding, 2 usage, 3 environment (ports, programs, time).";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
    /// mlaunch's option; there is no progress bar here
    #[arg(long, global = true, hide = true)]
    no_progressbar: bool,
    #[arg(skip)]
    tls: Vec<(String, Option<String>)>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a cluster and start it
    Init(Box<init::InitArgs>),
    /// Start servers that are down
    Start(acts::StartArgs),
    /// Stop servers, and wait until they have ended
    Stop(acts::StopArgs),
    /// Send servers a signal
    Kill(acts::KillArgs),
    /// Stop servers and start them again
    Restart(acts::StartArgs),
    /// List the servers, or print a connection string
    List(list::ListArgs),
    /// End all servers and remove their data
    Destroy(acts::DestroyArgs),
    /// Stop servers in their tracks (SIGSTOP)
    Pause(acts::TaggedArgs),
    /// Let paused servers go on (SIGCONT)
    Resume(acts::TaggedArgs),
    /// Cut servers off from all others (of a cluster made with --proxied)
    Partition(acts::PartitionArgs),
    /// Make the way to servers longer (of a cluster made with --proxied)
    Delay(acts::DelayArgs),
    /// End all partitions and delays
    Heal(acts::HealArgs),
    /// Copy logs and diagnostics of all servers into a folder
    Collect(acts::CollectArgs),
    /// Become a server; for use by the other actions
    #[command(hide = true)]
    Launch(LaunchArgs),
    /// Stand before the servers of a cluster; for use by the other actions
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
        .arg_required_else_help(true);
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

/// Does what was asked.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    match config.action {
        Action::Init(args) => init::run(*args, &config.tls),
        Action::Start(args) => acts::start(args),
        Action::Stop(args) => acts::stop(args),
        Action::Kill(args) => acts::kill(args),
        Action::Restart(args) => acts::restart(args),
        Action::List(args) => list::run(&args),
        Action::Destroy(args) => acts::destroy(&args),
        Action::Pause(args) => acts::pause(&args, true),
        Action::Resume(args) => acts::pause(&args, false),
        Action::Collect(args) => acts::collect(&args),
        Action::Partition(args) => acts::partition(&args),
        Action::Delay(args) => acts::delay(&args),
        Action::Heal(args) => acts::heal(&args),
        Action::Proxy(folder) => {
            serve_proxy(&folder.dir)?;
            Ok(Outcome::Clean)
        }
        Action::Launch(args) => match args.words.split_first() {
            Some((program, arguments)) => Err(become_server(&args.join, program, arguments).into()),
            None => Err(Error::usage("no program was named").into()),
        },
    }
}
