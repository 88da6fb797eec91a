//! What the router says of itself: `buildInfo`, `getCmdLineOpts`, `getLog`, `getParameter`, `listCommands` and their like.

use bson::{Bson, RawBsonRef, doc};
use fathom_service::{parse, version};
use fathom_wire::limits::MAX_DOCUMENT_BYTES;
use fathom_wire::{Code, Failure};

use super::{COMMANDS, Reply};
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// `ping`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn ping(_: Operation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    Ok(())
}

/// `buildInfo`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn build_info(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let claimed = &op.instance.config.claimed_version;
    reply.string("version", claimed);
    reply.string("gitVersion", concat!("fathom-", env!("CARGO_PKG_VERSION")));
    reply.begin_array("modules").end();
    reply.string("allocator", "system");
    reply.string("javascriptEngine", "none");
    reply.string("sysInfo", "deprecated");
    let mut numbers = reply.begin_array("versionArray");
    version::numbers(claimed).into_iter().for_each(|number| numbers.i32(number));
    numbers.end();
    let none = doc! { "running": "disabled", "compiled": "disabled" };
    reply.bson("openssl", &Bson::Document(none));
    let environment = doc! { "target_arch": std::env::consts::ARCH, "target_os": std::env::consts::OS };
    reply.bson("buildEnvironment", &Bson::Document(environment));
    reply.i32("bits", 64);
    reply.bool("debug", cfg!(debug_assertions));
    reply.i32("maxBsonObjectSize", i32::try_from(MAX_DOCUMENT_BYTES).unwrap_or(i32::MAX));
    reply.begin_array("storageEngines").end();
    reply.bson("fathom", &Bson::Document(doc! { "version": env!("CARGO_PKG_VERSION") }));
    Ok(())
}

/// `getCmdLineOpts`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn command_line(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut argv = reply.begin_array("argv");
    op.instance.config.argv.iter().for_each(|word| argv.string(word));
    argv.end();
    let mut parsed = reply.begin_document("parsed");
    op.instance.config.parsed.iter().for_each(|(name, value)| parsed.bson(name, value));
    Ok(())
}

/// `getLog`.
pub(super) fn log(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `getParameter`: the few that the router has.
pub(super) fn parameter(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `listCommands`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn commands(_: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut all = reply.begin_document("commands");
    for command in COMMANDS.iter() {
        let mut one = all.begin_document(command.name);
        one.string("help", command.help);
        one.bool("adminOnly", command.admin_only);
    }
    Ok(())
}

/// `whatsmyuri`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn own_address(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.string("you", &op.client.remote);
    Ok(())
}

/// `connectionStatus`: nobody, since the router knows no users.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn connection(_: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut info = reply.begin_document("authInfo");
    info.begin_array("authenticatedUsers").end();
    info.begin_array("authenticatedUserRoles").end();
    Ok(())
}

/// `connPoolStats`: connections to the shards.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn pools(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `isdbgrid`: that it is one.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn is_router(op: Operation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.i32("isdbgrid", 1);
    reply.string("hostname", &op.instance.name());
    Ok(())
}

/// `logRotate`.
pub(super) fn rotate_log(op: Operation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    op.instance.log.rotate().map_err(Failure::from)
}

/// `setParameter`: `logLevel` and `quiet`.
pub(super) fn set_parameter(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `shutdown`.
pub(super) fn shutdown(op: Operation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let local = op.client.remote.parse::<std::net::SocketAddr>().is_ok_and(|peer| peer.ip().is_loopback());
    if !local {
        let what = "shutdown must run from localhost when running db without auth";
        return Err(Failure::new(Code::Unauthorized, what));
    }
    // The reply goes out first: connections end only after their command.
    let _ = request;
    op.instance.stop();
    Ok(())
}
