//! Aggregation pipelines.
//!
//! Stages pull rows from one another, one document at a time. Those that need all rows first (`$group`, `$sort`, `$bucketAuto`,
//! `$facet`) hold at most 100 MiB; there is no disk to spill to, so `allowDiskUse` changes nothing and what is larger is refused
//! (292). `stages.rs` lists every stage, also those that MongoDB has and this server refuses.

mod add_fields;
mod bucket;
mod bucket_auto;
mod context;
mod count;
mod document;
mod facet;
mod graph_lookup;
mod group;
mod lookup;
mod matching;
mod memory;
mod merge;
mod options;
mod out;
mod parse;
mod plan;
mod project;
mod redact;
mod replace_root;
mod sample;
mod slice;
mod sort;
mod source;
mod stages;
#[cfg(test)]
mod tests;
mod union;
mod unwind;
mod update;

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf};

use self::context::Context;
use self::parse::{Limits, Place};
use self::stages::Stage;
use crate::{Filter, Result, Sort, Variables};

pub use self::count::CountForm;
pub use self::merge::MergePipeline;

/// Documents as they come, one by one. After a failure nothing more is asked of them.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + 'a>;

/// What a pipeline needs of whoever runs it.
pub trait Host {
    /// The documents of another collection of the same database (or of `database`), for `$lookup`, filtered.
    fn find(&self, database: Option<&str>, collection: &str, filter: &Filter) -> Result<Vec<RawDocumentBuf>>;
    /// Replaces a collection by these documents (`$out`).
    fn out(&self, database: Option<&str>, collection: &str, rows: Rows<'_>) -> Result<()>;
    /// Merges documents into a collection; `options` is the `$merge` document with defaults filled in: `into` (`db` if another,
    /// `coll`), `on` (array of paths), `whenMatched` (string, or array for [`MergePipeline`]), `whenNotMatched`, `let`.
    fn merge(&self, options: &Document, rows: Rows<'_>) -> Result<()>;
    /// The documents of a first stage that reads no collection: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`,
    /// `$listSessions`.
    fn special(&self, stage: &str, options: &Document) -> Result<Vec<RawDocumentBuf>>;
    /// A random number in 0..1, for `$sample`.
    fn random(&self) -> f64;
}

/// A parsed pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stages: Vec<Stage>,
    variables: Arc<Variables>,
}

impl Pipeline {
    /// Parses the stages.
    pub fn parse(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = Limits::new(variables);
        let stages = parse::stages(stages, &limits, Place::Top)?;
        Ok(Pipeline { stages, variables: Arc::new(variables.clone()) })
    }

    /// Parses the stages of an update: only those that make one document of one (`$set`, `$unset`, `$project`, `$replaceWith` and
    /// their other names).
    pub fn parse_update(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = Limits::new(variables);
        let stages = parse::stages(stages, &limits, Place::Update)?;
        Ok(Pipeline { stages, variables: Arc::new(variables.clone()) })
    }

    /// What the stages of an update make of a document.
    pub fn transform(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        update::transform(&self.stages, document, &self.variables)
    }

    /// Takes off the leading stages that a query plan can do: `$match`es as one filter document, then a `$sort`, then
    /// a `$limit`. What is left is run on what the plan yields. A limit behind a `$skip` is given with the skip added, and both
    /// stages stay.
    pub fn take_query(&mut self) -> (Document, Option<Sort>, Option<u64>) {
        plan::take_query(&mut self.stages)
    }

    /// Takes off the leading stages if all they want of the rows is how many there are: `$skip` and `$limit`, then a `$group` by a
    /// constant with sums of constants (what `countDocuments` sends), or `$count`. What is left is run on
    /// [`CountForm::document`].
    pub fn take_count(&mut self) -> Option<CountForm> {
        count::take(&mut self.stages)
    }

    /// The top-level fields of the rows that matter, if the stages say so: the others need not be read.
    pub fn needed_fields(&self) -> Option<std::collections::BTreeSet<String>> {
        plan::needed_fields(&self.stages)
    }

    /// Whether the first stage makes its own documents (`$collStats`, `$currentOp`...), so that nothing is scanned.
    pub fn has_source(&self) -> bool {
        matches!(self.stages.first(), Some(Stage::Source(_)))
    }

    /// Whether it ends in `$out` or `$merge`, so that it writes and returns nothing.
    pub fn writes(&self) -> bool {
        matches!(self.stages.last(), Some(Stage::Out(_) | Stage::Merge(_)))
    }

    /// The other collections that it reads (`$lookup`, `$graphLookup`, `$unionWith`), also within sub-pipelines.
    pub fn collections_read(&self) -> Vec<&str> {
        plan::collections_read(&self.stages)
    }

    /// Runs the stages over `rows`. Stages that need all rows take them now.
    pub fn run<'a>(self, rows: Rows<'a>, host: &'a dyn Host) -> Result<Rows<'a>> {
        let context = Context { host, variables: self.variables };
        context::run(self.stages, rows, &context)
    }
}
