//! Actions on an existing cluster: start, stop, kill, restart, pause, collect, destroy; and faults of the network between its
//! servers: partition, delay, heal.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fathom_cluster::{Cluster, Overrides, Rules, StopOptions, TagSelection, signal};
use fathom_errors::{Error, Kind};
use rustix::process::Signal;

use super::common::{ClusterFolder, TimeoutArgs, duration, say, servers};
use crate::outcome::VerbOutcome;
use crate::output;

#[derive(Debug, Args)]
pub(super) struct TaggedArgs {
    /// Servers that have all of these tags (see list --tags); without any, all
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    place: ClusterFolder,
}

/// The command line of `start` and `restart`.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Other binaries, for this start only
    #[arg(long, value_name = "PATH")]
    binarypath: Option<String>,
    #[command(flatten)]
    patience: TimeoutArgs,
    /// Options for the servers, for this start only
    #[arg(last = true, value_name = "OPTION")]
    pass_through: Vec<String>,
}

/// The command line of `stop`.
#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Do not wait until they have ended
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    #[command(flatten)]
    patience: TimeoutArgs,
}

/// The command line of `kill`.
#[derive(Debug, Args)]
pub(super) struct KillArgs {
    #[command(flatten)]
    stop: StopArgs,
    /// The signal, by number or name
    #[arg(long, value_name = "SIGNAL", default_value = "15")]
    signal: String,
}

/// The command line of `destroy`.
#[derive(Debug, Args)]
pub(super) struct DestroyArgs {
    #[command(flatten)]
    place: ClusterFolder,
    #[command(flatten)]
    patience: TimeoutArgs,
}

/// The command line of `collect`.
#[derive(Debug, Args)]
pub(super) struct CollectArgs {
    /// The folder to create
    #[arg(value_name = "FOLDER")]
    into: PathBuf,
    #[command(flatten)]
    place: ClusterFolder,
}

impl TaggedArgs {
    fn choose(&self, cluster: &Cluster, running: bool) -> Result<Vec<usize>> {
        Ok(cluster.select(&TagSelection::read(&self.tags)?, running)?)
    }
}

impl StartArgs {
    fn overrides(&self) -> Overrides {
        Overrides { pass_through: self.pass_through.clone(), binaries: self.binarypath.clone() }
    }
}

/// Starts servers that are down. A router that only added the shards is started when it is named.
pub(super) fn start(args: StartArgs) -> Result<VerbOutcome> {
    let mut cluster = args.tagged.place.open()?;
    let mut places = args.tagged.choose(&cluster, false)?;
    if args.tagged.tags.is_empty() {
        places.retain(|at| cluster.nodes().get(*at).is_some_and(|node| !node.temporary));
    }
    cluster.start(&args.patience.tools()?, &places, &args.overrides())?;
    output::line(&format!("{} started", servers(places.len())))?;
    Ok(VerbOutcome::Clean)
}

/// Stops servers with SIGTERM or by `shutdown`.
pub(super) fn stop(args: StopArgs) -> Result<VerbOutcome> {
    let (count, has_waited) = send(&args, Signal::TERM)?;
    let verb = if has_waited { "stopped" } else { "asked to stop" };
    output::line(&format!("{} {verb}", servers(count)))?;
    Ok(VerbOutcome::Clean)
}

pub(super) fn kill(args: KillArgs) -> Result<VerbOutcome> {
    let signal = signal(&args.signal)?;
    let (count, has_waited) = send(&args.stop, signal)?;
    let ended = match (count, has_waited) {
        (0, _) | (_, false) => "",
        (1, true) => ", which has ended",
        (_, true) => ", which have ended",
    };
    output::line(&format!("signal {} sent to {}{ended}", signal.as_raw(), servers(count)))?;
    Ok(VerbOutcome::Clean)
}

/// Sends a signal to the running servers that match. Returns their number, and whether it waited for them to end.
fn send(args: &StopArgs, signal: Signal) -> Result<(usize, bool)> {
    let mut cluster = args.tagged.place.open()?;
    let places = args.tagged.choose(&cluster, true)?;
    let how = StopOptions::with(signal);
    let how = StopOptions { wait: how.wait && !args.no_wait, ..how };
    let sent = cluster.stop(&args.patience.tools()?, &places, how)?;
    Ok((sent, how.wait))
}

