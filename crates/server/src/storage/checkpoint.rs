//! Checkpoints: one at a time, each with a note of how far the data have the oplog's entries.

use std::time::Instant;

use bson::doc;
use fathom_errors::{Error, Kind};

use crate::instance::Instance;
use crate::replication;

impl Instance {
    /// Makes a checkpoint now; one at a time.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        let _alone = self.checkpointing.lock();
        let begun = Instant::now();
        let number = self.catalog.drops().begin_checkpoint();
        self.note_replayed()?;
        self.engine.checkpoint()?;
        self.catalog.drops().checkpointed(number);
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut figures = self.checkpoints.lock();
        figures.count += 1;
        figures.last_ms = took_ms;
        figures.total_ms += took_ms;
        drop(figures);
        self.log.debug(1, "STORAGE", 22308, "Checkpointer", "Checkpoint made", || {
            doc! { "durationMillis": i64::try_from(took_ms).unwrap_or(i64::MAX) }
        });
        Ok(())
    }

    /// Notes up to where the data have the oplog's entries, in what the checkpoint to come holds.
    pub(crate) fn note_replayed(&self) -> Result<(), Error> {
        let failed = |failure: fathom_wire::Failure| Error::new(Kind::Io, failure.message().to_owned());
        let Some(set) = &self.set else { return Ok(()) };
        let settled = set.oplog().clock().settled();
        if set.oplog().collection().is_none() || settled == 0 {
            return Ok(());
        }
        let applied = set.oplog().optime_of(settled);
        replication::note_applied(self, applied).map_err(failed)
    }
}
