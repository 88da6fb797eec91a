//! The pipeline stages that report on the server itself: `$collStats`, `$indexStats`, `$currentOp`.
//!
//! They return whole documents; the caller checks that the stage comes first and that the client may see its output.
//!
//! The commands `currentOp` and `killOp` use the functions on current operations too.

use std::time::Instant;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, doc};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::client::{Activity, Client, OperationProgress};
use crate::config::version;
use crate::instance::Instance;
use crate::request::CommandRegistry;
use crate::stats::output::{document, number, signed};
use crate::stats::{Usage, Use};
use crate::storage::Collection;
use crate::storage::collection_stats::{write, write_latencies};

/// The operations that `currentOp` should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageDescription {
    /// Whether idle connections are included.
    pub(crate) idle: bool,
    /// Whether sessions between two operations of a transaction are included, as they are unless a client asks for the others alone.
    pub(crate) idle_sessions: bool,
    /// Whether operations of other users are included; without logins all clients are the same user.
    pub(crate) all_users: bool,
}

impl Default for StageDescription {
    fn default() -> StageDescription {
        StageDescription { idle: false, idle_sessions: true, all_users: false }
    }
}

/// One document for each connection with a running command that `asking` may see.
pub(crate) fn current_operations(
    instance: &Instance,
    asking: &Client,
    shown: StageDescription,
) -> Vec<Document> {
    let users = asking.users();
    let host = instance.host();
    let mut documents = Vec::new();
    let clients = if shown.idle { instance.clients.all() } else { instance.clients.active() };
    for client in clients {
        let activity = client.activity();
        let is_running = activity.since.is_some() && (shown.idle_sessions || activity.idle_since.is_none());
        let wanted = (shown.idle || is_running)
            && (shown.all_users || !instance.config.auth || client.users() == users);
        if wanted {
            documents.push(describe(instance, &client, &activity, &host));
        }
    }
    documents
}

/// Asks the operation with this number to stop; false if no connection runs it.
pub(crate) fn kill_operation(instance: &Instance, asking: &Client, operation: u64, all_users: bool) -> bool {
    let users = asking.users();
    let may = |client: &Client| all_users || !instance.config.auth || client.users() == users;
    let clients = instance.clients.active();
    clients.iter().any(|client| may(client) && client.interrupt(operation, Code::Interrupted))
}

fn describe(instance: &Instance, client: &Client, activity: &Activity, host: &str) -> Document {
    let (kind, desc) = match activity.idle_since {
        Some(_) => ("idleSession", "inactive transaction".to_owned()),
        None => ("op", format!("conn{}", client.id)),
    };
    let mut document = doc! {
        "type": kind,
        "host": host,
        "desc": desc,
        "connectionId": i32::try_from(client.id).unwrap_or(i32::MAX),
        "client": &client.remote,
    };
    if let Some(name) = client.app_name() {
        document.insert("appName", name);
    }
    if let Some(metadata) = client.metadata() {
        document.insert("clientMetadata", metadata);
    }
    let users: Vec<Document> =
        client.users().into_iter().map(|(user, db)| doc! { "user": user, "db": db }).collect();
    if !users.is_empty() {
        document.insert("effectiveUsers", users);
    }
    if let Some((since, idle_since)) = activity.since.zip(activity.idle_since) {
        describe_transaction(&mut document, client, activity, (since, idle_since));
        return document;
    }
    document.insert("active", activity.since.is_some());
    document.insert("currentOpTime", crate::log::time_text(DateTime::now()));
    if let Some(since) = activity.since {
        let elapsed = since.elapsed();
        let micros = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        document.insert("opid", i64::try_from(activity.operation).unwrap_or(i64::MAX));
        describe_session(&mut document, activity);
        document.insert("secs_running", micros / 1_000_000);
        document.insert("microsecs_running", micros);
        describe_command(&mut document, instance.commands, activity);
        describe_waits(&mut document, instance, client, activity);
    }
    document
}

