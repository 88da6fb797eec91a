//! Runs a scan over records or index entries from its last position until the visitor has enough, the plan ends, or the snapshot is old.
//! Within a call the snapshot is renewed every [`SNAPSHOT_LIFETIME_MS`], at which point mongod yields.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bson::{Bson, RawDocument};
use fathom_engine::{Cursor, Key};
use fathom_query::{Code, Failure, Filter, FilterMatch, Range};
use fathom_sharding::Ownership;

use crate::Result;
use crate::buffers;
use crate::cursors::{CollectionScan, Fetch, RecordWalk, ScanPart, ScanTally};
use crate::operation_context::OperationContext;
use crate::storage::{Collection, Index, IndexEntry, document_of};

/// The lifetime of a snapshot, in milliseconds; longer ones keep old versions in the engine's cache.
const SNAPSHOT_LIFETIME_MS: u64 = 100;

/// The number of keys between two checks of the clock and the kill switch, as in mongod.
const KEYS_BETWEEN_CHECKS: u32 = 128;

/// A match, valid while the visitor looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanMatch<'a> {
    pub(crate) record: i64,
    pub(crate) document: &'a RawDocument,
    pub(crate) matched: FilterMatch,
}

/// The visitor's answer to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFlow {
    More,
    /// This match was taken, and no further one is wanted now.
    Enough,
    /// This match was not taken; the next call begins with it again.
    NotThis,
}

/// The visitor of a scan.
pub(crate) type MatchVisitor<'v> = dyn FnMut(ScanMatch<'_>) -> Result<ScanFlow> + 'v;

/// The reason for which a call of a scan stops.
enum Pause {
    /// The leg has reached its end.
    End,
    /// The visitor has enough.
    Enough,
    /// A new snapshot is due.
    Renew,
}

impl CollectionScan {
    /// Continues in snapshots of its own until the visitor has enough or no match remains.
    pub(crate) fn run(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        visit: &mut MatchVisitor<'_>,
    ) -> Result<()> {
        while !self.is_done() {
            // Read before the snapshot begins, so that the snapshot contains every record up to this one.
            let limit = collection.readable_to();
            op.session().begin()?;
            let pause =
                self.slice(op, collection, limit, Some(Duration::from_millis(SNAPSHOT_LIFETIME_MS)), visit);
            op.session().rollback();
            match pause? {
                Pause::End => self.leg += 1,
                Pause::Enough => return Ok(()),
                Pause::Renew => {}
            }
        }
        Ok(())
    }

    /// Continues in the caller's transaction until the visitor has enough or no match remains.
    pub(crate) fn run_within(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        visit: &mut MatchVisitor<'_>,
    ) -> Result<()> {
        while !self.is_done() {
            match self.slice(op, collection, i64::MAX, None, visit)? {
                Pause::End => self.leg += 1,
                Pause::Enough => return Ok(()),
                Pause::Renew => {}
            }
        }
        Ok(())
    }

    fn slice(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        limit: i64,
        budget: Option<Duration>,
        visit: &mut MatchVisitor<'_>,
    ) -> Result<Pause> {
        let (filter, fetch, seen) = (self.filter.as_ref(), self.fetch, self.seen.as_mut());
        let owned = self.owned.as_deref();
        let Some(tally) = self.tallies.get_mut(self.leg) else { return Ok(Pause::End) };
        let mut step = ScanCall { filter, fetch, seen, owned, tally, visit, pace: YieldPolicy::new(budget) };
        match self.legs.get_mut(self.leg) {
            None => Ok(Pause::End),
            Some(ScanPart::Records { walk, after, first }) => {
                step.records(op, collection, RecordWalk { limit, first: *first, ..*walk }, after)
            }
            Some(ScanPart::Id { value, done }) => step.id(op, collection, value, done),
            Some(ScanPart::Keys { index, ranges, backwards, range, after }) => {
                step.keys(op, collection, index, &KeyWalk { ranges, backwards: *backwards }, range, after)
            }
        }
    }
}

/// Counts keys up to the next check.
struct YieldPolicy {
    keys: u32,
    until: Option<Instant>,
}

impl YieldPolicy {
    fn new(budget: Option<Duration>) -> YieldPolicy {
        YieldPolicy { keys: 0, until: budget.map(|budget| Instant::now() + budget) }
    }

    /// Counts a key; true when it is time for a new snapshot.
    fn is_over(&mut self, op: &OperationContext<'_>) -> Result<bool> {
        self.keys += 1;
        if !self.keys.is_multiple_of(KEYS_BETWEEN_CHECKS) {
            return Ok(false);
        }
        op.check_interrupt()?;
        Ok(self.until.is_some_and(|until| Instant::now() >= until))
    }
}

