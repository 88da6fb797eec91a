//! Sets and shards: who a majority waits for and why, which member lags though nobody waits for it, and what a router adds.
//!
//! The layers of one server stay where they are; what stands here needs the series of several. A member, or a shard, is named
//! only where the data bear it: an even set and an even spread give no finding.

mod lag;
mod router;
mod rows;
mod set;
mod shards;
mod voters_down;
mod waited;

use fathom_record::budget::Budget;

use crate::client::{Client, points};
use crate::{Evidence, Judgement};

pub(crate) use set::PRIMARY;
pub(crate) use voters_down::name_down_voters;
pub(crate) use waited::{name_it, split};

/// What it is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.replication.state",
    "server.{member}.replication.behind",
    "server.{member}.replication.lag_ms",
    "server.{member}.replication.batches",
    "server.{member}.replication.batch_ms",
    "server.{member}.replication.write_batches",
    "server.{member}.replication.write_batch_ms",
    "server.{member}.replication.voters_down",
    "server.{member}.documents.inserted",
    "server.{member}.targeted.one",
    "server.{member}.targeted.several",
    "server.{member}.reads.shards_us",
    "server.{member}.writes.shards_us",
    "server.{member}.sharding.chunks",
];

/// The whole path through routers, members that lag, and how the shards share the load.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for finding in lag::findings(evidence) {
        judgement.add_unless_withheld(finding);
    }
    let Some(path) = router::Path::of(evidence, Client::of(evidence).as_ref()) else { return };
    let budgets = path.budgets(evidence);
    for finding in shards::findings(evidence, &path, &budgets) {
        judgement.add_unless_withheld(finding);
    }
    // The whole path stands before its parts.
    judgement.budgets.splice(0..0, budgets);
}

/// Whether a server is a router.
pub(crate) fn is_router(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "role") == Some("router")
}

/// The routers that were watched.
pub(crate) fn routers(evidence: &Evidence) -> Vec<String> {
    evidence.members().into_iter().filter(|member| is_router(evidence, member)).collect()
}

/// Whether a server was a member of a set all the time and never its primary.
pub(crate) fn follows(evidence: &Evidence, member: &str) -> bool {
    let states = points(evidence, &format!("server.{member}.replication.state"));
    !states.is_empty() && states.iter().all(|point| point.value != set::PRIMARY)
}

/// Whether its set has nobody else to wait for: a majority is this member alone.
pub(crate) fn is_alone(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "majority") == Some("1")
}

/// Whether clients send their operations to this server: behind routers only to those, in a set not to members that were
/// never asked.
pub(crate) fn meets_clients(evidence: &Evidence, member: &str) -> bool {
    let routers = routers(evidence);
    if !routers.is_empty() {
        return routers.iter().any(|router| router == member);
    }
    !follows(evidence, member) || is_read(evidence, member)
}

/// Whether clients read from a member that follows: more of the collection watched than the watching itself does, which asks for its
/// latencies each second and its sizes twice a minute.
pub(crate) fn is_read(evidence: &Evidence, member: &str) -> bool {
    const OWN_PER_S: f64 = 3.0;
    let points = points(evidence, &format!("server.{member}.collection.reads.operations"));
    let seconds: f64 = points.iter().map(|one| one.end_ns.saturating_sub(one.begin_ns) as f64 / 1e9).sum();
    points.iter().map(|point| point.value).sum::<f64>() > OWN_PER_S * seconds
}

/// A server as findings call it: its number, where it is, its engine.
pub(crate) fn name_of(evidence: &Evidence, member: &str) -> String {
    let address = evidence.environment.get(&format!("server.{member}"));
    let words: Vec<&str> =
        address.map(String::as_str).into_iter().chain(fact(evidence, member, "engine")).collect();
    if words.is_empty() {
        format!("server {member}")
    } else {
        format!("server {member} ({})", words.join(", "))
    }
}

fn fact<'e>(evidence: &'e Evidence, member: &str, what: &str) -> Option<&'e str> {
    evidence.environment.get(&format!("server.{member}.{what}")).map(String::as_str)
}

/// The mean of a budget's operation: as the client saw it, else within the server.
pub(crate) fn whole_us(budget: &Budget) -> f64 {
    budget.client_mean_us.unwrap_or(budget.server_mean_us)
}
