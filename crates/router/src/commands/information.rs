//! Commands that describe the router: `hello` for drivers (mongos-hello.json), and `buildInfo`, `getCmdLineOpts`, `getLog`,
//! `getParameter`, `listCommands` and the like for administrators.

use bson::{Bson, DateTime, RawBsonRef, doc};
use fathom_service::{parse, version};
use fathom_wire::limits::{MAX_DOCUMENT_BYTES, MAX_MESSAGE_BYTES, MAX_WRITE_BATCH};
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::instance::RouterOperation;
use crate::request::Request;

/// The largest size of a driver's metadata, in bytes, as in mongos.
const MAX_METADATA_BYTES: usize = 512;
/// The idle time after which a session ends.
const SESSION_MINUTES: i32 = 30;

/// `hello` and `isMaster`: says that this is a router, and what it accepts (mongos-hello.json).
///
/// Sessions, and with them retryable writes, are offered only if every shard is a replica set, which recognizes a write that is
/// sent twice.
pub(super) fn hello(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    note_client(op, request)?;
    if parse::boolean(request.fields, "helloOk")? {
        reply.bool("helloOk", true);
    }
    let named = request.body().iter().next().and_then(std::result::Result::ok);
    let old_name = named.is_some_and(|(name, _)| name.as_str() != "hello");
    let limit = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    reply.bool(if old_name { "ismaster" } else { "isWritablePrimary" }, true);
    reply.string("msg", "isdbgrid");
    reply.i32("maxBsonObjectSize", limit(MAX_DOCUMENT_BYTES));
    reply.i32("maxMessageSizeBytes", limit(MAX_MESSAGE_BYTES));
    reply.i32("maxWriteBatchSize", limit(MAX_WRITE_BATCH));
    reply.date_time("localTime", DateTime::now());
    if op.instance.cluster.has_sessions() {
        reply.i32("logicalSessionTimeoutMinutes", SESSION_MINUTES);
    }
    reply.i32("connectionId", i32::try_from(op.client.id).unwrap_or(i32::MAX));
    reply.i32("maxWireVersion", version::max_wire_version(&op.instance.config.claimed_version));
    reply.i32("minWireVersion", 0);
    write_compression(op, request, reply)
}

fn note_client(op: RouterOperation<'_>, request: &Request<'_>) -> Result<()> {
    let Some(metadata) = parse::document(request.fields, "client")? else { return Ok(()) };
    if metadata.as_bytes().len() > MAX_METADATA_BYTES {
        let what =
            format!("The client metadata document must be less then or equal to {MAX_METADATA_BYTES} bytes");
        return Err(Failure::new(Code::ClientMetadataDocumentTooLarge, what));
    }
    let metadata = parse::owned(metadata)?;
    if !op.client.set_metadata(metadata.clone()) {
        let what = "The client metadata document may only be sent in the first hello";
        return Err(Failure::new(Code::ClientMetadataCannotBeMutated, what));
    }
    let context = format!("conn{}", op.client.id);
    let attributes = bson::doc! { "remote": &op.client.remote, "client": &context, "doc": metadata };
    op.instance.log.info("NETWORK", 51800, &context, "client metadata", attributes);
    Ok(())
}

