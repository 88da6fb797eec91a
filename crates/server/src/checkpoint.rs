//! Checkpoints, one at a time. Each one records the last oplog entry that the data contain. That record is not journaled, since it
//! must be recovered together with the data.

use std::time::Instant;

use bson::{Document, doc};
use fathom_engine::Durability;
use fathom_errors::{Error, Kind};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;

use crate::Result;
use crate::instance::Instance;
use crate::storage::{MIN_VALID, document_of};

impl Instance {
    /// Makes a checkpoint now; only one runs at a time.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        let _alone = self.checkpointing.lock();
        let begun = Instant::now();
        let number = self.catalog.drops().begin_checkpoint();
        self.note_replayed()?;
        self.engine.checkpoint()?;
        self.catalog.drops().checkpointed(number);
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut figures = self.checkpoints.lock();
        figures.count += 1;
        figures.last_ms = took_ms;
        figures.total_ms += took_ms;
        drop(figures);
        self.log.debug(1, "STORAGE", 22308, "Checkpointer", "Checkpoint made", || {
            doc! { "durationMillis": i64::try_from(took_ms).unwrap_or(i64::MAX) }
        });
        Ok(())
    }

    /// Records the last oplog entry that the data of the coming checkpoint contain.
    pub(crate) fn note_replayed(&self) -> Result<(), Error> {
        let failed = |failure: fathom_wire::Failure| Error::new(Kind::Io, failure.message().to_owned());
        let Some(set) = &self.set else { return Ok(()) };
        let settled = set.oplog().clock().settled();
        if set.oplog().collection().is_none() || settled == 0 {
            return Ok(());
        }
        let applied = set.oplog().optime_of(settled);
        note_applied(self, applied).map_err(failed)
    }
}

/// The state of the data on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    /// The data contain all entries up to here, and possibly later ones.
    pub(crate) applied: OpTime,
    /// The data are consistent only from this entry on: after a rollback or a copy that saw later states.
    pub(crate) minimum: OpTime,
    /// Whether a copy of another member's data is in progress: the data cannot be used.
    pub(crate) copying: bool,
}

/// The data's own record of their validity.
pub(crate) fn validity(instance: &Instance) -> Result<Option<Validity>> {
    let Some(document) = get_only(instance, MIN_VALID)? else { return Ok(None) };
    let optime = |name: &str| Ok::<_, Failure>(OpTime::in_field(&document, name)?.unwrap_or_default());
    Ok(Some(Validity {
        applied: optime("begin")?,
        minimum: OpTime::from_document(&document).unwrap_or_default(),
        copying: document.get_bool("doingInitialSync").unwrap_or(false),
    }))
}

/// Stores the record; it is as durable as the data.
pub(crate) fn set_validity(instance: &Instance, validity: Validity) -> Result<()> {
    let _alone = instance.validity.lock();
    write_validity(instance, validity)
}

/// Records the last entry that the data contain and leaves the other fields unchanged. A rollback may change those at the same time:
/// its values must neither be lost nor block a checkpoint.
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
    put_only(instance, MIN_VALID, document)
}

/// The only document of a collection, if there is one.
pub(crate) fn get_only(instance: &Instance, namespace: &str) -> Result<Option<Document>> {
    let Some(collection) = instance.catalog.get(namespace) else { return Ok(None) };
    let session = instance.engine.session()?;
    let mut cursor = session.cursor(collection.records_table()?)?;
    if !cursor.first()? {
        return Ok(None);
    }
    crate::parse::owned(document_of(cursor.value())?).map(Some)
}

/// Makes the document the only one of its collection.
pub(crate) fn put_only(instance: &Instance, namespace: &str, mut document: Document) -> Result<()> {
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
            let other = document_of(cursor.value())?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::config::{Config, EngineName};
    use crate::log::Log;

    /// A checkpoint records its position while a rollback marks the data as belonging to neither history: both records survive, and
    /// neither call fails.
    #[test]
    fn a_checkpoint_and_a_rollback_note_what_is_theirs() {
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        let log = Arc::new(Log::quiet(&config.log_options()));
        let (instance, _) =
            Instance::new(config, fathom_engine::memory::open(), None, log, crate::commands::registry())
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
