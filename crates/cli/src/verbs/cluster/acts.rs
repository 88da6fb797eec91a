//! What is done to a cluster that is there: start, stop, kill, restart, pause, collect, destroy; and faults of the network between its
//! servers: partition, delay, heal.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fathom_cluster::{Cluster, Overrides, Rules, Selection, Stopping, signal};
use fathom_errors::{Error, Kind};
use rustix::process::Signal;

use super::common::{ClusterFolder, TimeoutArgs, duration, say, servers};
use crate::outcome::Outcome;
use crate::output;

/// Which servers.
#[derive(Debug, Args)]
pub(super) struct TaggedArgs {
    /// Servers that have all of these tags (see list --tags); without any, all
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    place: ClusterFolder,
}

/// What the command line of `start` and `restart` may say.
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

/// What the command line of `stop` may say.
#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Do not wait until they have ended
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    patience: TimeoutArgs,
}

/// What the command line of `kill` may say.
#[derive(Debug, Args)]
pub(super) struct KillArgs {
    #[command(flatten)]
    stop: StopArgs,
    /// The signal, by number or name
    #[arg(long, value_name = "SIGNAL", default_value = "15")]
    signal: String,
}

/// What the command line of `destroy` may say.
#[derive(Debug, Args)]
pub(super) struct DestroyArgs {
    #[command(flatten)]
    place: ClusterFolder,
    #[command(flatten)]
    patience: TimeoutArgs,
}

/// What the command line of `collect` may say.
#[derive(Debug, Args)]
pub(super) struct CollectArgs {
    /// The folder to make
    #[arg(value_name = "FOLDER")]
    into: PathBuf,
    #[command(flatten)]
    place: ClusterFolder,
}

impl TaggedArgs {
    fn choose(&self, cluster: &Cluster, running: bool) -> Result<Vec<usize>> {
        Ok(cluster.select(&Selection::read(&self.tags)?, running)?)
    }
}

impl StartArgs {
    fn overrides(&self) -> Overrides {
        Overrides { pass_through: self.pass_through.clone(), binaries: self.binarypath.clone() }
    }
}

/// Starts servers that are down. A router that only added the shards is started when it is named.
pub(super) fn start(args: StartArgs) -> Result<Outcome> {
    let mut cluster = args.tagged.place.open()?;
    let mut places = args.tagged.choose(&cluster, false)?;
    if args.tagged.tags.is_empty() {
        places.retain(|at| cluster.nodes().get(*at).is_some_and(|node| !node.temporary));
    }
    cluster.start(&args.patience.tools()?, &places, &args.overrides())?;
    output::line(&format!("{} started", servers(places.len())))?;
    Ok(Outcome::Clean)
}

/// Stops servers.
pub(super) fn stop(args: StopArgs) -> Result<Outcome> {
    send(&args, Signal::TERM)
}

/// Sends a signal.
pub(super) fn kill(args: KillArgs) -> Result<Outcome> {
    let signal = signal(&args.signal)?;
    send(&args.stop, signal)
}

fn send(args: &StopArgs, signal: Signal) -> Result<Outcome> {
    let mut cluster = args.tagged.place.open()?;
    let places = args.tagged.choose(&cluster, true)?;
    let how = Stopping::with(signal);
    let how = Stopping { wait: how.wait && !args.no_wait, ..how };
    let sent = cluster.stop(&args.patience.tools()?, &places, how)?;
    let ended = if how.wait && sent > 0 { ", and waited until they had ended" } else { "" };
    let processes = if sent == 1 { "1 process".to_owned() } else { format!("{sent} processes") };
    output::line(&format!("sent signal {} to {processes}{ended}", signal.as_raw()))?;
    Ok(Outcome::Clean)
}

