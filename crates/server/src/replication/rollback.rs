//! Rolls back: undoes changes that no primary of a later term has.
//!
//! A member that was primary alone may hold entries that the others never received. It finds the last entry that it shares with its source, fetches
//! the source's version of each document that its own later entries changed, writes its own versions into files under `rollback`, and cuts its oplog
//! (mongod's "rollback via refetch", the method for engines without timestamps; docs/methods.md#the-oplog). Until it has applied the source's entries
//! up to the moment of the last fetch, its data mixes several moments and cannot be read. All documents are fetched before any change; a member that
//! dies between the first change and the last copies all data again. The same happens if a collection or an index was dropped, or a collection
//! renamed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_engine::{Durability, Session};
use fathom_query::{Code, Failure};
use fathom_replication::{FollowerMode, Host, OpTime};

use super::apply::with_operation;
use super::fetch::{failure_of, newest_entry};
use super::links::{connect, of_any_role};
use super::store;
use crate::Result;
use crate::checkpoint;
use crate::instance::Instance;
use crate::replica_set::{ChangeKind, OplogEntry, ReplicaSetState, read_optime};
use crate::storage::Collection;

/// The time limit for an answer of the source.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(30);
/// Entries older than this are not undone, as with mongod's limit of 24 hours; all data is copied again.
const MAX_ROLLBACK_SECONDS: u32 = 24 * 3600;

/// The changes by own entries after the common point.
#[derive(Debug, Default)]
struct RollbackChanges {
    /// Documents by collection, then by the bytes of their `_id`.
    documents: BTreeMap<bson::Uuid, (String, BTreeMap<Vec<u8>, Bson>)>,
    /// Collections to be dropped, by UUID.
    created: Vec<bson::Uuid>,
    /// Indexes to be dropped: namespace and name.
    indexes: Vec<(String, String)>,
    /// Whether a change occurred that fetching documents cannot undo.
    beyond: bool,
}

/// Rolls back to the history of `source`.
pub(super) fn run(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>, source: &Host) -> Result<()> {
    let attributes = doc! { "source": source.as_str() };
    instance.log.info("REPL", 21593, "BackgroundSync", "Rollback begins", attributes);
    set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Rollback));
    let rolled_back = roll_back(instance, set, source);
    if rolled_back.is_err() {
        // The data is unchanged, or it is recorded that all must be copied again.
        set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Recovering));
        // A source may never appear: consistent members must be able to continue without one.
        store::become_consistent(instance, set, set.ask(|one| one.own_progress().applied))?;
    }
    rolled_back
}

