//! Reduces what `$currentOp` shows of running operations to groups of alike ones: kind, namespace, shape, plan, wait and client.
//!
//! No value of a command is kept, only its shape. Operations that wait for news by design are left out, and so are those of
//! the monitoring itself. Sources of the fields: mongodb/docs, "$currentOp (aggregation stage)", and replies of a mongod 4.0.3.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_record::OperationGroup;

use super::shown_client::{ShownClient, client_words, number, operation_number, text_at};
use crate::log::{named_shape, plan_shape};

/// The number of groups that are kept of one reading, and of connections of each.
const MAX_GROUPS: usize = 12;
const MAX_CONNECTIONS: usize = 64;
/// Commands that wait for a change by design, or that monitoring sends once a second.
const IDLE: [&str; 9] = [
    "hello",
    "isMaster",
    "ismaster",
    "currentOp",
    "ping",
    "serverStatus",
    "replSetUpdatePosition",
    "replSetHeartbeat",
    "top",
];

/// The running operations of one reply.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RunningOperations {
    pub(super) groups: Vec<OperationGroup>,
    /// The number of operations that no group lists.
    pub(super) unlisted: u64,
}

/// The groups of a reply to `aggregate` or to the command `currentOp`.
pub(super) fn running_operations(reply: &RawDocument) -> RunningOperations {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let Ok(operations) = batch.or_else(|_| reply.get_array("inprog")) else {
        return RunningOperations::default();
    };
    let read = |value: RawBsonRef<'_>| Document::try_from(value.as_document()?).ok();
    grouped(operations.into_iter().flatten().filter_map(read).filter_map(|one| operation(&one)))
}

/// Adds alike operations up, and keeps the groups with the longest time.
fn grouped(operations: impl Iterator<Item = OperationGroup>) -> RunningOperations {
    let mut groups: BTreeMap<[Option<String>; 9], OperationGroup> = BTreeMap::new();
    for one in operations {
        let key = key(&one);
        let Some(group) = groups.get_mut(&key) else {
            groups.insert(key, one);
            continue;
        };
        if one.longest_us > group.longest_us {
            (group.longest_us, group.longest_operation) = (one.longest_us, one.longest_operation);
            group.progress = one.progress;
        }
        group.count += one.count;
        group.running_us = group.running_us.saturating_add(one.running_us);
        let free = MAX_CONNECTIONS.saturating_sub(group.connections.len());
        group.connections.extend(one.connections.into_iter().take(free));
    }
    let mut groups: Vec<OperationGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.running_us));
    let unlisted = groups.iter().skip(MAX_GROUPS).map(|group| group.count).sum();
    groups.truncate(MAX_GROUPS);
    RunningOperations { groups, unlisted }
}

/// The facts that are the same of all operations of a group.
fn key(one: &OperationGroup) -> [Option<String>; 9] {
    let OperationGroup { kind, namespace, shape, plan, wait, phase, application, driver, client, .. } =
        one.clone();
    [Some(kind), Some(namespace), Some(shape), plan, wait, phase, application, driver, client]
}

/// One operation as a group of its own; `None` for one that is idle, or that has no namespace.
fn operation(one: &Document) -> Option<OperationGroup> {
    let text = |name: &str| one.get_str(name).ok();
    if one.get_bool("active").is_ok_and(|is_active| !is_active) {
        return None;
    }
    let command = CommandText::of(one.get("command").or_else(|| one.get("query"))?)?;
    let origin = one.get_document("cursor").ok().and_then(|cursor| cursor.get("originatingCommand"));
    let origin = origin.or_else(|| one.get("originatingCommand")).and_then(CommandText::of);
    if is_idle(one, &command, origin.as_ref()) {
        return None;
    }
    let written = command.name().filter(|name| !matches!(*name, "q" | "u"));
    let name = written.or_else(|| text("op"))?;
    let origin_text = origin.as_ref().map(|origin| origin.text.as_str()).unwrap_or_default();
    let (kind, shape) = named_shape(name, &command.text, origin_text);
    let running_us = number(one, "microsecs_running")
        .or_else(|| Some(number(one, "secs_running")?.saturating_mul(1_000_000)))
        .unwrap_or(0);
    let ShownClient { application, driver, host, connection } = ShownClient::of(one);
    Some(OperationGroup {
        kind,
        namespace: namespace(text("ns").unwrap_or_default(), &command)?,
        shape,
        plan: text("planSummary").map(plan_shape).filter(|plan| !plan.is_empty()),
        wait: wait(one),
        phase: text("msg").and_then(phase),
        progress: progress(one),
        application,
        driver,
        client: host,
        count: 1,
        running_us,
        longest_us: running_us,
        longest_operation: operation_number(one),
        connections: connection.into_iter().collect(),
    })
}

/// A command as text. Long ones come as text that is cut.
struct CommandText {
    text: String,
    /// The first field's name and value.
    first: Option<(String, Option<String>)>,
    is_tailable: bool,
}

impl CommandText {
    fn of(command: &Bson) -> Option<CommandText> {
        let cut = match command {
            Bson::String(text) => Some(text.as_str()),
            // The lab server names the fields that it leaves out, in a field of the same name.
            Bson::Document(document) => {
                document.get_str("$truncated").ok().filter(|text| text.starts_with('{'))
            }
            _ => return None,
        };
        if let Some(text) = cut {
            return Some(CommandText {
                text: text.to_owned(),
                first: first_field(text),
                is_tailable: text.contains("awaitData: true") || text.contains("\"awaitData\":true"),
            });
        }
        let document = command.as_document()?;
        let (name, value) = document.iter().next()?;
        let first_stage =
            document.get_array("pipeline").ok().and_then(|stages| stages.first()?.as_document());
        let is_stream = first_stage.is_some_and(|stage| stage.contains_key("$changeStream"));
        Some(CommandText {
            text: json_text(command),
            first: Some((name.clone(), value.as_str().map(str::to_owned))),
            is_tailable: is_stream || document.get_bool("awaitData").unwrap_or(false),
        })
    }

