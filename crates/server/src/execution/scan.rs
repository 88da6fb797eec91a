//! Walks a plan: records or index entries, one after the other, resumable where it stopped.
//!
//! A scan holds no engine resource between calls. It keeps the last key it saw and seeks past it when it goes on, so that a
//! client's cursor may rest for minutes without pinning a snapshot. Within a call the snapshot is renewed every
//! [`SNAPSHOT_MS`], where mongod yields.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use fathom_query::{Access, Code, Failure, Filter, Matched, Plan, Range};
use fathom_sharding::Ownership;

use super::step::{KeyWalk, Pace, RecordWalk, Step};
use crate::Result;
use crate::operation::Operation;
use crate::storage::{Collection, Index, State};

/// How long one snapshot is read, in milliseconds; longer ones keep old versions in the engine's cache.
const SNAPSHOT_MS: u64 = 100;

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
    /// What the shard owns, where others' documents may be among those that it has.
    owned: Option<Arc<Ownership>>,
    /// What each leg did, for explain.
    tallies: Vec<Tally>,
}

/// What one leg of a scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Index entries that were looked at.
    pub(crate) keys: u64,
    /// Records that were read.
    pub(crate) documents: u64,
    /// How often a cursor was positioned by a key.
    pub(crate) seeks: u64,
    /// Entries whose record had been seen before.
    pub(crate) repeated: u64,
    /// Matches that were handed over and taken.
    pub(crate) matched: u64,
}

#[derive(Debug)]
enum Leg {
    Records { walk: RecordWalk, after: Option<i64>, first: Option<i64> },
    Id { value: bson::Bson, done: bool },
    Keys { index: Arc<Index>, ranges: Vec<Range>, backwards: bool, range: usize, after: Option<Vec<u8>> },
}

pub(super) enum Pause {
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
        let tallies = vec![Tally::default(); legs.len()];
        let seen = (!unique_records).then(HashSet::new);
        Ok(Scan { legs, leg: 0, filter, fetch, seen, owned: None, tallies })
    }

    /// The same, leaving out what the shard does not own.
    #[must_use]
    pub(crate) fn owned_by(mut self, owned: Option<Arc<Ownership>>) -> Scan {
        if owned.is_some() {
            // A key need not hold the shard key.
            self.fetch = Fetch::Record;
        }
        self.owned = owned;
        self
    }

    /// What each leg did so far.
    pub(crate) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Whether only index entries are read.
    pub(crate) fn fetch(&self) -> Fetch {
        self.fetch
    }

    /// Begins a walk over records at this one or the next, for a collection whose records are numbered by what is asked for.
    pub(crate) fn begin_at(&mut self, record: i64) {
        if let [Leg::Records { walk, first, .. }] = self.legs.as_mut_slice()
            && !walk.backwards
        {
            *first = Some(record);
        }
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
            // Before the snapshot: what may be read by now is in it.
            let limit = collection.readable_to();
            op.session().begin()?;
            let pause = self.slice(op, collection, limit, Some(Duration::from_millis(SNAPSHOT_MS)), visit);
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
        op: &mut Operation<'_>,
        collection: &Collection,
        limit: i64,
        budget: Option<Duration>,
        visit: &mut Visit<'_>,
    ) -> Result<Pause> {
        let (filter, fetch, seen) = (self.filter.as_ref(), self.fetch, self.seen.as_mut());
        let owned = self.owned.as_deref();
        let Some(tally) = self.tallies.get_mut(self.leg) else { return Ok(Pause::End) };
        let mut step = Step { filter, fetch, seen, owned, tally, visit, pace: Pace::new(budget) };
        match self.legs.get_mut(self.leg) {
            None => Ok(Pause::End),
            Some(Leg::Records { walk, after, first }) => {
                step.records(op, collection, RecordWalk { limit, first: *first, ..*walk }, after)
            }
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
        Access::Scan { backwards } => {
            let capped = state.options.is_capped();
            let walk = RecordWalk { backwards: *backwards, capped, limit: i64::MAX, first: None };
            legs.push(Leg::Records { walk, after: None, first: None });
        }
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