fn roll_back(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>, source: &Host) -> Result<()> {
    let mut connection = connect(instance, source, SOURCE_TIMEOUT)?;
    let rollback_id = rollback_id_of(&mut connection)?;
    let session = instance.engine.session()?;
    let (common, own) = common_point(set, &*session, &mut connection)?;
    let committed = set.ask(|one| one.last_committed());
    if common < committed {
        let what = format!(
            "the last entry shared with {source}, {common}, is before {committed}, which a majority has"
        );
        let error = fathom_errors::Error::new(fathom_errors::Kind::Corruption, what.clone());
        instance.die("a rollback would undo what is committed", &error);
        return Err(Failure::new(Code::InternalError, what));
    }
    let newest = own.first().map_or(common, |entry| entry.at);
    let lost = collect(&own);
    if lost.beyond || newest.seconds().saturating_sub(common.seconds()) > MAX_ROLLBACK_SECONDS {
        let attributes = doc! { "commonPoint": common.to_string() };
        instance.log.warning(
            "REPL",
            21612,
            "BackgroundSync",
            "this cannot be undone entry by entry; all data are copied again",
            attributes,
        );
        checkpoint::set_validity(instance, checkpoint::Validity { copying: true, ..Default::default() })?;
        instance.checkpoint().map_err(|error| Failure::new(Code::InternalError, error.to_string()))?;
        return Ok(());
    }
    let theirs = fetch_all(instance, &*session, &mut connection, &lost)?;
    let minimum = newest_entry(&mut connection)?.at.max(common);
    if rollback_id_of(&mut connection)? != rollback_id {
        return Err(Failure::new(Code::InternalError, "the source rolled back itself meanwhile"));
    }
    drop(connection);
    // Before any change: readers and followers of this member notice the rollback by its id.
    let id = set.rollback_id() + 1;
    store::set_rollback_id(instance, id)?;
    set.set_rollback_id(id);
    // From here to the end the data belongs to neither history, regardless of the next source: a member that dies now copies all data again.
    let validity = checkpoint::Validity { applied: common, minimum, copying: true };
    checkpoint::set_validity(instance, validity)?;
    let undone = undo(instance, &*session, &theirs, &lost)?;
    let checkpoint =
        || instance.checkpoint().map_err(|error| Failure::new(Code::InternalError, error.to_string()));
    // The data first: a truncated oplog no longer shows which changes the data still contains.
    checkpoint()?;
    cut(instance, set, &*session, common)?;
    checkpoint::set_validity(instance, checkpoint::Validity { copying: false, ..validity })?;
    checkpoint()?;
    set.set_minimum(minimum);
    super::store::reload_transactions(instance, set)?;
    instance.users.load(&instance.engine, &instance.catalog, &instance.log)?;
    store::set_position(set, common);
    let attributes = doc! {
        "commonPoint": common.to_string(),
        "entries": i64::try_from(own.len()).unwrap_or(i64::MAX),
        "documents": i64::try_from(undone).unwrap_or(i64::MAX),
        "minimum": minimum.to_string(),
    };
    instance.log.info("REPL", 21610, "BackgroundSync", "Rollback complete", attributes);
    set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Recovering));
    store::become_consistent(instance, set, common)
}

/// A document that differs here: its collection, its `_id`, and the source's version of it.
type SourceDocument = (Arc<Collection>, Bson, Option<RawDocumentBuf>);

/// Fetches the source's version of all documents that own entries changed, and writes differing own versions into files. Nothing is
/// changed yet: if the source disconnects meanwhile, all data stays as it was.
fn fetch_all(
    instance: &Arc<Instance>,
    session: &dyn Session,
    connection: &mut Connection,
    lost: &RollbackChanges,
) -> Result<Vec<SourceDocument>> {
    let mut files = Files::new(instance);
    let mut all = Vec::new();
    for (uuid, (namespace, ids)) in &lost.documents {
        let Some(collection) = by_uuid(instance, *uuid) else { continue };
        for id in ids.values() {
            let theirs = fetch(connection, namespace, *uuid, id)?;
            let ours = own_version(session, &collection, id)?;
            if ours == theirs {
                continue;
            }
            if let Some(ours) = ours {
                files.add(collection.namespace(), ours.as_bytes())?;
            }
            all.push((Arc::clone(&collection), id.clone(), theirs));
        }
    }
    files.finish()?;
    Ok(all)
}

/// Our version of a document.
fn own_version(session: &dyn Session, collection: &Collection, id: &Bson) -> Result<Option<RawDocumentBuf>> {
    let key = crate::parse::raw_of(&doc! { "_id": id })?;
    let id = crate::parse::field(key.as_ref(), "_id").unwrap_or(bson::RawBsonRef::Null);
    session.begin()?;
    let mut ours = Vec::new();
    let found = collection.find_by_id(session, id, &mut ours);
    session.rollback();
    if found?.is_none() {
        return Ok(None);
    }
    RawDocumentBuf::from_bytes(ours).map(Some).map_err(|error| crate::parse::malformed(&error))
}

/// Replaces own documents by the source's, and drops what was created; returns the number of differing documents.
fn undo(
    instance: &Arc<Instance>,
    session: &dyn Session,
    theirs: &[SourceDocument],
    lost: &RollbackChanges,
) -> Result<u64> {
    with_operation(instance, session, |op| {
        let mut documents = 0;
        for (collection, id, theirs) in theirs {
            let replaced = replace(op.session(), op.instance, collection, id, theirs.as_deref())?;
            documents += u64::from(replaced);
        }
        for (namespace, name) in &lost.indexes {
            drop_index(op.instance, namespace, name)?;
        }
        for uuid in &lost.created {
            if let Some(collection) = by_uuid(op.instance, *uuid) {
                op.instance.catalog.drop_collection(collection.namespace())?;
            }
        }
        Ok(documents)
    })
}