    fn name(&self) -> Option<&str> {
        let (name, _) = self.first.as_ref()?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then_some(name.as_str())
    }

    /// The collection that the first field names.
    fn collection(&self) -> Option<&str> {
        self.first.as_ref()?.1.as_deref()
    }
}

/// A value as JSON in its own order of fields, which is a part of the shape of a sort. Values that no shape shows are `null`.
fn json_text(value: &Bson) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let list = |parts: Vec<String>| parts.join(",");
    match value {
        Bson::Document(fields) => {
            let field = |(name, value): (&String, &Bson)| format!("{}:{}", quoted(name), json_text(value));
            format!("{{{}}}", list(fields.iter().map(field).collect()))
        }
        Bson::Array(values) => format!("[{}]", list(values.iter().map(json_text).collect())),
        Bson::String(text) => quoted(text),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) => number.to_string(),
        _ => "null".to_owned(),
    }
}

/// The first field of a cut text, `{ find: "c", ...` or `{"find":"c",...`.
fn first_field(text: &str) -> Option<(String, Option<String>)> {
    let (name, rest) = text.trim_start().strip_prefix('{')?.split_once(':')?;
    let value = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
    Some((name.trim().trim_matches('"').to_owned(), value.map(|(value, _)| value.to_owned())))
}

/// Returns whether an operation waits for news by design or is of the monitoring itself.
fn is_idle(one: &Document, command: &CommandText, origin: Option<&CommandText>) -> bool {
    let name = command.name().unwrap_or_default();
    let is_waiting =
        one.get_document("cursor").is_ok_and(|cursor| cursor.get_bool("awaitData").unwrap_or(false));
    let is_stage = |stage: &str| name == "aggregate" && command.text.contains(stage);
    is_waiting
        || IDLE.contains(&name)
        || is_stage("$currentOp")
        || is_stage("$collStats")
        || command.is_tailable
        || origin.is_some_and(|origin| origin.is_tailable)
        || one.get_str("op").is_ok_and(|op| op == "none")
        || one.get_str("ns").is_ok_and(|namespace| namespace == "local.oplog.rs" && name == "getMore")
}

/// The namespace. While a command waits for its first lock, its namespace is still `db.$cmd`, and the command names the collection.
fn namespace(shown: &str, command: &CommandText) -> Option<String> {
    let (database, collection) = shown.split_once('.')?;
    // `distinct` and others name a collection; the first field of others may hold anything.
    const OF_COLLECTIONS: [&str; 14] = [
        "find",
        "insert",
        "update",
        "delete",
        "aggregate",
        "count",
        "distinct",
        "findAndModify",
        "findandmodify",
        "createIndexes",
        "dropIndexes",
        "drop",
        "collMod",
        "mapReduce",
    ];
    let named = command.name().filter(|name| OF_COLLECTIONS.contains(name)).and(command.collection());
    match named.filter(|_| collection.starts_with("$cmd")) {
        Some(named) => Some(format!("{database}.{named}")),
        None => Some(shown.to_owned()),
    }
}

/// The lock, queue or limit that an operation waits for.
fn wait(one: &Document) -> Option<String> {
    let is = |name: &str| one.get_bool(name).unwrap_or(false);
    if is("waitingForFlowControl") {
        return Some("flow control".to_owned());
    }
    if let Some(queue) = text_at(one, &["currentQueue"], "name") {
        return Some(format!("queue {}", client_words(queue)));
    }
    if !is("waitingForLock") {
        return one.contains_key("waitingForLatch").then(|| "latch".to_owned());
    }
    // Locks are taken from the outermost on, so the one that is waited for is the last with a wait.
    let waited = one.get_document("lockStats").ok().and_then(|locks| {
        let waits = |(name, lock): (&String, &Bson)| {
            lock.as_document()?.contains_key("acquireWaitCount").then(|| name.clone())
        };
        locks.iter().filter_map(waits).last()
    });
    let last = || one.get_document("locks").ok()?.keys().last().cloned();
    Some(match waited.or_else(last) {
        Some(resource) => format!("lock {}", client_words(&resource)),
        None => "lock".to_owned(),
    })
}

/// The words of a message before its counts: `Index Build` of `Index Build Index Build: 78198/300000 26%`.
fn phase(message: &str) -> Option<String> {
    let words = message.rsplit_once(": ").map_or(message, |(words, rest)| {
        if rest.starts_with(|c: char| c.is_ascii_digit()) { words } else { message }
    });
    // Some versions say the same twice.
    let half = words.len() / 2;
    let twice = words.get(..half).zip(words.get(half + 1..)).filter(|(first, second)| first == second);
    let words = twice.map_or(words, |(first, _)| first);
    (!words.is_empty()).then(|| client_words(words))
}

fn progress(one: &Document) -> Option<(u64, u64)> {
    let progress = one.get_document("progress").ok()?;
    Some((number(progress, "done")?, number(progress, "total")?)).filter(|(_, total)| *total > 0)
}

#[cfg(test)]
#[path = "current_operations_tests.rs"]
mod tests;
