//! What a member must not forget: its configuration, its last vote, its rollback id, and how far its data were applied.
//!
//! Each is one document of a collection in `local`, as mongod has them. All but the last are journaled and synced before
//! anybody relies on them; the last is not journaled, for it must come back together with the data that it is about.

use bson::{Document, doc};
use fathom_engine::Durability;
use fathom_query::{Code, Failure};
use fathom_replication::{LastVote, OpTime, ReplicaSetConfig};

use super::MIN_VALID;
use crate::Result;
use crate::instance::Instance;

const CONFIG: &str = "local.system.replset";
const ELECTION: &str = "local.replset.election";
const ROLLBACK_ID: &str = "local.system.rollback.id";

/// The configuration that was stored last.
pub(crate) fn config(instance: &Instance) -> Result<Option<ReplicaSetConfig>> {
    get(instance, CONFIG)?.map(|document| ReplicaSetConfig::parse(&without_id(document))).transpose()
}

/// Stores a configuration durably.
pub(crate) fn set_config(instance: &Instance, config: &ReplicaSetConfig) -> Result<()> {
    put(instance, CONFIG, config.to_document())
}

/// The last vote.
pub(crate) fn vote(instance: &Instance) -> Result<Option<LastVote>> {
    get(instance, ELECTION)?.map(|document| LastVote::from_document(&document)).transpose()
}

/// Stores a vote durably. One of an earlier term than what is stored is refused: two requests may come here in another order than they
/// were decided in.
pub(crate) fn set_vote(instance: &Instance, last: LastVote) -> Result<()> {
    let _one_at_a_time = instance.set.as_ref().map(|set| set.storing_vote());
    if vote(instance)?.is_some_and(|stored| stored.term > last.term) {
        return Err(Failure::new(Code::OperationFailed, "a vote in a later term is stored already"));
    }
    put(instance, ELECTION, last.to_document())
}

/// How often this member has rolled back; what others compare to learn of it.
pub(crate) fn rollback_id(instance: &Instance) -> Result<i64> {
    let document = get(instance, ROLLBACK_ID)?;
    Ok(document.and_then(|document| document.get_i64("rollbackId").ok()).unwrap_or(1))
}

/// Counts a rollback.
pub(crate) fn set_rollback_id(instance: &Instance, id: i64) -> Result<()> {
    put(instance, ROLLBACK_ID, doc! { "rollbackId": id })
}

/// What is known of the data on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    /// All entries up to here are in the data; later ones may be.
    pub(crate) applied: OpTime,
    /// The data are consistent only from here on: after a rollback or a copy that saw later states.
    pub(crate) minimum: OpTime,
    /// A copy of another member's data is under way: what is there cannot be used.
    pub(crate) copying: bool,
}

/// What the data say of themselves.
pub(crate) fn validity(instance: &Instance) -> Result<Option<Validity>> {
    let Some(document) = get(instance, MIN_VALID)? else { return Ok(None) };
    let optime = |name: &str| Ok::<_, Failure>(OpTime::in_field(&document, name)?.unwrap_or_default());
    Ok(Some(Validity {
        applied: optime("begin")?,
        minimum: OpTime::from_document(&document).unwrap_or_default(),
        copying: document.get_bool("doingInitialSync").unwrap_or(false),
    }))
}

/// Notes it; it is as durable as the data.
pub(crate) fn set_validity(instance: &Instance, validity: Validity) -> Result<()> {
    let _alone = instance.validity.lock();
    write_validity(instance, validity)
}

/// Notes up to where entries are in the data, and leaves the rest as it is. A rollback may change that rest at the same time: what it
/// wrote must neither be lost nor stand in the way of a checkpoint.
pub(crate) fn note_applied(instance: &Instance, applied: OpTime) -> Result<()> {
    let _alone = instance.validity.lock();
    let before = validity(instance)?.unwrap_or_default();
    if before.applied == applied { Ok(()) } else { write_validity(instance, Validity { applied, ..before }) }
}

