//! Commands for the server's files: a checkpoint with writes kept out (`fsync`), checks and compaction of collections (`validate`, `compact`,
//! `reIndex`), log rotation (`logRotate`), and `shutdown`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, doc};
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::execution::build_indexes;
use crate::execution::validate::{ValidationReport, check};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, IndexSpec};

/// The interval between two checks whether earlier writes have finished.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// `fsync`: makes a checkpoint now. With `lock` it also blocks clients' writes until `fsyncUnlock`, so that the files can
/// be copied. Background work that flushes counts continues: the journal holds its changes, and recovery applies them.
pub(super) fn fsync(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    if !parse::boolean(request.fields, "lock")? {
        op.instance.checkpoint()?;
        reply.i32("numFiles", 1);
        return Ok(());
    }
    let locks = op.instance.write_gate.shut();
    if let Err(failure) = wait_for_writers(op).and_then(|()| Ok(op.instance.checkpoint()?)) {
        op.instance.write_gate.open();
        return Err(failure);
    }
    reply.string("info", "now locked against writes, use db.fsyncUnlock() to unlock");
    reply.i64("lockCount", locks);
    Ok(())
}

fn wait_for_writers(op: &OperationContext<'_>) -> Result<()> {
    while op.instance.write_tickets.counts().out > 0 {
        op.check_interrupt()?;
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Allows writes again (`fsyncUnlock`).
pub(super) fn unlock(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(left) = op.instance.write_gate.open() else {
        return Err(Failure::new(Code::IllegalOperation, "fsyncUnlock called when not locked"));
    };
    reply.string("info", "fsyncUnlock completed");
    reply.i64("lockCount", left);
    Ok(())
}

/// `logRotate`: begins a new log file. An audit log does not exist.
pub(super) fn rotate_log(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    if let RawBsonRef::String(which) = request.target
        && which != "server"
    {
        return Err(Failure::new(
            Code::BadValue,
            format!("there is no log '{which}' to rotate, only 'server'"),
        ));
    }
    op.instance.log.rotate().map_err(|error| Failure::new(Code::FileRenameFailed, error.to_string()))
}

/// `shutdown`: stops the server after a last checkpoint. Without logins only a client on the same machine may ask for it.
///
/// Requests the stop; the reply is still sent.
pub(super) fn shutdown(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let local = op.client.remote.parse::<SocketAddr>().is_ok_and(|remote| remote.ip().is_loopback());
    if !op.instance.config.auth && !local {
        let what = "shutdown must run from localhost when running db without auth";
        return Err(Failure::new(Code::Unauthorized, what));
    }
    let context = format!("conn{}", op.client.id);
    op.instance.log.info(
        "COMMAND",
        23136,
        &context,
        "Shutdown was requested",
        doc! { "remote": &op.client.remote },
    );
    op.instance.stop();
    Ok(())
}

/// `compact` and `reIndex`: the engine returns free space, and indexes are rebuilt.
///
/// Makes the engine compact the tables of a collection. Reads and writes continue meanwhile.
pub(super) fn compact(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    // A server without members to fail over to has nothing that `force` could override.
    parse::boolean(request.fields, "force")?;
    let collection = collection(op, request)?;
    let tables: Vec<_> = {
        let state = op.lock(&collection)?;
        let indexes = state.indexes.iter().map(|index| index.table());
        collection.table().into_iter().chain(indexes).cloned().collect()
    };
    let size = |op: &OperationContext<'_>| -> Result<u64> {
        tables.iter().try_fold(0, |sum, table| Ok(sum + op.instance.engine.size_on_disk(table)?))
    };
    let before = size(op)?;
    for table in &tables {
        op.check_interrupt()?;
        op.instance.engine.compact(table)?;
    }
    let freed = before.saturating_sub(size(op)?);
    reply.bson("bytesFreed", &super::definition::number(i64::try_from(freed).unwrap_or(i64::MAX)));
    Ok(())
}

/// Rebuilds all indexes of a collection, `_id` among them. The collection is locked exclusively meanwhile.
pub(super) fn re_index(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let collection = collection(op, request)?;
    let _ticket = op.write_ticket()?;
    let mut state = op.lock_exclusive(&collection)?;
    if state.gone {
        return Err(Failure::new(Code::NamespaceNotFound, "collection does not exist"));
    }
    let specs: Vec<IndexSpec> = state.indexes.iter().map(|index| IndexSpec::new(index.document())).collect();
    let count = i32::try_from(specs.len()).unwrap_or(i32::MAX);
    let shown: Bson = specs.iter().map(|spec| spec.document().clone()).collect();
    let defaults = state.options.index_defaults();
    let indexes = build_indexes(op, &collection, specs, &defaults)?;
    op.session().release(None);
    op.instance.catalog.replace_indexes(&collection, &mut state, indexes)?;
    reply.i32("nIndexesWas", count);
    reply.i32("nIndexes", count);
    reply.bson("indexes", &shown);
    Ok(())
}

fn collection(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<Arc<Collection>> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let collection = op
        .instance
        .catalog
        .get(&namespace)
        .ok_or_else(|| Failure::new(Code::NamespaceNotFound, "collection does not exist"))?;
    if collection.table().is_none() {
        let what = format!("can't {} a view", request.command.name);
        return Err(Failure::new(Code::CommandNotSupportedOnView, what));
    }
    Ok(collection)
}

/// `validate`: checks a collection and its indexes completely and corrects wrong counts.
///
/// The collection is locked exclusively meanwhile: its reads and writes wait.
pub(super) fn validate(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let full = parse::boolean(request.fields, "full")?;
    parse::boolean(request.fields, "scandata")?;
    if parse::boolean(request.fields, "background")? {
        return Err(Failure::new(
            Code::CommandNotSupported,
            "this server locks a collection to validate it: background must be false",
        ));
    }
    let exact = parse::boolean(request.fields, "enforceFastCount")?;
    let missing = || {
        let what = format!("Collection '{namespace}' does not exist to validate.");
        Failure::new(Code::NamespaceNotFound, what)
    };
    let collection = op.instance.catalog.get(&namespace).ok_or_else(missing)?;
    if collection.table().is_none() {
        return Err(Failure::new(Code::CommandNotSupportedOnView, "Cannot validate a view"));
    }
    let state = op.lock_exclusive(&collection)?;
    if state.gone {
        return Err(missing());
    }
    let mut report = check(op, &collection, &state, full)?;
    let counted = (collection.records(), collection.bytes());
    if counted.0 != report.records && exact {
        report.errors.push(format!(
            "fast count ({}) does not match number of records ({}) for collection '{namespace}'",
            counted.0, report.records
        ));
    }
    // A recount in progress corrects the counts itself.
    if !collection.recounting().load(std::sync::atomic::Ordering::Acquire)
        && counted != (report.records, report.bytes)
    {
        op.instance.catalog.before_write(&collection)?;
        collection.correct(report.records - counted.0, report.bytes - counted.1);
    }
    reply.string("ns", &namespace);
    write_report(&report, state.indexes.len(), reply);
    Ok(())
}

fn write_report(report: &ValidationReport, indexes: usize, reply: &mut Reply<'_>) {
    let strings = |texts: &[String]| -> Bson { texts.iter().cloned().map(Bson::String).collect() };
    reply.bson("nInvalidDocuments", &super::definition::number(report.invalid));
    reply.bson("nrecords", &super::definition::number(report.records));
    reply.i32("nIndexes", i32::try_from(indexes).unwrap_or(i32::MAX));
    let mut keys = reply.begin_document("keysPerIndex");
    for (name, index) in &report.indexes {
        keys.bson(name, &super::definition::number(index.keys));
    }
    keys.end();
    let mut details = reply.begin_document("indexDetails");
    for (name, index) in &report.indexes {
        let mut detail: Document = doc! { "valid": index.errors.is_empty() };
        for (field, texts) in [("errors", &index.errors), ("warnings", &index.warnings)] {
            if !texts.is_empty() {
                detail.insert(field, strings(texts));
            }
        }
        details.bson(name, &Bson::Document(detail));
    }
    details.end();
    reply.bool("valid", report.is_valid());
    reply.bson("warnings", &strings(&report.warnings));
    reply.bson("errors", &strings(&report.errors));
    let documents = |documents: &[Document]| -> Bson { documents.iter().cloned().collect() };
    reply.bson("extraIndexEntries", &documents(&report.extra));
    reply.bson("missingIndexEntries", &documents(&report.missing));
}
