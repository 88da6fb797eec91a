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
    /// `coll`), `on` (array of paths), `whenMatched` (string, or array for [`MergePipeline`]), `whenNotMatched`, `let`.
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

/// A parsed pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stages: Vec<Stage>,
    /// The documents that the stages were read from, each with how many stages it gave.
    texts: Vec<(usize, Document)>,
    variables: Arc<Variables>,
}

impl Pipeline {
    /// Parses the stages.
    pub fn parse(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = Limits::new(variables);
        let (stages, texts) = parse::stages_with_texts(stages, &limits, Place::Top)?;
        Ok(Pipeline { stages, texts, variables: Arc::new(variables.clone()) })
    }

    /// Parses the stages of an update: only those that make one document of one (`$set`, `$unset`, `$project`, `$replaceWith` and
    /// their other names).
    pub fn parse_update(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = Limits::new(variables);
        let stages = parse::stages(stages, &limits, Place::Update)?;
        Ok(Pipeline { stages, texts: Vec::new(), variables: Arc::new(variables.clone()) })
    }

    /// What the stages of an update make of a document.
    pub fn transform(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        update::transform(&self.stages, document, &self.variables)
    }

    /// Takes off the leading stages that a query plan can do: `$match`es as one filter document, then a `$sort`, then
    /// a `$limit`. What is left is run on what the plan yields. A limit behind a `$skip` is given with the skip added, and both
    /// stages stay.
    pub fn take_query(&mut self) -> (Document, Option<Sort>, Option<u64>) {
        let before = self.stages.len();
        let taken = plan::take_query(&mut self.stages);
        self.forget_texts(before - self.stages.len());
        taken
    }

    /// Takes off the leading stages if all they want of the rows is how many there are: `$skip` and `$limit`, then a `$group` by a
    /// constant with sums of constants (what `countDocuments` sends), or `$count`. What is left is run on
    /// [`CountForm::document`].
    pub fn take_count(&mut self) -> Option<CountForm> {
        let before = self.stages.len();
        let taken = count::take(&mut self.stages);
        self.forget_texts(before - self.stages.len());
        taken
    }

    /// The stages that are left, as the client wrote them, for explain.
    pub fn to_documents(&self) -> impl Iterator<Item = &Document> {
        self.texts.iter().map(|(_, text)| text)
    }

    /// Forgets the texts of so many leading stages; a text that gave more than were taken stays.
    fn forget_texts(&mut self, mut taken: usize) {
        self.texts.retain_mut(|(count, _)| {
            let gone = taken.min(*count);
            taken -= gone;
            *count -= gone;
            *count > 0
        });
    }

    /// Whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The first stage's name if it makes its own documents (`$collStats`, `$currentOp`...), so that nothing is scanned.
    pub fn source(&self) -> Option<&'static str> {
        match self.stages.first() {
            Some(Stage::Source(source)) => Some(source.name()),
            _ => None,
        }
    }

    /// How many documents a leading `$sample` wants.
    pub fn leading_sample(&self) -> Option<usize> {
        match self.stages.first() {
            Some(Stage::Sample(size)) => Some(*size),
            _ => None,
        }
    }

    /// Where it writes to: the database, if another is named, and the collection.
    pub fn target(&self) -> Option<(Option<&str>, &str)> {
        match self.stages.last() {
            Some(Stage::Out(out)) => Some(out.target()),
            Some(Stage::Merge(merge)) => Some(merge.target()),
            _ => None,
        }
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
    pub fn run(self, rows: Rows, host: Arc<dyn Host>) -> Result<Rows> {
        let context = Context { host, variables: self.variables, collection: None };
        context::run(self.stages, rows, &context)
    }
}
