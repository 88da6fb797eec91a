//! Turns a message into its reply: finds the command, checks whether it may run, does the work common to all commands, and counts it.

use std::sync::Arc;
use std::time::Instant;

use bson::RawBsonRef;
use fathom_engine::Session;
use fathom_query::{Code, Failure};
use fathom_service::{Answer, RequestMessage, body_of, write_failure};
use fathom_wire::DocumentWriter;

use crate::Result;
use crate::auth::Conversation;
use crate::client::{Client, CommandStart};
use crate::commands;
use crate::completion::Completion;
use crate::instance::Instance;
use crate::operation_context::{OperationContext, OperationFigures};
use crate::parse::IndexedDocument;
use crate::request::{
    CLOSE_CONNECTION, Command, CommandAccess, OperationClass, ReadConcern, Request, WriteConcern, is_generic,
};

/// An event loop runs brief operations only: those that take microseconds and wait for no other operation. They are judged by their fields at
/// first and then by the work that they did. A brief query may return at most this many documents.
const MAX_RETURNED_DOCUMENTS: i64 = 100;
/// The keys and documents that a brief operation may examine.
const MAX_EXAMINED: u64 = 200;
/// The bytes that a brief write may contain.
const MAX_WRITE_BYTES: usize = 16 << 10;

/// The origin of a request.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    pub(crate) session: &'a dyn Session,
    pub(crate) client: &'a Arc<Client>,
    /// Whether an event loop runs it; the loop refuses operations that are not brief.
    pub(crate) in_loop: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) answer: Answer,
    /// Whether the operation was brief, as event loops require.
    pub(crate) brief: bool,
}

/// Runs a request and appends its reply to `out`.
pub(crate) fn run(
    place: &RequestContext<'_>,
    incoming: &RequestMessage<'_>,
    conversation: &mut Option<Conversation>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let start = out.len();
    let mut op = OperationContext::new(place.instance, place.session, place.client);
    let listed = body_of(incoming).and_then(IndexedDocument::from_document);
    let mut brief = false;
    let (request, failure) = match listed
        .as_ref()
        .map_err(Failure::clone)
        .and_then(|fields| request_of(place, incoming, fields, op.begun))
    {
        Err(failure) => (None, Some(failure)),
        Ok(request) => {
            brief = is_brief(&request, place.instance);
            if place.in_loop && !brief {
                place.client.end();
                return RequestOutcome { answer: Answer::Unanswered, brief };
            }
            let failure = answer(&mut op, &request, conversation, out).err();
            let failure = failure.map(|failure| crate::consistency::labelled(failure, &request));
            (Some(request), failure)
        }
    };
    place.session.rollback();
    if let Some(failure) = &failure {
        out.truncate(start);
        let mut reply = DocumentWriter::new(out);
        write_failure(&mut reply, failure, Some(CLOSE_CONNECTION));
        crate::consistency::write_times(&op, request.as_ref(), &mut reply);
    }
    let command = request.as_ref().map(|request| request.command);
    let completion =
        Completion { request: request.as_ref(), failure: failure.as_ref(), reply_bytes: out.len() - start };
    crate::completion::finish(&mut op, &completion);
    place.session.end_operation();
    place.client.end();
    let closes = failure.as_ref().is_some_and(|failure| failure.labels().contains(&CLOSE_CONNECTION));
    let answer = match command {
        _ if closes => Answer::Close,
        Some(command) if !command.secret => Answer::MayCompress,
        _ => Answer::Plain,
    };
    RequestOutcome { answer, brief: brief && was_brief(&op.figures) }
}

fn request_of<'a>(
    place: &RequestContext<'_>,
    incoming: &RequestMessage<'a>,
    fields: &'a IndexedDocument<'a>,
    begun: Instant,
) -> Result<Request<'a>> {
    let instance = place.instance;
    let unknown = &instance.counters.commands.unknown;
    let request = Request::read(instance.commands, unknown, incoming, fields, |request| {
        read_generic(instance, request)
    })?;
    let beginning = CommandStart {
        operation: place.instance.clients.next_operation(),
        begun,
        database: request.database,
        command: fields.document(),
        session: request.generic.session,
    };
    if let Some(session) = place.client.begin(&beginning)
        && (!place.instance.users.is_enabled() || place.client.is_authenticated())
    {
        place.instance.sessions.note(session, begun)?;
    }
    Ok(request)
}

/// Reads the generic arguments, and refuses unknown fields.
fn read_generic(instance: &Instance, request: &mut Request<'_>) -> Result<()> {
    let fields = request.fields;
    let mut first = true;
    fields.each(|name, value| {
        if std::mem::take(&mut first) {
            return Ok(());
        }
        read_field(instance, request, name, value)
    })?;
    if let Some(message) = request.message
        && let Some(sequence) =
            message.sequences().find(|one| !request.command.rules.fields.contains(&one.name()))
    {
        return Err(unknown_field(request.command, sequence.name()));
    }
    Ok(())
}

