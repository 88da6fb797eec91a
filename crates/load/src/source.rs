//! The interface of the event loop's source of work, which writes requests and judges replies.
//!
//! An operation is one message and its reply, or several in turn (a read and then an update, a scan and its `getMore`).
//! A source belongs to one loop and is never shared.

use std::time::Duration;

use bson::RawDocument;
use fathom_wire::{Failure, OpMsgWriter};

use crate::generators::KeyDraws;
use crate::measurements::Status;

/// The place of a metric: those of [`Source::metrics`] come first, then [`Source::report_only`], then [`CLEANUP`].
pub type MetricIndex = usize;

/// The metric of closing connections, which each run has for YCSB's report.
pub const CLEANUP: &str = "CLEANUP";

/// The names of all metrics of a run with this source.
pub(crate) fn all_metrics(source: &impl Source) -> Vec<String> {
    let extra = source.report_only().iter().copied().chain([CLEANUP]);
    source.metrics().into_iter().chain(extra.map(str::to_owned)).collect()
}

/// A source of operations, which are done one after another.
pub trait Source: Send {
    /// The state of an operation between its messages.
    type State: Send;

    /// The names of the kinds of operations in the report.
    fn metrics(&self) -> Vec<String>;

    /// The names of metrics that only YCSB's report has, as they are no operations.
    fn report_only(&self) -> &'static [&'static str] {
        &[]
    }

    /// Writes the first message of the next operation. `most` is the number of records that it may still touch, for operations
    /// in batches. `None` if no operation is left.
    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<OperationStart<Self::State>>;

    /// Takes the reply to an operation's last message. If the operation continues, it writes the next message.
    fn answer(
        &mut self,
        state: &mut Self::State,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome;

    /// Writes an operation's last message again, after the pause that it asked for.
    fn again(&mut self, state: &mut Self::State, message: &mut OpMsgWriter<'_>);

    /// Whether operations of the warm-up may be done in addition to the requested ones. Not in a load: each record
    /// is inserted once.
    fn repeats(&self) -> bool {
        false
    }

    /// The BSON bytes of inserted documents and of updates that were written into messages since the last call: the data that a
    /// user stores, with which the disk's writes are compared.
    fn take_user_bytes(&mut self) -> u64;

    /// How keys were drawn since the last call.
    fn take_key_draws(&mut self) -> KeyDraws {
        KeyDraws::default()
    }

    /// Handles an operation whose last message will get no reply; returns what the operation counts as.
    fn lost(&mut self, state: &mut Self::State) -> ReplyOutcome;
}

/// An operation that began.
#[derive(Debug)]
pub struct OperationStart<State> {
    pub state: State,
    /// The number of its records: 1, or the size of a batch.
    pub records: u64,
    /// The metric that it counts for without a reply (`w:0`); `None` if a reply comes.
    pub unanswered: Option<MetricIndex>,
}

/// The outcome of a reply.
#[derive(Debug, Default)]
pub struct ReplyOutcome {
    /// The metric of the last message alone.
    pub part: Option<(MetricIndex, Status)>,
    /// The metric of the whole operation, from its first message on. All documents of a batch but one are counted
    /// in addition, as YCSB's `BATCHED_OK` or as failed.
    pub whole: Option<(MetricIndex, Status)>,
    /// An additional measurement by the client, in nanoseconds.
    pub aside: Option<(MetricIndex, Status, u64)>,
    /// A metric of the time of the whole operation for each of its records, and their number, above 0.
    pub for_each_record: Option<(MetricIndex, u64)>,
    /// Whether another message was written and the operation continues.
    pub more: bool,
    /// The metrics of that message and of the whole operation without a reply (`w:0`).
    pub unanswered: Option<(MetricIndex, MetricIndex)>,
    /// The number of failed documents of a batch that did not fail as a whole.
    pub failed_documents: u64,
    /// The server's error, if it failed.
    pub failure: Option<Failure>,
    /// The last message is to be sent again after this pause; `whole` is then that of the attempt, as in YCSB.
    pub again_after: Option<Duration>,
    /// Whether the whole load is to stop here.
    pub stop: bool,
}
