//! Which operations a loop may run: those that take microseconds and wait for nobody, as far as can be told from their words, and
//! then from what they did.

use crate::command::Kind;
use crate::instance::Instance;
use crate::operation::Figures;
use crate::request::Request;

/// Documents that a brief query may return.
const MOST_RETURNED: i64 = 100;
/// Keys and documents that a brief operation may look at.
const MOST_EXAMINED: u64 = 200;
/// Bytes that a brief write may bring.
const MOST_BYTES: usize = 16 << 10;

/// Whether a command can be expected to be brief: a query for a few documents as they stand now, a small write that nobody else
/// has to confirm.
pub(crate) fn is_brief(request: &Request<'_>, instance: &Instance) -> bool {
    match (request.command.kind, request.command.name) {
        (_, "find") => {
            let limit = request.field("limit").and_then(crate::parse::integer_of).unwrap_or(0);
            let concern = &request.read_concern;
            (1..=MOST_RETURNED).contains(&limit)
                && !(concern.majority || concern.linearizable || concern.after.is_some())
                && request.field("tailable").is_none()
        }
        // A write in a set may have to wait for other members, one with a journal to wait for the device.
        (Kind::Write, "insert" | "update" | "delete") => {
            instance.set.is_none() && !request.write_concern.journal && request.bytes() <= MOST_BYTES
        }
        _ => false,
    }
}

/// Whether what it did was brief.
pub(crate) fn was_brief(figures: &Figures) -> bool {
    figures.keys_examined + figures.docs_examined <= MOST_EXAMINED
}
