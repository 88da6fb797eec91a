//! The command `explain`: reports how `find`, `count`, `distinct`, `aggregate`, `update`, `delete` or `findAndModify` would run, or has run.
//!
//! An explained write searches for its documents but does not change them. Plans are not raced here, so `allPlansExecution` adds an empty list.

use std::time::Instant;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use fathom_query::{Code, Failure};

use super::pipeline::{aggregation_of, count_on_view, distinct_on_view, find_on_view};
use super::{Reply, read_let};
use crate::Result;
use crate::cursors::FindQuery;
use crate::execution::explain::{
    ExplainOutput, ExplainedCommand, QueryAction, empty_plan, find_stages, planner,
};
use crate::execution::{Aggregation, PipelinePlan, WriteTarget};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;

/// The level of detail of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}

impl Verbosity {
    fn from_body(body: &RawDocument) -> Result<Verbosity> {
        match parse::field(body, "verbosity") {
            None => Ok(Verbosity::AllPlansExecution),
            Some(RawBsonRef::String("queryPlanner")) => Ok(Verbosity::QueryPlanner),
            Some(RawBsonRef::String("executionStats")) => Ok(Verbosity::ExecutionStats),
            Some(RawBsonRef::String("allPlansExecution")) => Ok(Verbosity::AllPlansExecution),
            Some(RawBsonRef::String(_)) => Err(Failure::new(
                Code::FailedToParse,
                "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
            )),
            Some(_) => Err(Failure::new(Code::FailedToParse, "explain verbosity must be a string")),
        }
    }

    fn runs(self) -> bool {
        self >= Verbosity::ExecutionStats
    }
}

pub(super) fn run(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::Document(body) = request.target else {
        return Err(Failure::new(Code::FailedToParse, "explain command requires a nested object"));
    };
    let verbosity = Verbosity::from_body(request.body())?;
    let first = body.iter().next().transpose().map_err(|error| parse::malformed(&error))?;
    let Some((name, target)) = first else {
        return Err(Failure::new(Code::FailedToParse, "explain command requires a nested object"));
    };
    let Some(command) = op.instance.commands.find(name.as_str()) else {
        let what = format!("Explain failed due to unknown command: {name}");
        return Err(Failure::new(Code::CommandNotFound, what));
    };
    read_let(op, body)?;
    if command.name == "aggregate" {
        let asked = aggregation_of(target, request.database, body)?;
        op.figures.namespace.clone_from(&asked.namespace);
        return aggregate(op, &asked, verbosity, reply);
    }
    let RawBsonRef::String(collection) = target else {
        let what = format!("collection name has invalid type {}", parse::type_name(target));
        return Err(Failure::new(Code::InvalidNamespace, what));
    };
    op.figures.namespace = format!("{}.{collection}", request.database);
    let view = on_view(op, command.name, body)?;
    if let Some(asked) = view {
        return aggregate(op, &asked, verbosity, reply);
    }
    let subject = subject_of(op, command.name, body)?;
    explain(op, subject, verbosity, reply)
}

/// Converts a query on a view into a pipeline.
fn on_view(op: &OperationContext<'_>, name: &str, body: &RawDocument) -> Result<Option<Aggregation>> {
    let namespace = &op.figures.namespace;
    let is_view =
        op.instance.catalog.get(namespace).is_some_and(|collection| collection.lock().options.is_view());
    match name {
        _ if !is_view => Ok(None),
        "find" => find_on_view(namespace, body).map(Some),
        "count" => count_on_view(namespace, body).map(Some),
        "distinct" => distinct_on_view(namespace, body).map(Some),
        _ => Err(Failure::new(
            Code::CommandNotSupportedOnView,
            format!("Namespace {namespace} is a view, not a collection"),
        )),
    }
}

/// The request that a command makes to the planner.
fn subject_of(op: &mut OperationContext<'_>, name: &str, body: &RawDocument) -> Result<ExplainedCommand> {
    let one = |list: &str| -> Result<&RawDocument> {
        let mut items = parse::documents(body, list)?.unwrap_or_default();
        match (items.pop(), items.is_empty()) {
            (Some(item), true) => Ok(item),
            _ => Err(Failure::new(Code::InvalidLength, "explained write batches must be of size 1")),
        }
    };
    match name {
        "find" => {
            let query = super::find::query_of(op, body)?;
            let shown = parse::document(body, "projection")?.map(parse::owned).transpose()?;
            Ok(ExplainedCommand { query, top: QueryAction::Find(shown) })
        }
        "count" => {
            let mut query = super::matches::query_of_count(op, body)?;
            let (skip, limit) = (std::mem::take(&mut query.skip), query.limit.take());
            Ok(ExplainedCommand { query, top: QueryAction::Count { skip, limit } })
        }
        "distinct" => {
            let (query, key) = super::matches::query_of_distinct(op, body)?;
            Ok(ExplainedCommand { query, top: QueryAction::Distinct(key) })
        }
        "update" => {
            let request = super::writes::update_of(op, one("updates")?, false)?;
            Ok(ExplainedCommand {
                query: query_of(&request.target),
                top: QueryAction::Update(Box::new(request)),
            })
        }
        "delete" => {
            let request = super::writes::delete_of(op, one("deletes")?)?;
            Ok(ExplainedCommand {
                query: query_of(&request.target),
                top: QueryAction::Delete { multi: request.multi },
            })
        }
        "findAndModify" => {
            let asked = super::find_and_modify::asked_of(op, body)?;
            let top = match asked.update {
                Some(request) => QueryAction::Update(Box::new(request)),
                None => QueryAction::Delete { multi: false },
            };
            Ok(ExplainedCommand { query: query_of(&asked.target), top })
        }
        other => Err(Failure::new(Code::IllegalOperation, format!("Cannot explain cmd: {other}"))),
    }
}

