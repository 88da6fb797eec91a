//! Walks a plan: records or index entries, one after the other, resumable where it stopped.
//!
//! A scan holds no engine resource between calls. It keeps the last key it saw and seeks past it when it goes on, so that a
//! client's cursor may rest for minutes without pinning a snapshot. Within a call the snapshot is renewed every
//! [`SNAPSHOT_MS`], where mongod yields.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawDocument};
use fathom_engine::{Cursor, Key};
use fathom_query::{Access, Code, Failure, Filter, Matched, Plan, Range};

use crate::Result;
use crate::operation::Operation;
use crate::storage::{Collection, Index, State};

/// How long one snapshot is read, in milliseconds; longer ones keep old versions in the engine's cache.
const SNAPSHOT_MS: u64 = 100;
/// After how many keys the clock and the kill switch are looked at, as mongod does.
const KEYS_BETWEEN_CHECKS: u32 = 128;

/// What is wanted of each match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// The document.
    Record,
    /// A document made of the index's values (a covered query).
    Key,
    /// Only that it is there (a count).
    Nothing,
}

/// A match, valid while the visitor looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) record: i64,
    pub(crate) document: &'a RawDocument,
    pub(crate) matched: Matched,
}

/// Whether the visitor wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    /// This match was taken, and no other is wanted now.
    Enough,
    /// This match was not taken; the next call begins with it again.
    NotThis,
}

/// What one call of the visitor gets.
pub(crate) type Visit<'v> = dyn FnMut(Found<'_>) -> Result<Flow> + 'v;

/// One way through a collection.
#[derive(Debug)]
pub(crate) struct Scan {
    legs: Vec<Leg>,
    leg: usize,
    filter: Option<Filter>,
    fetch: Fetch,
    /// Records that were seen, where a record can come up twice.
    seen: Option<HashSet<i64>>,
}

#[derive(Debug)]
enum Leg {
    Records { backwards: bool, after: Option<i64> },
    Id { value: bson::Bson, done: bool },
    Keys { index: Arc<Index>, ranges: Vec<Range>, backwards: bool, range: usize, after: Option<Vec<u8>> },
}

enum Pause {
    /// The leg is at its end.
    End,
    /// The visitor has enough.
    Enough,
    /// Time for a new snapshot.
    Renew,
}

impl Scan {
    /// A scan over a plan that was made for `state`; `filter` is left out where the plan says all of it.
    pub(crate) fn new(plan: &Plan, state: &State, filter: &Filter, fetch: Fetch) -> Result<Scan> {
        let mut legs = Vec::new();
        let unique_records = add_legs(&plan.access, state, &mut legs)?;
        let filter = (plan.filter && !filter.is_empty()).then(|| filter.clone());
        let fetch = if filter.is_some() { Fetch::Record } else { fetch };
        Ok(Scan { legs, leg: 0, filter, fetch, seen: (!unique_records).then(HashSet::new) })
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.leg >= self.legs.len()
    }

    /// Lets a tailable cursor look for what came after its end.
    pub(crate) fn rewind_tail(&mut self) {
        self.leg = 0;
    }

    /// Refuses to go on when an index that the scan walks was dropped meanwhile.
    pub(crate) fn check(&self, state: &State) -> Result<()> {
        let here = |index: &Arc<Index>| state.indexes.iter().any(|other| Arc::ptr_eq(index, other));
        match self.legs.iter().find(|leg| matches!(leg, Leg::Keys { index, .. } if !here(index))) {
            Some(Leg::Keys { index, .. }) => Err(Failure::new(
                Code::QueryPlanKilled,
                format!("query plan killed :: index '{}' dropped", index.name()),
            )),
            _ => Ok(()),
        }
    }

    /// Goes on in snapshots of its own until the visitor has enough or nothing is left.
    pub(crate) fn run(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        while !self.is_done() {
            op.session().begin()?;
            let pause = self.slice(op, collection, Some(Duration::from_millis(SNAPSHOT_MS)), visit);
            op.session().rollback();
            match pause? {
                Pause::End => self.leg += 1,
                Pause::Enough => return Ok(()),
                Pause::Renew => {}
            }
        }
        Ok(())
    }

    /// Goes on in the caller's transaction until the visitor has enough or nothing is left.
    pub(crate) fn run_within(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        while !self.is_done() {
            match self.slice(op, collection, None, visit)? {
                Pause::End => self.leg += 1,
                Pause::Enough => return Ok(()),
                Pause::Renew => {}
            }
        }
        Ok(())
    }

