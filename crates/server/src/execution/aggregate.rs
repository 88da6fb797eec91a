//! Opens pipelines: resolves views, gives the leading stages to the query planner, and runs the others lazily on the plan's results.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf};
use fathom_query::{Code, CountForm, Dialect, Failure, Filter, Hint, Pipeline, Projection, Rows, Variables};
use parking_lot::Mutex;

use super::expression_context::{ExpressionContext, ServerHost};
use super::find::BatchEffect;
use super::scan_rows::{ScanRows, SharedFind};
use super::views;
use crate::Result;
use crate::cursors::{FindQuery, FindState, PipelineRows};
use crate::operation_context::OperationContext;
use crate::storage::Collection;

/// The options of the command.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    /// `database.collection`; `database.$cmd.aggregate` if the pipeline reads no collection.
    pub(crate) namespace: String,
    pub(crate) stages: Vec<RawDocumentBuf>,
    pub(crate) about_collection: bool,
    pub(crate) hint: Option<Hint>,
    /// Whether `$out` and `$merge` apply validators.
    pub(crate) validate: bool,
}

/// The source of the first rows.
#[derive(Debug)]
enum RowSource {
    /// No collection exists, or the first stage makes its own documents.
    Nothing,
    Find(Arc<Collection>, SharedFind),
    /// Only the number of matches.
    Count(Arc<Collection>, SharedFind, CountForm),
}

/// A pipeline that is ready to run.
#[derive(Debug)]
pub(crate) struct PipelinePlan {
    pipeline: Pipeline,
    host: Arc<ServerHost>,
    source: RowSource,
}

impl PipelinePlan {
    pub(crate) fn new(op: &mut OperationContext<'_>, asked: &Aggregation) -> Result<PipelinePlan> {
        let resolved = if asked.about_collection && !begins_with(&asked.stages, "$collStats") {
            views::resolve(op, &asked.namespace)?
        } else {
            views::ViewTarget { namespace: asked.namespace.clone(), stages: Vec::new(), is_view: false }
        };
        let stages: Vec<&RawDocument> =
            resolved.stages.iter().chain(&asked.stages).map(AsRef::as_ref).collect();
        let variables = Arc::new(op.variables().clone());
        let mut pipeline = Pipeline::parse(&stages, &variables)?;
        check_source(asked, &pipeline)?;
        let host = ServerHost {
            context: ExpressionContext::new(op),
            namespace: resolved.namespace,
            validate: asked.validate,
            variables: Arc::clone(&variables),
            depth: 0,
        };
        let collection = match pipeline.source() {
            None if asked.about_collection => op.instance.catalog.get(&host.namespace),
            _ => None,
        };
        let source = match collection {
            None => RowSource::Nothing,
            Some(collection) => source_of(op, collection, &mut pipeline, asked.hint.clone(), &variables)?,
        };
        Ok(PipelinePlan { pipeline, host: Arc::new(host), source })
    }

    /// Whether it ends in `$out` or `$merge`.
    pub(crate) fn writes(&self) -> bool {
        self.pipeline.writes()
    }

    /// Whether its first stage makes its own documents.
    pub(crate) fn is_source(&self) -> bool {
        self.pipeline.source().is_some()
    }

    /// The stages that the planner did not absorb.
    pub(crate) fn rest(&self) -> Vec<Document> {
        match &self.source {
            RowSource::Count(_, _, form) => {
                let mut rest = form.to_documents();
                rest.extend(self.pipeline.to_documents().cloned());
                rest
            }
            _ => self.pipeline.to_documents().cloned().collect(),
        }
    }

    /// The query below the pipeline, with its collection.
    pub(crate) fn find(&self) -> Option<(Arc<Collection>, SharedFind)> {
        match &self.source {
            RowSource::Nothing => None,
            RowSource::Find(collection, find) | RowSource::Count(collection, find, _) => {
                Some((Arc::clone(collection), Arc::clone(find)))
            }
        }
    }

    /// The collection that the pipeline finally reads.
    pub(crate) fn namespace(&self) -> &str {
        &self.host.namespace
    }

    /// The rows of the pipeline; nothing is executed before the first is requested.
    pub(crate) fn into_rows(self) -> PipelineRows {
        let attachment = Arc::clone(self.host.context.attachment());
        PipelineRows::new(Box::new(LazyRows { planned: Some(self), rows: None }), attachment)
    }