/// The compressors that both sides support, in the client's order.
fn write_compression(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let wanted = match request.field("compression") {
        None => return Ok(()),
        Some(RawBsonRef::Array(wanted)) => wanted,
        Some(other) => return Err(parse::wrong_type("compression", other, "array")),
    };
    let ours = &op.instance.config.compressors;
    let both: Vec<&str> = wanted
        .into_iter()
        .flatten()
        .filter_map(RawBsonRef::as_str)
        .filter(|name| ours.iter().any(|one| one == name))
        .collect();
    if !both.is_empty() {
        let mut array = reply.begin_array("compression");
        both.iter().for_each(|name| array.string(name));
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn ping(_: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn build_info(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    version::write_build_info(&op.instance.config.claimed_version, reply);
    let environment = doc! { "target_arch": std::env::consts::ARCH, "target_os": std::env::consts::OS };
    reply.bson("buildEnvironment", &Bson::Document(environment));
    reply.i32("bits", 64);
    reply.bool("debug", cfg!(debug_assertions));
    reply.i32("maxBsonObjectSize", i32::try_from(MAX_DOCUMENT_BYTES).unwrap_or(i32::MAX));
    reply.begin_array("storageEngines").end();
    reply.bson("fathom", &Bson::Document(doc! { "version": env!("CARGO_PKG_VERSION") }));
    Ok(())
}

/// Serves the command `getCmdLineOpts`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn command_line(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut argv = reply.begin_array("argv");
    op.instance.config.argv.iter().for_each(|word| argv.string(word));
    argv.end();
    let mut parsed = reply.begin_document("parsed");
    op.instance.config.parsed.iter().for_each(|(name, value)| parsed.bson(name, value));
    Ok(())
}

pub(super) fn log(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::String(name) = request.target else {
        return Err(Failure::new(Code::TypeMismatch, "Argument to getLog must be of type String"));
    };
    let (lines, total) = match name {
        "*" => {
            let mut names = reply.begin_array("names");
            ["global", "startupWarnings"].iter().for_each(|name| names.string(name));
            return Ok(());
        }
        "global" => op.instance.log.recent(),
        "startupWarnings" => {
            let lines = op.instance.log.startup_warnings();
            let count = lines.len() as u64;
            (lines, count)
        }
        other => {
            return Err(Failure::new(Code::OperationFailed, format!("No log named '{other}'")));
        }
    };
    super::write_number(reply, "totalLinesWritten", i64::try_from(total).unwrap_or(i64::MAX));
    let mut log = reply.begin_array("log");
    lines.iter().for_each(|line| log.string(line));
    Ok(())
}

/// `getParameter`: the few parameters that the router has.
pub(super) fn parameter(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let [major, minor, ..] = version::numbers(&op.instance.config.claimed_version);
    let all = [
        ("featureCompatibilityVersion", Bson::Document(doc! { "version": format!("{major}.{minor}") })),
        ("cursorTimeoutMillis", Bson::Int64(600_000)),
        ("logLevel", Bson::Int32(i32::from(op.instance.log.level()))),
        ("quiet", Bson::Boolean(op.instance.log.is_quiet())),
    ];
    let every = matches!(request.target, RawBsonRef::String("*"));
    let mut found = false;
    for (name, value) in &all {
        if every || request.field(name).is_some() {
            reply.bson(name, value);
            found = true;
        }
    }
    if found { Ok(()) } else { Err(Failure::new(Code::InvalidOptions, "no option found to get")) }
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn commands(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut all = reply.begin_document("commands");
    for command in op.instance.commands.all() {
        let mut one = all.begin_document(command.name);
        one.string("help", command.help);
        one.bool("adminOnly", command.admin_only);
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn own_address(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.string("you", &op.client.remote);
    Ok(())
}

/// `connectionStatus`: reports no user, since the router knows no users.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn connection(_: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut info = reply.begin_document("authInfo");
    info.begin_array("authenticatedUsers").end();
    info.begin_array("authenticatedUserRoles").end();
    Ok(())
}

/// `connPoolStats`: the connections to the shards.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn pools(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let shards = op.instance.cluster.shards().into_iter().map(|shard| shard.backend);
    let backends: Vec<_> = shards.chain([std::sync::Arc::clone(op.instance.cluster.config())]).collect();
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (mut in_use, mut idle, mut made) = (0, 0, 0);
    let mut hosts = reply.begin_document("hosts");
    for backend in backends {
        let (used, rests, opened) = backend.connections();
        (in_use, idle, made) = (in_use + used, idle + rests, made + opened);
        let mut host = hosts.begin_document(&backend.hosts().to_string());
        host.i64("inUse", number(used));
        host.i64("available", number(rests));
        host.i64("created", number(opened));
    }
    hosts.end();
    for (name, value) in [("totalInUse", in_use), ("totalAvailable", idle), ("totalCreated", made)] {
        reply.i64(name, number(value));
    }
    Ok(())
}

/// `isdbgrid`: says that this is a router.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn is_router(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.i32("isdbgrid", 1);
    reply.string("hostname", &op.instance.name());
    Ok(())
}

pub(super) fn rotate_log(op: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    op.instance.log.rotate().map_err(Failure::from)
}

/// `setParameter`: sets `logLevel` and `quiet`.
pub(super) fn set_parameter(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    if let Some(level) = parse::integer(request.fields, "logLevel")? {
        reply.i32("was", i32::from(op.instance.log.level()));
        return op.instance.log.set_verbosity(&doc! { "verbosity": level });
    }
    if request.field("quiet").is_some() {
        reply.bool("was", op.instance.log.is_quiet());
        op.instance.log.set_quiet(parse::boolean(request.fields, "quiet")?);
        return Ok(());
    }
    let what = "attempted to set unrecognized parameter: this router has logLevel and quiet";
    Err(Failure::new(Code::InvalidOptions, what))
}

pub(super) fn shutdown(op: RouterOperation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let local = op.client.remote.parse::<std::net::SocketAddr>().is_ok_and(|peer| peer.ip().is_loopback());
    if !local {
        let what = "shutdown must run from localhost when running db without auth";
        return Err(Failure::new(Code::Unauthorized, what));
    }
    // The reply is sent first: connections end only after their current command.
    let _ = request;
    op.instance.stop();
    Ok(())
}
