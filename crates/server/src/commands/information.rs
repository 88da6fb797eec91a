//! Commands that describe the server: `hello` for drivers; its version, machine, commands, options, log and connections for administrators.

use bson::{Bson, DateTime, Document, RawBsonRef};
use fathom_query::{Code, Failure};
use fathom_wire::limits::{MAX_DOCUMENT_BYTES, MAX_MESSAGE_BYTES, MAX_WRITE_BATCH};

use super::Reply;
use crate::Result;
use crate::auth::Conversation;
use crate::config::{EngineName, version};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::replica_set::majority_of;
use crate::request::{CommandAccess, Request};

/// The maximum length of a driver's description of itself, in bytes, as in mongod.
const MAX_METADATA_BYTES: usize = 512;

/// `hello` and `isMaster`: describe this server and its limits, and take the driver's description of itself.
pub(super) fn hello(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    note_client(op, request)?;
    if parse::boolean(request.fields, "helloOk")? {
        reply.bool("helloOk", true);
    }
    let old_name = request
        .body()
        .iter()
        .next()
        .transpose()
        .ok()
        .flatten()
        .is_some_and(|(name, _)| name.as_str() != "hello");
    let primary = if old_name { "ismaster" } else { "isWritablePrimary" };
    match &op.instance.set {
        None => reply.bool(primary, true),
        Some(set) => reply.extend(&set.ask(|one| one.hello_fields(primary, majority_of(one)))),
    }
    if op.instance.config.cluster_role == crate::ClusterRole::Config {
        reply.i32("configsvr", 2);
    }
    reply.i32("maxBsonObjectSize", max_document_bytes());
    reply.i32("maxMessageSizeBytes", i32::try_from(MAX_MESSAGE_BYTES).unwrap_or(i32::MAX));
    reply.i32("maxWriteBatchSize", i32::try_from(MAX_WRITE_BATCH).unwrap_or(i32::MAX));
    reply.date_time("localTime", DateTime::now());
    reply.i32("logicalSessionTimeoutMinutes", crate::sessions::TIMEOUT_MINUTES);
    reply.i32("connectionId", i32::try_from(op.client.id).unwrap_or(i32::MAX));
    reply.i32("minWireVersion", 0);
    reply.i32("maxWireVersion", op.instance.parameters.max_wire_version());
    reply.bool("readOnly", false);
    write_compression(op, request, reply)?;
    if let Some(user) = parse::string(request.fields, "saslSupportedMechs")? {
        crate::auth::write_mechanisms(op, user, reply)?;
    }
    if let Some(login) = parse::document(request.fields, "speculativeAuthenticate")? {
        crate::auth::speculate(op, login, conversation, reply)?;
    }
    Ok(())
}

/// The maximum size of a document, as replies give it.
pub(super) fn max_document_bytes() -> i32 {
    i32::try_from(MAX_DOCUMENT_BYTES).unwrap_or(i32::MAX)
}

fn note_client(op: &OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    let Some(metadata) = parse::document(request.fields, "client")? else { return Ok(()) };
    if metadata.as_bytes().len() > MAX_METADATA_BYTES {
        let what =
            format!("The client metadata document must be less then or equal to {MAX_METADATA_BYTES} bytes");
        return Err(Failure::new(Code::ClientMetadataDocumentTooLarge, what));
    }
    if !op.client.set_metadata(parse::owned(metadata)?) {
        let what = "The client metadata document may only be sent in the first hello";
        return Err(Failure::new(Code::ClientMetadataCannotBeMutated, what));
    }
    op.instance.log.info(
        "NETWORK",
        51800,
        &format!("conn{}", op.client.id),
        "client metadata",
        bson::doc! {
            "remote": &op.client.remote,
            "client": format!("conn{}", op.client.id),
            "doc": op.client.metadata().unwrap_or_default(),
        },
    );
    Ok(())
}

