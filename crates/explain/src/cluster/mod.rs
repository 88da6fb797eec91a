//! Sets and shards: who a majority waits for and why, which member lags though nobody waits for it, and what a router adds.
//!
//! The layers of one server stay where they are; what stands here needs the series of several. A member, or a shard, is named
//! only where the data bear it: an even set and an even spread give no finding.

mod lag;
mod router;
mod rows;
mod shards;

use crate::client::Client;
use crate::{Evidence, Judgement};

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
