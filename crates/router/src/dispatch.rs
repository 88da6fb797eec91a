//! From a message to its reply: which command, what every command shares, and what is counted.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawBsonRef, RawDocument};
use fathom_client::{ReadMode, ReadPreference};
use fathom_service::parse::{self, Listed};
use fathom_service::{Answer, Incoming, body_of, write_failure};
use fathom_wire::{Code, DocumentWriter, Failure};

use crate::Result;
use crate::client::Client;
use crate::commands::{self, Command};
use crate::instance::Instance;
use crate::operation::Operation;
use crate::request::{Kind, Request};
use crate::waits::{self, Waited};

/// Runs a request and appends its reply to `out`.
pub(crate) fn run(
    instance: &Arc<Instance>,
    client: &Arc<Client>,
    incoming: &Incoming<'_>,
    out: &mut Vec<u8>,
) -> Answer {
    let start = out.len();
    let begun = Instant::now();
    let one_shard_queries = client.one_shard_queries();
    // What this thread waited for before belongs to no operation.
    waits::take();
    let op = Operation { instance, client };
    let listed = body_of(incoming).and_then(Listed::of);
    let request =
        listed.as_ref().map_err(Failure::clone).and_then(|fields| request_of(instance, incoming, fields));
    let failure = match &request {
        Err(failure) => Some(failure.clone()),
        Ok((command, request)) => answer(op, command, request, out).err(),
    };
    if let Ok((command, _)) = &request {
        count(instance, command, begun, waits::take(), failure.is_some());
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
        Ok((command, _)) if !command.secret => Answer::MayCompress,
        _ => Answer::Plain,
    }
}

/// Counts a command that ended.
pub(crate) fn count(instance: &Instance, command: &Command, begun: Instant, waited: Waited, failed: bool) {
    if let Some(counter) = instance.counters.command(command.row()) {
        counter.total.add(1);
        counter.failed.add(u64::from(failed));
    }
    let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    instance.counters.times(command.kind).add(took_us, waited);
}

fn answer(op: Operation<'_>, command: &Command, request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    if command.admin_only && request.database != "admin" {
        let what = format!("{} may only be run against the admin database.", command.name);
        return Err(Failure::new(Code::Unauthorized, what));
    }
    if request.is_numbered && !op.instance.cluster.has_sessions() {
        let what = "Transaction numbers are only allowed on a replica set member or mongos";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    if command.kind == Kind::Admin {
        op.instance.counters.commands.add(1);
    }
    let mut reply = DocumentWriter::new(out);
    (command.run)(op, request, &mut reply)?;
    reply.f64("ok", 1.0);
    Ok(())
}

/// The command's row, and what the router acts upon.
pub(crate) fn request_of<'a>(
    instance: &Instance,
    incoming: &Incoming<'a>,
    fields: &'a Listed<'a>,
) -> Result<(&'static Command, Request<'a>)> {
    let (message, query_database) = match incoming {
        Incoming::Message(message) => (Some(*message), None),
        Incoming::Query(query) => (None, query.command_database()),
    };
    let Some((name, target)) = fields.first() else {
        return Err(Failure::new(Code::CommandNotFound, "no command was given: the document is empty"));
    };
    let command = commands::find(name).ok_or_else(|| {
        instance.counters.unknown_commands.add(1);
        Failure::new(Code::CommandNotFound, format!("no such command: '{name}'"))
    })?;
    let mut request = Request {
        name: command.name,
        kind: command.kind,
        target,
        database: query_database.unwrap_or_default(),
        fields,
        message,
        preference: ReadMode::Primary.into(),
        is_numbered: false,
    };
    read_common(&mut request)?;
    if request.database.is_empty() {
        return Err(Failure::new(Code(40571), "OP_MSG requests require a $db argument"));
    }
    Ok((command, request))
}

/// Reads the fields that the router acts upon; the others are the shards' matter, or the command's.
fn read_common(request: &mut Request<'_>) -> Result<()> {
    if let Some(value) = request.field("$db") {
        let RawBsonRef::String(database) = value else {
            return Err(parse::wrong_type("$db", value, "string"));
        };
        if database.is_empty() || database.contains(['/', '\\', '.', ' ', '"', '\0']) {
            return Err(Failure::new(Code::InvalidNamespace, format!("Invalid database name: '{database}'")));
        }
        request.database = database;
    }
    if let Some(preference) = parse::document(request.fields, "$readPreference")? {
        request.preference = preference_of(preference)?;
    }
    request.is_numbered = request.field("txnNumber").is_some();
    if request.field("startTransaction").is_some() || request.field("autocommit").is_some() {
        let what = "this router has no transactions of several documents";
        return Err(Failure::new(Code::OperationNotSupportedInTransaction, what));
    }
    Ok(())
}

/// `{mode, tags}`, as drivers send it to routers.
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