/// The last entry that both have, and the own entries after it, newest first.
fn common_point(
    set: &ReplicaSetState,
    session: &dyn Session,
    connection: &mut Connection,
) -> Result<(OpTime, Vec<OplogEntry>)> {
    let find = doc! {
        "find": "oplog.rs",
        "sort": { "$natural": -1 },
        "projection": { "ts": 1, "t": 1, "_id": 0 },
    };
    let mut theirs = connection.cursor("local", &find).map_err(failure_of)?;
    let mut next = || -> Result<Option<OpTime>> {
        match theirs.next().transpose().map_err(failure_of)? {
            None => Ok(None),
            Some(entry) => Ok(read_optime(&entry)),
        }
    };
    let mut their = next()?;
    let mut own = Vec::new();
    let mut stamp = set.oplog().clock().settled();
    while let Some(entry) = set.oplog().at_or_before(session, stamp)? {
        while their.is_some_and(|their| their.timestamp > entry.at.timestamp) {
            their = next()?;
        }
        match their {
            None => break,
            Some(their) if their == entry.at => return Ok((entry.at, own)),
            Some(_) => {}
        }
        stamp = entry.at.timestamp - 1;
        own.push(entry);
    }
    Err(Failure::new(Code::NoMatchingDocument, "no entry of this member's oplog is in the source's"))
}

fn collect(own: &[OplogEntry]) -> RollbackChanges {
    let mut lost = RollbackChanges::default();
    for entry in own {
        match (entry.kind, entry.collection, entry.id()) {
            (ChangeKind::Noop, ..) => {}
            (ChangeKind::Command, uuid, _) => collect_command(entry, uuid, &mut lost),
            (_, Some(uuid), Some(id)) => {
                let Ok(value) = crate::parse::owned_value(id) else { continue };
                let (_, ids) =
                    lost.documents.entry(uuid).or_insert_with(|| (entry.namespace.clone(), BTreeMap::new()));
                let mut key = Vec::new();
                let mut writer = fathom_wire::DocumentWriter::new(&mut key);
                writer.value("", id);
                writer.end();
                ids.insert(key, value);
            }
            _ => lost.beyond = true,
        }
    }
    lost
}

fn collect_command(entry: &OplogEntry, uuid: Option<bson::Uuid>, lost: &mut RollbackChanges) {
    let Some(Ok((name, target))) = entry.object.iter().next() else { return };
    let database = entry.namespace.split('.').next().unwrap_or_default();
    let namespace = format!("{database}.{}", target.as_str().unwrap_or_default());
    match (name.as_str(), uuid, entry.object.get_str("name")) {
        ("create", Some(uuid), _) => lost.created.push(uuid),
        ("createIndexes", _, Ok(index)) => lost.indexes.push((namespace, index.to_owned())),
        ("dropDatabase", ..) => {}
        _ => lost.beyond = true,
    }
}

fn by_uuid(instance: &Instance, uuid: bson::Uuid) -> Option<Arc<Collection>> {
    instance.catalog.all().into_iter().find(|one| one.uuid() == uuid)
}

/// The source's version of a document.
fn fetch(
    connection: &mut Connection,
    namespace: &str,
    uuid: bson::Uuid,
    id: &Bson,
) -> Result<Option<RawDocumentBuf>> {
    let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
    let list = of_any_role(doc! { "listCollections": 1, "filter": { "info.uuid": uuid }, "nameOnly": false });
    let mut named = name.to_owned();
    if let Some(found) = connection.cursor(database, &list).map_err(failure_of)?.next() {
        let found = found.map_err(failure_of)?;
        found.get_str("name").unwrap_or(name).clone_into(&mut named);
    }
    let filter = doc! { "_id": { "$eq": id } };
    let find = of_any_role(doc! { "find": named, "filter": filter, "limit": 1, "singleBatch": true });
    connection.cursor(database, &find).map_err(failure_of)?.next().transpose().map_err(failure_of)
}

