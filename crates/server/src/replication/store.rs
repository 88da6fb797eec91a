//! What a member must not forget, its configuration, its last vote and its rollback id, and where it stands after a start, a copy or a rollback.
//!
//! Each of the three is one document of a collection in `local`, as mongod has them, journaled and synced before anybody relies on it.
//! How far the data were applied is in `checkpoint`: it is not journaled, for it must come back together with the data that it is about.

use bson::{Document, doc};
use fathom_query::{Code, Failure};
use fathom_replication::{FollowerMode, LastVote, MemberState, OpTime, Progress, ReplicaSetConfig};

use crate::Result;
use crate::checkpoint::{self, get_only, put_only};
use crate::instance::Instance;
use crate::replica_set::ReplicaSet;

const CONFIG: &str = "local.system.replset";
const ELECTION: &str = "local.replset.election";
const ROLLBACK_ID: &str = "local.system.rollback.id";

/// The configuration that was stored last.
pub(crate) fn config(instance: &Instance) -> Result<Option<ReplicaSetConfig>> {
    get_only(instance, CONFIG)?.map(|document| ReplicaSetConfig::parse(&without_id(document))).transpose()
}

/// Stores a configuration durably.
pub(crate) fn set_config(instance: &Instance, config: &ReplicaSetConfig) -> Result<()> {
    put_only(instance, CONFIG, config.to_document())
}

/// The last vote.
pub(crate) fn vote(instance: &Instance) -> Result<Option<LastVote>> {
    get_only(instance, ELECTION)?.map(|document| LastVote::from_document(&document)).transpose()
}

/// Stores a vote durably. One of an earlier term than what is stored is refused: two requests may come here in another order than they
/// were decided in.
pub(crate) fn set_vote(instance: &Instance, last: LastVote) -> Result<()> {
    let _one_at_a_time = instance.set.as_ref().map(|set| set.storing_vote());
    if vote(instance)?.is_some_and(|stored| stored.term > last.term) {
        return Err(Failure::new(Code::OperationFailed, "a vote in a later term is stored already"));
    }
    put_only(instance, ELECTION, last.to_document())
}

/// How often this member has rolled back; what others compare to learn of it.
pub(crate) fn rollback_id(instance: &Instance) -> Result<i64> {
    let document = get_only(instance, ROLLBACK_ID)?;
    Ok(document.and_then(|document| document.get_i64("rollbackId").ok()).unwrap_or(1))
}

/// Counts a rollback.
pub(crate) fn set_rollback_id(instance: &Instance, id: i64) -> Result<()> {
    put_only(instance, ROLLBACK_ID, doc! { "rollbackId": id })
}

/// A stored document as it was given.
fn without_id(mut document: Document) -> Document {
    if document.get_str("_id").is_ok_and(|id| id == "only") {
        document.remove("_id");
    }
    document
}

/// Learns all statements again from the oplog, after a start, a copy or a rollback.
pub(super) fn reload_transactions(instance: &Instance, set: &ReplicaSet) -> Result<()> {
    set.transactions().forget();
    if set.oplog().collection().is_none() {
        return Ok(());
    }
    let session = instance.engine.session()?;
    set.transactions().learn_all(set.oplog(), &*session)
}

/// A member whose data were of several moments may be read once it has applied all up to the last of them.
pub(super) fn become_consistent(instance: &Instance, set: &ReplicaSet, applied: OpTime) -> Result<()> {
    if !matches!(set.state(), MemberState::Recovering | MemberState::Startup2 | MemberState::Rollback) {
        return Ok(());
    }
    let validity = checkpoint::validity(instance)?.unwrap_or_default();
    if !validity.copying && applied >= validity.minimum {
        set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Secondary));
    }
    Ok(())
}

/// Sets how far this member is, after its log was cut or copied.
pub(super) fn set_position(set: &ReplicaSet, at: OpTime) {
    set.tell(|one, now| one.set_own_progress(now, Progress { applied: at, durable: at }));
    set.announce();
}
