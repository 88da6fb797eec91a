//! `update`: a list of updates, each of one document or many, with or without upsert.

use bson::RawDocument;
use fathom_query::{Code, Failure, Filter, Update};

use super::batch::{check_batch, each, is_ordered, refuse_internal, refuse_many, write_errors};
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::execution::{Target, UpdateRequest, update};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Fields of one item of `updates`.
const FIELDS: &[&str] = &["q", "u", "c", "upsert", "multi", "collation", "arrayFilters", "hint"];

/// Runs `updates`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
        let mut outcome = update(op, &namespace, &wanted)?;
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

pub(super) fn update_of(op: &mut Operation<'_>, item: &RawDocument, validate: bool) -> Result<UpdateRequest> {
    parse::only_fields(item, FIELDS, "update.updates")?;
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
    Ok(UpdateRequest { target: Target { filter, hint, sort: None }, update, multi, upsert, validate })
}
