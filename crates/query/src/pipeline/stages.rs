//! Table: the stages of pipelines by name, where each may stand, and those that MongoDB has and this server refuses.
//!
//! They are run here too: each takes the rows of the one before it.

use std::sync::Arc;

use bson::RawBsonRef;

use super::context::{Context, Host, Query, Rows};
use super::parse::Limits;
use super::{
    branch, bucket, count, graph_lookup, group, lookup, output, plan, redact, selection, shape, source,
    unwind,
};
use crate::expression::value::malformed;
use crate::{Filter, Result};

/// After how many rows that one stage makes of few the host is asked whether to go on.
const ROWS_BETWEEN_CHECKS: u32 = 128;

/// A parsed stage.
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
    Source(source::Source),
    Out(output::Out),
    Merge(output::Merge),
}

/// Where a stage may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Anywhere.
    Anywhere,
    /// Anywhere but in `$facet`.
    NotInFacet,
    /// First in its pipeline, and not in `$facet`.
    First,
    /// Last in the outermost pipeline.
    Last,
    /// Anywhere, in updates too: it makes one document of one.
    Row,
}

/// How a stage is read: the name, what it holds, what it must obey. A stage may stand for several.
pub(super) type Parse = fn(&'static str, RawBsonRef<'_>, &Limits<'_>) -> Result<Vec<Stage>>;

/// What the table says of a stage.
pub(super) enum Form {
    /// It is there.
    Known(Rule, Parse),
    /// MongoDB has it, this server not, and why.
    Refused(&'static str),
    /// What MongoDB itself says on a server that stands alone.
    Alone(i32, &'static str),
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

const SEARCH: &str = "there are no text, geo or search indexes";
const ROUTER: &str = "it is internal to MongoDB's routers";

/// The stage of a name.
pub(super) fn find(name: &str) -> Option<&'static (&'static str, Form)> {
    STAGES.iter().find(|(known, _)| *known == name)
}

static STAGES: &[(&str, Form)] = &[
    ("$match", Form::Known(Rule::Anywhere, selection::parse_match)),
    ("$project", Form::Known(Rule::Row, shape::parse_project)),
    ("$group", Form::Known(Rule::Anywhere, group::parse)),
    ("$sort", Form::Known(Rule::Anywhere, selection::parse_sort)),
    ("$limit", Form::Known(Rule::Anywhere, selection::parse_limit)),
    ("$skip", Form::Known(Rule::Anywhere, selection::parse_skip)),
    ("$addFields", Form::Known(Rule::Row, shape::parse_add_fields)),
    ("$set", Form::Known(Rule::Row, shape::parse_add_fields)),
    ("$unset", Form::Known(Rule::Row, shape::parse_unset)),
    ("$unwind", Form::Known(Rule::Anywhere, unwind::parse)),
    ("$lookup", Form::Known(Rule::Anywhere, lookup::parse)),
    ("$graphLookup", Form::Known(Rule::Anywhere, graph_lookup::parse)),
    ("$count", Form::Known(Rule::Anywhere, count::parse)),
    ("$sortByCount", Form::Known(Rule::Anywhere, group::parse_sort_by_count)),
    ("$sample", Form::Known(Rule::Anywhere, selection::parse_sample)),
    ("$facet", Form::Known(Rule::NotInFacet, branch::parse_facet)),
    ("$bucket", Form::Known(Rule::Anywhere, bucket::parse)),
    ("$bucketAuto", Form::Known(Rule::Anywhere, bucket::parse_auto)),
    ("$replaceRoot", Form::Known(Rule::Row, shape::parse_replace_root)),
    ("$replaceWith", Form::Known(Rule::Row, shape::parse_replace_with)),
    ("$redact", Form::Known(Rule::Anywhere, redact::parse)),
    ("$unionWith", Form::Known(Rule::Anywhere, branch::parse_union)),
    ("$out", Form::Known(Rule::Last, output::parse_out)),
    ("$merge", Form::Known(Rule::Last, output::parse_merge)),
    ("$collStats", Form::Known(Rule::First, source::parse)),
    ("$indexStats", Form::Known(Rule::First, source::parse)),
    ("$currentOp", Form::Known(Rule::First, source::parse)),
    ("$listLocalSessions", Form::Known(Rule::First, source::parse)),
    ("$listSessions", Form::Known(Rule::First, source::parse)),
    ("$documents", Form::Known(Rule::First, source::parse_documents)),
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
