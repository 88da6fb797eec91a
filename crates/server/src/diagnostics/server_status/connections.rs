//! `connections`: how many are open, how many more may be, how many there were; `logicalSessionRecordCache`: sessions.

use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::diagnostics::build::{length, number, signed};

/// `connections`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn connections(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    let (open, created, rejected) = instance.clients.counts();
    let active = instance.clients.all().iter().filter(|client| client.is_active()).count();
    let mut section = writer.begin_document(name);
    number(&mut section, "current", length(open));
    number(&mut section, "available", length(instance.config.net.max_connections.saturating_sub(open)));
    number(&mut section, "totalCreated", signed(created));
    number(&mut section, "rejected", signed(rejected));
    number(&mut section, "active", length(active));
    Ok(())
}

/// `logicalSessionRecordCache`: the sessions that were used lately. They live in memory only, so there are no jobs that
/// write them down.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn sessions(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let active = context.instance.sessions.count(std::time::Instant::now());
    number(&mut writer.begin_document(name), "activeSessionsCount", length(active));
    Ok(())
}
