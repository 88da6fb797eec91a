//! Faults of the network between the servers of a cluster: partition, delay, heal.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fathom_cluster::{Cluster, Rules};
use fathom_errors::Error;

use super::acts::TaggedArgs;
use super::common::{ClusterFolder, duration, servers};
use crate::outcome::Outcome;
use crate::output;

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
