//! `hello` and `isMaster`: who this server is, what it takes, and what the driver says of itself.

use bson::{DateTime, RawBsonRef};
use fathom_query::{Code, Failure};
use fathom_wire::limits::{MAX_DOCUMENT_BYTES, MAX_MESSAGE_BYTES, MAX_WRITE_BATCH};

use super::Reply;
use crate::Result;
use crate::auth::Conversation;
use crate::operation::Operation;
use crate::parse;
use crate::replication::majority_of;
use crate::request::Request;

/// The most that a driver may say of itself, in bytes, as in mongod.
const METADATA_BYTES: usize = 512;

/// Says hello.
pub(super) fn run(
    op: &mut Operation<'_>,
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

/// The largest document, as replies say it.
pub(super) fn max_document_bytes() -> i32 {
    i32::try_from(MAX_DOCUMENT_BYTES).unwrap_or(i32::MAX)
}

fn note_client(op: &Operation<'_>, request: &Request<'_>) -> Result<()> {
    let Some(metadata) = parse::document(request.fields, "client")? else { return Ok(()) };
    if metadata.as_bytes().len() > METADATA_BYTES {
        let what =
            format!("The client metadata document must be less then or equal to {METADATA_BYTES} bytes");
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

/// What both sides can compress with, in the client's order.
fn write_compression(op: &Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