fn describe_session(document: &mut Document, activity: &Activity) {
    let Some(session) = &activity.session else { return };
    let binary = |subtype, bytes: &[u8]| Binary { subtype, bytes: bytes.to_vec() };
    let id = binary(BinarySubtype::Uuid, &session.id);
    let uid = binary(BinarySubtype::Generic, session.owner.bytes());
    document.insert("lsid", doc! { "id": id, "uid": uid });
}

/// A session between two operations of a transaction, as mongod shows it (mongodb/mongo@v4.0:src/mongo/db/session.cpp,
/// `reportStashedState`). It is no operation, so it has neither a number nor a namespace.
fn describe_transaction(
    document: &mut Document,
    client: &Client,
    activity: &Activity,
    (since, idle_since): (Instant, Instant),
) {
    let now = Instant::now();
    let micros =
        |from: Instant| i64::try_from(now.saturating_duration_since(from).as_micros()).unwrap_or(i64::MAX);
    let (open_us, inactive_us) = (micros(since), micros(idle_since));
    describe_session(document, activity);
    let begun_ms = DateTime::now().timestamp_millis().saturating_sub(open_us / 1000);
    document.insert(
        "transaction",
        doc! {
            "parameters": { "txnNumber": 0_i64, "autocommit": false, "readConcern": { "level": "snapshot" } },
            "startWallClockTime": crate::log::time_text(DateTime::from_millis(begun_ms)),
            "timeOpenMicros": open_us,
            "timeActiveMicros": open_us.saturating_sub(inactive_us),
            "timeInactiveMicros": inactive_us,
        },
    );
    document.insert("waitingForLock", false);
    document.insert("active", false);
    document.insert("locks", client.locks().modes());
    document.insert("lockStats", client.locks().statistics());
}

fn describe_command(document: &mut Document, commands: &CommandRegistry, activity: &Activity) {
    let (name, target) = match activity.command.iter().next() {
        Some((name, target)) => (name.as_str(), target.as_str()),
        None => ("", None),
    };
    let command = commands.find(name);
    let operation = Use::for_command(command.map_or("", |command| command.name)).name();
    let collection = match (operation, activity.command.get_str("collection")) {
        ("getmore", Ok(collection)) => collection,
        _ => target.unwrap_or("$cmd"),
    };
    document.insert("op", operation);
    document.insert("ns", format!("{}.{collection}", activity.database));
    let secret = command.is_none_or(|command| command.secret);
    document.insert(
        "command",
        if secret {
            doc! { name: 1 }
        } else {
            activity.command.clone()
        },
    );
    if !activity.plan.is_empty() {
        document.insert("planSummary", &activity.plan);
    }
}

/// The progress of a long operation, and the locks that it holds and waits for.
fn describe_waits(document: &mut Document, instance: &Instance, client: &Client, activity: &Activity) {
    if let Some(OperationProgress { phase, done, total }) = activity.progress {
        // mongod words the phase twice: once for the operation, once for its counter.
        let percent = done.saturating_mul(100) / total.max(done).max(1);
        document.insert("msg", format!("{phase} {phase}: {done}/{total} {percent}%"));
        document.insert("progress", doc! { "done": signed(done), "total": signed(total) });
    }
    document.insert("numYields", 0);
    let locks = client.locks();
    document.insert("locks", locks.modes());
    document.insert("waitingForLock", locks.is_waiting());
    document.insert("lockStats", locks.statistics());
    let [major, minor, ..] = version::numbers(&instance.config.claimed_version);
    if (major, minor) >= (4, 2) {
        document.insert("waitingForFlowControl", false);
        document.insert("flowControlStats", Document::new());
    }
}

