//! Follows the oplog of a sync source: `find` with a tailable cursor, then `getMore`s that wait for what comes (server.md, 4.1).
//!
//! What comes is put into a buffer for the applier. The first entry must be the last that this member has, else the histories
//! differ, and this member has to roll back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use fathom_client::Connection;
use fathom_query::{Code, Failure};
use fathom_replication::messages::{OplogQueryMetadata, ReplicationMetadata};
use fathom_replication::{Host, Moment, OpTime};
use parking_lot::{Condvar, Mutex};

use super::links::connect;
use crate::Result;
use crate::instance::Instance;
use crate::replica_set::{Entry, ReplicaSet, timestamp_of};

/// How long a getMore waits for entries; half of the election timeout where that is shorter.
const AWAIT_MOST: Duration = Duration::from_secs(5);
/// How much longer the network may take.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes that wait for the applier at most (`OplogBufferBlockingQueue` has 256 MB).
const BUFFER_BYTES: usize = 64 << 20;
/// For how long a source that failed is left alone.
const DENIED: Duration = Duration::from_secs(1);

/// Entries between fetcher and applier.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The entry before the first that waits.
    after: OpTime,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries were taken that are not applied yet.
    taken: bool,
}

impl Buffer {
    /// Adds entries that follow `after`, waiting until there is room; false if `go_on` says to stop.
    fn push(&self, after: OpTime, entries: Vec<Entry>, go_on: &dyn Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        while state.bytes > BUFFER_BYTES {
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

    /// The next batch, at most so many entries and bytes, and the entry that it follows; waits for one no longer than `until`.
    pub(super) fn take(&self, most: usize, most_bytes: usize, until: Instant) -> (OpTime, Vec<Entry>) {
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

    /// The newest entry that waits.
    fn last(&self) -> Option<OpTime> {
        self.state.lock().entries.back().map(|entry| entry.at)
    }

    /// What was taken is applied, or thrown away.
    pub(super) fn done(&self) {
        self.state.lock().taken = false;
    }

    /// Throws away what waits.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        *state = Waiting { taken: state.taken, ..Waiting::default() };
        drop(state);
        self.changed.notify_all();
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }

    /// Whether nothing waits and nothing is being applied: the data and the log stand still.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.entries.is_empty() && !state.taken
    }
}

/// Entries that are in the source's log as well as in ours, or will be in ours once they are applied.
///
/// A fetch may begin before the last writes of an office that just ended are reported, and its answers may come after another one has
/// begun and ended: what the source says of its log then says nothing of ours.
#[derive(Debug)]
struct Shared(VecDeque<OpTime>);

impl Shared {
    /// Whether the entry that we applied last is one of them. Those before it are forgotten.
    fn has(&mut self, applied: OpTime) -> bool {
        while self.0.front().is_some_and(|first| *first < applied) {
            self.0.pop_front();
        }
        self.0.front() == Some(&applied)
    }
}

/// Why a fetch ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    /// Another source is to be looked for.
    Elsewhere,
    /// The source does not have our last entry: our history is another one.
    Diverged(Host),
    /// The source's oplog begins after our last entry.
    TooStale,
}

/// Follows one source until it is no good any more.
pub(super) fn follow(instance: &Arc<Instance>, set: &ReplicaSet, buffer: &Buffer, source: &Host) -> Ended {
    let ended = try_follow(instance, set, buffer, source);
    set.fetching(None);
    match ended {
        Ok(ended) => ended,
        Err(failure) => {
            if instance.is_stopping() || set.ask(|one| one.sync_source() != Some(source)) {
                // Somebody ended it on purpose.
                return Ended::Elsewhere;
            }
            let attributes = doc! { "source": source.as_str(), "error": failure.message() };
            instance.log.info("REPL", 21275, "ReplCoordExtern", "Fetching the oplog ended", attributes);
            set.tell(|coordinator, now| coordinator.deny_sync_source(now, source, Moment(now.0 + DENIED)));
            Ended::Elsewhere
        }
    }
}

