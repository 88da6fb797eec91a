//! Limits the oplog to its size by removing the oldest entries, many at a time.
//!
//! As in mongod, not every new entry removes an old one (docs/methods.md#records-and-indexes): a range is removed once the oplog is a
//! hundredth too large. Entries that a restart would replay are kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_query::Failure;

use crate::Result;
use crate::checkpoint;
use crate::instance::Instance;
use crate::replica_set::{Oplog, ReplicaSetState, Stamp, key};

/// The interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of parts into which the oplog is divided.
const PARTS: i64 = 100;

/// A part: its end, and its bytes.
#[derive(Clone, Copy, Debug)]
struct TruncateMarker {
    end: Stamp,
    bytes: i64,
}

/// Trims the oplog until the server stops.
pub(super) fn run(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut parts: VecDeque<TruncateMarker> = VecDeque::new();
    let mut counted = 0;
    while !instance.is_stopping() {
        let heard = instance.bell.rings();
        instance.bell.sleep_since(heard, Some(Instant::now() + CHECK_INTERVAL));
        if let Err(failure) = trim(instance, set, &mut parts, &mut counted) {
            say(instance, &failure);
        }
    }
}

fn say(instance: &Instance, failure: &Failure) {
    let attributes = bson::doc! { "error": failure.message() };
    instance.log.warning("STORAGE", 22408, "OplogTruncater", "the oplog could not be trimmed", attributes);
}

fn trim(
    instance: &Instance,
    set: &ReplicaSetState,
    parts: &mut VecDeque<TruncateMarker>,
    counted: &mut i64,
) -> Result<()> {
    let Some(collection) = set.oplog().collection() else { return Ok(()) };
    let most = instance.oplog_bytes();
    let bytes = collection.bytes();
    if parts.is_empty() && *counted == 0 {
        *counted = begin(instance, set, parts, bytes)?;
    }
    // The entries since the last part form a new part once they are large enough.
    let open = bytes - *counted;
    if open >= (most / PARTS).max(1) {
        parts.push_back(TruncateMarker { end: set.oplog().visible(), bytes: open });
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
        // The number of removed entries is not counted: their share of the bytes is close enough, as with mongod's stones after a restart.
        #[expect(clippy::cast_possible_truncation, reason = "a share of a count")]
        let gone = (records as f64 * share.clamp(0.0, 1.0)) as i64;
        collection.note(-gone, -first.bytes);
    }
    Ok(())
}

/// Divides an existing oplog evenly by time, as if its entries had arrived evenly. Returns the bytes of the parts.
fn begin(
    instance: &Instance,
    set: &ReplicaSetState,
    parts: &mut VecDeque<TruncateMarker>,
    bytes: i64,
) -> Result<i64> {
    let session = instance.engine.session()?;
    let Some(collection) = set.oplog().collection() else { return Ok(0) };
    let Some((first, last)) = Oplog::ends(&*session, collection)? else { return Ok(0) };
    let count = (bytes / (instance.oplog_bytes() / PARTS).max(1)).clamp(0, PARTS);
    let (Ok(steps), true) = (u64::try_from(count), count > 0) else { return Ok(0) };
    let step = (last.timestamp - first.timestamp) / steps;
    let each = bytes / count;
    parts
        .extend((1..=steps).map(|place| TruncateMarker { end: first.timestamp + step * place, bytes: each }));
    Ok(each * count)
}
