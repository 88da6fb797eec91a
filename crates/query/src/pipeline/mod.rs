//! Aggregation pipelines.
//!
//! Stages pull rows from one another, one document at a time. Those that need all rows first (`$group`, `$sort`, `$bucketAuto`,
//! `$facet`) hold at most 100 MiB. They cannot spill to disk, so `allowDiskUse` changes nothing and a larger set is refused
//! (292). `stages.rs` lists every stage, including those that MongoDB has and this server refuses.

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

use self::context::StageContext;
use self::parse::{PipelinePosition, StageLimits};
use self::stages::Stage;
use crate::{Result, Sort, Variables};

pub use self::context::{ProcessInterface, Query, Rows};
pub use self::count::CountForm;
pub use self::output::MergePipeline;

#[derive(Clone, Debug)]
pub struct Pipeline {
    stages: Vec<Stage>,
    /// The documents that the stages were parsed from, each with the number of its stages.
    texts: Vec<(usize, Document)>,
    variables: Arc<Variables>,
}

impl Pipeline {
    pub fn parse(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = StageLimits::new(variables);
        let (stages, texts) = parse::stages_with_texts(stages, &limits, PipelinePosition::Top)?;
        Ok(Pipeline { stages, texts, variables: Arc::new(variables.clone()) })
    }

    /// Parses the stages of an update: only those that turn one document into one (`$set`, `$unset`, `$project`, `$replaceWith` and
    /// their aliases).
    pub fn parse_update(stages: &[&RawDocument], variables: &Variables) -> Result<Pipeline> {
        let limits = StageLimits::new(variables);
        let stages = parse::stages(stages, &limits, PipelinePosition::Update)?;
        Ok(Pipeline { stages, texts: Vec::new(), variables: Arc::new(variables.clone()) })
    }

    /// Applies the stages of an update to a document.
    pub fn transform(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        shape::transform(&self.stages, document, &self.variables)
    }

    /// Removes the leading stages that a query plan can do: `$match`es as one filter document, then a `$sort`, then
    /// a `$limit`. The remaining stages run on the plan's documents. A limit after a `$skip` is returned with the skip added, and
    /// both stages stay.
    pub fn take_query(&mut self) -> (Document, Option<Sort>, Option<u64>) {
        let before = self.stages.len();
        let taken = plan::take_query(&mut self.stages);
        self.forget_texts(before - self.stages.len());
        taken
    }

    /// Removes the leading stages if they need only the number of rows: `$skip` and `$limit`, then a `$group` by a
    /// constant with sums of constants (as `countDocuments` sends), or `$count`. The remaining stages run on
    /// [`CountForm::document`].
    pub fn take_count(&mut self) -> Option<CountForm> {
        let before = self.stages.len();
        let taken = count::take(&mut self.stages);
        self.forget_texts(before - self.stages.len());
        taken
    }

    /// The remaining stages, as the client wrote them, for explain.
    pub fn to_documents(&self) -> impl Iterator<Item = &Document> {
        self.texts.iter().map(|(_, text)| text)
    }

    /// Forgets the texts of `taken` leading stages; a text with more stages than were taken stays.
    fn forget_texts(&mut self, mut taken: usize) {
        self.texts.retain_mut(|(count, _)| {
            let gone = taken.min(*count);
            taken -= gone;
            *count -= gone;
            *count > 0
        });
    }

    /// Whether no stage is left.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The first stage's name if it makes its own documents (`$collStats`, `$currentOp`...), so that no scan is needed.
    pub fn source(&self) -> Option<&'static str> {
        match self.stages.first() {
            Some(Stage::Source(source)) => Some(source.name()),
            _ => None,
        }
    }

    /// The number of documents that a leading `$sample` requests.
    pub fn leading_sample(&self) -> Option<usize> {
        match self.stages.first() {
            Some(Stage::Sample(size)) => Some(*size),
            _ => None,
        }
    }

    /// The target of its writes: the database, if it names another one, and the collection.
    pub fn target(&self) -> Option<(Option<&str>, &str)> {
        match self.stages.last() {
            Some(Stage::Out(out)) => Some(out.target()),
            Some(Stage::Merge(merge)) => Some(merge.target()),
            _ => None,
        }
    }

    /// The top-level fields of the rows that the stages need, if that is known: other fields need not be read.
    pub fn needed_fields(&self) -> Option<std::collections::BTreeSet<String>> {
        plan::needed_fields(&self.stages)
    }

    /// Whether the first stage makes its own documents (`$collStats`, `$currentOp`...), so that no scan is needed.
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

    /// Runs the stages over `rows`. Stages that need all rows read them now.
    pub fn run(self, rows: Rows, host: Arc<dyn ProcessInterface>) -> Result<Rows> {
        let context = StageContext { host, variables: self.variables, collection: None };
        stages::run(self.stages, rows, &context)
    }
}
