//! What an event loop asks for work: a source writes requests and judges replies.
//!
//! An operation is one message and its reply, or several in turn (a read and the update behind it, a scan and its `getMore`).
//! A source belongs to one loop and is never shared.

use std::time::Duration;

use bson::RawDocument;
use fathom_wire::{Failure, OpMsgWriter};

use crate::measurements::Status;

/// The place of a kind of operation in [`Source::metrics`].
pub type Metric = usize;

/// Operations to do, one after another.
pub trait Source: Send {
    /// What an operation remembers between its messages.
    type State: Send;

    /// The names of the kinds of operations, as the report has them.
    fn metrics(&self) -> Vec<String>;

    /// Writes the first message of the next operation; `most` is how many records it may still touch, for those that
    /// work in batches. None if nothing is left to do.
    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<Begun<Self::State>>;

    /// Takes the reply to an operation's last message. Where more is to be asked, it writes the next one.
    fn answer(&mut self, state: &mut Self::State, reply: &RawDocument, message: &mut OpMsgWriter<'_>)
    -> Step;

    /// Writes an operation's last message once more, after the pause that it asked for.
    fn again(&mut self, state: &mut Self::State, message: &mut OpMsgWriter<'_>);

    /// Whether operations of the warm-up may come on top of those that are wanted. Those of a load may not: each record
    /// is inserted once.
    fn repeats(&self) -> bool {
        false
    }

    /// The BSON bytes of inserted documents and of updates that were written into messages since it was last asked: what a user
    /// gives a database to keep, against which what the disk writes is set.
    fn take_user_bytes(&mut self) -> u64;

    /// Takes note that no reply to an operation's last message will come; says what the operation counts as.
    fn lost(&mut self, state: &mut Self::State) -> Step;
}

/// An operation that began.
#[derive(Debug)]
pub struct Begun<State> {
    /// What it remembers.
    pub state: State,
    /// How many records it is about: 1, or the size of a batch.
    pub records: u64,
    /// What it counts as where nothing answers it (`w:0`); none if a reply comes.
    pub unanswered: Option<Metric>,
}

/// What a reply came to.
#[derive(Debug, Default)]
pub struct Step {
    /// What the last message alone is measured as.
    pub part: Option<(Metric, Status)>,
    /// What the whole operation is measured as, from its first message on. Of a batch its documents but one are counted
    /// beside it, as YCSB's `BATCHED_OK` or as failed.
    pub whole: Option<(Metric, Status)>,
    /// Something that was measured on our side, in nanoseconds.
    pub aside: Option<(Metric, Status, u64)>,
    /// Whether another message was written and the operation goes on.
    pub more: bool,
    /// What that message and the whole operation count as where nothing answers it (`w:0`).
    pub unanswered: Option<(Metric, Metric)>,
    /// Documents of a batch that failed, where the batch as a whole did not.
    pub failed_documents: u64,
    /// What the server said where it failed.
    pub failure: Option<Failure>,
    /// The last message is to be sent again, after this pause; then `whole` counts only where it cannot be.
    pub again_after: Option<Duration>,
    /// The whole load is to stop here.
    pub stop: bool,
}
