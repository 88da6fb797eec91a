//! Fetches the oplog of a sync source: `find` with a tailable cursor, then `getMore`s that wait for new entries (docs/methods.md#the-oplog).
//!
//! Entries are put into a buffer for the applier. The first entry must be this member's last one; otherwise the histories
//! differ, and this member must roll back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_query::{Code, Failure};
use fathom_replication::messages::{OplogQueryMetadata, ReplicationMetadata};
use fathom_replication::{Host, MonotonicTime, OpTime};
use parking_lot::{Condvar, Mutex};

use super::links::connect;
use crate::Result;
use crate::instance::Instance;
use crate::replica_set::{OplogEntry, ReplicaSetState, timestamp_of};

/// The time that a getMore waits for entries, or half of the election timeout if that is shorter.
const MAX_AWAIT_TIME: Duration = Duration::from_secs(5);
/// The additional time allowed for the network.
const NETWORK_MARGIN: Duration = Duration::from_secs(5);
/// The maximum bytes that wait for the applier (`OplogBufferBlockingQueue` has 256 MB).
const MAX_BUFFER_BYTES: usize = 64 << 20;
/// The time for which a failed source is not used again.
const SOURCE_DENIAL: Duration = Duration::from_secs(1);

/// The entries between fetcher and applier.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    state: Mutex<FetchQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FetchQueue {
    /// The entry before the first waiting one.
    after: OpTime,
    entries: VecDeque<OplogEntry>,
    bytes: usize,
    /// Whether entries were taken that are not applied yet.
    taken: bool,
}

impl Buffer {
    /// Adds entries that follow `after`, waiting for room; false if `go_on` asks to stop.
    fn push(&self, after: OpTime, entries: Vec<OplogEntry>, go_on: &dyn Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        while state.bytes > MAX_BUFFER_BYTES {
            if !go_on() {
                return false;
            }
            self.changed.wait_for(&mut state, Duration::from_millis(100));
        }
        if state.entries.is_empty() {
            state.after = after;
        }
        for entry in entries {
            state.bytes += entry.raw.as_bytes().len();
            state.entries.push_back(entry);
        }
        self.changed.notify_all();
        true
    }

    /// The next batch, limited in entries and bytes, and the entry that it follows; waits for one at most until `until`.
    pub(super) fn take(&self, most: usize, most_bytes: usize, until: Instant) -> (OpTime, Vec<OplogEntry>) {
        let mut state = self.state.lock();
        while state.entries.is_empty() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return (OpTime::NULL, Vec::new());
            }
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < most
            && let Some(entry) = state.entries.front()
        {
            let length = entry.raw.as_bytes().len();
            if !batch.is_empty() && bytes + length > most_bytes {
                break;
            }
            bytes += length;
            batch.extend(state.entries.pop_front());
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        state.taken = true;
        let after = std::mem::replace(&mut state.after, batch.last().map_or(OpTime::NULL, |entry| entry.at));
        self.changed.notify_all();
        (after, batch)
    }

    /// The newest waiting entry, if any.
    fn last(&self) -> Option<OpTime> {
        self.state.lock().entries.back().map(|entry| entry.at)
    }

    /// Records that the entries taken are applied, or discarded.
    pub(super) fn done(&self) {
        self.state.lock().taken = false;
    }

    /// Discards the waiting entries.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        *state = FetchQueue { taken: state.taken, ..FetchQueue::default() };
        drop(state);
        self.changed.notify_all();
    }

    /// Whether no entry waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }

    /// Whether no entry waits and none is being applied: data and oplog are at rest.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.entries.is_empty() && !state.taken
    }
}

/// Entries that are in the source's oplog as well as in ours, or will be in ours once they are applied.
///
/// A fetch may begin before the last writes of a term that just ended are reported, and its answers may arrive after another term has
/// begun and ended: then the source's view of its oplog proves nothing about ours.
#[derive(Debug)]
struct SourceEntries(VecDeque<OpTime>);

impl SourceEntries {
    /// Whether the entry that we applied last is one of them. Forgets those before it.
    fn has(&mut self, applied: OpTime) -> bool {
        while self.0.front().is_some_and(|first| *first < applied) {
            self.0.pop_front();
        }
        self.0.front() == Some(&applied)
    }
}

/// The reason for which a fetch ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FetchEnd {
    /// Another source must be found.
    Elsewhere,
    /// The source does not have our last entry: our histories have diverged.
    Diverged(Host),
    /// The source's oplog begins after our last entry.
    TooStale,
}

