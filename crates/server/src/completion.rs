//! Completes an operation: updates its counters and writes its log line and its profile document.
//!
//! Every operation ends here, and a fast one only adds to counters. A slow or profiled one gets a line in the log in mongod's form
//! ("Slow query", 51803) and a document in `system.profile`.
//!
//! As in mongod, a wait for new data is in no figure, and the wait for the write concern only in those of the whole command.
//!
//! A command whose arguments or reply hold secrets is named but not shown. A long command is cut to [`MAX_SHOWN_BYTES`],
//! and the omitted fields are listed with their types and sizes, as in mongod.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime, Document, RawDocument, doc};
use fathom_query::Failure;

use crate::instance::Instance;
use crate::log::LogSeverity;
use crate::operation_context::{OperationContext, OutsideWaits};
use crate::request::Request;
use crate::stats::output::signed;
use crate::stats::{ProfileDecision, Profiler, Use, micros};
use crate::storage::CollectionOptions;

/// The number of bytes of a command that a log line holds (`maxLogSizeKB`).
const MAX_SHOWN_BYTES: usize = 10 << 10;
/// The bytes of a reply around its body: header, flags and kind of an OP_MSG; header and fixed fields of an OP_REPLY.
const MESSAGE_BYTES: usize = 16 + 4 + 1;
const LEGACY_BYTES: usize = 16 + 20;
/// The collection that operations are kept in, and its size, as mongod makes it.
const PROFILE: &str = "system.profile";
const PROFILE_BYTES: i64 = 1 << 20;

/// An operation that has ended.
#[derive(Debug)]
pub(crate) struct Completion<'a> {
    /// `None` if the message was not even a command.
    pub(crate) request: Option<&'a Request<'a>>,
    pub(crate) failure: Option<&'a Failure>,
    pub(crate) reply_bytes: usize,
}

/// The time that an operation took, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Latency {
    /// The time of the command: in `opLatencies`, and in its line of the log.
    command_us: u64,
    /// The time of its work, before the wait for the write concern: in `top`, `latencyStats` and what is said of a single write.
    work_us: u64,
}

impl Latency {
    fn new(elapsed: Duration, waits: OutsideWaits) -> Latency {
        let command = elapsed.saturating_sub(waits.data);
        Latency {
            command_us: micros(command),
            work_us: micros(command.saturating_sub(waits.acknowledgement)),
        }
    }
}

/// Counts the operation in all counters, and logs it if it was slow.
pub(crate) fn finish(op: &mut OperationContext<'_>, finished: &Completion<'_>) {
    let latency = Latency::new(op.begun.elapsed(), op.waits);
    let counters = &op.instance.counters;
    if let Some(failure) = finished.failure {
        counters.asserts.count(failure.code());
    }
    let Some(request) = finished.request else { return };
    let command = request.command;
    counters.latency(command.kind).record(latency.command_us);
    counters.commands.count(command.row(), finished.failure.is_some());
    let figures = &op.figures;
    counters.scanned(figures.keys_examined, figures.docs_examined);
    counters.documents_inserted.add(figures.inserted.unwrap_or(0));
    counters.documents_returned.add(figures.returned.unwrap_or(0));
    counters.documents_updated.add(figures.modified.unwrap_or(0));
    counters.documents_deleted.add(figures.deleted.unwrap_or(0));
    counters.write_conflicts.add(figures.write_conflicts);
    counters.scan_and_order.add(u64::from(figures.has_sort_stage));
    op.instance.catalog.lock_waits().count(op.client.locks());
    let what = Use::for_command(command.name);
    if what == Use::Commands {
        counters.operations.commands.add(1);
    }
    if let Some(collection) = &op.collection {
        collection.usage().add(what, command.kind, latency.work_us);
    } else if !figures.namespace.is_empty()
        && let Some(collection) = op.instance.catalog.get(&figures.namespace)
    {
        collection.usage().add(what, command.kind, latency.work_us);
    }
    if op.instance.profiler.may_care(latency.command_us) {
        report(op, request, finished, latency);
    }
}

/// The description of an operation, in the log and in the profile.
struct OperationDescription<'a> {
    what: Use,
    /// Whether it is a single write, which mongod logs under WRITE with the write itself in place of the command.
    single: bool,
    namespace: String,
    command: Document,
    cut: Document,
    command_bytes: usize,
    finished: &'a Completion<'a>,
    legacy: bool,
    micros: u64,
}

