//! The command `find`: passes on the reply of one shard, or merges the replies of several.

use std::sync::Arc;

use bson::RawDocument;
use fathom_query::{Dialect, Filter, Projection, Sort, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{
    Reply, cursor_terms, pass_cursor_on, send_to, variables_of, write_empty_cursor, write_first_batch,
};
use crate::Result;
use crate::backend::Backend;
use crate::cursors::CursorSource;
use crate::instance::RouterOperation;
use crate::merge::{MergeShape, ReplyMerge};
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// The number of documents in the first batch if the client sets none.
pub(super) const FIRST_BATCH: u64 = 101;

/// Runs the query and writes the first batch.
pub(super) fn run(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.queries.add(1);
    let found =
        op.instance.with_route(request.database, &namespace, |route| answer(op, request, route, reply))?;
    if found.is_none() {
        write_empty_cursor(&namespace, reply);
    }
    Ok(())
}

fn answer(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let shards = shards_of(request, route)?;
    if let [only] = shards.as_slice() {
        send_to(op, request, route, only, |backend, answer| {
            pass_cursor_on(op.instance, cursor_terms(request)?, backend, answer, reply)
        })?;
        op.client.count_one_shard_query();
        return Ok(());
    }
    let query = ScatterQuery::read(request)?;
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::with_capacity(shards.len());
    for shard in &shards {
        let command = query.command(request)?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let batch = (query.batch_size.unwrap_or(FIRST_BATCH), query.single_batch);
    let merge =
        ReplyMerge::open(request.database, &commands, SendPolicy::from_request(request), query.shape, None)?;
    write_first_batch(op, request, &route.namespace, CursorSource::Merge(Box::new(merge)), batch, reply)
}

/// The shards that can hold matches of the query.
pub(crate) fn shards_of(request: &Request<'_>, route: &Route) -> Result<Vec<String>> {
    Ok(match &route.table {
        None => vec![route.primary.id().to_owned()],
        Some(table) => table.target(&filter_of(request, &variables_of(request)?)?)?.shards,
    })
}

fn filter_of(request: &Request<'_>, variables: &Variables) -> Result<Filter> {
    Filter::parse(parse::document(request.fields, "filter")?.unwrap_or_else(|| parse::empty()), variables)
}

/// A query that several shards answer.
struct ScatterQuery {
    shape: MergeShape,
    batch_size: Option<u64>,
    single_batch: bool,
}

impl ScatterQuery {
    fn read(request: &Request<'_>) -> Result<ScatterQuery> {
        let fields = request.fields;
        let variables = variables_of(request)?;
        let sort = sort_of(request)?;
        let limit = parse::integer(fields, "limit")?.filter(|limit| *limit != 0);
        for (name, why) in [
            ("returnKey", "the keys of several shards cannot be merged"),
            ("tailable", "a sharded collection is never capped"),
        ] {
            if parse::boolean(fields, name)? && (name == "tailable" || sort.is_some()) {
                let what = format!("{name} is not in this router for a query of several shards: {why}");
                return Err(Failure::new(Code::CommandNotSupported, what));
            }
        }
        let projection = parse::document(fields, "projection")?;
        let projection = match (projection, &sort) {
            (Some(document), Some(sort)) => projection_here(document, sort, &variables)?,
            _ => None,
        };
        if projection.is_some() && parse::boolean(fields, "showRecordId")? {
            let what =
                "showRecordId is not in this router for a sorted query of several shards with a projection";
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
        let projection = match projection {
            Some(projection) => Some((projection, filter_of(request, &variables)?, variables)),
            None => None,
        };
        Ok(ScatterQuery {
            shape: MergeShape {
                sort,
                skip: parse::natural(fields, "skip")?.unwrap_or(0),
                limit: limit.map(i64::unsigned_abs),
                projection,
            },
            batch_size: parse::natural(fields, "batchSize")?.or(parse::natural(fields, "ntoreturn")?),
            single_batch: parse::boolean(fields, "singleBatch")? || limit.is_some_and(|limit| limit < 0),
        })
    }

    /// The command for each shard: skip and limit apply to the merged result, so each shard is asked for skip plus limit documents.
    fn command<'a>(&self, request: &Request<'_>) -> Result<ShardCommand<'a>> {
        let mut left_out = vec!["skip", "limit", "ntoreturn", "singleBatch"];
        if self.shape.projection.is_some() {
            left_out.push("projection");
        }
        let most = self.shape.limit.map(|limit| limit.saturating_add(self.shape.skip));
        ShardCommand::forwarded(request, &left_out, |body| {
            if let Some(most) = most {
                body.i64("limit", i64::try_from(most).unwrap_or(i64::MAX));
            }
        })
    }
}

/// The sort; a sort by `$natural` does not order documents.
fn sort_of(request: &Request<'_>) -> Result<Option<Sort>> {
    let Some(sort) = parse::document(request.fields, "sort")? else { return Ok(None) };
    if parse::field(sort, "$natural").is_some() {
        return Ok(None);
    }
    Sort::parse(sort)
}

/// The projection if the router has to apply it, because it may remove fields that the sort needs.
fn projection_here(document: &RawDocument, sort: &Sort, variables: &Variables) -> Result<Option<Projection>> {
    let Some(projection) = Projection::parse(document, Dialect::Find, variables)? else { return Ok(None) };
    let kept = |path: &str| {
        projection.included_paths().is_some_and(|paths| {
            paths.iter().any(|kept| {
                path == *kept || path.strip_prefix(kept).is_some_and(|rest| rest.starts_with('.'))
            })
        })
    };
    Ok(if sort.fields.iter().all(|(path, _)| kept(path)) { None } else { Some(projection) })
}
