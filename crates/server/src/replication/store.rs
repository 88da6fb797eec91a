//! The durable state of a member: its configuration, its last vote, its rollback id, and its position after a start, a copy or a rollback.
//!
//! Each of the first three is one document of a collection in `local`, as in mongod, journaled and synced before it is relied on. The
//! position up to which entries were applied is in `checkpoint`: it is not journaled, since it must be recovered together with the data.

use bson::{Document, doc};
use fathom_query::{Code, Failure};
use fathom_replication::{FollowerMode, LastVote, MemberState, OpTime, Progress, ReplicaSetConfig};

use crate::Result;
use crate::checkpoint::{self, get_only, put_only};
use crate::instance::Instance;
use crate::replica_set::ReplicaSetState;

const CONFIG: &str = "local.system.replset";
const ELECTION: &str = "local.replset.election";
const ROLLBACK_ID: &str = "local.system.rollback.id";

/// The last stored configuration, if any.
pub(crate) fn config(instance: &Instance) -> Result<Option<ReplicaSetConfig>> {
    get_only(instance, CONFIG)?.map(|document| ReplicaSetConfig::parse(&without_id(document))).transpose()
}

/// Stores a configuration durably.
pub(crate) fn set_config(instance: &Instance, config: &ReplicaSetConfig) -> Result<()> {
    put_only(instance, CONFIG, config.to_document())
}

pub(crate) fn vote(instance: &Instance) -> Result<Option<LastVote>> {
    get_only(instance, ELECTION)?.map(|document| LastVote::from_document(&document)).transpose()
}

/// Stores a vote durably. A vote of an earlier term than the stored one is refused: two requests may arrive here in a different order
/// from that of their decisions.
pub(crate) fn set_vote(instance: &Instance, last: LastVote) -> Result<()> {
    let _one_at_a_time = instance.set.as_ref().map(|set| set.storing_vote());
    if vote(instance)?.is_some_and(|stored| stored.term > last.term) {
        return Err(Failure::new(Code::OperationFailed, "a vote in a later term is stored already"));
    }
    put_only(instance, ELECTION, last.to_document())
}

/// The number of rollbacks of this member; others compare it to detect a rollback.
pub(crate) fn rollback_id(instance: &Instance) -> Result<i64> {
    let document = get_only(instance, ROLLBACK_ID)?;
    Ok(document.and_then(|document| document.get_i64("rollbackId").ok()).unwrap_or(1))
}

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

/// Reads all statements again from the oplog, after a start, a copy or a rollback.
pub(super) fn reload_transactions(instance: &Instance, set: &ReplicaSetState) -> Result<()> {
    set.transactions().forget();
    if set.oplog().collection().is_none() {
        return Ok(());
    }
    let session = instance.engine.session()?;
    set.transactions().learn_all(set.oplog(), &*session)
}

/// Makes a member readable once it has applied all entries up to the last moment that its data contains.
pub(super) fn become_consistent(instance: &Instance, set: &ReplicaSetState, applied: OpTime) -> Result<()> {
    if !matches!(set.state(), MemberState::Recovering | MemberState::Startup2 | MemberState::Rollback) {
        return Ok(());
    }
    let validity = checkpoint::validity(instance)?.unwrap_or_default();
    if !validity.copying && applied >= validity.minimum {
        set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Secondary));
    }
    Ok(())
}

/// Sets the position of this member after its oplog was cut or copied.
pub(super) fn set_position(set: &ReplicaSetState, at: OpTime) {
    set.tell(|one, now| one.set_own_progress(now, Progress { applied: at, durable: at }));
    set.announce();
}
