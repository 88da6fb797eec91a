//! What the loops of a run share: the workload, where it goes, the numbers of the records that are there.
//!
//! The newest record that may be read is the one whose insert was acknowledged, and so were those of all below it.
//! Inserts that are under way are no more than connections have operations, so what is acknowledged out of turn stays few; one
//! that failed is acknowledged too, as in YCSB, or nothing above it would ever be read.
//!
//! The inserts of a run begin behind the records that are there. YCSB begins at `recordcount` each time, so that a
//! second run of a workload that inserts fails on keys of the first. Keys are hashes, so the largest tells nothing;
//! whether a number is there is asked number by number, in steps that double, and then between the last that was and
//! the first that was not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::doc;
use fathom_client::{Connection, Error};

use super::{CoreWorkload, Phase};
use crate::binding::Binding;
use crate::generators::{Distribution, KeyChooser};

/// What the loops of one run share.
#[derive(Debug)]
pub struct CoreShared {
    /// The workload.
    pub workload: CoreWorkload,
    /// Where it goes.
    pub binding: Binding,
    /// What a failed insert of a load leads to.
    pub retry: Retry,
    /// The number of the next record that is inserted.
    pub(super) next: AtomicU64,
    pub(super) acknowledged: Acknowledged,
    /// What choosers draw from, before they are given to a loop each: some take long to make.
    pub(super) chooser: KeyChooser,
}

/// What a failed insert of a load leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retry {
    /// `core_workload_insertion_retry_limit`.
    pub limit: u64,
    /// `core_workload_insertion_retry_interval`.
    pub interval: Duration,
    /// `core_workload_insertion_keep_going_on_error`.
    pub keep_going: bool,
}

impl CoreShared {
    /// `next` is the number of the first record that is inserted.
    pub fn new(workload: CoreWorkload, binding: Binding, retry: Retry, next: u64) -> CoreShared {
        let turn = Arc::default();
        // A load reads nothing, and need not wait for what a chooser sums up.
        let distribution = match workload.phase {
            Phase::Load => Distribution::Uniform,
            Phase::Run => workload.distribution,
        };
        let chooser = KeyChooser::new(distribution, workload.records, workload.skew, &turn);
        let acknowledged = Acknowledged::up_to(next);
        CoreShared { workload, binding, retry, next: AtomicU64::new(next), acknowledged, chooser }
    }
}

/// The numbers of inserted records, shared by all loops.
#[derive(Debug)]
pub struct Acknowledged {
    /// One more than the newest, so that an empty table has one too.
    end: AtomicU64,
    /// Those above it.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Acknowledged {
    /// All below `end` are there.
    pub fn up_to(end: u64) -> Acknowledged {
        Acknowledged { end: AtomicU64::new(end), ahead: Mutex::default() }
    }

    /// The newest; 0 for an empty table too.
    pub fn newest(&self) -> u64 {
        self.end.load(Ordering::Acquire).saturating_sub(1)
    }

    /// Takes note of an insert that ended.
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

/// A run that was stopped leaves gaps where its last inserts were under way: the free numbers begin where so many are free.
const FREE_IN_A_ROW: u64 = 256;

/// The first number from `from` on behind which nothing is there.
///
/// # Errors
/// Where the server cannot be asked.
pub fn first_free(
    connection: &mut Connection,
    binding: &Binding,
    workload: &CoreWorkload,
    from: u64,
) -> Result<u64, Error> {
    let mut asks = |number: u64| highest_taken(connection, binding, workload, number);
    let Some(first) = asks(from)? else { return Ok(from) };
    let (mut taken, mut step) = (first, FREE_IN_A_ROW);
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
    while free - taken > FREE_IN_A_ROW {
        let middle = taken + (free - taken) / 2;
        match asks(middle)? {
            Some(there) => taken = there,
            None => free = middle,
        }
    }
    // What lies between them may be a gap with something behind it.
    Ok(asks(taken + 1)?.unwrap_or(taken) + 1)
}

/// The highest number from `from` on that is there, in a row of numbers.
fn highest_taken(
    connection: &mut Connection,
    binding: &Binding,
    workload: &CoreWorkload,
    from: u64,
) -> Result<Option<u64>, Error> {
    let keys: Vec<String> =
        (from..from.saturating_add(FREE_IN_A_ROW)).map(|number| workload.keys.name(number)).collect();
    let command = doc! {
        "find": &workload.table,
        "filter": { "_id": { "$in": &keys } },
        "projection": { "_id": 1 },
        "batchSize": i32::try_from(FREE_IN_A_ROW).unwrap_or(i32::MAX),
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
        let acknowledged = Acknowledged::up_to(10);
        assert_eq!(acknowledged.newest(), 9);
        for (number, newest) in [(11, 9), (12, 9), (10, 12), (14, 12), (5, 12), (13, 14)] {
            acknowledged.acknowledge(number);
            assert_eq!(acknowledged.newest(), newest, "after {number}");
        }
        assert_eq!(Acknowledged::up_to(0).newest(), 0);
    }
}
