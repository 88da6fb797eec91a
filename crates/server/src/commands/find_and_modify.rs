//! The command `findAndModify`: updates or removes one document and returns it.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Code, Dialect, Failure, Filter, FilterMatch, Hint, Projection, Sort, Update};

use super::writes::refuse_internal;
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::execution::{UpdateRequest, WriteTarget, delete_one, update};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::replica_set::PriorResult;
use crate::request::Request;

/// The options of the command.
#[derive(Debug)]
pub(super) struct FindAndModifyOptions {
    pub(super) target: WriteTarget,
    /// `None` if the document is removed.
    pub(super) update: Option<UpdateRequest>,
    new: bool,
    projection: Option<Projection>,
}

pub(super) fn run(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    refuse_internal(&namespace)?;
    op.figures.namespace.clone_from(&namespace);
    read_let(op, request.body())?;
    let asked = asked_of(op, request.body())?;
    let _session = op.begin_retryable(request)?;
    if op.statement.is_some() {
        if let Some(again) = op.begin_statement(0)? {
            return answer_again(op, &asked, again, reply);
        }
        op.wants_image = Some(asked.new);
    }
    let _ticket = op.write_ticket()?;
    match &asked.update {
        None => remove(op, &namespace, &asked, reply),
        Some(change) => modify(op, &namespace, &asked, change, reply),
    }
}

/// Reads the command, also within `explain`.
pub(super) fn asked_of(op: &mut OperationContext<'_>, body: &RawDocument) -> Result<FindAndModifyOptions> {
    let (remove, upsert, new) =
        (parse::boolean(body, "remove")?, parse::boolean(body, "upsert")?, parse::boolean(body, "new")?);
    let change = parse::field(body, "update").filter(|change| *change != RawBsonRef::Null);
    let refused = |what: &'static str| Err(Failure::new(Code::FailedToParse, what));
    match (remove, change) {
        (true, Some(_)) => return refused("Cannot specify both an update and remove=true"),
        (true, None) if upsert => return refused("Cannot specify both upsert=true and remove=true "),
        (true, None) if new => {
            return refused(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            );
        }
        (false, None) => return refused("Either an update or remove=true must be specified"),
        _ => {}
    }
    refuse_collation(parse::field(body, "collation"))?;
    let filter = parse::document(body, "query")?.unwrap_or_else(|| parse::empty());
    let sort = parse::document(body, "sort")?.map(Sort::parse).transpose()?.flatten();
    let hint: Option<Hint> = hint_of(parse::field(body, "hint"))?;
    let array_filters = parse::documents(body, "arrayFilters")?.unwrap_or_default();
    if remove && !array_filters.is_empty() {
        return refused("Cannot specify arrayFilters and remove=true");
    }
    let fields = parse::document(body, "fields")?;
    let validate = !parse::boolean(body, "bypassDocumentValidation")?;
    let variables = op.variables();
    let target = WriteTarget { filter: Filter::parse(filter, variables)?, hint, sort };
    let projection = match fields {
        Some(fields) => Projection::parse(fields, Dialect::Find, variables)?,
        None => None,
    };
    let update = match change {
        None => None,
        Some(change) => Some(UpdateRequest {
            target: target.clone(),
            update: Update::parse(change, &array_filters, variables)?,
            multi: false,
            upsert,
            validate,
        }),
    };
    if new && projection.as_ref().is_some_and(Projection::is_positional) {
        return refused("Cannot use a positional projection and return the new document");
    }
    Ok(FindAndModifyOptions { target, update, new, projection })
}

fn remove(
    op: &mut OperationContext<'_>,
    namespace: &str,
    asked: &FindAndModifyOptions,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let gone = delete_one(op, namespace, &asked.target)?;
    let mut last = reply.begin_document("lastErrorObject");
    last.i32("n", i32::from(gone.is_some()));
    last.end();
    write_value(op, asked, gone, reply)
}

fn modify(
    op: &mut OperationContext<'_>,
    namespace: &str,
    asked: &FindAndModifyOptions,
    change: &UpdateRequest,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let outcome = update(op, namespace, change)?;
    let existed = outcome.matched > 0;
    let mut last = reply.begin_document("lastErrorObject");
    last.i32("n", i32::from(existed || outcome.upserted.is_some()));
    last.bool("updatedExisting", existed);
    if let Some(id) = &outcome.upserted {
        last.bson("upserted", id);
    }
    last.end();
    write_value(op, asked, if asked.new { outcome.after } else { outcome.before }, reply)
}

/// The reply to a command that was sent again after it had been executed.
fn answer_again(
    op: &mut OperationContext<'_>,
    asked: &FindAndModifyOptions,
    again: PriorResult,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut last = reply.begin_document("lastErrorObject");
    let done = again.matched + again.deleted > 0 || again.upserted.is_some();
    last.i32("n", i32::from(done));
    if asked.update.is_some() {
        last.bool("updatedExisting", again.matched > 0);
    }
    if let Some(id) = &again.upserted {
        last.bson("upserted", id);
    }
    last.end();
    write_value(op, asked, if again.upserted.is_some() && !asked.new { None } else { again.image }, reply)
}

fn write_value(
    op: &mut OperationContext<'_>,
    asked: &FindAndModifyOptions,
    document: Option<RawDocumentBuf>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(document) = document else {
        reply.null("value");
        return Ok(());
    };
    match &asked.projection {
        None => reply.document("value", &document),
        Some(projection) => {
            let matched = if projection.is_positional() {
                asked.target.filter.matches(&document)?.unwrap_or_default()
            } else {
                FilterMatch::default()
            };
            reply.document("value", &projection.apply(&document, matched, op.variables())?);
        }
    }
    Ok(())
}
