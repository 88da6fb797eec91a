//! The command `aggregate`: runs on one shard if one suffices, otherwise split in two.

use std::sync::Arc;

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Filter, Pipeline, Rows, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::find_documents::FIRST_BATCH;
use super::{
    Reply, cursor_terms, pass_cursor_on, send_to, variables_of, write_empty_cursor, write_first_batch,
};
use crate::Result;
use crate::backend::Backend;
use crate::cursors::CursorSource;
use crate::instance::RouterOperation;
use crate::merge::{MergeShape, ReplyMerge};
use crate::pipeline::{MergePlan, RouterHost, Split, name_of, split};
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// Runs the pipeline and writes the first batch.
pub(super) fn run(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.instance.counters.commands.add(1);
    let stages = parse::documents(request.fields, "pipeline")?.ok_or_else(|| parse::missing("pipeline"))?;
    let first = stages.first().map_or("", |stage| name_of(stage));
    if parse::integer_of(request.target) == Some(1) {
        return about_no_collection(op, request, &stages, first, reply);
    }
    let namespace = request.namespace()?;
    let creates = stages.last().is_some_and(|stage| matches!(name_of(stage), "$out" | "$merge"));
    if creates {
        return op.instance.with_new_route(request.database, &namespace, |route| {
            answer(op, request, &stages, route, reply)
        });
    }
    let found = op
        .instance
        .with_route(request.database, &namespace, |route| answer(op, request, &stages, route, reply))?;
    if found.is_none() {
        write_empty_cursor(&namespace, reply);
    }
    Ok(())
}

/// `{aggregate: 1}`: stages about the servers themselves are sent to every shard, other stages to the database's primary shard.
fn about_no_collection(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    stages: &[&RawDocument],
    first: &str,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = format!("{}.$cmd.aggregate", request.database);
    if first == "$currentOp" {
        let shards = op.instance.cluster.shards();
        let backends = shards.into_iter().map(|shard| (shard.backend, None)).collect();
        return merged(op, request, stages, (&namespace, backends), reply);
    }
    let route = op.instance.route(request.database, &namespace)?;
    let backend = route.map_or_else(|| Arc::clone(op.instance.cluster.config()), |route| route.primary);
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    crate::call::call(&backend, request.database, &command, &SendPolicy::from_request(request), |answer| {
        pass_cursor_on(op.instance, cursor_terms(request)?, &backend, answer, reply)
    })
}

