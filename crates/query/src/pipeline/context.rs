//! The services that a pipeline needs from its caller, and the state that its stages share: variables, and the memory limits
//! of 100 MiB for a stage that collects rows and 16 MiB for a document.

use std::sync::Arc;

use bson::{Document, RawDocumentBuf};

use crate::{Code, Failure, Filter, Result, Sort, Variables};

/// A stream of documents that any thread may read. After a failure it is not read any more.
pub type Rows = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send + 'static>;

/// A stage's query of another collection.
#[derive(Clone, Debug)]
pub struct Query {
    pub filter: Filter,
    /// The order; `None` for the stored order.
    pub sort: Option<Sort>,
    /// The most documents to return.
    pub limit: Option<u64>,
}

/// The services that a pipeline needs from its executor.
pub trait ProcessInterface: Send + Sync {
    /// The documents of another collection or view of the same database, for `$lookup` and similar stages.
    fn find(&self, collection: &str, query: Query) -> Result<Rows>;
    /// Replaces a collection by these documents (`$out`).
    fn out(&self, database: Option<&str>, collection: &str, rows: Rows) -> Result<()>;
    /// Merges documents into a collection; `options` is the `$merge` document with defaults filled in: `into` (`db` if another,
    /// `coll`), `on` (array of paths), `whenMatched` (string, or array for [`crate::MergePipeline`]), `whenNotMatched`, `let`.
    fn merge(&self, options: &Document, rows: Rows) -> Result<()>;
    /// The documents of a first stage that reads no collection: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`,
    /// `$listSessions`. `collection` is the one that a sub-pipeline reads, or `None` for the command's own.
    fn special(
        &self,
        collection: Option<&str>,
        stage: &str,
        options: &Document,
    ) -> Result<Vec<RawDocumentBuf>>;
    /// Fails if the time limit has passed or the operation was killed.
    fn check(&self) -> Result<()>;
    /// A random number in 0..1, for `$sample`.
    fn random(&self) -> f64;
}

/// The state that stages share while they run.
#[derive(Clone)]
pub(super) struct StageContext {
    /// The executor of the pipeline.
    pub(super) host: Arc<dyn ProcessInterface>,
    /// `$$NOW` and the variables of `let`.
    pub(super) variables: Arc<Variables>,
    /// The collection of a sub-pipeline; `None` for the command's own.
    pub(super) collection: Option<Arc<str>>,
}

/// The memory limit of one stage, as in MongoDB.
pub(super) const MAX_STAGE_BYTES: usize = 100 * 1024 * 1024;

/// The largest document that may pass between stages: 16 MiB and the room that MongoDB gives its own fields.
pub(super) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024 + 16 * 1024;

/// The memory that a stage holds.
#[derive(Debug)]
pub(super) struct StageMemory {
    stage: &'static str,
    held: usize,
}

impl StageMemory {
    /// The empty account of the stage of this name.
    pub(super) fn new(stage: &'static str) -> StageMemory {
        StageMemory { stage, held: 0 }
    }

    /// Adds a number of bytes; fails above the limit.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.held = self.held.saturating_add(bytes);
        if self.held <= MAX_STAGE_BYTES {
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
    if bytes <= MAX_DOCUMENT_BYTES {
        return Ok(document);
    }
    let message = format!(
        "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {MAX_DOCUMENT_BYTES}(16MB)"
    );
    Err(Failure::new(Code::BSONObjectTooLarge, message))
}