/// Follows one source until it is no longer suitable.
pub(super) fn follow(
    instance: &Arc<Instance>,
    set: &ReplicaSetState,
    buffer: &Buffer,
    source: &Host,
) -> FetchEnd {
    let ended = try_follow(instance, set, buffer, source);
    set.fetching(None);
    match ended {
        Ok(ended) => ended,
        Err(failure) => {
            if instance.is_stopping() || set.ask(|one| one.sync_source() != Some(source)) {
                // The connection was ended on purpose.
                return FetchEnd::Elsewhere;
            }
            let attributes = doc! { "source": source.as_str(), "error": failure.message() };
            instance.log.info("REPL", 21275, "ReplCoordExtern", "Fetching the oplog ended", attributes);
            set.tell(|coordinator, now| {
                coordinator.deny_sync_source(now, source, MonotonicTime(now.0 + SOURCE_DENIAL))
            });
            FetchEnd::Elsewhere
        }
    }
}

fn try_follow(
    instance: &Arc<Instance>,
    set: &ReplicaSetState,
    buffer: &Buffer,
    source: &Host,
) -> Result<FetchEnd> {
    let last = buffer.last().unwrap_or_else(|| set.ask(|one| one.own_progress().applied));
    let patience = set.ask(|one| {
        one.config()
            .map_or(MAX_AWAIT_TIME, |config| (config.settings.election_timeout / 2).min(MAX_AWAIT_TIME))
    });
    let mut connection = connect(instance, source, patience + NETWORK_MARGIN)?;
    set.fetching(Some(connection.interrupter().map_err(failure_of)?));
    let mut reply = run(&mut connection, &query_from(set, last))?;
    let (mut cursor, mut entries) = batch_of(&reply, "firstBatch")?;
    match entries.first() {
        Some(first) if first.at == last => drop(entries.remove(0)),
        // A source that is not ahead proves nothing: its own history may be the one to be rolled back.
        _ if !is_ahead(&reply, last)? => {
            set.tell(|one, now| one.deny_sync_source(now, source, MonotonicTime(now.0 + SOURCE_DENIAL)));
            return Ok(FetchEnd::Elsewhere);
        }
        Some(first) if first.at > last && is_too_stale(&mut connection, last)? => {
            let attributes = doc! { "source": source.as_str(), "first": first.at.to_string() };
            instance.log.warning("REPL", 21272, "ReplBatcher", "too stale to catch up", attributes);
            return Ok(FetchEnd::TooStale);
        }
        // The source lacks our entry, although it has later ones.
        _ => return Ok(FetchEnd::Diverged(source.clone())),
    }
    let rollback_id = rollback_id_of(&reply)?;
    let (mut after, mut shared) = (last, SourceEntries(VecDeque::from([last])));
    let go_on = || !instance.is_stopping() && set.ask(|one| one.sync_source() == Some(source));
    loop {
        let stays = learn(set, &reply, &mut shared, &entries)?;
        let newest = entries.last().map_or(after, |entry| entry.at);
        if !buffer.push(after, entries, &go_on) || !stays || cursor == 0 || !go_on() {
            return Ok(FetchEnd::Elsewhere);
        }
        after = newest;
        let (term, committed) = set.ask(|one| (one.term(), one.last_committed()));
        let more = doc! {
            "getMore": cursor,
            "collection": "oplog.rs",
            "batchSize": 13_981_010,
            "maxTimeMS": i64::try_from(patience.as_millis()).unwrap_or(5000),
            "term": term,
            "lastKnownCommittedOpTime": committed.to_document(),
            "$replData": 1,
            "$oplogQueryData": 1,
        };
        let begun = Instant::now();
        reply = run(&mut connection, &more)?;
        set.figures().get_mores.add(begun.elapsed());
        set.figures().fetched_bytes.add(reply.as_bytes().len() as u64);
        // A source that rolled back may have replaced entries that we have.
        if rollback_id_of(&reply)? != rollback_id {
            return Ok(FetchEnd::Elsewhere);
        }
        (cursor, entries) = batch_of(&reply, "nextBatch")?;
        set.figures().fetched.add(entries.len() as u64);
    }
}

/// The query of a source's oplog from our last entry on.
fn query_from(set: &ReplicaSetState, last: OpTime) -> Document {
    doc! {
        "find": "oplog.rs",
        "filter": { "ts": { "$gte": timestamp_of(last.timestamp) } },
        "tailable": true,
        "awaitData": true,
        "oplogReplay": true,
        "maxTimeMS": 60_000,
        "batchSize": 13_981_010,
        "term": set.ask(fathom_replication::Coordinator::term),
        "readConcern": { "level": "local" },
        "$replData": 1,
        "$oplogQueryData": 1,
    }
}

fn run(connection: &mut Connection, command: &Document) -> Result<RawDocumentBuf> {
    connection.run("local", command).map_err(failure_of)
}

/// Converts a network failure into a failure of the server.
pub(super) fn failure_of(error: fathom_client::Error) -> Failure {
    match error {
        fathom_client::Error::Server(failure) => failure,
        error => Failure::new(Code::HostUnreachable, error.to_string()),
    }
}