fn write_validity(instance: &Instance, validity: Validity) -> Result<()> {
    let mut document = validity.minimum.to_document();
    document.insert("begin", validity.applied.to_document());
    if validity.copying {
        document.insert("doingInitialSync", true);
    }
    put(instance, MIN_VALID, document)
}

fn get(instance: &Instance, namespace: &str) -> Result<Option<Document>> {
    let Some(collection) = instance.catalog.get(namespace) else { return Ok(None) };
    let session = instance.engine.session()?;
    let mut cursor = session.cursor(collection.records_table()?)?;
    if !cursor.first()? {
        return Ok(None);
    }
    crate::parse::owned(crate::execution::document_of(cursor.value())?).map(Some)
}

/// Makes the document the only one of its collection.
fn put(instance: &Instance, namespace: &str, mut document: Document) -> Result<()> {
    if !document.contains_key("_id") {
        document = doc! { "_id": "only" }.into_iter().chain(document).collect();
    }
    let raw = crate::parse::raw_of(&document)?;
    let collection = instance.catalog.get_or_create(namespace)?;
    let state = collection.lock();
    instance.catalog.before_write(&collection)?;
    let session = instance.engine.session()?;
    session.begin()?;
    let written = (|| {
        let mut effect = collection.put_relaxed(&*session, &state, &raw)?;
        let mut cursor = session.cursor(collection.records_table()?)?;
        let mut others = Vec::new();
        let mut more = cursor.first()?;
        while more {
            let other = crate::execution::document_of(cursor.value())?;
            if other.as_bytes() != raw.as_bytes() {
                others.push(other.to_owned());
            }
            more = cursor.next()?;
        }
        drop(cursor);
        for other in others {
            let id = crate::parse::field(other.as_ref(), "_id")
                .ok_or_else(|| Failure::new(Code::InternalError, "a document without _id"))?;
            let gone = collection.remove_relaxed(&*session, &state, id, &mut Vec::new())?;
            effect.records += gone.records;
            effect.bytes += gone.bytes;
        }
        let journaled = namespace != MIN_VALID && instance.config.storage.journal;
        session.commit(if journaled { Durability::Durable } else { Durability::Buffered })?;
        Ok(effect)
    })();
    match written {
        Ok(effect) => {
            collection.note(effect.records, effect.bytes);
            Ok(())
        }
        Err(failure) => {
            session.rollback();
            Err(failure)
        }
    }
}

/// A stored document as it was given.
fn without_id(mut document: Document) -> Document {
    if document.get_str("_id").is_ok_and(|id| id == "only") {
        document.remove("_id");
    }
    document
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::config::{Config, EngineName};
    use crate::log::Log;

    /// Checkpoints note how far the data are while a rollback says that they are neither history's: neither is lost, and neither fails.
    #[test]
    fn a_checkpoint_and_a_rollback_note_what_is_theirs() {
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        let log = Arc::new(Log::quiet(&config.log_options()));
        let (instance, _) =
            Instance::new(config, fathom_engine::memory::open(), None, log, crate::commands::COMMANDS.len())
                .unwrap();
        let at = |second: u32| OpTime::new(u64::from(second) << 32 | 1, 1);
        set_validity(&instance, Validity::default()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let checkpoints = scope.spawn(|| {
                for second in 1.. {
                    note_applied(&instance, at(second)).unwrap();
                    if done.load(Ordering::Acquire) {
                        return;
                    }
                }
            });
            for turn in 0..2000 {
                let minimum = at(10_000_000 + turn);
                set_validity(&instance, Validity { applied: at(1), minimum, copying: turn % 2 == 0 })
                    .unwrap();
                let found = validity(&instance).unwrap().unwrap();
                assert_eq!((found.minimum, found.copying), (minimum, turn % 2 == 0), "turn {turn}");
            }
            done.store(true, Ordering::Release);
            checkpoints.join().unwrap();
        });
    }
}
