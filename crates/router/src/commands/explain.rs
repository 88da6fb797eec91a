//! The command `explain`: the plans of all shards that the command concerns (explain-targeted-router.json).

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use fathom_query::{Filter, Sort, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::Reply;
use super::statistics::number;
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

pub(super) fn run(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::Document(inner) = request.target else {
        return Err(parse::wrong_type("explain", request.target, "object"));
    };
    let Some((name, RawBsonRef::String(collection))) = crate::shard_command::fields_of(inner).next() else {
        return Err(Failure::new(Code::FailedToParse, "explain takes a command on a collection"));
    };
    let namespace = format!("{}.{collection}", request.database);
    let explained = op.instance.with_route(request.database, &namespace, |route| {
        let shards = shards_of(name, inner, route)?;
        answer(op, request, inner, route, &shards, reply)
    })?;
    if explained.is_none() {
        let none = doc! { "mongosPlannerVersion": 1, "winningPlan": { "stage": "EOF" } };
        reply.bson("queryPlanner", &Bson::Document(none));
    }
    Ok(())
}

/// The shards that can hold matches of the command's filter.
fn shards_of(name: &str, inner: &RawDocument, route: &Route) -> Result<Vec<String>> {
    if route.table.is_none() {
        return Ok(route.shards());
    }
    let of_first = |list: &str| -> Result<Option<&RawDocument>> {
        match parse::documents(inner, list)?.unwrap_or_default().first() {
            Some(first) => parse::document(*first, "q"),
            None => Ok(None),
        }
    };
    let filter = match name {
        "find" => parse::document(inner, "filter")?,
        "count" | "distinct" | "findAndModify" | "findandmodify" => parse::document(inner, "query")?,
        "update" => of_first("updates")?,
        "delete" => of_first("deletes")?,
        "aggregate" => {
            let what = "explain of a pipeline on a sharded collection is not in this router";
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
        other => {
            return Err(Failure::new(
                Code::CommandNotFound,
                format!("Explain failed due to unknown command: {other}"),
            ));
        }
    };
    let variables = Variables::at(bson::DateTime::now());
    let filter = Filter::parse(filter.unwrap_or_else(|| parse::empty()), &variables)?;
    Ok(route.target(&filter)?.shards)
}

fn answer(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    inner: &RawDocument,
    route: &Route,
    shards: &[String],
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::with_capacity(shards.len());
    for shard in shards {
        let command = ShardCommand::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let mut plans = Vec::new();
    let mut statistics = Vec::new();
    for (answer, (backend, _)) in
        call::ask_all(request.database, &commands, &SendPolicy::from_request(request))
            .into_iter()
            .zip(&commands)
    {
        let answer = parse::owned(&answer?)?;
        let mut plan = doc! { "shardName": backend.id(), "connectionString": backend.hosts().to_string() };
        if let Some(server) = answer.get("serverInfo") {
            plan.insert("serverInfo", server.clone());
        }
        match answer.get_document("queryPlanner") {
            Ok(planner) => plan.extend(planner.clone()),
            // The plan of a pipeline is in its stages.
            Err(_) => plan.extend(answer.clone().into_iter().filter(|(name, _)| name != "ok")),
        }
        if let Ok(found) = answer.get_document("executionStats") {
            statistics.push((backend.id().to_owned(), found.clone()));
        }
        plans.push(Bson::Document(plan));
    }
    let sorted = parse::document(inner, "sort")?.map(Sort::parse).transpose()?.flatten().is_some();
    let stage = match (plans.len(), sorted) {
        (1, _) => "SINGLE_SHARD",
        (_, true) => "SHARD_MERGE_SORT",
        (_, false) => "SHARD_MERGE",
    };
    let planner = doc! { "mongosPlannerVersion": 1, "winningPlan": { "stage": stage, "shards": plans } };
    reply.bson("queryPlanner", &Bson::Document(planner));
    if !statistics.is_empty() {
        reply.bson("executionStats", &Bson::Document(executed(stage, statistics)));
    }
    Ok(())
}

/// Sums over the shards, and the statistics of each.
fn executed(stage: &str, statistics: Vec<(String, Document)>) -> Document {
    #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of a sum of counts")]
    let sum = |field: &str| statistics.iter().map(|(_, found)| number(found, field)).sum::<f64>() as i64;
    let longest =
        statistics.iter().map(|(_, found)| number(found, "executionTimeMillis")).fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds")]
    let longest = longest as i64;
    let totals = (sum("nReturned"), sum("totalKeysExamined"), sum("totalDocsExamined"));
    let shards: Vec<Bson> = statistics
        .into_iter()
        .map(|(shard, found)| {
            let mut one = doc! { "shardName": shard };
            one.extend(found);
            Bson::Document(one)
        })
        .collect();
    doc! {
        "nReturned": totals.0,
        "executionTimeMillis": longest,
        "totalKeysExamined": totals.1,
        "totalDocsExamined": totals.2,
        "executionStages": {
            "stage": stage,
            "nReturned": totals.0,
            "executionTimeMillis": longest,
            "totalKeysExamined": totals.1,
            "totalDocsExamined": totals.2,
            "shards": shards,
        },
    }
}
