//! The final state of a set: all members hold the same, or the differences.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, doc};

use super::members::{Members, TIMEOUT, read_all, until};

/// The collections that all members must agree on.
const COLLECTIONS: [&str; 4] = ["lists", "registers", "loose", "marks"];

/// What all members have, collection by collection.
pub(crate) type Contents = BTreeMap<&'static str, Vec<Document>>;

/// Waits until all members are well and have the same, in the data as in the log; what they have. Fails where they never do.
pub(crate) fn converge(members: &Members) -> Contents {
    let place = members.wait_for_primary();
    let mut last = String::new();
    let agreed = until_or("all members have the same", || match compare(members) {
        Ok(contents) => Some(contents),
        Err(difference) => {
            members.assert_alive();
            last = difference;
            None
        }
    });
    let Some(contents) = agreed else { panic!("no agreement with member {place}: {last}") };
    (0..3).for_each(|place| validate(members, place));
    contents
}

fn until_or<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = std::time::Instant::now();
    until(what, || match look() {
        Some(found) => Some(Some(found)),
        None => (begun.elapsed() > TIMEOUT / 2).then_some(None),
    })
}

/// What all have, or how they differ.
fn compare(members: &Members) -> Result<Contents, String> {
    let mut first: Option<(Contents, Vec<Document>)> = None;
    for place in 0..3 {
        let found = contents_of(members, place).map_err(|error| format!("member {place}: {error}"))?;
        let log = log_of(members, place).map_err(|error| format!("the log of member {place}: {error}"))?;
        match &first {
            None => first = Some((found, log)),
            Some((wanted, wanted_log)) => {
                for name in COLLECTIONS {
                    let (one, other) = (&wanted[name], &found[name]);
                    if one != other {
                        let differs = one.iter().zip(other).find(|(one, other)| one != other);
                        return Err(format!(
                            "{name} of member {place}: {} documents and not {}, {differs:?}",
                            other.len(),
                            one.len()
                        ));
                    }
                }
                if log != *wanted_log {
                    let differs = wanted_log.iter().zip(&log).find(|(one, other)| one != other);
                    let lengths = (wanted_log.len(), log.len());
                    return Err(format!("the log of member {place}: lengths {lengths:?}, {differs:?}"));
                }
            }
        }
    }
    Ok(first.unwrap().0)
}

fn contents_of(members: &Members, place: usize) -> fathom_client::Result<Contents> {
    COLLECTIONS.iter().map(|name| Ok((*name, members.documents(place, name)?))).collect()
}

/// Which entries a member's log has, in order.
fn log_of(members: &Members, place: usize) -> fathom_client::Result<Vec<Document>> {
    let find = doc! {
        "find": "oplog.rs", "sort": { "$natural": 1 }, "projection": { "_id": 0, "ts": 1, "t": 1, "h": 1, "o.msg": 1 },
        "$readPreference": { "mode": "secondaryPreferred" },
    };
    read_all(&mut members.connect(place, TIMEOUT)?, "local", &find)
}

/// Terms that began more than once, by the log that all share.
pub(crate) fn terms_begun_twice(members: &Members) -> Vec<String> {
    let log = log_of(members, 0).unwrap();
    let mut seen = BTreeSet::new();
    let begins = |entry: &&Document| {
        entry.get_document("o").is_ok_and(|o| o.get_str("msg").is_ok_and(|msg| msg == "new primary"))
    };
    let terms = log.iter().filter(begins).map(|entry| entry.get_i64("t").unwrap());
    terms
        .filter(|term| !seen.insert(*term))
        .map(|term| format!("term {term} began twice in the log"))
        .collect()
}

fn validate(members: &Members, place: usize) {
    let mut connection = members.connect(place, TIMEOUT).unwrap();
    for name in COLLECTIONS {
        let reply = connection.run("test", &doc! { "validate": name, "full": true }).unwrap();
        assert!(reply.get_bool("valid").unwrap(), "{name} of member {place}: {reply:?}");
    }
}