/// Stops servers that run and starts them again.
pub(super) fn restart(args: StartArgs) -> Result<VerbOutcome> {
    let mut cluster = args.tagged.place.open()?;
    let tools = args.patience.tools()?;
    let places = args.tagged.choose(&cluster, true)?;
    if places.is_empty() {
        return Err(Error::new(Kind::NotFound, "no running server matches")
            .advise("see 'fathom cluster list'")
            .into());
    }
    cluster.stop(&tools, &places, StopOptions::with(Signal::TERM))?;
    cluster.start(&tools, &places, &args.overrides())?;
    output::line(&format!("{} restarted", servers(places.len())))?;
    Ok(VerbOutcome::Clean)
}

/// Pauses servers, or resumes them.
pub(super) fn pause(args: &TaggedArgs, pause: bool) -> Result<VerbOutcome> {
    let cluster = args.place.open()?;
    let places = args.choose(&cluster, true)?;
    let count = cluster.pause(&places, pause)?;
    output::line(&format!("{} {}", servers(count), if pause { "paused" } else { "resumed" }))?;
    Ok(VerbOutcome::Clean)
}

/// Collects logs and diagnostics.
pub(super) fn collect(args: &CollectArgs) -> Result<VerbOutcome> {
    let cluster = args.place.look()?;
    let missing = cluster.collect(&args.into)?;
    for sentence in &missing {
        say(sentence);
    }
    output::line(&format!(
        "logs and diagnostics of {} are in {}",
        servers(cluster.nodes().len()),
        args.into.display()
    ))?;
    Ok(VerbOutcome::Clean)
}

/// Ends all servers and removes their data.
pub(super) fn destroy(args: &DestroyArgs) -> Result<VerbOutcome> {
    let cluster = args.place.open()?;
    let (folder, count) = (cluster.folder().to_owned(), cluster.nodes().len());
    let left = cluster.destroy(&args.patience.tools()?)?;
    output::line(&format!("{} destroyed, with their data", servers(count)))?;
    if let Some(first) = left.first() {
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        say(&format!("{} stays: it holds {name}, which is not the cluster's", folder.display()));
    }
    Ok(VerbOutcome::Clean)
}

/// The command line of `partition`.
#[derive(Debug, Args)]
pub(super) struct PartitionArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Cut them off from clients too
    #[arg(long)]
    clients: bool,
}

/// The command line of `delay`.
#[derive(Debug, Args)]
pub(super) struct DelayArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Time added to each round trip; 0 removes the delay
    #[arg(long, value_name = "TIME", value_parser = duration)]
    round_trip: Duration,
}

/// The command line of `heal`.
#[derive(Debug, Args)]
pub(super) struct HealArgs {
    #[command(flatten)]
    place: ClusterFolder,
}

/// The ports of the selected servers, whether they run or not.
fn ports(cluster: &Cluster, tagged: &TaggedArgs) -> Result<Vec<u16>> {
    let mut places = tagged.choose(cluster, true)?;
    places.extend(tagged.choose(cluster, false)?);
    Ok(places.into_iter().filter_map(|at| cluster.nodes().get(at)).map(|node| node.port).collect())
}

/// Cuts servers off from the others.
pub(super) fn partition(args: &PartitionArgs) -> Result<VerbOutcome> {
    let cluster = args.tagged.place.open()?;
    if args.tagged.tags.is_empty() {
        return Err(Error::usage("no servers to cut off are named")
            .advise("name tags, like 'primary'")
            .into());
    }
    let ports = ports(&cluster, &args.tagged)?;
    let mut rules = cluster.rules()?;
    rules.cut(&ports, args.clients);
    cluster.set_rules(&rules)?;
    output::line(&format!("{} cut off", servers(ports.len())))?;
    Ok(VerbOutcome::Clean)
}

/// Adds latency to the connections of servers.
pub(super) fn delay(args: &DelayArgs) -> Result<VerbOutcome> {
    let cluster = args.tagged.place.open()?;
    let ports = ports(&cluster, &args.tagged)?;
    let mut rules = cluster.rules()?;
    rules.delay(&ports, args.round_trip);
    cluster.set_rules(&rules)?;
    output::line(&format!("{} delayed", servers(ports.len())))?;
    Ok(VerbOutcome::Clean)
}

/// Ends every fault that is in effect.
pub(super) fn heal(args: &HealArgs) -> Result<VerbOutcome> {
    let cluster = args.place.open()?;
    cluster.set_rules(&Rules::default())?;
    output::line("the network is whole")?;
    Ok(VerbOutcome::Clean)
}
