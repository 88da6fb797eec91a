//! The commands `getMore` and `killCursors`, and the first batch of commands that list documents already in memory.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bson::{RawBsonRef, RawDocumentBuf};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;

use super::Reply;
use crate::Result;
use crate::cursors::{Producer, QueryCursor};
use crate::execution::ReplyBatch;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::users::{PrivilegeResource, set};

/// The time that a tailable cursor waits for new documents if the client gives none.
const DEFAULT_AWAIT_TIME: Duration = Duration::from_secs(1);
/// The interval at which a waiting cursor checks whether it was killed.
const AWAIT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Writes the next batch.
pub(super) fn get_more(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let id = match request.target {
        RawBsonRef::Int64(id) => id,
        other => return Err(parse::wrong_type("getMore.getMore", other, "long")),
    };
    let collection = parse::required_string(request.fields, "collection")?;
    let namespace = format!("{}.{collection}", request.database);
    op.instance.counters.operations.getmore(1);
    let batch_size = match parse::natural(request.fields, "batchSize")? {
        Some(0) | None => u64::MAX,
        Some(size) => size,
    };
    let mut cursor = op.instance.cursors.take(id, &namespace)?;
    if op.instance.users.is_enabled() && cursor.users != op.client.users() {
        op.instance.cursors.put_back(id, cursor);
        let what = format!("cursor id {id} was not created by the authenticated user");
        return Err(Failure::new(Code::Unauthorized, what));
    }
    op.figures.namespace = namespace;
    op.figures.cursor_id = id;
    op.majority = cursor.majority;
    // The command that opened the cursor sets its time limit; for a cursor that awaits data the time limits one wait.
    let awaiting = cursor.tailable && cursor.await_data;
    if awaiting {
        op.deadline = None;
    } else if request.generic.max_time_ms > 0 {
        op.instance.cursors.put_back(id, cursor);
        let what = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(Failure::new(Code::BadValue, what));
    } else {
        op.deadline = cursor.time_left.map(|left| op.begun + left);
    }
    let result = fill(op, request, &mut cursor, batch_size, awaiting, reply);
    cursor.time_left = cursor.time_left.map(|left| left.saturating_sub(op.begun.elapsed()));
    match result {
        Ok(true) => {
            op.figures.cursor_exhausted = true;
            op.instance.cursors.remove(id);
            op.originating = Some(cursor.originating);
            Ok(())
        }
        Ok(false) => {
            op.instance.cursors.put_back(id, cursor);
            Ok(())
        }
        Err(failure) => {
            op.instance.cursors.remove(id);
            op.originating = Some(cursor.originating);
            Err(failure)
        }
    }
}

fn fill(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    cursor: &mut QueryCursor,
    batch_size: u64,
    awaiting: bool,
    reply: &mut Reply<'_>,
) -> Result<bool> {
    let mut out = reply.begin_document("cursor");
    let mut next = out.begin_array("nextBatch");
    let patience = if request.generic.max_time_ms > 0 {
        Duration::from_millis(request.generic.max_time_ms)
    } else {
        DEFAULT_AWAIT_TIME
    };
    let until = Instant::now() + patience;
    let known = known_commit_point(request)?;
    let done = loop {
        let seen = inserts(cursor);
        let ticket = op.read_ticket()?;
        if cursor.tailable
            && let Producer::Find(find, _) = &mut cursor.producer
        {
            find.rewind_tail();
        }
        let done = cursor.producer.fill(op, &mut ReplyBatch::new(&mut next, batch_size))?;
        drop(ticket);
        if !awaiting || next.count() > 0 || Instant::now() >= until || commit_point_is_news(op, known) {
            break done;
        }
        op.check_interrupt()?;
        if let Producer::Find(_, collection) = &cursor.producer {
            let begun = Instant::now();
            collection.wait_for_insert(seen, until.min(begun + AWAIT_CHECK_INTERVAL));
            op.waits.data += begun.elapsed();
        }
    };
    let done = done && !cursor.tailable;
    op.figures.returned = Some(next.count() as u64);
    next.end();
    out.i64("id", if done { 0 } else { op.figures.cursor_id });
    out.string("ns", &op.figures.namespace);
    Ok(done)
}

/// The commit point that a member following our oplog knows.
fn known_commit_point(request: &Request<'_>) -> Result<Option<OpTime>> {
    let known = parse::document(request.fields, "lastKnownCommittedOpTime")?;
    known.map(|known| OpTime::from_document(&parse::owned(known)?)).transpose()
}

/// Whether that commit point is older than ours, so that the member should get a reply at once.
fn commit_point_is_news(op: &OperationContext<'_>, known: Option<OpTime>) -> bool {
    let (Some(set), Some(known)) = (&op.instance.set, known) else { return false };
    set.ask(|one| one.last_committed()) > known
}

/// The number of documents inserted into a tailable cursor's collection; to be read before the collection is.
fn inserts(cursor: &QueryCursor) -> u64 {
    match &cursor.producer {
        Producer::Find(_, collection) => collection.inserts(),
        _ => 0,
    }
}

pub(super) fn kill(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    op.figures.namespace = request.namespace()?;
    let Some(RawBsonRef::Array(ids)) = request.field("cursors") else {
        return Err(parse::missing("killCursors.cursors"));
    };
    let (mut killed, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        match id.map_err(|error| parse::malformed(&error))? {
            RawBsonRef::Int64(id) if may_kill(op, id) && op.instance.cursors.kill(id) => killed.push(id),
            RawBsonRef::Int64(id) => missing.push(id),
            other => return Err(parse::wrong_type("killCursors.cursors", other, "long")),
        }
    }
    for (name, ids) in [
        ("cursorsKilled", killed.as_slice()),
        ("cursorsNotFound", &missing),
        ("cursorsAlive", &[]),
        ("cursorsUnknown", &[]),
    ] {
        let mut array = reply.begin_array(name);
        ids.iter().for_each(|id| array.i64(*id));
    }
    Ok(())
}

/// A user may kill only his own cursors, unless he has the right to kill any.
fn may_kill(op: &OperationContext<'_>, id: i64) -> bool {
    !op.instance.users.is_enabled()
        || op.instance.cursors.owners(id).is_none_or(|owners| owners == op.client.users())
        || crate::auth::may(op, set![killAnyCursor], PrivilegeResource::Cluster)
}

/// Writes the reply of a command that lists things: a cursor over documents that are already in memory.
///
/// Writes `cursor: {id, ns, firstBatch}`; documents that do not fit into the first batch are left for `getMore` under `namespace`.
pub(super) fn write_cursor(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
    namespace: &str,
    documents: VecDeque<RawDocumentBuf>,
) -> Result<()> {
    let batch_size = match parse::document(request.fields, "cursor")? {
        Some(options) => parse::natural(options, "batchSize")?.unwrap_or(u64::MAX),
        None => u64::MAX,
    };
    let mut producer = Producer::Buffered(documents);
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = producer.fill(op, &mut ReplyBatch::new(&mut first, batch_size))?;
    op.figures.returned = Some(first.count() as u64);
    first.end();
    let id = if done {
        0
    } else {
        op.instance.cursors.add(QueryCursor {
            majority: op.majority,
            namespace: namespace.to_owned(),
            producer,
            no_timeout: false,
            tailable: false,
            await_data: false,
            originating: request.body().to_owned(),
            users: op.client.users(),
            time_left: None,
        })
    };
    op.figures.cursor_id = id;
    op.figures.cursor_exhausted = done;
    cursor.i64("id", id);
    cursor.string("ns", namespace);
    Ok(())
}
