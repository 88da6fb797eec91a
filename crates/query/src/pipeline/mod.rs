//! Aggregation pipelines.
//!
//! Stages pull rows from one another, one document at a time. Those that need all rows first (`$group`, `$sort`, `$bucketAuto`,
//! `$facet`) hold at most 100 MiB; there is no disk to spill to, so `allowDiskUse` changes nothing and what is larger is refused
//! (292). `stages.rs` lists every stage, also those that MongoDB has and this server refuses.

mod branch;
mod bucket;
mod context;
mod count;
mod document;
mod graph_lookup;
mod group;
mod lookup;
mod output;
mod parse;
mod plan;
mod redact;
mod selection;
mod shape;
mod source;
mod stages;
#[cfg(test)]
mod tests;
mod unwind;

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf};

use self::context::Context;
use self::parse::{Limits, Place};
use self::stages::Stage;
use crate::{Result, Sort, Variables};

pub use self::context::{Host, Query, Rows};
pub use self::count::CountForm;
pub use self::output::MergePipeline;

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
        shape::transform(&self.stages, document, &self.variables)
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
        stages::run(self.stages, rows, &context)
    }
}