fn answer(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    stages: &[&RawDocument],
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let variables = variables_of(request)?;
    let elsewhere = check_other_collections(op, request, stages, &variables)?;
    let shards = match &route.table {
        None => vec![route.primary.id().to_owned()],
        Some(table) => {
            let filter = parse::raw_of(&Pipeline::parse(stages, &variables)?.take_query().0)?;
            table.target(&Filter::parse(&filter, &variables)?)?.shards
        }
    };
    if let [only] = shards.as_slice()
        && (!elsewhere || *only == route.primary.id())
    {
        return send_to(op, request, route, only, |backend, answer| {
            pass_cursor_on(op.instance, cursor_terms(request)?, backend, answer, reply)
        });
    }
    if parse::boolean(request.fields, "explain")? {
        let what = "explain of a pipeline over several shards is not in this router";
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    let mut backends = Vec::with_capacity(shards.len());
    for shard in &shards {
        backends.push((op.instance.cluster.shard(shard)?, route.versions(shard)));
    }
    merged(op, request, stages, (&route.namespace, backends), reply)
}

/// Whether the stages read or write other collections; refuses one that is sharded or belongs to another database.
fn check_other_collections(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    stages: &[&RawDocument],
    variables: &Variables,
) -> Result<bool> {
    let pipeline = Pipeline::parse(stages, variables)?;
    let mut others: Vec<String> = pipeline.collections_read().into_iter().map(str::to_owned).collect();
    if let Some((database, collection)) = pipeline.target() {
        if database.is_some_and(|database| database != request.database) {
            let what = "this router writes the result of a pipeline to the same database only";
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
        others.push(collection.to_owned());
    }
    for collection in &others {
        let namespace = format!("{}.{collection}", request.database);
        if op.instance.catalog.table(&op.instance.cluster, &namespace)?.is_some() {
            let what = format!(
                "{namespace} cannot be sharded to be read or written by a stage of another collection's pipeline"
            );
            return Err(Failure::new(Code(28769), what));
        }
    }
    Ok(!others.is_empty())
}

/// A shard, and the versions sent to it.
type ShardAddress = (Arc<Backend>, Option<crate::shard_command::ShardVersions>);

fn merged(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    stages: &[&RawDocument],
    (namespace, backends): (&str, Vec<ShardAddress>),
    reply: &mut Reply<'_>,
) -> Result<()> {
    let variables = variables_of(request)?;
    let batch = batch_size(request)?;
    let cut = split(stages, &variables)?;
    let mut commands = Vec::with_capacity(backends.len());
    for (backend, versions) in backends {
        let command = shard_command(request, &cut, backend.id(), batch)?.with_versions(versions);
        commands.push((backend, command));
    }
    let Split { gathering, here, .. } = cut;
    let (sort, form) = match gathering {
        MergePlan::Documents(sort) => (sort, None),
        MergePlan::Counts(form) => (None, Some(form)),
    };
    let shape = MergeShape { sort, ..MergeShape::default() };
    let mut merge =
        ReplyMerge::open(request.database, &commands, SendPolicy::from_request(request), shape, None)?;
    let source = match form {
        Some(form) => {
            let mut sum = 0_u64;
            while let Some(count) = merge.next()? {
                let count: &RawDocument = &count;
                sum += parse::integer(count, "n")?.unwrap_or(0).unsigned_abs();
            }
            let rows: Rows = Box::new(form.document(sum)?.map(Ok).into_iter());
            CursorSource::Rows(here.run(rows, Arc::new(RouterHost(Arc::clone(op.instance))))?, None)
        }
        None if here.is_empty() => CursorSource::Merge(Box::new(merge)),
        None => {
            let rows: Rows = Box::new(MergedRows(Box::new(merge)));
            CursorSource::Rows(here.run(rows, Arc::new(RouterHost(Arc::clone(op.instance))))?, None)
        }
    };
    write_first_batch(op, request, namespace, source, (batch, false), reply)
}

/// The merged stream as rows of a pipeline; dropping it closes the shards' cursors.
struct MergedRows(Box<ReplyMerge>);

impl Iterator for MergedRows {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().transpose()
    }
}

fn shard_command<'a>(
    request: &Request<'_>,
    cut: &Split,
    shard: &str,
    batch: u64,
) -> Result<ShardCommand<'a>> {
    let mut stages: Vec<RawDocumentBuf> = cut.on_shards.clone();
    if cut.names_shards {
        stages.push(parse::raw_of(&doc! { "$addFields": { "shard": { "$literal": shard } } })?);
    }
    ShardCommand::forwarded(request, &["pipeline", "cursor", "explain"], |body| {
        let mut array = body.begin_array("pipeline");
        stages.iter().for_each(|stage| array.document(stage));
        array.end();
        let size = i32::try_from(batch.max(1)).unwrap_or(i32::MAX);
        body.bson("cursor", &Bson::Document(doc! { "batchSize": size }));
    })
}

fn batch_size(request: &Request<'_>) -> Result<u64> {
    match request.field("cursor") {
        Some(RawBsonRef::Document(cursor)) => Ok(parse::natural(cursor, "batchSize")?.unwrap_or(FIRST_BATCH)),
        Some(other) => Err(parse::wrong_type("cursor", other, "object")),
        None => Err(Failure::new(
            Code::FailedToParse,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )),
    }
}
