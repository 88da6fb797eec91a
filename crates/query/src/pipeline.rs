//! Aggregation pipelines.
use crate::{Filter, Result, Sort, Variables};
use bson::{Document, RawDocument, RawDocumentBuf};

/// Documents as they come, one by one.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + 'a>;

/// What a pipeline needs of whoever runs it.
pub trait Host {
    /// The documents of another collection of the same database (or of `database`), for `$lookup`, filtered.
    fn find(&self, database: Option<&str>, collection: &str, filter: &Filter) -> Result<Vec<RawDocumentBuf>>;
    /// Replaces a collection by these documents (`$out`).
    fn out(&self, database: Option<&str>, collection: &str, rows: Rows<'_>) -> Result<()>;
    /// Merges documents into a collection; `options` is the `$merge` document with defaults filled in.
    fn merge(&self, options: &Document, rows: Rows<'_>) -> Result<()>;
    /// The documents of a first stage that reads no collection: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`.
    fn special(&self, stage: &str, options: &Document) -> Result<Vec<RawDocumentBuf>>;
    /// A random number in 0..1, for `$sample` and `$rand`.
    fn random(&self) -> f64;
}

/// A parsed pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {}

impl Pipeline {
    /// Parses the stages.
    pub fn parse(_stages: &[&RawDocument], _variables: &Variables) -> Result<Pipeline> {
        Ok(Pipeline {})
    }

    /// Takes off the leading stages that a query plan can do: `$match`es as one filter document, then a `$sort`, then
    /// a `$limit`. What is left is run on what the plan yields.
    pub fn take_query(&mut self) -> (Document, Option<Sort>, Option<u64>) {
        (Document::new(), None, None)
    }

    /// Whether the first stage makes its own documents (`$collStats`, `$documents`...), so that nothing is scanned.
    pub fn has_source(&self) -> bool {
        false
    }

    /// Whether it ends in `$out` or `$merge`, so that it writes and returns nothing.
    pub fn writes(&self) -> bool {
        false
    }

    /// Runs the stages over `rows`.
    pub fn run<'a>(self, rows: Rows<'a>, _host: &'a dyn Host) -> Result<Rows<'a>> {
        Ok(rows)
    }
}
