//! Runs a message up to its reply: finds the command, does the work that all commands share, and counts.

use std::sync::Arc;
use std::time::Instant;

use bson::RawDocument;
use fathom_client::{ReadMode, ReadPreference};
use fathom_service::parse::{self, IndexedDocument};
use fathom_service::{Answer, RequestMessage, body_of, write_failure};
use fathom_wire::{Code, DocumentWriter, Failure};

use crate::Result;
use crate::client::Client;
use crate::commands;
use crate::counters::{self, OperationWaits};
use crate::instance::{Instance, RouterOperation};
use crate::request::{Command, Request, SendKind};

/// Runs a request and appends its reply to `out`.
pub(crate) fn run(
    instance: &Arc<Instance>,
    client: &Arc<Client>,
    incoming: &RequestMessage<'_>,
    out: &mut Vec<u8>,
) -> Answer {
    let start = out.len();
    let begun = Instant::now();
    let one_shard_queries = client.one_shard_queries();
    // Discards waits of this thread that belong to no operation.
    counters::take_waited();
    let op = RouterOperation { instance, client };
    let listed = body_of(incoming).and_then(IndexedDocument::from_document);
    let request =
        listed.as_ref().map_err(Failure::clone).and_then(|fields| request_of(instance, incoming, fields));
    let failure = match &request {
        Err(failure) => Some(failure.clone()),
        Ok(request) => answer(op, request, out).err(),
    };
    if let Ok(request) = &request {
        count(instance, request.command, begun, counters::take_waited(), failure.is_some());
    }
    if client.one_shard_queries() == one_shard_queries {
        client.end_one_shard_queries();
    }
    if let Some(failure) = &failure {
        instance.counters.user_asserts.add(1);
        out.truncate(start);
        write_failure(&mut DocumentWriter::new(out), failure, None);
    }
    match request {
        Ok(request) if !request.command.secret => Answer::MayCompress,
        _ => Answer::Plain,
    }
}

/// Counts a command that ended.
pub(crate) fn count(
    instance: &Instance,
    command: &Command,
    begun: Instant,
    waited: OperationWaits,
    failed: bool,
) {
    instance.counters.each.count(command.row(), failed);
    let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    instance.counters.times(command.kind).add(took_us, waited);
}

fn answer(op: RouterOperation<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let command = request.command;
    command.check_database(request.database)?;
    if request.generic.is_numbered && !op.instance.cluster.has_sessions() {
        let what = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    if command.kind == SendKind::Admin {
        op.instance.counters.commands.add(1);
    }
    let mut reply = DocumentWriter::new(out);
    commands::function_of(command)?(op, request, &mut reply)?;
    reply.f64("ok", 1.0);
    Ok(())
}

/// Builds the request from a message.
pub(crate) fn request_of<'a>(
    instance: &Instance,
    incoming: &RequestMessage<'a>,
    fields: &'a IndexedDocument<'a>,
) -> Result<Request<'a>> {
    let unknown = &instance.counters.each.unknown;
    Request::read(instance.commands, unknown, incoming, fields, read_generic)
}

/// Reads the generic arguments that the router acts upon; the shards or the command itself handle the others.
fn read_generic(request: &mut Request<'_>) -> Result<()> {
    if let Some(value) = request.field("$db") {
        request.set_database(value)?;
    }
    if let Some(preference) = parse::document(request.fields, "$readPreference")? {
        request.generic.preference = preference_of(preference)?;
    }
    request.generic.is_numbered = request.field("txnNumber").is_some();
    if request.field("startTransaction").is_some() || request.field("autocommit").is_some() {
        let what = "this router has no transactions of several documents";
        return Err(Failure::new(Code::OperationNotSupportedInTransaction, what));
    }
    Ok(())
}

/// Parses `{mode, tags}`, as drivers send it to routers.
fn preference_of(document: &RawDocument) -> Result<ReadPreference> {
    let refused = |error: fathom_errors::Error| Failure::new(Code::FailedToParse, error.to_string());
    let mode = parse::string(document, "mode")?.unwrap_or("primary");
    let mut preference = ReadPreference::from(mode.parse::<ReadMode>().map_err(refused)?);
    for tags in parse::documents(document, "tags")?.unwrap_or_default() {
        let pairs = tags
            .iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.as_str()?.to_owned())));
        preference.tag_sets.push(pairs.collect());
    }
    if parse::integer(document, "maxStalenessSeconds")?.is_some_and(|seconds| seconds >= 0) {
        let what = "maxStalenessSeconds is not in this router: it does not watch how far members are behind";
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    Ok(preference)
}
