//! Keeps the oplog at its size: the oldest entries go, many at a time.
//!
//! As in mongod, entries are not removed one for each that comes ("stones", server.md 5): a range goes once the oplog is a
//! hundredth too large. No entry goes that a restart would replay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_query::Failure;

use crate::Result;
use crate::checkpoint;
use crate::instance::Instance;
use crate::replica_set::{Oplog, ReplicaSet, Stamp, key};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// How many parts the oplog is cut into.
const PARTS: i64 = 100;

/// A part: where it ends, and its bytes.
#[derive(Clone, Copy, Debug)]
struct Part {
    end: Stamp,
    bytes: i64,
}

/// Runs until the server stops.
pub(super) fn run(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut parts: VecDeque<Part> = VecDeque::new();
    let mut counted = 0;
    while !instance.is_stopping() {
        let heard = instance.bell.rings();
        instance.bell.sleep_since(heard, Some(Instant::now() + LOOK));
        if let Err(failure) = trim(instance, set, &mut parts, &mut counted) {
            say(instance, &failure);
        }
    }
}

fn say(instance: &Instance, failure: &Failure) {
    let attributes = bson::doc! { "error": failure.message() };
    instance.log.warning("STORAGE", 22408, "OplogTruncater", "the oplog could not be trimmed", attributes);
}

fn trim(instance: &Instance, set: &ReplicaSet, parts: &mut VecDeque<Part>, counted: &mut i64) -> Result<()> {
    let Some(collection) = set.oplog().collection() else { return Ok(()) };
    let most = instance.oplog_bytes();
    let bytes = collection.bytes();
    if parts.is_empty() && *counted == 0 {
        *counted = begin(instance, set, parts, bytes)?;
    }
    // What came since the last part is a part once it is large enough.
    let open = bytes - *counted;
    if open >= (most / PARTS).max(1) {
        parts.push_back(Part { end: set.oplog().visible(), bytes: open });
        *counted = bytes;
    }
    let safe = checkpoint::validity(instance)?.unwrap_or_default().applied.timestamp;
    while let Some(first) = parts.front().copied() {
        if collection.bytes() <= most || first.end >= safe {
            return Ok(());
        }
        let session = instance.engine.session()?;
        session.truncate(collection.records_table()?, None, Some(key(first.end)))?;
        parts.pop_front();
        *counted -= first.bytes;
        let records = collection.records();
        let share = first.bytes as f64 / collection.bytes().max(1) as f64;
        // How many went is not counted: their share of the bytes is near enough, as mongod's stones are after a restart.
        #[expect(clippy::cast_possible_truncation, reason = "a share of a count")]
        let gone = (records as f64 * share.clamp(0.0, 1.0)) as i64;
        collection.note(-gone, -first.bytes);
    }
    Ok(())
}

/// The parts of an oplog that was there: cut evenly by time, as if its entries had come evenly. Their bytes.
fn begin(instance: &Instance, set: &ReplicaSet, parts: &mut VecDeque<Part>, bytes: i64) -> Result<i64> {
    let session = instance.engine.session()?;
    let Some(collection) = set.oplog().collection() else { return Ok(0) };
    let Some((first, last)) = Oplog::ends(&*session, collection)? else { return Ok(0) };
    let count = (bytes / (instance.oplog_bytes() / PARTS).max(1)).clamp(0, PARTS);
    let (Ok(steps), true) = (u64::try_from(count), count > 0) else { return Ok(0) };
    let step = (last.timestamp - first.timestamp) / steps;
    let each = bytes / count;
    parts.extend((1..=steps).map(|place| Part { end: first.timestamp + step * place, bytes: each }));
    Ok(each * count)
}
