//! Table: the stages of pipelines by name, where each may stand, and those that MongoDB has and this server refuses.

use bson::RawBsonRef;

use super::parse::Limits;
use super::{
    add_fields, bucket, bucket_auto, count, facet, graph_lookup, group, lookup, matching, merge, out,
    project, redact, replace_root, sample, slice, sort, source, union, unwind,
};
use crate::Result;

/// A parsed stage.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Match(matching::Match),
    Project(project::Project),
    AddFields(add_fields::AddFields),
    ReplaceRoot(replace_root::ReplaceRoot),
    Redact(redact::Redact),
    Sort(sort::SortStage),
    Limit(u64),
    Skip(u64),
    Group(group::Group),
    Unwind(unwind::Unwind),
    Lookup(lookup::Lookup),
    GraphLookup(graph_lookup::GraphLookup),
    Count(String),
    Sample(usize),
    Facet(facet::Facet),
    BucketAuto(bucket_auto::BucketAuto),
    Union(union::Union),
    Source(source::Source),
    Out(out::Out),
    Merge(merge::Merge),
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

const SEARCH: &str = "there are no text, geo or search indexes";
const ROUTER: &str = "it is internal to MongoDB's routers";

/// The stage of a name.
pub(super) fn find(name: &str) -> Option<&'static (&'static str, Form)> {
    STAGES.iter().find(|(known, _)| *known == name)
}

static STAGES: &[(&str, Form)] = &[
    ("$match", Form::Known(Rule::Anywhere, matching::parse)),
    ("$project", Form::Known(Rule::Row, project::parse)),
    ("$group", Form::Known(Rule::Anywhere, group::parse)),
    ("$sort", Form::Known(Rule::Anywhere, sort::parse)),
    ("$limit", Form::Known(Rule::Anywhere, slice::parse_limit)),
    ("$skip", Form::Known(Rule::Anywhere, slice::parse_skip)),
    ("$addFields", Form::Known(Rule::Row, add_fields::parse)),
    ("$set", Form::Known(Rule::Row, add_fields::parse)),
    ("$unset", Form::Known(Rule::Row, project::parse_unset)),
    ("$unwind", Form::Known(Rule::Anywhere, unwind::parse)),
    ("$lookup", Form::Known(Rule::Anywhere, lookup::parse)),
    ("$graphLookup", Form::Known(Rule::Anywhere, graph_lookup::parse)),
    ("$count", Form::Known(Rule::Anywhere, count::parse)),
    ("$sortByCount", Form::Known(Rule::Anywhere, group::parse_sort_by_count)),
    ("$sample", Form::Known(Rule::Anywhere, sample::parse)),
    ("$facet", Form::Known(Rule::NotInFacet, facet::parse)),
    ("$bucket", Form::Known(Rule::Anywhere, bucket::parse)),
    ("$bucketAuto", Form::Known(Rule::Anywhere, bucket_auto::parse)),
    ("$replaceRoot", Form::Known(Rule::Row, replace_root::parse)),
    ("$replaceWith", Form::Known(Rule::Row, replace_root::parse_with)),
    ("$redact", Form::Known(Rule::Anywhere, redact::parse)),
    ("$unionWith", Form::Known(Rule::Anywhere, union::parse)),
    ("$out", Form::Known(Rule::Last, out::parse)),
    ("$merge", Form::Known(Rule::Last, merge::parse)),
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
