//! How stages are run: each takes the rows of the one before it.

use std::sync::Arc;

use bson::RawDocumentBuf;

use super::memory::Memory;
use super::parse::take_filter;
use super::stages::Stage;
use super::{Host, Rows, count, sample, slice};
use crate::expression::value::malformed;
use crate::{Filter, Result, Variables};

/// What stages share while they run.
#[derive(Clone)]
pub(super) struct Context<'a> {
    /// Whoever runs the pipeline.
    pub(super) host: &'a dyn Host,
    /// `$$NOW` and the variables of `let`.
    pub(super) variables: Arc<Variables>,
}

/// The rows that stages make of `rows`.
pub(super) fn run<'a>(stages: Vec<Stage>, rows: Rows<'a>, context: &Context<'a>) -> Result<Rows<'a>> {
    let mut rows = rows;
    for stage in stages {
        rows = match stage {
            Stage::Match(stage) => stage.run(rows),
            Stage::Project(stage) => stage.run(rows, context),
            Stage::AddFields(stage) => stage.run(rows, context),
            Stage::ReplaceRoot(stage) => stage.run(rows, context),
            Stage::Redact(stage) => stage.run(rows, context),
            Stage::Sort(stage) => stage.run(rows)?,
            Stage::Limit(limit) => slice::limit(rows, limit),
            Stage::Skip(skip) => slice::skip(rows, skip),
            Stage::Group(stage) => stage.run(rows, context)?,
            Stage::Unwind(stage) => stage.run(rows),
            Stage::Lookup(stage) => stage.run(rows, context)?,
            Stage::GraphLookup(stage) => stage.run(rows, context),
            Stage::Count(field) => count::run(&field, rows)?,
            Stage::Sample(size) => sample::run(size, rows, context)?,
            Stage::Facet(stage) => stage.run(rows, context)?,
            Stage::BucketAuto(stage) => stage.run(rows, context)?,
            Stage::Union(stage) => stage.run(rows, context),
            Stage::Source(stage) => stage.run(context)?,
            Stage::Out(stage) => stage.run(rows, context)?,
            Stage::Merge(stage) => stage.run(rows, context)?,
        };
    }
    Ok(rows)
}

/// The rows of stages over another collection, all of them, in at most the memory that `stage` may take.
pub(super) fn run_over(
    mut stages: Vec<Stage>,
    collection: &str,
    stage: &'static str,
    context: &Context<'_>,
) -> Result<Vec<RawDocumentBuf>> {
    let found = if matches!(stages.first(), Some(Stage::Source(_))) {
        Vec::new()
    } else {
        let filter = bson::RawDocumentBuf::try_from(&take_filter(&mut stages)).map_err(malformed)?;
        let filter = Filter::parse(&filter, &context.variables)?;
        context.host.find(None, collection, &filter)?
    };
    if stages.is_empty() {
        return Ok(found);
    }
    let mut memory = Memory::of(stage);
    let mut rows = Vec::new();
    for row in run(stages, Box::new(found.into_iter().map(Ok)), context)? {
        let row = row?;
        memory.take(row.as_bytes().len())?;
        rows.push(row);
    }
    Ok(rows)
}
