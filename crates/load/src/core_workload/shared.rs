//! The state that the loops of a run share: the workload, its target, and the numbers of existing records.
//!
//! The newest record that may be read is the one whose insert, and those of all records below it, were acknowledged.
//! No more inserts are under way than connections have operations, so few are acknowledged out of order. A failed insert
//! counts as acknowledged too, as in YCSB: otherwise no record above it would ever be read.
//!
//! The inserts of a run begin after the existing records. YCSB begins at `recordcount` each time, so that a
//! second run of a workload that inserts fails on keys of the first. Keys are hashes, so the largest key does not help.
//! Instead numbers are looked up in steps that double, and then between the last one that exists and
//! the first one that does not. Clients with different parts of the table insert different records
//! ([`Records::stored`](crate::generators::Records::stored)), so that none of them fails on the keys of another.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::doc;
use fathom_client::{Connection, Error};

use super::{CoreWorkload, Phase};
use crate::binding::Binding;
use crate::generators::{Distribution, KeyChooser};

/// The data that the loops of one run share.
#[derive(Debug)]
pub struct CoreShared {
    pub workload: CoreWorkload,
    /// The database and collection, and the options of commands.
    pub binding: Binding,
    /// The reaction to a failed insert of a load.
    pub retry: Retry,
    /// The number of the next record to insert.
    pub(super) next: AtomicU64,
    pub(super) acknowledged: InsertedRecords,
    /// The chooser that is copied for each loop: some choosers take long to create.
    pub(super) chooser: KeyChooser,
}

/// The reaction to a failed insert of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retry {
    /// From the property `core_workload_insertion_retry_limit`.
    pub limit: u64,
    /// From the property `core_workload_insertion_retry_interval`.
    pub interval: Duration,
    /// From the property `core_workload_insertion_keep_going_on_error`.
    pub keep_going: bool,
}

impl CoreShared {
    /// The shared state of a run; `next` is the number of the first record to insert.
    pub fn new(workload: CoreWorkload, binding: Binding, retry: Retry, next: u64) -> CoreShared {
        let turn = Arc::default();
        // A load does not read, and need not wait for the sums of a chooser.
        let distribution = match workload.phase {
            Phase::Load => Distribution::Uniform,
            Phase::Run => workload.distribution,
        };
        let chooser = KeyChooser::new(distribution, workload.records, workload.skew, &turn);
        let acknowledged = InsertedRecords::up_to(next);
        CoreShared { workload, binding, retry, next: AtomicU64::new(next), acknowledged, chooser }
    }
}

/// The numbers of inserted records, shared by all loops.
#[derive(Debug)]
pub struct InsertedRecords {
    /// One more than the newest number, so that an empty table has a value too.
    end: AtomicU64,
    /// Acknowledged records above the contiguous ones.
    ahead: Mutex<BTreeSet<u64>>,
}

impl InsertedRecords {
    /// The state in which all records below `end` exist.
    pub fn up_to(end: u64) -> InsertedRecords {
        InsertedRecords { end: AtomicU64::new(end), ahead: Mutex::default() }
    }

    /// The newest record's number; 0 for an empty table too.
    pub fn newest(&self) -> u64 {
        self.end.load(Ordering::Acquire).saturating_sub(1)
    }

    /// Records that an insert ended.
    pub fn acknowledge(&self, number: u64) {
        let Ok(mut ahead) = self.ahead.lock() else { return };
        let mut end = self.end.load(Ordering::Relaxed);
        if number != end {
            if number > end {
                ahead.insert(number);
            }
            return;
        }
        end += 1;
        while ahead.remove(&end) {
            end += 1;
        }
        self.end.store(end, Ordering::Release);
    }
}

/// The number of free numbers in a row that mark the end of the records: a stopped run leaves gaps at its last inserts.
const MIN_FREE_IN_A_ROW: u64 = 256;

/// The first number, from `from` on, after which no record exists.
///
/// # Errors
/// An error if the server cannot be queried.
pub fn first_free(
    connection: &mut Connection,
    binding: &Binding,
    workload: &CoreWorkload,
    from: u64,
) -> Result<u64, Error> {
    let mut asks = |number: u64| highest_taken(connection, binding, workload, number);
    let Some(first) = asks(from)? else { return Ok(from) };
    let (mut taken, mut step) = (first, MIN_FREE_IN_A_ROW);
    // Doubling, until a whole row is free.
    let mut free = loop {
        let next = taken.saturating_add(step);
        match asks(next)? {
            Some(there) => {
                taken = there;
                step = step.saturating_mul(2);
            }
            None => break next,
        }
    };
    while free - taken > MIN_FREE_IN_A_ROW {
        let middle = taken + (free - taken) / 2;
        match asks(middle)? {
            Some(there) => taken = there,
            None => free = middle,
        }
    }
    // The range between them may be a gap with records after it.
    Ok(asks(taken + 1)?.unwrap_or(taken) + 1)
}

/// The highest existing number in the row of numbers that begins at `from`.
fn highest_taken(
    connection: &mut Connection,
    binding: &Binding,
    workload: &CoreWorkload,
    from: u64,
) -> Result<Option<u64>, Error> {
    let keys: Vec<String> =
        (from..from.saturating_add(MIN_FREE_IN_A_ROW)).map(|number| workload.key_name(number)).collect();
    let command = doc! {
        "find": &workload.table,
        "filter": { "_id": { "$in": &keys } },
        "projection": { "_id": 1 },
        "batchSize": i32::try_from(MIN_FREE_IN_A_ROW).unwrap_or(i32::MAX),
    };
    let mut highest = None;
    for document in connection.cursor(&binding.database, &command)? {
        let document = document?;
        let key = document.get_str("_id").unwrap_or_default();
        let place = keys.iter().position(|known| known == key).map(|place| from + place as u64);
        highest = highest.max(place);
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_waits_for_those_below_it() {
        let acknowledged = InsertedRecords::up_to(10);
        assert_eq!(acknowledged.newest(), 9);
        for (number, newest) in [(11, 9), (12, 9), (10, 12), (14, 12), (5, 12), (13, 14)] {
            acknowledged.acknowledge(number);
            assert_eq!(acknowledged.newest(), newest, "after {number}");
        }
        assert_eq!(InsertedRecords::up_to(0).newest(), 0);
    }
}