    fn slice(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        budget: Option<Duration>,
        visit: &mut Visit<'_>,
    ) -> Result<Pause> {
        let (filter, fetch, seen) = (self.filter.as_ref(), self.fetch, self.seen.as_mut());
        let mut step = Step { filter, fetch, seen, visit, pace: Pace::new(budget) };
        match self.legs.get_mut(self.leg) {
            None => Ok(Pause::End),
            Some(Leg::Records { backwards, after }) => step.records(op, collection, *backwards, after),
            Some(Leg::Id { value, done }) => step.id(op, collection, value, done),
            Some(Leg::Keys { index, ranges, backwards, range, after }) => {
                step.keys(op, collection, index, &KeyWalk { ranges, backwards: *backwards }, range, after)
            }
        }
    }
}

/// Adds the legs of an access path; whether each record comes up at most once.
fn add_legs(access: &Access, state: &State, legs: &mut Vec<Leg>) -> Result<bool> {
    match access {
        Access::Scan { backwards } => legs.push(Leg::Records { backwards: *backwards, after: None }),
        Access::Id(value) => legs.push(Leg::Id { value: value.clone(), done: false }),
        Access::Nothing => {}
        Access::Index { index, ranges, backwards, .. } => {
            let index = state.indexes.get(*index);
            let index =
                index.ok_or_else(|| Failure::new(Code::QueryPlanKilled, "the plan's index is gone"))?;
            index.count_access();
            let range = if *backwards { ranges.len() } else { 0 };
            legs.push(Leg::Keys {
                index: Arc::clone(index),
                ranges: ranges.clone(),
                backwards: *backwards,
                range,
                after: None,
            });
            return Ok(!index.is_multikey());
        }
        Access::Union(plans) => {
            for plan in plans {
                add_legs(&plan.access, state, legs)?;
            }
            return Ok(false);
        }
    }
    Ok(true)
}

/// When to look up from the keys.
struct Pace {
    keys: u32,
    until: Option<Instant>,
}

impl Pace {
    fn new(budget: Option<Duration>) -> Pace {
        Pace { keys: 0, until: budget.map(|budget| Instant::now() + budget) }
    }

    /// Counts a key; true when it is time for a new snapshot.
    fn is_over(&mut self, op: &Operation<'_>) -> Result<bool> {
        self.keys += 1;
        if !self.keys.is_multiple_of(KEYS_BETWEEN_CHECKS) {
            return Ok(false);
        }
        op.check_interrupt()?;
        Ok(self.until.is_some_and(|until| Instant::now() >= until))
    }
}

struct KeyWalk<'a> {
    ranges: &'a [Range],
    backwards: bool,
}

struct Step<'s, 'v> {
    filter: Option<&'s Filter>,
    fetch: Fetch,
    seen: Option<&'s mut HashSet<i64>>,
    visit: &'s mut Visit<'v>,
    pace: Pace,
}

impl Step<'_, '_> {
    fn records(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        backwards: bool,
        after: &mut Option<i64>,
    ) -> Result<Pause> {
        let session = op.session();
        let mut cursor = session.cursor(collection.records_table()?)?;
        let mut more = match (*after, backwards) {
            (None, false) => cursor.first()?,
            (None, true) => cursor.last()?,
            (Some(record), false) if record < i64::MAX => cursor.seek(Key::Number(record + 1))?,
            (Some(record), true) if record > i64::MIN => cursor.seek_back(Key::Number(record - 1))?,
            (Some(_), _) => false,
        };
        while more {
            let record = cursor.key().number().unwrap_or_default();
            op.figures.docs_examined += 1;
            match self.offer(record, document_of(cursor.value())?)? {
                Flow::NotThis => return Ok(Pause::Enough),
                Flow::Enough => {
                    *after = Some(record);
                    return Ok(Pause::Enough);
                }
                Flow::More => {}
            }
            if self.pace.is_over(op)? {
                *after = Some(record);
                return Ok(Pause::Renew);
            }
            more = if backwards { cursor.previous()? } else { cursor.next()? };
        }
        Ok(Pause::End)
    }

    fn id(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        value: &bson::Bson,
        done: &mut bool,
    ) -> Result<Pause> {
        if *done {
            return Ok(Pause::End);
        }
        let mut buffer = op.take_buffer();
        let found = op.document_by_id(collection, value, &mut buffer)?;
        let flow = match found {
            Some(record) => self.offer(record, document_of(&buffer)?),
            None => Ok(Flow::More),
        };
        op.give_buffer(buffer);
        // The leg holds at most one record; one that was not taken comes again.
        let flow = flow?;
        *done = flow != Flow::NotThis;
        Ok(if flow == Flow::More { Pause::End } else { Pause::Enough })
    }