/// The descriptions of an operation that are logged and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReportChoice {
    /// The time by which the operation itself is judged.
    own_us: u64,
    own: ProfileDecision,
    /// Whether the command of a single write is logged in its place, because only the wait for the write concern was long.
    logs_command: bool,
}

impl ReportChoice {
    /// A single write is judged by the time of its work.
    fn new(profiler: &Profiler, database: &str, is_single: bool, latency: Latency) -> ReportChoice {
        let own_us = if is_single { latency.work_us } else { latency.command_us };
        let own = profiler.judge(database, own_us);
        let logs_command = !profiler.is_slow(own_us) && profiler.judge(database, latency.command_us).log;
        ReportChoice { own_us, own, logs_command }
    }
}

/// Logs and records an operation that ended, as the settings require.
#[cold]
fn report(op: &mut OperationContext<'_>, request: &Request<'_>, finished: &Completion<'_>, latency: Latency) {
    let single = single_write(Use::for_command(request.command.name), request);
    let choice = ReportChoice::new(&op.instance.profiler, request.database, single.is_some(), latency);
    if choice.own.log || choice.own.profile {
        let report = OperationDescription::new(op, request, finished, single, choice.own_us);
        if choice.own.log {
            report.log(op);
        }
        if choice.own.profile {
            keep(op, request.database, &report.entry(op));
        }
    }
    if choice.logs_command {
        OperationDescription::new(op, request, finished, None, latency.command_us).log(op);
    }
}

impl<'a> OperationDescription<'a> {
    fn new(
        op: &OperationContext<'_>,
        request: &Request<'_>,
        finished: &'a Completion<'a>,
        single: Option<&RawDocument>,
        micros: u64,
    ) -> OperationDescription<'a> {
        let what = Use::for_command(request.command.name);
        let shown = if request.command.secret { None } else { Some(single.unwrap_or(request.body())) };
        let (command, cut) = match shown {
            Some(shown) => shorten(shown),
            None => (doc! { request.command.name: 1, "$db": request.database }, Document::new()),
        };
        let namespace = match op.figures.namespace.as_str() {
            "" => format!("{}.$cmd", request.database),
            namespace => namespace.to_owned(),
        };
        OperationDescription {
            what,
            single: single.is_some(),
            namespace,
            command,
            cut,
            command_bytes: shown.map_or(0, |shown| shown.as_bytes().len()),
            finished,
            legacy: request.is_legacy(),
            micros,
        }
    }

    fn log(&self, op: &OperationContext<'_>) {
        let component = if self.single { "WRITE" } else { "COMMAND" };
        let context = format!("conn{}", op.client.id);
        let attributes = self.attributes(op);
        op.instance.log.write(LogSeverity::Info, component, 51803, &context, "Slow query", attributes);
    }

    /// The attributes of the line in the log.
    fn attributes(&self, op: &OperationContext<'_>) -> Document {
        let mut out = doc! {
            "type": if self.single { self.what.name() } else { "command" },
            "ns": &self.namespace,
        };
        if let Some(name) = op.client.app_name() {
            out.insert("appName", name);
        }
        out.insert("command", self.command.clone());
        add_originating(op, &mut out);
        if let Some(plan) = &op.figures.plan {
            out.insert("planSummary", plan.as_ref());
        }
        add_figures(op, &mut out);
        out.insert("numYields", 0);
        self.add_failure(&mut out);
        out.insert("reslen", self.reply_bytes());
        out.insert("locks", op.client.locks().statistics());
        out.insert("storage", storage(op));
        let waited_ms = micros(op.waits.acknowledgement) / 1000;
        if waited_ms > 0 && !self.single {
            out.insert("waitForWriteConcernDurationMillis", signed(waited_ms));
        }
        out.insert("remote", &op.client.remote);
        out.insert("protocol", self.protocol());
        out.insert("durationMillis", signed(self.micros / 1000));
        if !self.cut.is_empty() {
            out.insert("truncated", doc! { "command": self.cut.clone() });
            out.insert("size", doc! { "command": i64::try_from(self.command_bytes).unwrap_or(i64::MAX) });
        }
        out
    }

    /// The document of `system.profile`.
    fn entry(&self, op: &OperationContext<'_>) -> Document {
        let mut out = doc! { "op": self.what.name(), "ns": &self.namespace, "command": self.command.clone() };
        add_originating(op, &mut out);
        add_figures(op, &mut out);
        out.insert("numYield", 0);
        self.add_failure(&mut out);
        out.insert("locks", op.client.locks().statistics());
        out.insert("storage", storage(op));
        out.insert("responseLength", self.reply_bytes());
        out.insert("protocol", self.protocol());
        out.insert("millis", signed(self.micros / 1000));
        if let Some(plan) = &op.figures.plan {
            out.insert("planSummary", plan.as_ref());
        }
        out.insert("ts", DateTime::now());
        let client = op.client.remote.rsplit_once(':').map_or(op.client.remote.as_str(), |(host, _)| host);
        out.insert("client", client);
        if let Some(name) = op.client.app_name() {
            out.insert("appName", name);
        }
        let users = op.client.users();
        let user = users.first().map(|(user, database)| format!("{user}@{database}")).unwrap_or_default();
        let all: Vec<Document> =
            users.into_iter().map(|(user, db)| doc! { "user": user, "db": db }).collect();
        out.insert("allUsers", all);
        out.insert("user", user);
        out
    }

    fn add_failure(&self, out: &mut Document) {
        if let Some(failure) = self.finished.failure {
            out.insert("ok", 0);
            out.insert("errMsg", failure.message());
            out.insert("errName", failure.code().name().to_string());
            out.insert("errCode", failure.code().0);
        }
    }

    fn reply_bytes(&self) -> i64 {
        let around = if self.legacy { LEGACY_BYTES } else { MESSAGE_BYTES };
        i64::try_from(self.finished.reply_bytes + around).unwrap_or(i64::MAX)
    }

    fn protocol(&self) -> &'static str {
        if self.legacy { "op_query" } else { "op_msg" }
    }
}

