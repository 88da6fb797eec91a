//! `sharding` and `shardingStatistics`: which cluster a shard belongs to, and what moving chunks cost it
//! (shard-serverStatus-sharding.json). A server that is no shard has neither.

use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::diagnostics::build::counter;

/// A chunk that is larger is to be split, as `config.settings` has it by default.
const CHUNK_BYTES: i64 = 64 << 20;

/// `sharding`.
pub(super) fn sharding(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let Some(identity) = context.instance.sharding.identity(context.instance)? else { return Ok(()) };
    let mut section = writer.begin_document(name);
    section.string("configsvrConnectionString", &identity.config.hosts().to_string());
    section.i64("maxChunkSizeInBytes", CHUNK_BYTES);
    Ok(())
}

/// `shardingStatistics`.
pub(super) fn statistics(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    if context.instance.sharding.identity(context.instance)?.is_none() {
        return Ok(());
    }
    let figures = &context.instance.sharding.figures;
    let mut section = writer.begin_document(name);
    for (name, value) in [
        ("countStaleConfigErrors", &figures.stale),
        ("countDonorMoveChunkStarted", &figures.moves),
        ("totalDonorChunkCloneTimeMillis", &figures.copying_ms),
        ("totalCriticalSectionCommitTimeMillis", &figures.committing_ms),
        ("totalCriticalSectionTimeMillis", &figures.shut_ms),
    ] {
        counter(&mut section, name, value.get());
    }
    Ok(())
}
