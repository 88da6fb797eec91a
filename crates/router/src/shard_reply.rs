//! A shard's reply on its way to the client.

use bson::RawDocument;
use fathom_wire::DocumentWriter;

use crate::outgoing::copy;

/// Fields of a shard's reply that are about that one hop.
pub(crate) const OF_THE_HOP: &[&str] =
    &["ok", "$clusterTime", "operationTime", "$configServerState", "$gleStats", "lastCommittedOpTime"];

/// Hands a shard's reply on.
pub(crate) fn pass_on(answer: &RawDocument, reply: &mut DocumentWriter<'_>) {
    copy(answer, reply, |name| !OF_THE_HOP.contains(&name));
}