/// The document of `$collStats` for a collection by its full name; `options` is the stage's own document.
pub(crate) fn coll_stats_stage(
    instance: &Instance,
    namespace: &str,
    options: &Document,
) -> Result<Vec<Document>> {
    let collection = instance.catalog.get(namespace);
    let one = document(|writer| {
        writer.string("ns", namespace);
        writer.string("host", &instance.host());
        writer.date_time("localTime", DateTime::now());
        for (name, value) in options {
            let options = value.as_document().ok_or_else(|| not_an_object(name, value))?;
            match name.as_str() {
                "latencyStats" => {
                    let histograms = options.get_bool("histograms").unwrap_or(false);
                    let none = Usage::default();
                    let usage = collection.as_ref().map_or(&none, |collection| collection.usage());
                    write_latencies(usage, histograms, &mut writer.begin_document(name));
                }
                "storageStats" => {
                    let scale = scale_of(options.get("scale"))?;
                    let collection = found(collection.as_deref(), namespace, name)?;
                    write(&*instance.engine, collection, scale, &mut writer.begin_document(name))?;
                }
                "count" => number(writer, name, found(collection.as_deref(), namespace, name)?.records()),
                other => {
                    let what = format!("this server does not have {other} of $collStats");
                    return Err(Failure::new(Code::CommandNotSupported, what));
                }
            }
        }
        Ok(())
    })?;
    Ok(vec![one])
}

/// The documents of `$indexStats`: one for each index of a collection by its full name, or none if the collection does not exist.
pub(crate) fn index_stats_stage(instance: &Instance, namespace: &str) -> Vec<Document> {
    let Some(collection) = instance.catalog.get(namespace) else { return Vec::new() };
    let host = instance.host();
    let state = collection.lock();
    let of_index = |index: &std::sync::Arc<crate::storage::Index>| {
        let (uses, since) = index.accesses();
        doc! {
            "name": index.name(),
            "key": index.spec().key().clone(),
            "host": &host,
            "accesses": { "ops": signed(uses), "since": since },
            "spec": index.spec().document().clone(),
        }
    };
    state.indexes.iter().map(of_index).collect()
}

/// The documents of `$currentOp` as `client` may see them; `options` is the stage's own document.
pub(crate) fn current_op_stage(
    instance: &Instance,
    client: &Client,
    options: &Document,
) -> Result<Vec<Document>> {
    let mut shown = StageDescription::default();
    for (name, value) in options {
        let flag = || {
            value.as_bool().ok_or_else(|| {
                let what = format!("The '{name}' parameter of the $currentOp stage must be a boolean value");
                Failure::new(Code::FailedToParse, what)
            })
        };
        match name.as_str() {
            "idleConnections" => shown.idle = flag()?,
            "allUsers" => shown.all_users = flag()?,
            "idleSessions" => shown.idle_sessions = flag()?,
            // This server has no such idle cursors or forwarded operations to show.
            "idleCursors" | "localOps" | "backtrace" | "truncateOps" => {
                flag()?;
            }
            other => {
                let what = format!("Unrecognized option '{other}' in $currentOp stage.");
                return Err(Failure::new(Code::FailedToParse, what));
            }
        }
    }
    Ok(current_operations(instance, client, shown))
}

/// The divisor of sizes; absent means 1.
pub(crate) fn scale_of(value: Option<&Bson>) -> Result<i64> {
    let scale = match value {
        None | Some(Bson::Null) => return Ok(1),
        Some(Bson::Int32(scale)) => i64::from(*scale),
        Some(Bson::Int64(scale)) => *scale,
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast, as mongod reads it")]
        Some(Bson::Double(scale)) => *scale as i64,
        Some(_) => return Err(Failure::new(Code::TypeMismatch, "scale has to be a number")),
    };
    if scale < 1 {
        return Err(Failure::new(Code::BadValue, "scale has to be >= 1"));
    }
    Ok(scale)
}

fn found<'c>(collection: Option<&'c Collection>, namespace: &str, part: &str) -> Result<&'c Collection> {
    collection.ok_or_else(|| {
        let what = format!(
            "Unable to retrieve {part} in $collStats stage :: caused by :: Collection [{namespace}] not found."
        );
        Failure::new(Code::NamespaceNotFound, what)
    })
}

fn not_an_object(name: &str, value: &Bson) -> Failure {
    let what =
        format!("{name} argument must be an object, but got {value} of type {:?}", value.element_type());
    Failure::new(Code(40167), what)
}
