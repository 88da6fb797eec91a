//! Batches of cursors: `getMore` and `killCursors`, and the first batch of a command that lists documents which are all there already.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bson::{RawBsonRef, RawDocumentBuf};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;

use super::Reply;
use crate::Result;
use crate::cursors::{Producer, QueryCursor};
use crate::execution::Batch;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::users::{Resource, Rights};

/// How long a tailable cursor waits for new documents when the client gives no time.
const AWAIT: Duration = Duration::from_secs(1);
/// How often it looks whether it was killed meanwhile.
const AWAIT_LOOK: Duration = Duration::from_millis(100);

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
    // The command that opened the cursor says how long it may take; here the time is that of one wait.
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
        AWAIT
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
        let done = cursor.producer.fill(op, &mut Batch::new(&mut next, batch_size))?;
        drop(ticket);
        if !awaiting || next.count() > 0 || Instant::now() >= until || commit_point_is_news(op, known) {
            break done;
        }
        op.check_interrupt()?;
        if let Producer::Find(_, collection) = &cursor.producer {
            collection.wait_for_insert(seen, until.min(Instant::now() + AWAIT_LOOK));
        }
    };
    let done = done && !cursor.tailable;
    op.figures.returned = Some(next.count() as u64);
    next.end();
    out.i64("id", if done { 0 } else { op.figures.cursor_id });
    out.string("ns", &op.figures.namespace);
    Ok(done)
}

/// What another member that follows our oplog knows of the commit point.
fn known_commit_point(request: &Request<'_>) -> Result<Option<OpTime>> {
    let known = parse::document(request.fields, "lastKnownCommittedOpTime")?;
    known.map(|known| OpTime::from_document(&parse::owned(known)?)).transpose()
}

/// Whether it is behind what we know, so that it should hear at once.
fn commit_point_is_news(op: &OperationContext<'_>, known: Option<OpTime>) -> bool {
    let (Some(set), Some(known)) = (&op.instance.set, known) else { return false };
    set.ask(|one| one.last_committed()) > known
}

/// How many documents came into the collection of a tailable cursor; to be known before it is read.
fn inserts(cursor: &QueryCursor) -> u64 {
    match &cursor.producer {
        Producer::Find(_, collection) => collection.inserts(),
        _ => 0,
    }
}

/// Closes cursors.
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

/// Cursors are their users' own, unless one may kill any.
fn may_kill(op: &OperationContext<'_>, id: i64) -> bool {
    !op.instance.users.is_enabled()
        || op.instance.cursors.owners(id).is_none_or(|owners| owners == op.client.users())
        || crate::auth::may(op, Rights::MANAGE, Resource::Cluster)
}

/// Replies of commands that list things: a cursor over documents that are all there already.
///
/// Writes `cursor: {id, ns, firstBatch}`; what does not fit into the first batch waits for `getMore` under `namespace`.
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
    let done = producer.fill(op, &mut Batch::new(&mut first, batch_size))?;
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
