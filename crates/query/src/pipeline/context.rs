//! What a pipeline needs of whoever runs it, and what its stages share while they run: variables, and the limits of memory, 100 MiB
//! for a stage that collects rows, 16 MiB for a document.

use std::sync::Arc;

use bson::{Document, RawDocumentBuf};

use crate::{Code, Failure, Filter, Result, Sort, Variables};

/// Documents as they come, one by one, for whichever thread asks. After a failure nothing more is asked of them.
pub type Rows = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send + 'static>;

/// What a stage wants of another collection.
#[derive(Clone, Debug)]
pub struct Query {
    /// Which documents.
    pub filter: Filter,
    /// In which order; none: as they come.
    pub sort: Option<Sort>,
    /// How many at most.
    pub limit: Option<u64>,
}

/// What a pipeline needs of whoever runs it.
pub trait Host: Send + Sync {
    /// The documents of another collection or view of the same database, for `$lookup` and its like.
    fn find(&self, collection: &str, query: Query) -> Result<Rows>;
    /// Replaces a collection by these documents (`$out`).
    fn out(&self, database: Option<&str>, collection: &str, rows: Rows) -> Result<()>;
    /// Merges documents into a collection; `options` is the `$merge` document with defaults filled in: `into` (`db` if another,
    /// `coll`), `on` (array of paths), `whenMatched` (string, or array for [`crate::MergePipeline`]), `whenNotMatched`, `let`.
    fn merge(&self, options: &Document, rows: Rows) -> Result<()>;
    /// The documents of a first stage that reads no collection: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`,
    /// `$listSessions`. `collection` is the one that a sub-pipeline is about; none for the command's own.
    fn special(
        &self,
        collection: Option<&str>,
        stage: &str,
        options: &Document,
    ) -> Result<Vec<RawDocumentBuf>>;
    /// Fails if the time is over or somebody stopped the operation.
    fn check(&self) -> Result<()>;
    /// A random number in 0..1, for `$sample`.
    fn random(&self) -> f64;
}

/// What stages share while they run.
#[derive(Clone)]
pub(super) struct Context {
    /// Whoever runs the pipeline.
    pub(super) host: Arc<dyn Host>,
    /// `$$NOW` and the variables of `let`.
    pub(super) variables: Arc<Variables>,
    /// The collection that a sub-pipeline is about; none for the command's own.
    pub(super) collection: Option<Arc<str>>,
}

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