/// The single write of an `update` or `delete` that has only one.
fn single_write<'r>(what: Use, request: &Request<'r>) -> Option<&'r RawDocument> {
    let field = match what {
        Use::Update => "updates",
        Use::Remove => "deletes",
        _ => return None,
    };
    let items = request.documents(field).ok()?;
    if items.len() == 1 { items.into_iter().next() } else { None }
}

/// Keeps as many fields of a command as fit; also returns the types and sizes of the others.
fn shorten(command: &RawDocument) -> (Document, Document) {
    let (mut shown, mut cut) = (Document::new(), Document::new());
    let mut left = MAX_SHOWN_BYTES;
    for element in command.iter_elements().flatten() {
        let size = element.size();
        match (left.checked_sub(size), element.value().ok().and_then(|value| Bson::try_from(value).ok())) {
            (Some(rest), Some(value)) => {
                left = rest;
                shown.insert(element.key().as_str(), value);
            }
            (_, value) => {
                let kind = value.map_or("invalid", |value| type_of(&value));
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                cut.insert(element.key().as_str(), doc! { "type": kind, "size": size });
            }
        }
    }
    (shown, cut)
}

fn type_of(value: &Bson) -> &'static str {
    match value {
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::String(_) => "string",
        Bson::Binary(_) => "binData",
        _ => "other",
    }
}

fn add_originating(op: &OperationContext<'_>, out: &mut Document) {
    let resting = || op.instance.cursors.originating(op.figures.cursor_id);
    if op.figures.cursor_id != 0
        && let Some(command) = op.originating.clone().or_else(resting)
        && !command.is_empty()
    {
        out.insert("originatingCommand", shorten(&command).0);
    }
}

