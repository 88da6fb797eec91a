//! Where the inserts of a run begin: behind the records that are there.
//!
//! YCSB begins at `recordcount` each time, so that a second run of a workload that inserts fails on keys of the first. Keys are
//! hashes, so the largest tells nothing; whether a number is there is asked number by number, in steps that double, and
//! then between the last that was and the first that was not.

use bson::doc;
use fathom_client::{Connection, Error};

use super::CoreWorkload;
use crate::binding::Binding;

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
