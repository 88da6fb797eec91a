//! Table: the stages of pipelines by name with their allowed places, including those that MongoDB has and this server refuses.
//!
//! This module also runs them: each stage takes the rows of the previous one.

use std::sync::Arc;

use bson::RawBsonRef;

use super::context::{ProcessInterface, Query, Rows, StageContext};
use super::parse::StageLimits;
use super::{
    branch, bucket, count, graph_lookup, group, lookup, output, plan, redact, selection, shape, source,
    unwind,
};
use crate::expression::value::malformed;
use crate::{Filter, Result};

/// The number of rows that a stage makes of few before it asks the host whether to continue.
const ROWS_BETWEEN_CHECKS: u32 = 128;

#[derive(Clone, Debug)]
pub(super) enum Stage {
    Match(selection::Match),
    Project(shape::Project),
    AddFields(shape::AddFields),
    ReplaceRoot(shape::ReplaceRoot),
    Redact(redact::Redact),
    Sort(selection::SortStage),
    Limit(u64),
    Skip(u64),
    Group(group::Group),
    Unwind(unwind::Unwind),
    Lookup(lookup::Lookup),
    GraphLookup(graph_lookup::GraphLookup),
    Count(String),
    Sample(usize),
    Facet(branch::Facet),
    BucketAuto(bucket::BucketAuto),
    Union(branch::Union),
    Source(source::StageSource),
    Out(output::OutTarget),
    Merge(output::MergeStage),
}

/// The allowed place of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageRule {
    Anywhere,
    /// Anywhere but in `$facet`.
    NotInFacet,
    /// First in its pipeline, and not in `$facet`.
    First,
    /// Last in the outermost pipeline.
    Last,
    /// Anywhere, in updates too: the stage turns one document into one.
    Row,
}