/// The cursor id and the entries of a reply.
fn batch_of(reply: &RawDocument, name: &str) -> Result<(i64, Vec<OplogEntry>)> {
    let bad = |error: bson::error::Error| Failure::new(Code::FailedToParse, error.to_string());
    let cursor = reply.get_document("cursor").map_err(bad)?;
    let mut entries = Vec::new();
    for item in cursor.get_array(name).map_err(bad)? {
        match item.map_err(bad)? {
            RawBsonRef::Document(entry) => entries.push(OplogEntry::parse(entry.to_owned())?),
            _ => return Err(Failure::new(Code::FailedToParse, "a batch of an oplog holds no documents")),
        }
    }
    if let Some(pair) = entries.windows(2).find(|pair| matches!(pair, [one, two] if two.at <= one.at)) {
        let what = format!("entries out of order: {:?}", pair.iter().map(|one| one.at).collect::<Vec<_>>());
        return Err(Failure::new(Code::OplogOutOfOrder, what));
    }
    Ok((cursor.get_i64("id").map_err(bad)?, entries))
}

/// Learns the source's knowledge of the set, and records the entries received; false if another source is better.
fn learn(
    set: &ReplicaSetState,
    reply: &RawDocument,
    shared: &mut SourceEntries,
    entries: &[OplogEntry],
) -> Result<bool> {
    shared.0.extend(entries.iter().map(|entry| entry.at));
    let reply = metadata_fields(reply)?;
    let Some(metadata) = ReplicationMetadata::beside(&reply)? else { return Ok(true) };
    let query = OplogQueryMetadata::beside(&reply)?;
    set.tell(|coordinator, now| {
        let is_ours = shared.has(coordinator.own_progress().applied);
        coordinator.source_answered(now, &metadata, query.as_ref(), is_ours);
    });
    let now = set.now();
    Ok(!set.ask(|coordinator| coordinator.should_change_sync_source(now, &metadata, query.as_ref())))
}

/// Whether the source reports that it has applied more than `last`.
fn is_ahead(reply: &RawDocument, last: OpTime) -> Result<bool> {
    let query = OplogQueryMetadata::beside(&metadata_fields(reply)?)?;
    Ok(query.is_some_and(|query| query.last_applied > last))
}

/// The source's rollback id, as it reports it.
fn rollback_id_of(reply: &RawDocument) -> Result<Option<i64>> {
    let query = OplogQueryMetadata::beside(&metadata_fields(reply)?)?;
    Ok(query.map(|query| query.rollback_id))
}

/// The fields of a reply without its batch.
fn metadata_fields(reply: &RawDocument) -> Result<Document> {
    let mut fields = Document::new();
    for element in reply {
        let (name, value) = element.map_err(|error| crate::parse::malformed(&error))?;
        if name.as_str().starts_with('$') {
            fields.insert(name.as_str(), crate::parse::owned_value(value)?);
        }
    }
    Ok(fields)
}

/// Whether the source's oplog begins after an entry.
fn is_too_stale(connection: &mut Connection, last: OpTime) -> Result<bool> {
    let first = doc! { "find": "oplog.rs", "sort": { "$natural": 1 }, "limit": 1, "singleBatch": true };
    let (_, entries) = batch_of(&run(connection, &first)?, "firstBatch")?;
    Ok(entries.first().is_some_and(|first| first.at.timestamp > last.timestamp))
}

/// The newest entry of another member.
pub(super) fn newest_entry(connection: &mut Connection) -> Result<OplogEntry> {
    entry_before(connection, doc! {})
}

/// The newest entry of another member that matches a filter.
pub(super) fn entry_before(connection: &mut Connection, filter: Document) -> Result<OplogEntry> {
    let newest = doc! { "$natural": -1 };
    let find = doc! { "find": "oplog.rs", "filter": filter, "sort": newest, "limit": 1, "singleBatch": true };
    let newest = connection.cursor("local", &find).map_err(failure_of)?.next();
    let newest = newest.transpose().map_err(failure_of)?;
    OplogEntry::parse(newest.ok_or_else(|| Failure::new(Code::NoSuchKey, "the source's oplog is empty"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_here_meanwhile_is_not_shared() {
        let at = |timestamp, term| OpTime::new(timestamp, term);
        let mut shared = SourceEntries(VecDeque::from([at(10, 3)]));
        assert!(shared.has(at(10, 3)));
        shared.0.extend([at(11, 4), at(12, 4), at(13, 4)]);
        // Written as primary of term 3, after the entry at which the oplogs were compared, and reported only now.
        assert!(!SourceEntries(shared.0.clone()).has(at(15, 3)));
        // Applied batch by batch.
        assert!(shared.has(at(12, 4)) && shared.has(at(13, 4)));
        assert!(!shared.has(at(14, 4)));
    }
}
