//! What an operation remembers between its messages.

use super::super::sessions::Session;
use super::super::template::Variables;
use crate::measurements::Status;

/// What an operation remembers between its messages.
#[derive(Debug)]
pub struct DocumentState {
    /// The operation's place; none for an insert of the load.
    pub(super) operation: Option<usize>,
    /// The step at which it is.
    pub(super) step: usize,
    /// What the last message was.
    pub(super) turn: Turn,
    pub(super) variables: Variables,
    /// The numbers of the documents that it inserts.
    pub(super) claims: Vec<Claim>,
    /// Documents that the cursor of this step gave so far.
    pub(super) seen: u64,
    pub(super) session: Option<Session>,
    /// How often its transaction was begun again.
    pub(super) tries: u64,
    /// How many records it may touch.
    pub(super) most: u64,
}

/// What the last message of an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The command of the step, or a request for more of its cursor.
    Step,
    /// The end of the step's cursor; what the step came to.
    Kill(Status),
    /// The end of the transaction.
    Commit,
    /// The end of a transaction that failed: what it counts as, and whether it is begun again.
    Abort { status: Status, again: bool },
}

/// Numbers of documents that a step inserts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) step: usize,
    pub(super) collection: usize,
    pub(super) first: u64,
    pub(super) count: u64,
}

impl DocumentState {
    pub(super) fn load(claim: Claim) -> DocumentState {
        DocumentState { claims: vec![claim], ..DocumentState::new(None) }
    }

    pub(super) fn operation(place: usize) -> DocumentState {
        DocumentState::new(Some(place))
    }

    fn new(operation: Option<usize>) -> DocumentState {
        DocumentState {
            operation,
            step: 0,
            turn: Turn::Step,
            variables: Variables::default(),
            claims: Vec::new(),
            seen: 0,
            session: None,
            tries: 0,
            most: 1,
        }
    }
}