/// The parser of a stage, from its name, its value and the limits. One stage may yield several.
pub(super) type StageParser = fn(&'static str, RawBsonRef<'_>, &StageLimits<'_>) -> Result<Vec<Stage>>;

/// The entry of a stage in the table.
pub(super) enum Form {
    /// The stage is served.
    Known(StageRule, StageParser),
    /// MongoDB has the stage and this server does not, with the reason.
    Refused(&'static str),
    /// The stage fails with MongoDB's own error on a standalone server.
    Alone(i32, &'static str),
}

/// The rows that stages produce from `rows`.
pub(super) fn run(stages: Vec<Stage>, rows: Rows, context: &StageContext) -> Result<Rows> {
    let mut rows = rows;
    for stage in stages {
        rows = match stage {
            Stage::Match(stage) => stage.run(rows),
            Stage::Project(stage) => stage.run(rows, context),
            Stage::AddFields(stage) => stage.run(rows, context),
            Stage::ReplaceRoot(stage) => stage.run(rows, context),
            Stage::Redact(stage) => stage.run(rows, context),
            Stage::Sort(stage) => stage.run(rows)?,
            Stage::Limit(limit) => selection::limit(rows, limit),
            Stage::Skip(skip) => selection::skip(rows, skip),
            Stage::Group(stage) => stage.run(rows, context)?,
            Stage::Unwind(stage) => watched(stage.run(rows), Arc::clone(&context.host)),
            Stage::Lookup(stage) => stage.run(rows, context)?,
            Stage::GraphLookup(stage) => stage.run(rows, context),
            Stage::Count(field) => count::run(&field, rows)?,
            Stage::Sample(size) => selection::sample(size, rows, context)?,
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

/// The rows of a stage that makes many of one, with checks: the host checks its own reads, but not these.
fn watched(rows: Rows, host: Arc<dyn ProcessInterface>) -> Rows {
    let mut passed: u32 = 0;
    Box::new(rows.map(move |row| {
        passed = passed.wrapping_add(1);
        if passed.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            host.check()?;
        }
        row
    }))
}

/// The rows of stages over another collection. The host's query does the stages that a query can do.
pub(super) fn run_over(mut stages: Vec<Stage>, collection: &str, context: &StageContext) -> Result<Rows> {
    let rows: Rows = if matches!(stages.first(), Some(Stage::Source(_))) {
        Box::new(std::iter::empty())
    } else {
        let (filter, sort, limit) = plan::take_query(&mut stages);
        let filter = bson::RawDocumentBuf::try_from(&filter).map_err(malformed)?;
        let filter = Filter::parse(&filter, &context.variables)?;
        context.host.find(collection, Query { filter, sort, limit })?
    };
    let context = StageContext { collection: Some(collection.into()), ..context.clone() };
    run(stages, rows, &context)
}

const SEARCH: &str = "there are no text, geo or search indexes";
const ROUTER: &str = "it is internal to MongoDB's routers";

/// The stage of a name.
pub(super) fn find(name: &str) -> Option<&'static (&'static str, Form)> {
    STAGES.iter().find(|(known, _)| *known == name)
}

static STAGES: &[(&str, Form)] = &[
    ("$match", Form::Known(StageRule::Anywhere, selection::parse_match)),
    ("$project", Form::Known(StageRule::Row, shape::parse_project)),
    ("$group", Form::Known(StageRule::Anywhere, group::parse)),
    ("$sort", Form::Known(StageRule::Anywhere, selection::parse_sort)),
    ("$limit", Form::Known(StageRule::Anywhere, selection::parse_limit)),
    ("$skip", Form::Known(StageRule::Anywhere, selection::parse_skip)),
    ("$addFields", Form::Known(StageRule::Row, shape::parse_add_fields)),
    ("$set", Form::Known(StageRule::Row, shape::parse_add_fields)),
    ("$unset", Form::Known(StageRule::Row, shape::parse_unset)),
    ("$unwind", Form::Known(StageRule::Anywhere, unwind::parse)),
    ("$lookup", Form::Known(StageRule::Anywhere, lookup::parse)),
    ("$graphLookup", Form::Known(StageRule::Anywhere, graph_lookup::parse)),
    ("$count", Form::Known(StageRule::Anywhere, count::parse)),
    ("$sortByCount", Form::Known(StageRule::Anywhere, group::parse_sort_by_count)),
    ("$sample", Form::Known(StageRule::Anywhere, selection::parse_sample)),
    ("$facet", Form::Known(StageRule::NotInFacet, branch::parse_facet)),
    ("$bucket", Form::Known(StageRule::Anywhere, bucket::parse)),
    ("$bucketAuto", Form::Known(StageRule::Anywhere, bucket::parse_auto)),
    ("$replaceRoot", Form::Known(StageRule::Row, shape::parse_replace_root)),
    ("$replaceWith", Form::Known(StageRule::Row, shape::parse_replace_with)),
    ("$redact", Form::Known(StageRule::Anywhere, redact::parse)),
    ("$unionWith", Form::Known(StageRule::Anywhere, branch::parse_union)),
    ("$out", Form::Known(StageRule::Last, output::parse_out)),
    ("$merge", Form::Known(StageRule::Last, output::parse_merge)),
    ("$collStats", Form::Known(StageRule::First, source::parse)),
    ("$indexStats", Form::Known(StageRule::First, source::parse)),
    ("$currentOp", Form::Known(StageRule::First, source::parse)),
    ("$listLocalSessions", Form::Known(StageRule::First, source::parse)),
    ("$listSessions", Form::Known(StageRule::First, source::parse)),
    ("$documents", Form::Known(StageRule::First, source::parse_documents)),
    ("$geoNear", Form::Refused(SEARCH)),
    ("$search", Form::Refused(SEARCH)),
    ("$searchBeta", Form::Refused(SEARCH)),
    (
        "$changeStream",
        Form::Alone(40573, "The $changeStream stage is not supported: this server has no change streams"),
    ),
    ("$planCacheStats", Form::Refused("it keeps no cache of plans")),
    ("$listCachedAndActiveUsers", Form::Refused("it keeps no cache of users")),
    ("$backupCursor", Form::Refused("it makes no backups")),
    ("$backupCursorExtend", Form::Refused("it makes no backups")),
    ("$mergeCursors", Form::Refused(ROUTER)),
    ("$_internalInhibitOptimization", Form::Refused("it is internal to MongoDB")),
    ("$_internalSplitPipeline", Form::Refused(ROUTER)),
];