/// Positions the cursor at the first record, or after the last one seen.
fn go_on(cursor: &mut dyn Cursor, walk: RecordWalk, after: Option<i64>) -> Result<bool> {
    let Some(record) = after else {
        return Ok(match walk.first {
            Some(first) if !walk.backwards => cursor.seek(Key::Number(first))?,
            _ if walk.backwards => cursor.last()?,
            _ => cursor.first()?,
        });
    };
    let key = Key::Number(record);
    let found = if walk.backwards { cursor.seek_back(key)? } else { cursor.seek(key)? };
    if found && cursor.key().number() == Some(record) {
        return Ok(if walk.backwards { cursor.previous()? } else { cursor.next()? });
    }
    if walk.capped {
        let what = format!(
            "CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId({record})"
        );
        return Err(Failure::new(Code::CappedPositionLost, what));
    }
    Ok(found)
}

/// The ranges of an index that a scan covers, and its direction.
struct KeyWalk<'a> {
    ranges: &'a [Range],
    backwards: bool,
}

/// One call of a scan on one of its legs.
struct ScanCall<'s, 'v> {
    filter: Option<&'s Filter>,
    fetch: Fetch,
    seen: Option<&'s mut HashSet<i64>>,
    owned: Option<&'s Ownership>,
    tally: &'s mut ScanTally,
    visit: &'s mut MatchVisitor<'v>,
    pace: YieldPolicy,
}

impl ScanCall<'_, '_> {
    fn records(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        walk: RecordWalk,
        after: &mut Option<i64>,
    ) -> Result<Pause> {
        let session = op.session();
        let mut cursor = session.cursor(collection.records_table()?)?;
        let mut more = go_on(&mut *cursor, walk, *after)?;
        self.tally.seeks += 1;
        while more {
            let record = cursor.key().number().unwrap_or_default();
            if record > walk.limit {
                if !walk.backwards {
                    return Ok(Pause::End);
                }
                more = cursor.previous()?;
                continue;
            }
            op.figures.docs_examined += 1;
            self.tally.documents += 1;
            let flow = self.offer(record, document_of(cursor.value())?)?;
            if flow == ScanFlow::NotThis {
                return Ok(Pause::Enough);
            }
            *after = Some(record);
            if flow == ScanFlow::Enough {
                return Ok(Pause::Enough);
            }
            if self.pace.is_over(op)? {
                return Ok(Pause::Renew);
            }
            more = if walk.backwards { cursor.previous()? } else { cursor.next()? };
        }
        Ok(Pause::End)
    }

    fn id(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        value: &bson::Bson,
        done: &mut bool,
    ) -> Result<Pause> {
        if *done {
            return Ok(Pause::End);
        }
        let mut buffer = buffers::take();
        let found = op.document_by_id(collection, value, &mut buffer)?;
        self.tally.seeks += 1;
        self.tally.keys += u64::from(found.is_some());
        self.tally.documents += u64::from(found.is_some());
        let flow = match found {
            Some(record) => self.offer(record, document_of(&buffer)?),
            None => Ok(ScanFlow::More),
        };
        buffers::give(buffer);
        // The leg holds at most one record; one that was not taken comes again.
        let flow = flow?;
        *done = flow != ScanFlow::NotThis;
        Ok(if flow == ScanFlow::More { Pause::End } else { Pause::Enough })
    }

    fn keys(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        index: &Index,
        walk: &KeyWalk<'_>,
        range: &mut usize,
        after: &mut Option<Vec<u8>>,
    ) -> Result<Pause> {
        let session = op.session();
        let mut cursor = session.cursor(index.table())?;
        let mut buffer = buffers::take();
        let mut pause = Pause::End;
        while let Some(current) = walk.current(*range) {
            let mut more = walk.enter(&mut *cursor, current, after.as_deref())?;
            self.tally.seeks += 1;
            while more && walk.within(&*cursor, current) {
                op.figures.keys_examined += 1;
                self.tally.keys += 1;
                let flow = self.entry(op, collection, index, &*cursor, &mut buffer)?;
                if flow == ScanFlow::NotThis {
                    buffers::give(buffer);
                    // The next call continues behind the key before this one, or at the start of the range again.
                    let back = if walk.backwards { cursor.next()? } else { cursor.previous()? };
                    let seen = back && KeyWalk::holds(&*cursor, current);
                    *after = if seen { cursor.key().bytes().map(<[u8]>::to_vec) } else { None };
                    return Ok(Pause::Enough);
                }
                let renew = self.pace.is_over(op)?;
                if flow == ScanFlow::Enough || renew {
                    *after = cursor.key().bytes().map(<[u8]>::to_vec);
                    pause = if flow == ScanFlow::Enough { Pause::Enough } else { Pause::Renew };
                    buffers::give(buffer);
                    return Ok(pause);
                }
                more = if walk.backwards { cursor.previous()? } else { cursor.next()? };
            }
            *after = None;
            *range = if walk.backwards { *range - 1 } else { *range + 1 };
            pause = Pause::End;
        }
        buffers::give(buffer);
        Ok(pause)
    }

