//! A query as it rests between two batches: what was asked for, its plan, and how far it is in its walk through the collection: which legs the plan
//! has, and where each stopped. How it is planned and goes on is in `execution`.
//!
//! A scan holds no engine resource between calls. It keeps the last key it saw and seeks past it when it goes on, so that a
//! client's cursor may rest for minutes without pinning a snapshot. How it goes on is in `execution::scan`.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bson::RawDocumentBuf;
use fathom_query::{Access, Code, Failure, Filter, Hint, Plan, Projection, Range, Sort, Variables};
use fathom_sharding::Ownership;

use crate::Result;
use crate::storage::{Index, State};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct FindQuery {
    pub(crate) filter: Filter,
    pub(crate) sort: Option<Sort>,
    pub(crate) projection: Option<Projection>,
    pub(crate) hint: Option<Hint>,
    pub(crate) skip: u64,
    /// None: no limit.
    pub(crate) limit: Option<u64>,
    pub(crate) show_record_id: bool,
    pub(crate) return_key: bool,
    /// Whether only the number of matches is wanted.
    pub(crate) count_only: bool,
    /// The ends of a walk through the hinted index.
    pub(crate) min: Option<RawDocumentBuf>,
    pub(crate) max: Option<RawDocumentBuf>,
    /// The fields that whoever asks looks at, where no projection says so: an index that has them all spares the records.
    pub(crate) needed: Option<Projection>,
}

impl FindQuery {
    /// A query for all matches of a filter, as they come.
    pub(crate) fn of(filter: Filter) -> FindQuery {
        FindQuery {
            filter,
            sort: None,
            projection: None,
            hint: None,
            skip: 0,
            limit: None,
            show_record_id: false,
            return_key: false,
            count_only: false,
            min: None,
            max: None,
            needed: None,
        }
    }
}

/// A query under way, between batches.
#[derive(Debug)]
pub(crate) struct FindState {
    pub(crate) query: FindQuery,
    pub(crate) plan: Plan,
    pub(crate) rejected: Vec<Plan>,
    pub(crate) scan: Scan,
    /// The sorted rest, once a sort that no index gives has run.
    pub(crate) sorted: Option<VecDeque<RawDocumentBuf>>,
    pub(crate) skipped: u64,
    pub(crate) returned: u64,
    pub(crate) variables: Variables,
    pub(crate) return_key: Option<Arc<Index>>,
}

impl FindState {
    /// The plan, and those that lost.
    pub(crate) fn plans(&self) -> (&Plan, &[Plan]) {
        (&self.plan, &self.rejected)
    }

    /// The walk, with what it did so far.
    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }

    /// How many documents were handed over.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    /// The query.
    pub(crate) fn query(&self) -> &FindQuery {
        &self.query
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        let rest = match &self.sorted {
            Some(sorted) => sorted.is_empty(),
            None => self.scan.is_done(),
        };
        rest || self.query.limit.is_some_and(|limit| self.returned >= limit)
    }

    /// Lets a tailable cursor look for what came after its end.
    pub(crate) fn rewind_tail(&mut self) {
        self.scan.rewind_tail();
    }
}

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

/// A walk over records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordWalk {
    pub(crate) backwards: bool,
    /// The record that was seen last must still be there: what fell out behind it was never seen.
    pub(crate) capped: bool,
    /// No record after this one may be read yet.
    pub(crate) limit: i64,
    /// Where to begin, if not at the end of the collection.
    pub(crate) first: Option<i64>,
}

/// One way through a collection.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) legs: Vec<Leg>,
    pub(crate) leg: usize,
    pub(crate) filter: Option<Filter>,
    pub(crate) fetch: Fetch,
    /// Records that were seen, where a record can come up twice.
    pub(crate) seen: Option<HashSet<i64>>,
    /// What the shard owns, where others' documents may be among those that it has.
    pub(crate) owned: Option<Arc<Ownership>>,
    /// What each leg did, for explain.
    pub(crate) tallies: Vec<Tally>,
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

/// A part of a scan: what it walks, and how far it is.
#[derive(Debug)]
pub(crate) enum Leg {
    Records { walk: RecordWalk, after: Option<i64>, first: Option<i64> },
    Id { value: bson::Bson, done: bool },
    Keys { index: Arc<Index>, ranges: Vec<Range>, backwards: bool, range: usize, after: Option<Vec<u8>> },
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
