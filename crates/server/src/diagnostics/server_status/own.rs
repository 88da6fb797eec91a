//! `fathom`: what only this server tells: how often the journal was synced, how long operations waited for that and for locks, what
//! checkpoints took.

use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::diagnostics::build::counter;

/// `fathom`. Times in milliseconds.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn fathom(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    let mut section = writer.begin_document(name);
    section.string("version", env!("CARGO_PKG_VERSION"));
    section.string("engineVersion", &instance.engine.version());
    let counts = instance.journal.counts();
    let mut journal = section.begin_document("journal");
    counter(&mut journal, "syncs", counts.syncs);
    counter(&mut journal, "waits", counts.waits);
    counter(&mut journal, "totalWaitMicros", counts.waited_us);
    journal.end();
    let (waits, waited_us) = instance.catalog.lock_waits().totals();
    let mut locks = section.begin_document("locks");
    counter(&mut locks, "waits", waits);
    counter(&mut locks, "totalWaitMicros", waited_us);
    locks.end();
    let figures = instance.checkpoint_figures();
    let mut checkpoints = section.begin_document("checkpoints");
    counter(&mut checkpoints, "count", figures.count);
    counter(&mut checkpoints, "lastMillis", figures.last_ms);
    counter(&mut checkpoints, "totalMillis", figures.total_ms);
    Ok(())
}
