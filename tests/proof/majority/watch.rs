//! Watches who says to be primary, and in which term.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bson::{RawDocument, doc};

use super::members::Members;

/// The primaries of each term, as they said themselves.
#[derive(Debug, Default)]
pub(crate) struct Terms(Mutex<BTreeMap<i64, BTreeSet<usize>>>);

impl Terms {
    /// Asks a member repeatedly until it has to stop.
    pub(crate) fn watch(&self, members: &Members, place: usize, stop: &AtomicBool) {
        members.network.enter().unwrap();
        let mut open = None;
        while !stop.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(40));
            if open.is_none() {
                open = members.connect(place, Duration::from_secs(1)).ok();
            }
            let Some(connection) = &mut open else { continue };
            match connection.run("admin", &doc! { "replSetGetStatus": 1 }) {
                Ok(status) => self.note(members, place, &status),
                Err(error) if error.is_network() => open = None,
                Err(_) => {}
            }
        }
    }

    fn note(&self, members: &Members, place: usize, status: &RawDocument) {
        if status.get_i32("myState").unwrap() != 1 {
            return;
        }
        let term = status.get_i64("term").unwrap();
        let mut terms = self.0.lock().unwrap();
        if terms.last_key_value().is_none_or(|(last, _)| *last <= term) {
            members.primary.store(place, Ordering::SeqCst);
        }
        terms.entry(term).or_default().insert(place);
    }

    /// Terms in which more than one led, in words; how many terms there were.
    pub(crate) fn judged(&self) -> (usize, Vec<String>) {
        let terms = self.0.lock().unwrap();
        let shared = terms.iter().filter(|(_, places)| places.len() > 1);
        (
            terms.len(),
            shared.map(|(term, places)| format!("term {term} had the primaries {places:?}")).collect(),
        )
    }
}