fn try_follow(instance: &Arc<Instance>, set: &ReplicaSet, buffer: &Buffer, source: &Host) -> Result<Ended> {
    let last = buffer.last().unwrap_or_else(|| set.ask(|one| one.own_progress().applied));
    let patience = set.ask(|one| {
        one.config().map_or(AWAIT_MOST, |config| (config.settings.election_timeout / 2).min(AWAIT_MOST))
    });
    let mut connection = connect(instance, source, patience + GRACE)?;
    set.fetching(Some(connection.interrupter().map_err(failure_of)?));
    let find = doc! {
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
    };
    let mut reply = run(&mut connection, &find)?;
    let (mut cursor, mut entries) = batch_of(&reply, "firstBatch")?;
    match entries.first() {
        Some(first) if first.at == last => drop(entries.remove(0)),
        // A source that is not ahead proves nothing: its history may be the one that goes.
        _ if !is_ahead(&reply, last)? => {
            set.tell(|one, now| one.deny_sync_source(now, source, Moment(now.0 + DENIED)));
            return Ok(Ended::Elsewhere);
        }
        Some(first) if first.at > last && is_too_stale(&mut connection, last)? => {
            let attributes = doc! { "source": source.as_str(), "first": first.at.to_string() };
            instance.log.warning("REPL", 21272, "ReplBatcher", "too stale to catch up", attributes);
            return Ok(Ended::TooStale);
        }
        // It does not have our entry, though it has later ones.
        _ => return Ok(Ended::Diverged(source.clone())),
    }
    let rollback_id = rollback_id_of(&reply)?;
    let (mut after, mut shared) = (last, Shared(VecDeque::from([last])));
    let go_on = || !instance.is_stopping() && set.ask(|one| one.sync_source() == Some(source));
    loop {
        let stays = learn(set, &reply, &mut shared, &entries)?;
        let newest = entries.last().map_or(after, |entry| entry.at);
        if !buffer.push(after, entries, &go_on) || !stays || cursor == 0 || !go_on() {
            return Ok(Ended::Elsewhere);
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
        // A source that rolled back may have put other entries in the place of those that we have.
        if rollback_id_of(&reply)? != rollback_id {
            return Ok(Ended::Elsewhere);
        }
        (cursor, entries) = batch_of(&reply, "nextBatch")?;
        set.figures().fetched.add(entries.len() as u64);
    }
}

fn run(connection: &mut Connection, command: &Document) -> Result<RawDocumentBuf> {
    connection.run("local", command).map_err(failure_of)
}

/// A failure of the network as one of the server's.
pub(super) fn failure_of(error: fathom_client::Error) -> Failure {
    match error {
        fathom_client::Error::Server(failure) => failure,
        error => Failure::new(Code::HostUnreachable, error.to_string()),
    }
}

/// The cursor's number and the entries of a reply.
fn batch_of(reply: &RawDocument, name: &str) -> Result<(i64, Vec<Entry>)> {
    let bad = |error: bson::error::Error| Failure::new(Code::FailedToParse, error.to_string());
    let cursor = reply.get_document("cursor").map_err(bad)?;
    let mut entries = Vec::new();
    for item in cursor.get_array(name).map_err(bad)? {
        match item.map_err(bad)? {
            RawBsonRef::Document(entry) => entries.push(Entry::parse(entry.to_owned())?),
            _ => return Err(Failure::new(Code::FailedToParse, "a batch of an oplog holds no documents")),
        }
    }
    if let Some(pair) = entries.windows(2).find(|pair| matches!(pair, [one, two] if two.at <= one.at)) {
        let what = format!("entries out of order: {:?}", pair.iter().map(|one| one.at).collect::<Vec<_>>());
        return Err(Failure::new(Code::OplogOutOfOrder, what));
    }
    Ok((cursor.get_i64("id").map_err(bad)?, entries))
}

/// Hears what the source knows of the set, and notes the entries that came; false if another source is better.
fn learn(set: &ReplicaSet, reply: &RawDocument, shared: &mut Shared, entries: &[Entry]) -> Result<bool> {
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

/// Whether the source has applied more than `last`, by its own word.
fn is_ahead(reply: &RawDocument, last: OpTime) -> Result<bool> {
    let query = OplogQueryMetadata::beside(&metadata_fields(reply)?)?;
    Ok(query.is_some_and(|query| query.last_applied > last))
}

/// How often the source has rolled back, by its own word.
fn rollback_id_of(reply: &RawDocument) -> Result<Option<i64>> {
    let query = OplogQueryMetadata::beside(&metadata_fields(reply)?)?;
    Ok(query.map(|query| query.rollback_id))
}

/// The fields beside a batch, without the batch.
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
pub(super) fn newest_entry(connection: &mut Connection) -> Result<Entry> {
    entry_before(connection, doc! {})
}

/// The newest entry of another member that a filter lets through.
pub(super) fn entry_before(connection: &mut Connection, filter: Document) -> Result<Entry> {
    let newest = doc! { "$natural": -1 };
    let find = doc! { "find": "oplog.rs", "filter": filter, "sort": newest, "limit": 1, "singleBatch": true };
    let newest = connection.cursor("local", &find).map_err(failure_of)?.next();
    let newest = newest.transpose().map_err(failure_of)?;
    Entry::parse(newest.ok_or_else(|| Failure::new(Code::NoSuchKey, "the source's oplog is empty"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_here_meanwhile_is_not_shared() {
        let at = |timestamp, term| OpTime::new(timestamp, term);
        let mut shared = Shared(VecDeque::from([at(10, 3)]));
        assert!(shared.has(at(10, 3)));
        shared.0.extend([at(11, 4), at(12, 4), at(13, 4)]);
        // As primary of term 3, after the entry at which the logs were compared, and reported only now.
        assert!(!Shared(shared.0.clone()).has(at(15, 3)));
        // Applied batch by batch.
        assert!(shared.has(at(12, 4)) && shared.has(at(13, 4)));
        assert!(!shared.has(at(14, 4)));
    }
}