/// Writes the compressors that both sides support, in the client's order.
fn write_compression(op: &OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let wanted = match request.field("compression") {
        None => return Ok(()),
        Some(RawBsonRef::Array(wanted)) => wanted,
        Some(other) => return Err(parse::wrong_type("compression", other, "array")),
    };
    let ours = &op.instance.config.net.compressors;
    let mut both = Vec::new();
    for name in wanted {
        match name.map_err(|error| parse::malformed(&error))? {
            RawBsonRef::String(name) if ours.iter().any(|one| one == name) => both.push(name),
            _ => {}
        }
    }
    if !both.is_empty() {
        let mut array = reply.begin_array("compression");
        both.iter().for_each(|name| array.string(name));
    }
    Ok(())
}

/// `ping`: replies that the server answers.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn ping(
    _op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    Ok(())
}

/// `buildInfo`: the version that clients should assume, and the available engines.
///
/// `version` is the claimed version; `fathom` names the program that really answers.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn build_info(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    version::write_build_info(&op.instance.config.claimed_version, reply);
    let mut environment = reply.begin_document("buildEnvironment");
    environment.string("target_arch", std::env::consts::ARCH);
    environment.string("target_os", std::env::consts::OS);
    environment.end();
    reply.i32("bits", 64);
    reply.bool("debug", cfg!(debug_assertions));
    reply.i32("maxBsonObjectSize", max_document_bytes());
    let mut engines = reply.begin_array("storageEngines");
    [EngineName::Ephemeral, EngineName::RocksDb, EngineName::WiredTiger]
        .iter()
        .for_each(|engine| engines.string(engine.as_str()));
    engines.end();
    let mut ours = reply.begin_document("fathom");
    ours.string("version", env!("CARGO_PKG_VERSION"));
    ours.string("engineVersion", &op.instance.engine.version());
    ours.end();
    Ok(())
}

/// `hostInfo`: the machine, its system and its limits.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn host_info(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::diagnostics::host_info::write(op.instance, reply);
    Ok(())
}

/// `listCommands`: all commands of this server, without those that it refuses.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn list_commands(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut commands = reply.begin_document("commands");
    for command in
        op.instance.commands.all().iter().filter(|command| !super::refused::is_refused(command.name))
    {
        let mut about = commands.begin_document(command.name);
        about.string("help", command.help);
        about.bool("requiresAuth", command.rules.access != CommandAccess::Nobody);
        about.bool("secondaryOk", true);
        about.bool("adminOnly", command.admin_only);
    }
    Ok(())
}

/// `getCmdLineOpts`: the command line as typed, and the options as parsed.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn command_line(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let config = &op.instance.config;
    let mut argv = reply.begin_array("argv");
    config.argv.iter().for_each(|word| argv.string(word));
    argv.end();
    let parsed: Document = config.parsed.clone().into_iter().collect();
    reply.bson("parsed", &Bson::Document(parsed));
    Ok(())
}

static LOGS: [&str; 2] = ["global", "startupWarnings"];

/// `getLog`: the last lines of the log, or the startup warnings.
pub(super) fn log(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::String(name) = request.target else {
        let found = crate::parse::type_name(request.target);
        let what = format!("Argument to getLog must be of type String; found a value of type {found}");
        return Err(Failure::new(Code::TypeMismatch, what));
    };
    if name == "*" {
        let mut names = reply.begin_array("names");
        LOGS.iter().for_each(|name| names.string(name));
        return Ok(());
    }
    let (lines, total) = match name {
        "global" => op.instance.log.recent(),
        "startupWarnings" => {
            let lines = op.instance.log.startup_warnings();
            let total = u64::try_from(lines.len()).unwrap_or(u64::MAX);
            (lines, total)
        }
        _ => return Err(Failure::new(Code::OperationFailed, format!("no RamLog named: {name}"))),
    };
    reply.i32("totalLinesWritten", i32::try_from(total).unwrap_or(i32::MAX));
    let mut log = reply.begin_array("log");
    lines.iter().for_each(|line| log.string(line));
    Ok(())
}

/// `connPoolStats`: connections to other servers. A standalone server has none, which the zeros express.
///
/// Writes zeros, since no pools exist.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn pools(
    _op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    for name in
        ["numClientConnections", "numAScopedConnections", "totalInUse", "totalAvailable", "totalCreated"]
    {
        reply.i32(name, 0);
    }
    for name in ["pools", "hosts", "replicaSets"] {
        reply.begin_document(name).end();
    }
    Ok(())
}
