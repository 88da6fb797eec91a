//! The commands `insert`, `update` and `delete`: batches of writes with their limits, their order, and the failures of their items.

use bson::RawDocument;
use fathom_query::{Code, Failure, Filter, Update};
use fathom_wire::limits::MAX_WRITE_BATCH;

use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::execution::{self, DeleteRequest, UpdateRequest, WriteTarget};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;

/// Refuses a batch that is empty or too large.
pub(super) fn check_batch(length: usize) -> Result<()> {
    if (1..=MAX_WRITE_BATCH).contains(&length) {
        return Ok(());
    }
    let what = format!("Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {length} operations.");
    Err(Failure::new(Code::InvalidLength, what))
}

/// Whether the batch stops at the first failure, which is the default.
pub(super) fn is_ordered(request: &Request<'_>) -> Result<bool> {
    match request.field("ordered") {
        None => Ok(true),
        Some(_) => parse::boolean(request.fields, "ordered"),
    }
}

/// Refuses client writes to the server's own collections.
pub(super) fn refuse_internal(namespace: &str) -> Result<()> {
    if crate::namespace::is_internal(namespace) {
        return Err(Failure::new(Code::InvalidNamespace, format!("cannot write to '{namespace}'")));
    }
    Ok(())
}

/// Refuses a retryable write to many documents, since it would not be a single statement.
pub(super) fn refuse_many(op: &OperationContext<'_>, many: bool) -> Result<()> {
    if many && op.statement.is_some() {
        return Err(Failure::new(
            Code::InvalidOptions,
            "Cannot use (or request) retryable writes with multi=true",
        ));
    }
    Ok(())
}

/// Executes one item after the other and returns the failures with the positions of their items. An `ordered` batch stops at
/// the first failure; the whole batch fails if its operation must end.
pub(super) fn each(
    op: &mut OperationContext<'_>,
    items: &[&RawDocument],
    ordered: bool,
    mut work: impl FnMut(&mut OperationContext<'_>, usize, &RawDocument) -> Result<()>,
) -> Result<Vec<(usize, Failure)>> {
    let mut failures = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let Err(failure) = work(op, place, item) {
            op.stop_if_interrupted(&failure)?;
            failures.push((place, failure));
            if ordered {
                break;
            }
        }
    }
    Ok(failures)
}

/// Counts the failures and adds `writeErrors`, if there are any.
pub(super) fn write_errors(op: &OperationContext<'_>, reply: &mut Reply<'_>, failures: &[(usize, Failure)]) {
    op.instance.counters.asserts.users(failures.len());
    if failures.is_empty() {
        return;
    }
    let mut array = reply.begin_array("writeErrors");
    for (place, failure) in failures {
        let mut item = array.begin_document();
        item.i32("index", i32::try_from(*place).unwrap_or(i32::MAX));
        item.i32("code", failure.code().0);
        item.string("errmsg", failure.message());
        item.extend(failure.extra());
    }
}

/// `insert`: documents, in one batch, ordered or not.
pub(super) fn insert(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let documents = request.documents("documents")?;
    check_batch(documents.len())?;
    let ordered = is_ordered(request)?;
    let validate = !parse::boolean(request.fields, "bypassDocumentValidation")?;
    refuse_internal(&namespace)?;
    op.instance.counters.operations.insert(documents.len() as u64);
    let _session = op.begin_retryable(request)?;
    let _ticket = op.write_ticket()?;
    let result = insert_undone(op, &namespace, &documents, ordered, validate);
    op.figures.namespace = namespace;
    let (inserted, failures) = result?;
    reply.i32("n", i32::try_from(inserted).unwrap_or(i32::MAX));
    write_errors(op, reply, &failures);
    Ok(())
}

