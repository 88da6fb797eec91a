//! What went wrong, by kind: how often, and what was said first.

use std::collections::BTreeMap;

use fathom_wire::Failure;

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many there were.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// Failures by kind: the server's code and its name, or what became of the connection.
pub type FailuresByKind = BTreeMap<String, Failures>;

/// Counts a failure that the server told.
pub(super) fn note_refusal(failures: &mut FailuresByKind, failure: &Failure) {
    let code = failure.code();
    note(failures, &format!("{code:?}"), failure.message());
}

/// Counts failures of a kind.
pub(super) fn note(failures: &mut FailuresByKind, kind: &str, said: &str) {
    match failures.get_mut(kind) {
        Some(known) => known.count += 1,
        None => {
            failures.insert(kind.to_owned(), Failures { count: 1, first: said.to_owned() });
        }
    }
}

/// Adds all of another's.
pub(super) fn merge(failures: &mut FailuresByKind, others: FailuresByKind) {
    for (kind, more) in others {
        match failures.get_mut(&kind) {
            Some(known) => known.count += more.count,
            None => {
                failures.insert(kind, more);
            }
        }
    }
}