fn add_figures(op: &OperationContext<'_>, out: &mut Document) {
    let figures = &op.figures;
    if figures.cursor_id != 0 {
        out.insert("cursorid", figures.cursor_id);
    }
    // An operation that examines nothing by its nature does not report zeros.
    if figures.plan.is_some() || figures.keys_examined + figures.docs_examined > 0 {
        out.insert("keysExamined", signed(figures.keys_examined));
        out.insert("docsExamined", signed(figures.docs_examined));
    }
    let flags = [
        ("hasSortStage", figures.has_sort_stage),
        ("cursorExhausted", figures.cursor_exhausted),
        ("upsert", figures.upserted),
    ];
    flags.iter().filter(|(_, value)| *value).for_each(|(name, value)| {
        out.insert(*name, *value);
    });
    let some = |value: u64| Some(value).filter(|value| *value > 0);
    let counts = [
        ("nMatched", figures.matched),
        ("nModified", figures.modified),
        ("ninserted", figures.inserted),
        ("ndeleted", figures.deleted),
        ("keysInserted", some(figures.keys_inserted)),
        ("writeConflicts", some(figures.write_conflicts)),
        ("nreturned", figures.returned),
    ];
    for (name, value) in counts {
        if let Some(value) = value {
            out.insert(name, signed(value));
        }
    }
}

/// Reads and writes of the engine for the operation, under mongod's names; empty without any.
fn storage(op: &OperationContext<'_>) -> Document {
    let mut out = Document::new();
    for one in op.session().operation_statistics().iter() {
        let section = out.entry(one.section.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
        if let Bson::Document(section) = section {
            section.insert(one.name, one.value);
        }
    }
    out
}

/// Adds an entry to the database's profile collection, which is made if it does not exist. A failure is logged, since the
/// operation itself has ended long ago.
fn keep(op: &OperationContext<'_>, database: &str, entry: &Document) {
    let namespace = format!("{database}.{PROFILE}");
    let mut write = OperationContext::new(op.instance, op.session(), op.client);
    let result = prepare_profile(op.instance, database).and_then(|()| {
        let entry = crate::parse::raw_of(entry)?;
        let entries: [&RawDocument; 1] = [&entry];
        let (_, failures) =
            crate::execution::insert_documents(&mut write, &namespace, &entries, true, false)?;
        failures.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))
    });
    if let Err(failure) = result {
        let attributes = doc! { "namespace": namespace, "error": failure.message() };
        let context = format!("conn{}", op.client.id);
        op.instance.log.warning("COMMAND", 20704, &context, "an operation could not be profiled", attributes);
    }
}

/// Makes the profile collection of a database if it does not exist.
pub(crate) fn prepare_profile(instance: &Arc<Instance>, database: &str) -> crate::Result<()> {
    let namespace = format!("{database}.{PROFILE}");
    if instance.catalog.get(&namespace).is_some() {
        return Ok(());
    }
    let options = CollectionOptions { document: doc! { "capped": true, "size": PROFILE_BYTES } };
    match instance.catalog.create(&namespace, options) {
        Err(failure) if failure.code() != fathom_query::Code::NamespaceExists => Err(failure),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_single_write_that_only_waited_is_logged_as_its_command_and_not_profiled() {
        let profiler = Profiler::new(&Config { slow_ms: 100, ..Config::default() });
        profiler.set_level("test", 1);
        let choice = |is_single: bool, work_ms: u64, command_ms: u64| {
            let latency = Latency { command_us: 1000 * command_ms, work_us: 1000 * work_ms };
            let choice = ReportChoice::new(&profiler, "test", is_single, latency);
            (choice.own_us / 1000, choice.own.log, choice.own.profile, choice.logs_command)
        };
        assert_eq!(choice(true, 3, 163), (3, false, false, true));
        assert_eq!(choice(true, 120, 163), (120, true, true, false));
        assert_eq!(choice(false, 3, 163), (163, true, true, false));
        assert_eq!(choice(true, 3, 4), (3, false, false, false));
    }

    #[test]
    fn a_wait_for_data_is_in_no_latency_and_one_for_the_write_concern_in_the_commands_alone() {
        let latency = |elapsed_ms: u64, data_ms: u64, acknowledgement_ms: u64| {
            let waits = OutsideWaits {
                data: Duration::from_millis(data_ms),
                acknowledgement: Duration::from_millis(acknowledgement_ms),
            };
            let Latency { command_us, work_us } = Latency::new(Duration::from_millis(elapsed_ms), waits);
            (command_us, work_us)
        };
        assert_eq!(latency(5, 0, 0), (5000, 5000));
        assert_eq!(latency(1002, 1000, 0), (2000, 2000));
        assert_eq!(latency(163, 0, 160), (163_000, 3000));
        // Clocks that are read at different moments never make a time of less than nothing.
        assert_eq!(latency(10, 11, 12), (0, 0));
    }
}
