//! The commands `getMore` and `killCursors`.

use bson::RawBsonRef;
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::call;
use crate::counters;
use crate::cursors::{CursorSource, RouterCursor};
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::shard_command::{ShardCommand, copy};

/// Writes the next batch.
pub(super) fn run(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.instance.counters.getmores.add(1);
    let id = parse::integer_of(request.target)
        .ok_or_else(|| parse::wrong_type("getMore", request.target, "long"))?;
    let collection = parse::required_string(request.fields, "collection")?;
    let namespace = format!("{}.{collection}", request.database);
    let mut cursor = op.instance.cursors.take(id, &namespace)?;
    match next_batch(request, id, &mut cursor, reply) {
        Ok(true) => {
            op.instance.cursors.remove(id);
            Ok(())
        }
        Ok(false) => {
            op.instance.cursors.give_back(id, cursor);
            Ok(())
        }
        // A cursor that timed out or lost a shard cannot be used any more.
        Err(failure) => {
            op.instance.cursors.remove(id);
            cursor.source.close();
            Err(failure)
        }
    }
}

/// Writes the next batch; returns whether the cursor is exhausted.
fn next_batch(
    request: &Request<'_>,
    id: i64,
    cursor: &mut RouterCursor,
    reply: &mut Reply<'_>,
) -> Result<bool> {
    let size = parse::natural(request.fields, "batchSize")?;
    if let CursorSource::Single { backend, id: theirs, .. } = &cursor.source {
        let command = ShardCommand::written(|body| {
            body.i64("getMore", *theirs);
            copy(request.body(), body, |name| !matches!(name, "getMore" | "$db" | "$clusterTime"));
        })?;
        let answered =
            call::call(backend, request.database, &command, &SendPolicy::from_request(request), |answer| {
                let inner = parse::document(answer, "cursor")?;
                let left = inner.map(|inner| parse::integer(inner, "id")).transpose()?.flatten().unwrap_or(0);
                if let Some(inner) = inner {
                    let mut out = reply.begin_document("cursor");
                    copy(inner, &mut out, |name| name != "id");
                    out.i64("id", if left == 0 { 0 } else { id });
                }
                Ok(left == 0)
            });
        if cursor.options.awaits_data {
            counters::count_as_wait_for_data();
        }
        return answered;
    }
    if let CursorSource::Merge(merge) = &mut cursor.source {
        merge.set_batch_size(size.and_then(|size| i64::try_from(size).ok()));
    }
    let mut out = reply.begin_document("cursor");
    let mut batch = out.begin_array("nextBatch");
    let done = cursor.source.fill(&mut batch, size.filter(|size| *size > 0).unwrap_or(u64::MAX))?;
    batch.end();
    out.i64("id", if done { 0 } else { id });
    out.string("ns", &cursor.namespace);
    Ok(done)
}

pub(super) fn kill(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let RawBsonRef::Array(ids) = request.field("cursors").ok_or_else(|| parse::missing("cursors"))? else {
        return Err(Failure::new(Code::FailedToParse, "cursors must be an array of cursor ids"));
    };
    let (mut killed, mut unknown) = (Vec::new(), Vec::new());
    for id in ids {
        let id = id.map_err(|error| parse::malformed(&error))?;
        let id = parse::integer_of(id).ok_or_else(|| parse::wrong_type("cursors", id, "long"))?;
        if op.instance.cursors.kill(id, &namespace) { killed.push(id) } else { unknown.push(id) }
    }
    for (name, ids) in [
        ("cursorsKilled", killed),
        ("cursorsNotFound", unknown),
        ("cursorsAlive", vec![]),
        ("cursorsUnknown", vec![]),
    ] {
        let mut array = reply.begin_array(name);
        ids.iter().for_each(|id| array.i64(*id));
    }
    Ok(())
}
