//! The state of a query between two batches: its options, its plan, and its position in the collection, that is, the legs
//! of the plan and the position of each. Planning and execution are in `execution`.
//!
//! A scan holds no engine resource between calls. It keeps the last key that it saw and seeks past it when it continues, so
//! that a client's cursor may be idle for minutes without pinning a snapshot. `execution::scan` continues it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bson::RawDocumentBuf;
use fathom_query::{Access, Code, Failure, Filter, Hint, Plan, Projection, Range, Sort, Variables};
use fathom_sharding::Ownership;

use crate::Result;
use crate::storage::{CollectionState, Index};

/// The options of the query.
#[derive(Clone, Debug)]
pub(crate) struct FindQuery {
    pub(crate) filter: Filter,
    pub(crate) sort: Option<Sort>,
    pub(crate) projection: Option<Projection>,
    pub(crate) hint: Option<Hint>,
    pub(crate) skip: u64,
    /// `None` if there is no limit.
    pub(crate) limit: Option<u64>,
    pub(crate) show_record_id: bool,
    pub(crate) return_key: bool,
    /// Whether only the number of matches is requested.
    pub(crate) count_only: bool,
    /// The bounds of a scan of the hinted index.
    pub(crate) min: Option<RawDocumentBuf>,
    pub(crate) max: Option<RawDocumentBuf>,
    /// The fields that the caller reads, if no projection tells: an index that has them all avoids reading the records.
    pub(crate) needed: Option<Projection>,
}

impl FindQuery {
    /// A query for all matches of a filter, in any order.
    pub(crate) fn new(filter: Filter) -> FindQuery {
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

/// A query in progress, between batches.
#[derive(Debug)]
pub(crate) struct FindState {
    pub(crate) query: FindQuery,
    pub(crate) plan: Plan,
    pub(crate) rejected: Vec<Plan>,
    pub(crate) scan: CollectionScan,
    /// The remaining sorted documents, after a sort that no index provides.
    pub(crate) sorted: Option<VecDeque<RawDocumentBuf>>,
    pub(crate) skipped: u64,
    pub(crate) returned: u64,
    pub(crate) variables: Variables,
    pub(crate) return_key: Option<Arc<Index>>,
}

impl FindState {
    /// The chosen plan and the rejected plans.
    pub(crate) fn plans(&self) -> (&Plan, &[Plan]) {
        (&self.plan, &self.rejected)
    }

    /// The scan, with its counts so far.
    pub(crate) fn scan(&self) -> &CollectionScan {
        &self.scan
    }

    /// The number of documents returned so far.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

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

    /// Lets a tailable cursor look for documents after its end.
    pub(crate) fn rewind_tail(&mut self) {
        self.scan.rewind_tail();
    }
}

/// The form in which each match is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    Record,
    /// A document built from the index's values (a covered query).
    Key,
    /// Only its existence (a count).
    Nothing,
}

/// A scan over records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordWalk {
    pub(crate) backwards: bool,
    /// Whether the last record seen must still exist: if not, records after it may have been removed unseen.
    pub(crate) capped: bool,
    /// The last record that may be read yet.
    pub(crate) limit: i64,
    /// The record to begin at, if not at an end of the collection.
    pub(crate) first: Option<i64>,
}

/// One scan through a collection.
#[derive(Debug)]
pub(crate) struct CollectionScan {
    pub(crate) legs: Vec<ScanPart>,
    pub(crate) leg: usize,
    pub(crate) filter: Option<Filter>,
    pub(crate) fetch: Fetch,
    /// The records seen, if a record can come up twice.
    pub(crate) seen: Option<HashSet<i64>>,
    /// The ranges that the shard owns, if its collection may hold documents of other shards.
    pub(crate) owned: Option<Arc<Ownership>>,
    /// The work of each leg, for explain.
    pub(crate) tallies: Vec<ScanTally>,
}

