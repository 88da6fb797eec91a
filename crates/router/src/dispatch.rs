//! From a message to its reply: which command, what every command shares, and what is counted.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawBsonRef, RawDocument};
use fathom_client::{ReadMode, ReadPreference};
use fathom_service::parse::{self, Listed};
use fathom_service::{Answer, Incoming, body_of, write_failure};
use fathom_wire::limits::MAX_WRITE_BATCH;
use fathom_wire::{Code, DocumentWriter, Failure, OpMsg};

use crate::Result;
use crate::call::Sending;
use crate::client::Client;
use crate::commands::{self, Command, Kind};
use crate::instance::Instance;
use crate::waits::{self, Waited};

/// The surroundings of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    pub(crate) client: &'a Arc<Client>,
}

/// A command with its arguments.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) command: &'static Command,
    /// The first field's value: mostly the collection.
    pub(crate) target: RawBsonRef<'a>,
    pub(crate) database: &'a str,
    /// The body's fields.
    pub(crate) fields: &'a Listed<'a>,
    message: Option<&'a OpMsg<'a>>,
    pub(crate) preference: ReadPreference,
    /// Whether it has a `txnNumber`, by which a set knows a write that comes twice.
    pub(crate) is_numbered: bool,
}

impl<'a> Request<'a> {
    /// The command as it came.
    pub(crate) fn body(&self) -> &'a RawDocument {
        self.fields.document()
    }

    /// `database.collection`.
    pub(crate) fn namespace(&self) -> Result<String> {
        parse::namespace(self.database, self.target)
    }

    /// The `database.collection` that an administrative command names whole.
    pub(crate) fn named_namespace(&self) -> Result<&'a str> {
        match self.target {
            RawBsonRef::String(name)
                if name.split_once('.').is_some_and(|(db, coll)| !db.is_empty() && !coll.is_empty()) =>
            {
                Ok(name)
            }
            _ => {
                let what =
                    format!("{} takes a namespace, such as \"database.collection\"", self.command.name);
                Err(Failure::new(Code::InvalidNamespace, what))
            }
        }
    }

    /// A field of the body.
    pub(crate) fn field(&self, name: &str) -> Option<RawBsonRef<'a>> {
        parse::field(self.fields, name)
    }

    /// The database, and whether a cursor of this command lives until it is closed.
    pub(crate) fn cursor_terms(&self) -> Result<(&'a str, bool)> {
        Ok((self.database, parse::boolean(self.fields, "noCursorTimeout")?))
    }

    /// The documents of a field that may come beside the body.
    pub(crate) fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        if let Some(sequence) = self.message.and_then(|message| message.sequence(name)) {
            if sequence.count() > MAX_WRITE_BATCH {
                let what = format!(
                    "Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.",
                    sequence.count()
                );
                return Err(Failure::new(Code::InvalidLength, what));
            }
            return Ok(sequence.documents().collect());
        }
        parse::documents(self.fields, name)?.ok_or_else(|| parse::missing(name))
    }

    /// The documents that came beside the body.
    pub(crate) fn sequence(&self) -> Option<(&'static str, Vec<&'a RawDocument>)> {
        let sequence = self.message?.sequences().next()?;
        let name = ["documents", "updates", "deletes"].into_iter().find(|name| *name == sequence.name())?;
        Some((name, sequence.documents().collect()))
    }

    /// How it is sent to shards.
    pub(crate) fn sending(&self) -> Sending {
        match self.command.kind {
            Kind::Read => Sending { preference: self.preference.clone(), ..Sending::read() },
            Kind::Write | Kind::Admin => {
                Sending { idempotent: self.is_numbered, numbered: self.is_numbered, ..Sending::write() }
            }
        }
    }
}

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
        Ok(request) => answer(op, request, out).err(),
    };
    if let Ok(request) = &request {
        count(instance, request.command, begun, waits::take(), failure.is_some());
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
pub(crate) fn count(instance: &Instance, command: &Command, begun: Instant, waited: Waited, failed: bool) {
    if let Some(counter) = instance.counters.command(command.row()) {
        counter.total.add(1);
        counter.failed.add(u64::from(failed));
    }
    let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    instance.counters.times(command.kind).add(took_us, waited);
}

fn answer(op: Operation<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Result<()> {
    let command = request.command;
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

/// Reads what the router acts upon.
pub(crate) fn request_of<'a>(
    instance: &Instance,
    incoming: &Incoming<'a>,
    fields: &'a Listed<'a>,
) -> Result<Request<'a>> {
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
        command,
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
    Ok(request)
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