    fn entry(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        index: &Index,
        cursor: &dyn Cursor,
        buffer: &mut Vec<u8>,
    ) -> Result<ScanFlow> {
        let entry = index.read_entry(cursor.key().bytes().unwrap_or_default(), cursor.value())?;
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&entry.record)) {
            self.tally.repeated += 1;
            return Ok(ScanFlow::More);
        }
        buffer.clear();
        match self.fetch {
            Fetch::Nothing => buffer.extend_from_slice(EMPTY_DOCUMENT),
            Fetch::Key if key_document(index, &entry, buffer)? => {}
            Fetch::Key | Fetch::Record => {
                op.figures.docs_examined += 1;
                self.tally.documents += 1;
                if !op.session().get(collection.records_table()?, Key::Number(entry.record), buffer)? {
                    let what = format!(
                        "index {} of {} points to a record that is not there",
                        index.name(),
                        collection.namespace()
                    );
                    return Err(Failure::new(Code::InternalError, what));
                }
            }
        }
        self.offer(entry.record, document_of(buffer)?)
    }

    fn offer(&mut self, record: i64, document: &RawDocument) -> Result<ScanFlow> {
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&record)) {
            return Ok(ScanFlow::More);
        }
        let matched = match self.filter {
            None => FilterMatch::default(),
            Some(filter) => match filter.matches(document)? {
                Some(matched) => matched,
                None => return Ok(ScanFlow::More),
            },
        };
        if self.owned.is_some_and(|owned| !owned.owns(document)) {
            return Ok(ScanFlow::More);
        }
        let flow = (self.visit)(ScanMatch { record, document, matched })?;
        if flow != ScanFlow::NotThis {
            self.tally.matched += 1;
            if let Some(seen) = &mut self.seen {
                seen.insert(record);
            }
        }
        Ok(flow)
    }
}

/// Appends the values of an entry as a document; false if a value is null, as the index does not tell null from missing.
fn key_document(index: &Index, entry: &IndexEntry<'_>, out: &mut Vec<u8>) -> Result<bool> {
    let values = index.key_values(entry.key, entry.type_bits)?;
    if values.iter().any(|value| matches!(value, Bson::Null | Bson::Undefined)) {
        return Ok(false);
    }
    let mut writer = fathom_wire::DocumentWriter::new(out);
    for (field, value) in index.pattern().fields.iter().zip(&values) {
        writer.bson(&field.path, value);
    }
    writer.end();
    Ok(true)
}

impl KeyWalk<'_> {
    /// The range at a position; backwards the position counts down from the number of ranges.
    fn current(&self, range: usize) -> Option<&Range> {
        if self.backwards { self.ranges.get(range.checked_sub(1)?) } else { self.ranges.get(range) }
    }

    /// Positions the cursor at the first key of the range, or after the last one seen.
    fn enter(&self, cursor: &mut dyn Cursor, range: &Range, after: Option<&[u8]>) -> Result<bool> {
        if self.backwards {
            let bound = after.unwrap_or(&range.high);
            let found = cursor.seek_back(Key::Bytes(bound))?;
            // The range excludes its high end, and the scan excludes the key already seen.
            return Ok(if found && cursor.key().bytes() == Some(bound) { cursor.previous()? } else { found });
        }
        let found = cursor.seek(Key::Bytes(after.unwrap_or(&range.low)))?;
        Ok(if found && after.is_some() && cursor.key().bytes() == after { cursor.next()? } else { found })
    }

    /// Whether the cursor's key lies in the range, in either direction.
    fn holds(cursor: &dyn Cursor, range: &Range) -> bool {
        let key = cursor.key().bytes().unwrap_or_default();
        key >= range.low.as_slice() && key < range.high.as_slice()
    }

    fn within(&self, cursor: &dyn Cursor, range: &Range) -> bool {
        let key = cursor.key().bytes().unwrap_or_default();
        if self.backwards { key >= range.low.as_slice() } else { key < range.high.as_slice() }
    }
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];
