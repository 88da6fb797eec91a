//! Initial sync: the first copy of another member's data.
//!
//! Collections are copied one after the other while they change. Then the oplog is applied from the moment before the copy, each
//! entry in a way that tolerates repetition, and the member becomes readable once it has passed the moment after the copy
//! (docs/methods.md#the-oplog).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_engine::Durability;
use fathom_query::{Code, Failure};
use fathom_replication::{FollowerMode, Host, OpTime};

use super::apply::with_operation;
use super::fetch::{entry_before, failure_of, newest_entry};
use super::links::{connect, of_any_role};
use super::store;
use crate::Result;
use crate::checkpoint;
use crate::execution::build_indexes;
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::replica_set::{OPLOG, Oplog, OplogEntry, ReplicaSetState, TRANSACTIONS, is_replicated};
use crate::storage::{CollectionOptions, IndexSpec};

/// The time limit for an answer of the source.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum documents and bytes of one transaction of the copy.
const MAX_GROUP_DOCUMENTS: usize = 256;
const MAX_GROUP_BYTES: usize = 1 << 20;

/// Copies all data of a source, if one is available.
pub(super) fn run(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>) -> Result<()> {
    // A member that once had data has reported its progress, and others may rely on it: the source must be at least as far.
    let had = set.ask(|one| one.own_progress().applied);
    let Some(source) = set.tell(|one, now| one.choose_sync_source(now, had)) else { return Ok(()) };
    set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Startup2));
    let begun = Instant::now();
    let attributes = doc! { "source": source.as_str() };
    instance.log.info("REPL", 21164, "InitialSync", "Initial sync begins", attributes);
    let (begin, minimum) = copy(instance, set, &source)?;
    instance.users.load(&instance.engine, &instance.catalog, &instance.log)?;
    set.figures().copies.add(1);
    let attributes = doc! {
        "source": source.as_str(),
        "durationMillis": i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX),
        "begin": begin.to_string(),
        "end": minimum.to_string(),
    };
    instance.log.info("REPL", 21192, "InitialSync", "Initial sync has copied the data", attributes);
    Ok(())
}

fn copy(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>, source: &Host) -> Result<(OpTime, OpTime)> {
    let mut connection = connect(instance, source, SOURCE_TIMEOUT)?;
    checkpoint::set_validity(instance, checkpoint::Validity { copying: true, ..Default::default() })?;
    let begin = newest_applied(&mut connection)?;
    let session = instance.engine.session()?;
    with_operation(instance, &*session, |op| {
        for collection in op.instance.catalog.all() {
            if is_replicated(collection.namespace()) || collection.namespace() == TRANSACTIONS {
                op.instance.catalog.drop_collection(collection.namespace())?;
            }
        }
        for database in databases(&mut connection)? {
            copy_database(op, &mut connection, &database)?;
        }
        Ok(())
    })?;
    let minimum = newest_entry(&mut connection)?.at.max(begin.at);
    let at = begin.at;
    begin_oplog(instance, set, &begin)?;
    checkpoint::set_validity(instance, checkpoint::Validity { applied: at, minimum, copying: false })?;
    set.set_minimum(minimum);
    super::store::reload_transactions(instance, set)?;
    instance.checkpoint().map_err(|error| Failure::new(Code::InternalError, error.to_string()))?;
    store::set_position(set, at);
    store::become_consistent(instance, set, at)?;
    Ok((at, minimum))
}

/// The oplog's collection, made if it does not exist.
pub(crate) fn make_oplog(instance: &Instance) -> Result<Arc<crate::storage::Collection>> {
    match instance.catalog.get(OPLOG) {
        Some(collection) => Ok(collection),
        None => instance.catalog.create(OPLOG, Oplog::options(instance.oplog_bytes())),
    }
}

/// Starts the oplog with the entry from which the source is followed after the copy.
fn begin_oplog(instance: &Instance, set: &ReplicaSetState, begin: &OplogEntry) -> Result<()> {
    let session = instance.engine.session()?;
    let collection = make_oplog(instance)?;
    session.truncate(collection.records_table()?, None, None)?;
    collection.note(-collection.records(), -collection.bytes());
    set.oplog().open(collection, None);
    session.begin()?;
    set.oplog().copy(&*session, std::slice::from_ref(begin))?;
    session.commit(Durability::Durable)?;
    set.oplog().cut(begin.at);
    Ok(())
}

/// The newest entry whose effects are in the source's data: a secondary has a batch in its oplog before it has applied it, and data
/// copied meanwhile lacks it.
fn newest_applied(connection: &mut Connection) -> Result<OplogEntry> {
    let hello = connection.run("admin", &doc! { "hello": 1 }).map_err(failure_of)?;
    let hello: Document = crate::parse::owned(&hello)?;
    let applied = hello.get_document("lastWrite").and_then(|last| last.get_document("opTime"));
    let applied = applied.and_then(|optime| optime.get_timestamp("ts"));
    let applied = applied.map_err(|error| Failure::new(Code::NoSuchKey, error.to_string()))?;
    entry_before(connection, doc! { "ts": { "$lte": applied } })
}