/// The work of one leg of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanTally {
    /// The number of index entries examined.
    pub(crate) keys: u64,
    /// The number of records read.
    pub(crate) documents: u64,
    /// The number of times a cursor was positioned by a key.
    pub(crate) seeks: u64,
    /// Entries whose record had been seen before.
    pub(crate) repeated: u64,
    /// Matches that the visitor took.
    pub(crate) matched: u64,
}

/// A part of a scan: the records or keys that it covers, and its position.
#[derive(Debug)]
pub(crate) enum ScanPart {
    Records { walk: RecordWalk, after: Option<i64>, first: Option<i64> },
    Id { value: bson::Bson, done: bool },
    Keys { index: Arc<Index>, ranges: Vec<Range>, backwards: bool, range: usize, after: Option<Vec<u8>> },
}

impl CollectionScan {
    /// A scan for a plan that was made for `state`; `filter` is omitted if the plan implies all of it.
    pub(crate) fn new(
        plan: &Plan,
        state: &CollectionState,
        filter: &Filter,
        fetch: Fetch,
    ) -> Result<CollectionScan> {
        let mut legs = Vec::new();
        let unique_records = add_legs(&plan.access, state, &mut legs)?;
        let filter = (plan.filter && !filter.is_empty()).then(|| filter.clone());
        let fetch = if filter.is_some() { Fetch::Record } else { fetch };
        let tallies = vec![ScanTally::default(); legs.len()];
        let seen = (!unique_records).then(HashSet::new);
        Ok(CollectionScan { legs, leg: 0, filter, fetch, seen, owned: None, tallies })
    }

    /// The same, without documents that the shard does not own.
    #[must_use]
    pub(crate) fn owned_by(mut self, owned: Option<Arc<Ownership>>) -> CollectionScan {
        if owned.is_some() {
            // An index key may lack the shard key.
            self.fetch = Fetch::Record;
        }
        self.owned = owned;
        self
    }

    /// The work of each leg so far.
    pub(crate) fn tallies(&self) -> &[ScanTally] {
        &self.tallies
    }

    /// The form in which each match is fetched.
    pub(crate) fn fetch(&self) -> Fetch {
        self.fetch
    }

    /// Begins a scan over records at this record or the next, for a collection whose record numbers are what the query asks for.
    pub(crate) fn begin_at(&mut self, record: i64) {
        if let [ScanPart::Records { walk, first, .. }] = self.legs.as_mut_slice()
            && !walk.backwards
        {
            *first = Some(record);
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.leg >= self.legs.len()
    }

    /// Lets a tailable cursor look for documents after its end.
    pub(crate) fn rewind_tail(&mut self) {
        self.leg = 0;
    }

    /// Fails if an index that the scan uses was dropped meanwhile.
    pub(crate) fn check(&self, state: &CollectionState) -> Result<()> {
        let here = |index: &Arc<Index>| state.indexes.iter().any(|other| Arc::ptr_eq(index, other));
        match self.legs.iter().find(|leg| matches!(leg, ScanPart::Keys { index, .. } if !here(index))) {
            Some(ScanPart::Keys { index, .. }) => Err(Failure::new(
                Code::QueryPlanKilled,
                format!("query plan killed :: index '{}' dropped", index.name()),
            )),
            _ => Ok(()),
        }
    }
}

/// Adds the legs of an access path; returns whether each record comes up at most once.
fn add_legs(access: &Access, state: &CollectionState, legs: &mut Vec<ScanPart>) -> Result<bool> {
    match access {
        Access::Scan { backwards } => {
            let capped = state.options.is_capped();
            let walk = RecordWalk { backwards: *backwards, capped, limit: i64::MAX, first: None };
            legs.push(ScanPart::Records { walk, after: None, first: None });
        }
        Access::Id(value) => legs.push(ScanPart::Id { value: value.clone(), done: false }),
        Access::Nothing => {}
        Access::Index { index, ranges, backwards, .. } => {
            let index = state.indexes.get(*index);
            let index =
                index.ok_or_else(|| Failure::new(Code::QueryPlanKilled, "the plan's index is gone"))?;
            index.count_access();
            let range = if *backwards { ranges.len() } else { 0 };
            legs.push(ScanPart::Keys {
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