/// Inserts those documents of a retryable write that an earlier attempt did not insert.
fn insert_undone(
    op: &mut OperationContext<'_>,
    namespace: &str,
    documents: &[&RawDocument],
    ordered: bool,
    validate: bool,
) -> Result<(usize, Vec<(usize, Failure)>)> {
    if op.statement.is_none() {
        return execution::insert_documents(op, namespace, documents, ordered, validate);
    }
    let (mut inserted, mut failures) = (0, Vec::new());
    let mut at = 0;
    while at < documents.len() && (failures.is_empty() || !ordered) {
        if op.begin_statement(at)?.is_some() {
            inserted += 1;
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < documents.len() && op.begin_statement(end)?.is_none() {
            end += 1;
        }
        op.begin_statement(at)?;
        let rest = documents.get(at..end).unwrap_or_default();
        let (count, failed) = execution::insert_documents(op, namespace, rest, ordered, validate)?;
        inserted += count;
        failures.extend(failed.into_iter().map(|(place, failure)| (at + place, failure)));
        at = end;
    }
    Ok((inserted, failures))
}

/// Fields of one item of `updates`.
const FIELDS_OF_UPDATE: &[&str] = &["q", "u", "c", "upsert", "multi", "collation", "arrayFilters", "hint"];

/// `update`: a list of updates, each of one document or many, with or without upsert.
pub(super) fn update(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let items = request.documents("updates")?;
    check_batch(items.len())?;
    let ordered = is_ordered(request)?;
    let validate = !parse::boolean(request.fields, "bypassDocumentValidation")?;
    refuse_internal(&namespace)?;
    read_let(op, request.fields)?;
    let _session = op.begin_retryable(request)?;
    let _ticket = op.write_ticket()?;
    let (mut matched, mut modified) = (0, 0);
    let mut upserted = Vec::new();
    let failures = each(op, &items, ordered, |op, place, item| {
        op.instance.counters.operations.update(1);
        let wanted = update_of(op, item, validate)?;
        refuse_many(op, wanted.multi)?;
        if let Some(again) = op.begin_statement(place)? {
            matched += again.matched;
            modified += again.modified;
            upserted.extend(again.upserted.map(|id| (place, id)));
            return Ok(());
        }
        let mut outcome = execution::update(op, &namespace, &wanted)?;
        matched += outcome.matched;
        modified += outcome.modified;
        upserted.extend(outcome.upserted.take().map(|id| (place, id)));
        outcome.recycle();
        Ok(())
    })?;
    op.figures.namespace = namespace;
    let count = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
    reply.i32("n", count(matched + upserted.len() as u64));
    if !upserted.is_empty() {
        let mut array = reply.begin_array("upserted");
        for (place, id) in &upserted {
            let mut item = array.begin_document();
            item.i32("index", i32::try_from(*place).unwrap_or(i32::MAX));
            item.bson("_id", id);
        }
    }
    reply.i32("nModified", count(modified));
    write_errors(op, reply, &failures);
    Ok(())
}

pub(super) fn update_of(
    op: &mut OperationContext<'_>,
    item: &RawDocument,
    validate: bool,
) -> Result<UpdateRequest> {
    parse::only_fields(item, FIELDS_OF_UPDATE, "update.updates")?;
    if parse::field(item, "c").is_some() {
        let what =
            "Constant values may only be specified for pipeline updates, and this server does not take them";
        return Err(Failure::new(Code::FailedToParse, what));
    }
    let filter = parse::document(item, "q")?.ok_or_else(|| parse::missing("update.updates.q"))?;
    let change = parse::field(item, "u").ok_or_else(|| parse::missing("update.updates.u"))?;
    let array_filters = parse::documents(item, "arrayFilters")?.unwrap_or_default();
    refuse_collation(parse::field(item, "collation"))?;
    let hint = hint_of(parse::field(item, "hint"))?;
    let multi = parse::boolean(item, "multi")?;
    let upsert = parse::boolean(item, "upsert")?;
    let variables = op.variables();
    let update = Update::parse(change, &array_filters, variables)?;
    if multi && update.is_replacement() {
        return Err(Failure::new(
            Code::FailedToParse,
            "multi update is not supported for replacement-style update",
        ));
    }
    let filter = Filter::parse(filter, variables)?;
    Ok(UpdateRequest { target: WriteTarget { filter, hint, sort: None }, update, multi, upsert, validate })
}

/// Fields of one item of `deletes`.
const FIELDS_OF_DELETE: &[&str] = &["q", "limit", "collation", "hint"];

/// `delete`: a list of deletes, each of the first match or of all.
pub(super) fn delete(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let items = request.documents("deletes")?;
    check_batch(items.len())?;
    let ordered = is_ordered(request)?;
    refuse_internal(&namespace)?;
    read_let(op, request.body())?;
    let _session = op.begin_retryable(request)?;
    let _ticket = op.write_ticket()?;
    let mut deleted = 0;
    let failures = each(op, &items, ordered, |op, place, item| {
        op.instance.counters.operations.delete(1);
        let wanted = delete_of(op, item)?;
        refuse_many(op, wanted.multi)?;
        if let Some(again) = op.begin_statement(place)? {
            deleted += again.deleted;
            return Ok(());
        }
        deleted += execution::delete(op, &namespace, &wanted)?;
        Ok(())
    })?;
    op.figures.namespace = namespace;
    reply.i32("n", i32::try_from(deleted).unwrap_or(i32::MAX));
    write_errors(op, reply, &failures);
    Ok(())
}

pub(super) fn delete_of(op: &mut OperationContext<'_>, item: &RawDocument) -> Result<DeleteRequest> {
    parse::only_fields(item, FIELDS_OF_DELETE, "delete.deletes")?;
    let filter = parse::document(item, "q")?.ok_or_else(|| parse::missing("delete.deletes.q"))?;
    refuse_collation(parse::field(item, "collation"))?;
    let hint = hint_of(parse::field(item, "hint"))?;
    let multi = match parse::integer(item, "limit")? {
        Some(0) => true,
        Some(1) => false,
        Some(other) => {
            let what = format!("The limit field in delete objects must be 0 or 1. Got {other}");
            return Err(Failure::new(Code::FailedToParse, what));
        }
        None => return Err(parse::missing("delete.deletes.limit")),
    };
    let filter = Filter::parse(filter, op.variables())?;
    Ok(DeleteRequest { target: WriteTarget { filter, hint, sort: None }, multi })
}