fn read_field<'a>(
    instance: &Instance,
    request: &mut Request<'a>,
    name: &str,
    value: RawBsonRef<'a>,
) -> Result<()> {
    let in_set = instance.set.is_some();
    let generic = &mut request.generic;
    match name {
        "$db" => request.set_database(value)?,
        "maxTimeMS" => generic.max_time_ms = max_time(value)?,
        "writeConcern" if in_set => generic.write_concern = WriteConcern::parse_for_set(value)?,
        "writeConcern" => generic.write_concern = WriteConcern::parse(value)?,
        "readConcern" => generic.read_concern = ReadConcern::parse(value, in_set)?,
        "$clusterTime" if in_set => crate::consistency::follow_cluster_time(instance, value),
        "lsid" => generic.session = Some(crate::sessions::read_id("OperationSessionInfo.lsid", value)?),
        "txnNumber" if in_set => {
            let number = crate::parse::integer_of(value);
            generic.transaction =
                Some(number.ok_or_else(|| crate::parse::wrong_type("txnNumber", value, "long"))?);
        }
        "autocommit" | "startTransaction" if in_set => {
            // Not IllegalOperation: drivers take that to mean that a set has no retryable writes, but it has.
            let what = "this server has no multi-document transactions";
            return Err(Failure::new(Code::OperationNotSupportedInTransaction, what));
        }
        "txnNumber" | "autocommit" | "startTransaction" => {
            let what = "Transaction numbers are only allowed on a replica set member or mongos";
            return Err(Failure::new(Code::IllegalOperation, what));
        }
        name if request.command.rules.fields.contains(&name) || is_generic(name) => {}
        _ if request.command.rules.any_fields => {}
        name => return Err(unknown_field(request.command, name)),
    }
    Ok(())
}

#[cold]
fn unknown_field(command: &Command, name: &str) -> Failure {
    match command.name {
        "find" => Failure::new(Code::FailedToParse, format!("Failed to parse: Unrecognized field '{name}'.")),
        "aggregate" => Failure::new(Code::FailedToParse, format!("unrecognized field '{name}'")),
        command => crate::parse::unknown_field(command, name),
    }
}

fn max_time(value: RawBsonRef<'_>) -> Result<u64> {
    let number = crate::parse::integer_of(value).ok_or_else(|| {
        Failure::new(
            Code::BadValue,
            format!("maxTimeMS must be a number, not {}", crate::parse::type_name(value)),
        )
    })?;
    u64::try_from(number)
        .ok()
        .filter(|number| *number <= i32::MAX as u64)
        .ok_or_else(|| Failure::new(Code::BadValue, format!("{number} value for maxTimeMS is out of range")))
}

fn answer(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let command = request.command;
    crate::auth::authorize(op, request)?;
    command.check_database(request.database)?;
    op.limit(request.generic.max_time_ms);
    crate::consistency::check_role(op, request)?;
    crate::consistency::before_read(op, request)?;
    let _inside = crate::sharding::check(op, request)?;
    let injected = op.instance.fail_points.before(op.client, request, || op.check_interrupt())?;
    // Writes of documents take their own tickets, some of them several times.
    let changes_a_catalog = command.kind == OperationClass::Command
        && matches!(command.rules.access, CommandAccess::Write | CommandAccess::DatabaseAdmin);
    let _ticket = changes_a_catalog.then(|| op.write_ticket()).transpose()?;
    let mut reply = DocumentWriter::new(out);
    match commands::function_of(command)? {
        commands::CommandFunction::Plain(run) => run(op, request, &mut reply)?,
        commands::CommandFunction::Login(run) => run(op, request, conversation, &mut reply)?,
    }
    crate::consistency::after_read(op, request)?;
    if command.kind == OperationClass::Write || changes_a_catalog || op.last.is_some() {
        let begun = Instant::now();
        let acknowledged = acknowledge(op, request, &mut reply);
        op.waits.acknowledgement = begun.elapsed();
        acknowledged?;
    }
    op.instance.fail_points.after_write(request, op.last.is_some())?;
    if let Some(injected) = &injected {
        injected.after(&mut reply);
    }
    reply.f64("ok", 1.0);
    crate::consistency::write_times(op, Some(request), &mut reply);
    Ok(())
}

/// Waits until a write is as safe as its client requires.
fn acknowledge(
    op: &OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    if op.instance.set.is_some() {
        crate::consistency::after_write(op, request, reply);
    } else if request.command.kind == OperationClass::Write
        && request.generic.write_concern.journal
        && op.instance.config.storage.journal
    {
        op.instance.journal.wait_for_operation()?;
    }
    Ok(())
}

/// Whether a command can be expected to be brief: a query for a few documents in their present state, or a small write that no other member
/// must confirm.
fn is_brief(request: &Request<'_>, instance: &Instance) -> bool {
    match (request.command.kind, request.command.name) {
        (_, "find") => {
            let limit = request.field("limit").and_then(crate::parse::integer_of).unwrap_or(0);
            let concern = &request.generic.read_concern;
            (1..=MAX_RETURNED_DOCUMENTS).contains(&limit)
                && !(concern.majority || concern.linearizable || concern.after.is_some())
                && request.field("tailable").is_none()
        }
        // A write in a set may wait for other members, and a journaled write may wait for the device.
        (OperationClass::Write, "insert" | "update" | "delete") => {
            instance.set.is_none()
                && !request.generic.write_concern.journal
                && request.bytes() <= MAX_WRITE_BYTES
        }
        _ => false,
    }
}

/// Whether the work done was brief.
fn was_brief(figures: &OperationFigures) -> bool {
    figures.keys_examined + figures.docs_examined <= MAX_EXAMINED
}