fn query_of(target: &WriteTarget) -> FindQuery {
    let mut query = FindQuery::new(target.filter.clone());
    query.sort.clone_from(&target.sort);
    query.hint.clone_from(&target.hint);
    query
}

fn explain(
    op: &mut OperationContext<'_>,
    subject: ExplainedCommand,
    verbosity: Verbosity,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let _ticket = op.read_ticket()?;
    let verdict = subject.explain(op, verbosity.runs())?;
    write(op, &verdict, verbosity, reply);
    Ok(())
}

fn write(op: &OperationContext<'_>, verdict: &ExplainOutput, verbosity: Verbosity, reply: &mut Reply<'_>) {
    reply.bson("queryPlanner", &Bson::Document(verdict.planner.clone()));
    if let Some(execution) = execution(verdict, verbosity) {
        reply.bson("executionStats", &Bson::Document(execution));
    }
    write_server(op, reply);
}

fn execution(verdict: &ExplainOutput, verbosity: Verbosity) -> Option<Document> {
    let mut execution = verdict.execution.clone()?;
    if verbosity == Verbosity::AllPlansExecution {
        execution.insert("allPlansExecution", Vec::<Bson>::new());
    }
    Some(execution)
}

fn write_server(op: &OperationContext<'_>, reply: &mut Reply<'_>) {
    let port = op.instance.port.get().copied().unwrap_or(0);
    let mut server = reply.begin_document("serverInfo");
    server.string("host", &crate::instance::machine());
    server.i32("port", i32::from(port));
    server.string("version", &op.instance.config.claimed_version);
    server.string("gitVersion", concat!("fathom-", env!("CARGO_PKG_VERSION")));
}

/// Explains a pipeline: the query that the planner extracted from it, then the remaining stages.
pub(super) fn aggregate(
    op: &mut OperationContext<'_>,
    asked: &Aggregation,
    verbosity: Verbosity,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let _ticket = op.read_ticket()?;
    let planned = PipelinePlan::new(op, asked)?;
    if planned.writes() && verbosity.runs() {
        let what =
            "explain of a pipeline with $out or $merge cannot run it; ask for the verbosity 'queryPlanner'";
        return Err(Failure::new(Code(51029), what));
    }
    let (rest, find, namespace) = (planned.rest(), planned.find(), planned.namespace().to_owned());
    let source = planned.is_source();
    let begun = Instant::now();
    let mut returned = 0;
    let mut failure = None;
    if verbosity.runs() {
        let mut rows = planned.into_rows();
        loop {
            match rows.next(op) {
                Ok(Some(_)) => returned += 1,
                Ok(None) => break,
                Err(failed) => {
                    failure = Some(failed);
                    break;
                }
            }
        }
    }
    let took = begun.elapsed();
    let cursor = match &find {
        Some((collection, find)) => {
            let (find, state) = (find.lock(), collection.lock());
            let stage = find_stages(&find, &state, None);
            let planner = planner(&namespace, find.query(), &stage, Some((&find, &state)));
            let execution = verbosity.runs().then(|| {
                let count = if rest.is_empty() { returned } else { find.returned() };
                ExplainOutput::execution(op, &stage, count, took, failure.as_ref())
            });
            ExplainOutput { planner, execution }
        }
        None => empty_plan(&namespace, verbosity.runs().then_some(took)),
    };
    if rest.is_empty() {
        write(op, &cursor, verbosity, reply);
        return Ok(());
    }
    let mut stages = reply.begin_array("stages");
    if !source {
        let mut inner = doc! { "queryPlanner": cursor.planner.clone() };
        inner.extend(execution(&cursor, verbosity).map(|stats| ("executionStats".to_owned(), stats.into())));
        stages.bson(&Bson::Document(doc! { "$cursor": inner }));
    }
    for stage in rest {
        stages.bson(&Bson::Document(stage));
    }
    stages.end();
    write_server(op, reply);
    Ok(())
}