/// Replaces our version by the source's; returns whether ours existed.
fn replace(
    session: &dyn Session,
    instance: &Instance,
    collection: &Collection,
    id: &Bson,
    theirs: Option<&RawDocument>,
) -> Result<bool> {
    let state = collection.lock();
    if state.gone {
        return Ok(false);
    }
    instance.catalog.before_write(collection)?;
    let key = crate::parse::raw_of(&doc! { "_id": id })?;
    let id = crate::parse::field(key.as_ref(), "_id").unwrap_or(bson::RawBsonRef::Null);
    session.begin()?;
    let changed = (|| {
        let effect = match theirs {
            Some(theirs) => collection.put_relaxed(session, &state, theirs)?,
            None => collection.remove_relaxed(session, &state, id, &mut Vec::new())?,
        };
        if !effect.multikey.is_empty() {
            instance.catalog.note_multikey(collection, &state, &effect.multikey)?;
        }
        session.commit(Durability::Buffered)?;
        Ok(effect)
    })();
    match changed {
        Ok(effect) => {
            collection.note(effect.records, effect.bytes);
            Ok(true)
        }
        Err(failure) => {
            session.rollback();
            Err(failure)
        }
    }
}

fn drop_index(instance: &Instance, namespace: &str, name: &str) -> Result<()> {
    let Some(collection) = instance.catalog.get(namespace) else { return Ok(()) };
    let mut state = collection.lock_exclusive();
    if state.gone || !state.indexes.iter().any(|index| index.name() == name) {
        return Ok(());
    }
    instance.catalog.drop_indexes(&collection, &mut state, &[name.to_owned()])
}

/// Removes the entries after `common` from the oplog, durably.
fn cut(instance: &Instance, set: &ReplicaSetState, session: &dyn Session, common: OpTime) -> Result<()> {
    let removed = set.oplog().truncate_after(session, common)?;
    if instance.config.storage.journal {
        instance.journal.wait_until_durable()?;
    }
    let attributes = doc! { "entries": removed };
    instance.log.info("REPL", 21611, "BackgroundSync", "The oplog was cut", attributes);
    Ok(())
}

fn rollback_id_of(connection: &mut Connection) -> Result<i64> {
    let reply = connection.run("admin", &doc! { "replSetGetRBID": 1 }).map_err(failure_of)?;
    let reply: Document = crate::parse::owned(&reply)?;
    let id = match reply.get("rbid") {
        Some(Bson::Int32(id)) => Some(i64::from(*id)),
        Some(Bson::Int64(id)) => Some(*id),
        _ => None,
    };
    id.ok_or_else(|| Failure::new(Code::FailedToParse, "the source has no rollback id"))
}

/// The files with the rolled-back documents: `rollback/<database>.<collection>/removed.<time>.bson` under the dbPath, as in mongod;
/// `bsondump` reads them.
struct Files {
    directory: PathBuf,
    time: String,
    open: BTreeMap<String, std::fs::File>,
}

impl Files {
    fn new(instance: &Instance) -> Files {
        let time = bson::DateTime::now().try_to_rfc3339_string().unwrap_or_default().replace(':', "-");
        Files { directory: instance.config.storage.db_path.join("rollback"), time, open: BTreeMap::new() }
    }

    fn add(&mut self, namespace: &str, document: &[u8]) -> Result<()> {
        let failed = |error: std::io::Error| {
            Failure::new(Code::FileStreamFailed, format!("cannot write a rollback file: {error}"))
        };
        if !self.open.contains_key(namespace) {
            // A name may contain characters that a path must not.
            let name = namespace.replace('/', "%2F");
            let directory = self.directory.join(name);
            std::fs::create_dir_all(&directory).map_err(failed)?;
            let path = directory.join(format!("removed.{}.bson", self.time));
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
            self.open.insert(namespace.to_owned(), file);
        }
        self.open.get_mut(namespace).map_or(Ok(()), |file| file.write_all(document)).map_err(failed)
    }

    fn finish(self) -> Result<()> {
        let failed = |error: std::io::Error| {
            Failure::new(Code::FileStreamFailed, format!("cannot sync a rollback file: {error}"))
        };
        self.open.values().try_for_each(|file| file.sync_all()).map_err(failed)
    }
}