    fn keys(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        index: &Index,
        walk: &KeyWalk<'_>,
        range: &mut usize,
        after: &mut Option<Vec<u8>>,
    ) -> Result<Pause> {
        let session = op.session();
        let mut cursor = session.cursor(index.table())?;
        let mut buffer = op.take_buffer();
        let mut pause = Pause::End;
        while let Some(current) = walk.current(*range) {
            let mut more = walk.enter(&mut *cursor, current, after.as_deref())?;
            while more && walk.within(&*cursor, current) {
                op.figures.keys_examined += 1;
                let flow = self.entry(op, collection, index, &*cursor, &mut buffer)?;
                if flow == Flow::NotThis {
                    op.give_buffer(buffer);
                    return Ok(Pause::Enough);
                }
                let renew = self.pace.is_over(op)?;
                if flow == Flow::Enough || renew {
                    *after = cursor.key().bytes().map(<[u8]>::to_vec);
                    pause = if flow == Flow::Enough { Pause::Enough } else { Pause::Renew };
                    op.give_buffer(buffer);
                    return Ok(pause);
                }
                more = if walk.backwards { cursor.previous()? } else { cursor.next()? };
            }
            *after = None;
            *range = if walk.backwards { *range - 1 } else { *range + 1 };
            pause = Pause::End;
        }
        op.give_buffer(buffer);
        Ok(pause)
    }

    fn entry(
        &mut self,
        op: &mut Operation<'_>,
        collection: &Collection,
        index: &Index,
        cursor: &dyn Cursor,
        buffer: &mut Vec<u8>,
    ) -> Result<Flow> {
        let entry = index.read_entry(cursor.key().bytes().unwrap_or_default(), cursor.value())?;
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&entry.record)) {
            return Ok(Flow::More);
        }
        buffer.clear();
        match self.fetch {
            Fetch::Nothing => buffer.extend_from_slice(EMPTY_DOCUMENT),
            Fetch::Key => {
                let values: Document = index.key_document(entry.key, entry.type_bits)?;
                buffer.extend_from_slice(&crate::parse::bytes_of(&values)?);
            }
            Fetch::Record => {
                op.figures.docs_examined += 1;
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

    fn offer(&mut self, record: i64, document: &RawDocument) -> Result<Flow> {
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&record)) {
            return Ok(Flow::More);
        }
        let matched = match self.filter {
            None => Matched::default(),
            Some(filter) => match filter.matches(document)? {
                Some(matched) => matched,
                None => return Ok(Flow::More),
            },
        };
        let flow = (self.visit)(Found { record, document, matched })?;
        if flow != Flow::NotThis
            && let Some(seen) = &mut self.seen
        {
            seen.insert(record);
        }
        Ok(flow)
    }
}

impl KeyWalk<'_> {
    /// The range at a place; backwards the place counts down from the number of ranges.
    fn current(&self, range: usize) -> Option<&Range> {
        if self.backwards { self.ranges.get(range.checked_sub(1)?) } else { self.ranges.get(range) }
    }

    /// Goes to the first key of the range, or past the last one that was seen.
    fn enter(&self, cursor: &mut dyn Cursor, range: &Range, after: Option<&[u8]>) -> Result<bool> {
        if self.backwards {
            let bound = after.unwrap_or(&range.high);
            let found = cursor.seek_back(Key::Bytes(bound))?;
            // The high end does not belong to the range, nor does the key that was seen.
            return Ok(if found && cursor.key().bytes() == Some(bound) { cursor.previous()? } else { found });
        }
        let found = cursor.seek(Key::Bytes(after.unwrap_or(&range.low)))?;
        Ok(if found && after.is_some() && cursor.key().bytes() == after { cursor.next()? } else { found })
    }

    fn within(&self, cursor: &dyn Cursor, range: &Range) -> bool {
        let key = cursor.key().bytes().unwrap_or_default();
        if self.backwards { key >= range.low.as_slice() } else { key < range.high.as_slice() }
    }
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

/// Bytes that a table holds as a document.
pub(crate) fn document_of(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes)
        .map_err(|error| Failure::new(Code::InvalidBSON, format!("a record is not a BSON document: {error}")))
}
