//! The table of commands: the name of each, its function, and how it is sent to shards.
//!
//! One file per subject. The table also lists commands that mongos has and this router lacks, with the reason, so that they are refused by name.

mod aggregate;
mod collections;
mod explain;
mod find_documents;
mod get_more;
mod information;
mod matches;
mod operations;
mod refused;
mod server_status;
mod sharding;
mod statistics;
mod table;
mod writes;

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use fathom_service::parse;

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::cursors::{CursorOptions, CursorSource, RouterCursor};
use crate::instance::{Instance, RouterOperation};
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::{ShardCommand, copy, fields_of};

pub(crate) use crate::request::variables_of;
use crate::shard_command::OF_THE_REPLY;
pub(crate) use crate::shard_command::pass_on;
pub(crate) use find_documents::shards_of;
pub(crate) use table::{function_of, registry};

/// The reply being written.
pub(crate) type Reply<'a> = fathom_wire::DocumentWriter<'a>;

/// The function of a command.
pub(crate) type CommandFunction = fn(RouterOperation<'_>, &Request<'_>, &mut Reply<'_>) -> Result<()>;

/// The database, and the options for a cursor of this command.
pub(crate) fn cursor_terms<'a>(request: &Request<'a>) -> Result<(&'a str, CursorOptions)> {
    let flag = |name: &str| parse::boolean(request.fields, name);
    let options = CursorOptions {
        no_timeout: flag("noCursorTimeout")?,
        awaits_data: flag("tailable")? && flag("awaitData")?,
    };
    Ok((request.database, options))
}

/// Passes on a shard's reply with a cursor, under the router's own cursor id if the shard has more; takes the database and the
/// options of [`cursor_terms`].
pub(crate) fn pass_cursor_on(
    instance: &Instance,
    (database, options): (&str, CursorOptions),
    backend: &Arc<Backend>,
    answer: &RawDocument,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(cursor) = parse::document(answer, "cursor")? else {
        pass_on(answer, reply);
        return Ok(());
    };
    let id = parse::integer(cursor, "id")?.unwrap_or(0);
    if id == 0 {
        pass_on(answer, reply);
        return Ok(());
    }
    let namespace = parse::string(cursor, "ns")?.unwrap_or_default();
    let (database, collection) = namespace.split_once('.').unwrap_or((database, namespace));
    let source = CursorSource::Single {
        backend: Arc::clone(backend),
        id,
        database: database.to_owned(),
        collection: collection.to_owned(),
    };
    let own = instance.cursors.add(RouterCursor { namespace: namespace.to_owned(), source, options });
    for (name, value) in fields_of(answer) {
        if name == "cursor" {
            let mut out = reply.begin_document("cursor");
            copy(cursor, &mut out, |name| name != "id");
            out.i64("id", own);
        } else if !OF_THE_REPLY.contains(&name) {
            reply.value(name, value);
        }
    }
    Ok(())
}

/// Writes the first batch of a source of several shards, and keeps the source if it has more.
pub(crate) fn write_first_batch(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    namespace: &str,
    mut source: CursorSource,
    (batch_size, single_batch): (u64, bool),
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = source.fill(&mut first, batch_size)?;
    first.end();
    let id = if done || single_batch {
        source.close();
        0
    } else {
        let (_, options) = cursor_terms(request)?;
        op.instance.cursors.add(RouterCursor { namespace: namespace.to_owned(), source, options })
    };
    cursor.i64("id", id);
    cursor.string("ns", namespace);
    Ok(())
}

/// Writes the empty reply of a command with a cursor.
pub(crate) fn write_empty_cursor(namespace: &str, reply: &mut Reply<'_>) {
    let mut cursor = reply.begin_document("cursor");
    cursor.begin_array("firstBatch").end();
    cursor.i64("id", 0);
    cursor.string("ns", namespace);
}

/// Sends a request unchanged to one shard of its route.
pub(crate) fn send_to<R>(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    route: &Route,
    shard: &str,
    take: impl FnOnce(&Arc<Backend>, &RawDocument) -> Result<R>,
) -> Result<R> {
    let backend = op.instance.cluster.shard(shard)?;
    let command = for_shard(request, route, shard)?;
    call::call(&backend, request.database, &command, &SendPolicy::from_request(request), |answer| {
        take(&backend, answer)
    })
}

/// A request, unchanged, for one shard of its route.
pub(crate) fn for_shard<'a>(request: &Request<'a>, route: &Route, shard: &str) -> Result<ShardCommand<'a>> {
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    Ok(command.with_sequence_of(request).with_versions(route.versions(shard)))
}

/// Writes a number as mongod writes its counts: an int if it fits, otherwise a long.
pub(crate) fn write_number(reply: &mut Reply<'_>, name: &str, value: i64) {
    match i32::try_from(value) {
        Ok(value) => reply.i32(name, value),
        Err(_) => reply.i64(name, value),
    }
}

/// Any number of a shard's reply as a double, for sums.
pub(crate) fn number_of(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Int32(value) => Some(f64::from(value)),
        #[expect(clippy::cast_precision_loss, reason = "sizes of collections are exact as doubles")]
        RawBsonRef::Int64(value) => Some(value as f64),
        RawBsonRef::Double(value) => Some(value),
        _ => None,
    }
}
