//! How stages are run: each takes the rows of the one before it.

use std::sync::Arc;

use super::stages::Stage;
use super::{Host, Query, Rows, count, plan, sample, slice};
use crate::expression::value::malformed;
use crate::{Filter, Result, Variables};

/// After how many rows that one stage makes of few the host is asked whether to go on.
const ROWS_BETWEEN_CHECKS: u32 = 128;

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

/// The rows that stages make of `rows`.
pub(super) fn run(stages: Vec<Stage>, rows: Rows, context: &Context) -> Result<Rows> {
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
            Stage::Unwind(stage) => watched(stage.run(rows), Arc::clone(&context.host)),
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

/// Rows of a stage that makes many of one: the host sees to its own reads, but not to these.
fn watched(rows: Rows, host: Arc<dyn Host>) -> Rows {
    let mut passed: u32 = 0;
    Box::new(rows.map(move |row| {
        passed = passed.wrapping_add(1);
        if passed.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            host.check()?;
        }
        row
    }))
}

/// The rows of stages over another collection. What a query can do of them, the host's query does.
pub(super) fn run_over(mut stages: Vec<Stage>, collection: &str, context: &Context) -> Result<Rows> {
    let rows: Rows = if matches!(stages.first(), Some(Stage::Source(_))) {
        Box::new(std::iter::empty())
    } else {
        let (filter, sort, limit) = plan::take_query(&mut stages);
        let filter = bson::RawDocumentBuf::try_from(&filter).map_err(malformed)?;
        let filter = Filter::parse(&filter, &context.variables)?;
        context.host.find(collection, Query { filter, sort, limit })?
    };
    let context = Context { collection: Some(collection.into()), ..context.clone() };
    run(stages, rows, &context)
}
