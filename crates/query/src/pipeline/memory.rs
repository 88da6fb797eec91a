//! The limits of memory: 100 MiB for a stage that collects rows, 16 MiB for a document.

use bson::RawDocumentBuf;

use crate::{Code, Failure, Result};

/// What one stage may hold, as in MongoDB.
pub(super) const STAGE_BYTES_MAX: usize = 100 * 1024 * 1024;

/// The largest document that may pass between stages: 16 MiB and the room that MongoDB gives its own fields.
pub(super) const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024 + 16 * 1024;

/// How much a stage holds.
#[derive(Debug)]
pub(super) struct Memory {
    stage: &'static str,
    held: usize,
}

impl Memory {
    /// Nothing yet, of the stage of this name.
    pub(super) fn of(stage: &'static str) -> Memory {
        Memory { stage, held: 0 }
    }

    /// Takes so many bytes more; refuses what is over the limit.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.held = self.held.saturating_add(bytes);
        if self.held <= STAGE_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "Exceeded memory limit for {}, but didn't allow external sort. This server cannot spill to disk; allowDiskUse \
             does not change that.",
            self.stage
        );
        Err(Failure::new(Code::QueryExceededMemoryLimitNoDiskUseAllowed, message))
    }
}

/// The document, unless it is too large.
pub(super) fn sized(document: RawDocumentBuf) -> Result<RawDocumentBuf> {
    let bytes = document.as_bytes().len();
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(document);
    }
    let message = format!(
        "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {DOCUMENT_BYTES_MAX}(16MB)"
    );
    Err(Failure::new(Code::BSONObjectTooLarge, message))
}