/// Stops servers that run and starts them again.
pub(super) fn restart(args: StartArgs) -> Result<Outcome> {
    let mut cluster = args.tagged.place.open()?;
    let tools = args.patience.tools()?;
    let places = args.tagged.choose(&cluster, true)?;
    if places.is_empty() {
        return Err(Error::new(Kind::NotFound, "no server that runs is meant")
            .advise("see 'fathom cluster list'")
            .into());
    }
    cluster.stop(&tools, &places, Stopping::with(Signal::TERM))?;
    cluster.start(&tools, &places, &args.overrides())?;
    output::line(&format!("{} restarted", servers(places.len())))?;
    Ok(Outcome::Clean)
}

/// Pauses servers, or lets them go on.
pub(super) fn pause(args: &TaggedArgs, pause: bool) -> Result<Outcome> {
    let cluster = args.place.open()?;
    let places = args.choose(&cluster, true)?;
    let count = cluster.pause(&places, pause)?;
    output::line(&format!("{} {}", servers(count), if pause { "paused" } else { "resumed" }))?;
    Ok(Outcome::Clean)
}

/// Collects logs and diagnostics.
pub(super) fn collect(args: &CollectArgs) -> Result<Outcome> {
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
    Ok(Outcome::Clean)
}

/// Ends all servers and removes their data.
pub(super) fn destroy(args: &DestroyArgs) -> Result<Outcome> {
    let cluster = args.place.open()?;
    let (folder, count) = (cluster.folder().to_owned(), cluster.nodes().len());
    let left = cluster.destroy(&args.patience.tools()?)?;
    output::line(&format!("{} destroyed, with their data", servers(count)))?;
    if let Some(first) = left.first() {
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        say(&format!("{} stays: it holds {name}, which is not the cluster's", folder.display()));
    }
    Ok(Outcome::Clean)
}

/// What the command line of `partition` may say.
#[derive(Debug, Args)]
pub(super) struct PartitionArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// Clients do not reach them either
    #[arg(long)]
    clients: bool,
}

/// What the command line of `delay` may say.
#[derive(Debug, Args)]
pub(super) struct DelayArgs {
    #[command(flatten)]
    tagged: TaggedArgs,
    /// How much longer a round trip takes; 0 as before
    #[arg(long, value_name = "TIME", value_parser = duration)]
    round_trip: Duration,
}

/// What the command line of `heal` may say.
#[derive(Debug, Args)]
pub(super) struct HealArgs {
    #[command(flatten)]
    place: ClusterFolder,
}

/// The ports of the servers that are meant, whether they run or not.
fn ports(cluster: &Cluster, tagged: &TaggedArgs) -> Result<Vec<u16>> {
    let mut places = tagged.choose(cluster, true)?;
    places.extend(tagged.choose(cluster, false)?);
    Ok(places.into_iter().filter_map(|at| cluster.nodes().get(at)).map(|node| node.port).collect())
}

/// Cuts servers off.
pub(super) fn partition(args: &PartitionArgs) -> Result<Outcome> {
    let cluster = args.tagged.place.open()?;
    if args.tagged.tags.is_empty() {
        return Err(Error::usage("nothing says whom to cut off").advise("name tags, like 'primary'").into());
    }
    let ports = ports(&cluster, &args.tagged)?;
    let mut rules = cluster.rules()?;
    rules.cut(&ports, args.clients);
    cluster.set_rules(&rules)?;
    output::line(&format!("{} cut off", servers(ports.len())))?;
    Ok(Outcome::Clean)
}

/// Makes the way to servers longer.
pub(super) fn delay(args: &DelayArgs) -> Result<Outcome> {
    let cluster = args.tagged.place.open()?;
    let ports = ports(&cluster, &args.tagged)?;
    let mut rules = cluster.rules()?;
    rules.delay(&ports, args.round_trip);
    cluster.set_rules(&rules)?;
    output::line(&format!("{} delayed", servers(ports.len())))?;
    Ok(Outcome::Clean)
}

/// Ends all faults.
pub(super) fn heal(args: &HealArgs) -> Result<Outcome> {
    let cluster = args.place.open()?;
    cluster.set_rules(&Rules::default())?;
    output::line("the network is whole")?;
    Ok(Outcome::Clean)
}
