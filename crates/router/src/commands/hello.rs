//! `hello` and `isMaster`: a router, and what it takes (mongos-hello.json; server.md, 2.3).
//!
//! Sessions, and with them retryable writes, are offered only where every shard is a replica set, which can tell a write that
//! comes twice.

use bson::{DateTime, RawBsonRef};
use fathom_service::{parse, version};
use fathom_wire::limits::{MAX_DOCUMENT_BYTES, MAX_MESSAGE_BYTES, MAX_WRITE_BATCH};
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// The most that a driver may say of itself, in bytes, as in mongos.
const METADATA_BYTES: usize = 512;
/// How long a session rests before it ends.
const SESSION_MINUTES: i32 = 30;

/// Says hello.
pub(super) fn run(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

fn note_client(op: Operation<'_>, request: &Request<'_>) -> Result<()> {
    let Some(metadata) = parse::document(request.fields, "client")? else { return Ok(()) };
    if metadata.as_bytes().len() > METADATA_BYTES {
        let what =
            format!("The client metadata document must be less then or equal to {METADATA_BYTES} bytes");
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

/// What both sides can compress with, in the client's order.
fn write_compression(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