fn databases(connection: &mut Connection) -> Result<Vec<String>> {
    let list = of_any_role(doc! { "listDatabases": 1, "nameOnly": true });
    let reply = connection.run("admin", &list).map_err(failure_of)?;
    let reply: Document = crate::parse::owned(&reply)?;
    let all =
        reply.get_array("databases").map_err(|error| Failure::new(Code::FailedToParse, error.to_string()))?;
    let names = all.iter().filter_map(|one| one.as_document()?.get_str("name").ok());
    Ok(names.filter(|name| *name != "local").map(str::to_owned).collect())
}

fn copy_database(op: &mut OperationContext<'_>, connection: &mut Connection, database: &str) -> Result<()> {
    let list = of_any_role(doc! { "listCollections": 1, "cursor": {} });
    let all: Vec<RawDocumentBuf> = connection
        .cursor(database, &list)
        .map_err(failure_of)?
        .collect::<Result<_, _>>()
        .map_err(failure_of)?;
    for one in all {
        let one: Document = crate::parse::owned(&one)?;
        let name = one.get_str("name").unwrap_or_default().to_owned();
        let namespace = format!("{database}.{name}");
        if !is_replicated(&namespace) && namespace != TRANSACTIONS {
            continue;
        }
        let options = one.get_document("options").cloned().unwrap_or_default();
        let uuid = one.get_document("info").ok().and_then(|info| match info.get("uuid") {
            Some(bson::Bson::Binary(binary)) => {
                binary.bytes.as_slice().try_into().ok().map(bson::Uuid::from_bytes)
            }
            _ => None,
        });
        let is_view = one.get_str("type").is_ok_and(|kind| kind == "view");
        let options = CollectionOptions { document: options };
        op.instance.catalog.create_as(&namespace, options, uuid.unwrap_or_default())?;
        if !is_view {
            copy_collection(op, connection, database, &name)?;
        }
    }
    Ok(())
}

fn copy_collection(
    op: &mut OperationContext<'_>,
    connection: &mut Connection,
    database: &str,
    name: &str,
) -> Result<()> {
    let namespace = format!("{database}.{name}");
    let gone = |failure: &Failure| failure.code() == Code::NamespaceNotFound;
    let list = of_any_role(doc! { "listIndexes": name });
    let indexes: Vec<RawDocumentBuf> = match connection.cursor(database, &list) {
        Ok(cursor) => cursor.collect::<Result<_, _>>().map_err(failure_of)?,
        Err(error) => match failure_of(error) {
            // The collection was dropped or renamed since, which the oplog records too.
            failure if gone(&failure) => return Ok(()),
            failure => return Err(failure),
        },
    };
    let find = of_any_role(doc! { "find": name, "sort": { "$natural": 1 } });
    let mut group: Vec<RawDocumentBuf> = Vec::new();
    let mut bytes = 0;
    for document in connection.cursor(database, &find).map_err(failure_of)? {
        let document = document.map_err(failure_of)?;
        bytes += document.as_bytes().len();
        group.push(document);
        if group.len() >= MAX_GROUP_DOCUMENTS || bytes >= MAX_GROUP_BYTES {
            insert(op, &namespace, &group)?;
            group.clear();
            bytes = 0;
        }
    }
    insert(op, &namespace, &group)?;
    let Some(collection) = op.instance.catalog.get(&namespace) else { return Ok(()) };
    for spec in indexes {
        let mut spec: Document = crate::parse::owned(&spec)?;
        spec.remove("ns");
        let spec = IndexSpec::new(spec);
        if spec.is_id() {
            continue;
        }
        let mut state = collection.lock_exclusive();
        let defaults = state.options.index_defaults();
        let built = match build_indexes(op, &collection, vec![spec.clone()], &defaults) {
            Err(failure) if failure.code() == Code::DuplicateKey => {
                vec![super::apply::build_relaxed(op, &collection, spec, &defaults)?]
            }
            other => other?,
        };
        op.instance.catalog.add_indexes(&collection, &mut state, built)?;
    }
    Ok(())
}

fn insert(op: &mut OperationContext<'_>, namespace: &str, group: &[RawDocumentBuf]) -> Result<()> {
    let Some(collection) = op.instance.catalog.get(namespace) else { return Ok(()) };
    if group.is_empty() {
        return Ok(());
    }
    op.check_interrupt()?;
    let state = collection.lock();
    op.instance.catalog.before_write(&collection)?;
    let session = op.session();
    session.begin()?;
    let mut counts = (0, 0);
    let mut multikey = Vec::new();
    for document in group {
        match collection.put_relaxed(session, &state, document) {
            Ok(effect) => {
                counts = (counts.0 + effect.records, counts.1 + effect.bytes);
                multikey.extend(effect.multikey);
            }
            Err(failure) => {
                session.rollback();
                return Err(failure);
            }
        }
    }
    if !multikey.is_empty() {
        op.instance.catalog.note_multikey(&collection, &state, &multikey)?;
    }
    session.commit(Durability::Buffered)?;
    collection.note(counts.0, counts.1);
    Ok(())
}