    fn run(self) -> Result<Rows> {
        let rows: Rows = match self.source {
            RowSource::Nothing => Box::new(std::iter::empty()),
            RowSource::Find(collection, find) => {
                Box::new(ScanRows::new(&self.host.context, &collection, find)?)
            }
            RowSource::Count(collection, find, form) => {
                let count = count_rows(&self.host.context, &collection, &find)?;
                Box::new(form.document(count)?.map(Ok).into_iter())
            }
        };
        self.pipeline.run(rows, self.host)
    }
}

/// Rows that are produced when the first is requested.
struct LazyRows {
    planned: Option<PipelinePlan>,
    rows: Option<Rows>,
}

impl Iterator for LazyRows {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        if let Some(planned) = self.planned.take() {
            match planned.run() {
                Ok(rows) => self.rows = Some(rows),
                Err(failure) => return Some(Err(failure)),
            }
        }
        self.rows.as_mut()?.next()
    }
}

fn begins_with(stages: &[RawDocumentBuf], name: &str) -> bool {
    stages.first().is_some_and(|stage| crate::parse::field(stage.as_ref(), name).is_some())
}

/// Refuses a pipeline without a collection that needs one, and a pipeline with a collection that must not have one.
fn check_source(asked: &Aggregation, pipeline: &Pipeline) -> Result<()> {
    let refused = |what: String| Err(Failure::new(Code::InvalidNamespace, what));
    let first = asked.stages.first().and_then(|stage| stage.iter().next()?.ok());
    let name = first.map(|(name, _)| name.as_str().to_owned()).unwrap_or_default();
    let about_none = matches!(
        pipeline.source(),
        Some("$currentOp" | "$listLocalSessions" | "$documents" | "$listSessions")
    );
    match asked.about_collection {
        false if !about_none => {
            refused(format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."))
        }
        true if about_none && name == "$currentOp" => {
            refused("$currentOp must be run against the 'admin' database with {aggregate: 1}".to_owned())
        }
        true if about_none && name != "$listSessions" => {
            refused(format!("{name} must be run against the database with {{aggregate: 1}}"))
        }
        false if name == "$currentOp" && asked.namespace != "admin.$cmd.aggregate" => {
            refused("$currentOp must be run against the 'admin' database with {aggregate: 1}".to_owned())
        }
        _ => Ok(()),
    }
}

/// Gives the planner the stages that it can execute.
fn source_of(
    op: &mut OperationContext<'_>,
    collection: Arc<Collection>,
    pipeline: &mut Pipeline,
    hint: Option<Hint>,
    variables: &Variables,
) -> Result<RowSource> {
    let (filter, sort, limit) = pipeline.take_query();
    let mut query = FindQuery::new(Filter::parse(&crate::parse::raw_of(&filter)?, variables)?);
    let form = if sort.is_none() { pipeline.take_count() } else { None };
    query.sort = sort;
    query.limit = limit;
    query.hint = hint;
    query.count_only = form.is_some();
    if form.is_none() {
        query.needed =
            pipeline.needed_fields().map(|fields| needed(&fields, variables)).transpose()?.flatten();
    }
    let state = op.lock(&collection)?;
    let find = FindState::new(op, &state, query)?;
    drop(state);
    let find = Arc::new(Mutex::new(find));
    Ok(match form {
        None => RowSource::Find(collection, find),
        Some(form) => RowSource::Count(collection, find, form),
    })
}

/// The fields that the stages read, in the form that the planner expects.
pub(crate) fn needed(fields: &BTreeSet<String>, variables: &Variables) -> Result<Option<Projection>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let mut projection = Document::new();
    if !fields.contains("_id") {
        projection.insert("_id", 0);
    }
    fields.iter().for_each(|field| {
        projection.insert(field, 1);
    });
    // Names that no projection accepts cannot be fields of an index either.
    Ok(Projection::parse(&crate::parse::raw_of(&projection)?, Dialect::Aggregate, variables).unwrap_or(None))
}

fn count_rows(
    context: &Arc<ExpressionContext>,
    collection: &Arc<Collection>,
    find: &SharedFind,
) -> Result<u64> {
    let session = context.session()?;
    let mut count = 0;
    let counted = context.run(&*session, |op| {
        let state = op.lock(collection)?;
        if state.gone {
            return Err(super::find::gone(collection.namespace()));
        }
        find.lock().fill(op, collection, &state, &mut |_| {
            count += 1;
            Ok(BatchEffect::More)
        })
    });
    context.give_back(session);
    counted.map(|()| count)
}
