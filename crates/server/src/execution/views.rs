//! Resolves views: a query on a view runs on its source, after the view's pipeline. Also checks the definition of a view.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Code, Failure, Pipeline};

use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;

/// The maximum depth of nested views (mongodb/mongo:src/mongo/db/views/view_graph.cpp).
pub(crate) const MAX_VIEW_DEPTH: usize = 20;

/// The target of a namespace, which may be a view.
#[derive(Debug)]
pub(crate) struct ViewTarget {
    /// The collection, which need not exist.
    pub(crate) namespace: String,
    /// The stages of the resolved views, to be run first.
    pub(crate) stages: Vec<RawDocumentBuf>,
    /// Whether any view was resolved.
    pub(crate) is_view: bool,
}

/// Resolves views down to a collection.
pub(crate) fn resolve(op: &OperationContext<'_>, namespace: &str) -> Result<ViewTarget> {
    let mut resolved = ViewTarget { namespace: namespace.to_owned(), stages: Vec::new(), is_view: false };
    for _ in 0..=MAX_VIEW_DEPTH {
        let Some(collection) = op.instance.catalog.get(&resolved.namespace) else { return Ok(resolved) };
        let (on, mut stages) = {
            let state = op.lock(&collection)?;
            let options = &state.options.document;
            let Ok(on) = options.get_str("viewOn") else { return Ok(resolved) };
            let stages = options.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
            (on.to_owned(), stages.iter().map(raw_stage).collect::<Result<Vec<_>>>()?)
        };
        stages.append(&mut resolved.stages);
        resolved = ViewTarget { namespace: format!("{}.{on}", collection.database()), stages, is_view: true };
    }
    let what = format!("View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}");
    Err(Failure::new(Code::ViewDepthLimitExceeded, what))
}

fn raw_stage(stage: &Bson) -> Result<RawDocumentBuf> {
    match stage {
        Bson::Document(stage) => parse::raw_of(stage),
        _ => Err(Failure::new(Code::TypeMismatch, "Each element of the 'pipeline' array must be an object")),
    }
}

/// Checks the definition of a view: a source in the same database and a pipeline without writes, without a cycle. Returns the options that
/// the catalog stores for it.
pub(crate) fn check_view(
    op: &mut OperationContext<'_>,
    namespace: &str,
    source: &str,
    stages: &[&RawDocument],
) -> Result<Document> {
    if source.is_empty() {
        return Err(Failure::new(Code::BadValue, "'viewOn' cannot be empty"));
    }
    let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
    if name.starts_with("system.") {
        return Err(Failure::new(
            Code::InvalidNamespace,
            format!("View name cannot start with 'system.', which is reserved for system namespaces: {name}"),
        ));
    }
    crate::namespace::check(&format!("{database}.{source}"))
        .map_err(|_| Failure::new(Code::InvalidNamespace, format!("invalid name for 'viewOn': {source}")))?;
    for (place, stage) in stages.iter().enumerate() {
        if let Some(name) = ["$out", "$merge"].iter().find(|name| parse::field(*stage, name).is_some()) {
            let what = format!(
                "The aggregation stage {name} in location {place} of the pipeline cannot be used in the view definition of {namespace}"
            );
            return Err(Failure::new(Code::OptionNotSupportedOnView, what));
        }
    }
    let pipeline = Pipeline::parse(stages, op.variables())?;
    let mut reads: Vec<String> = pipeline.collections_read().into_iter().map(str::to_owned).collect();
    reads.push(source.to_owned());
    let mut path = vec![namespace.to_owned()];
    reads.iter().try_for_each(|read| follow(op, database, read, &mut path))?;
    let stages =
        stages.iter().map(|stage| parse::owned(stage).map(Bson::Document)).collect::<Result<Vec<_>>>()?;
    Ok(doc! { "viewOn": source, "pipeline": stages })
}

/// Follows the sources of a view down to the collections.
fn follow(op: &mut OperationContext<'_>, database: &str, name: &str, path: &mut Vec<String>) -> Result<()> {
    let namespace = format!("{database}.{name}");
    if path.contains(&namespace) {
        let circle = format!("View cycle detected: {} => {namespace}", path.join(" => "));
        return Err(Failure::new(Code::GraphContainsCycle, circle));
    }
    let Some(collection) = op.instance.catalog.get(&namespace) else { return Ok(()) };
    let options = collection.lock().options.document.clone();
    let Ok(source) = options.get_str("viewOn") else { return Ok(()) };
    if path.len() >= MAX_VIEW_DEPTH {
        let what = format!("View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}");
        return Err(Failure::new(Code::ViewDepthLimitExceeded, what));
    }
    let stages = options.get_array("pipeline").cloned().unwrap_or_default();
    let stages =
        stages.iter().filter_map(Bson::as_document).map(parse::raw_of).collect::<Result<Vec<_>>>()?;
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let pipeline = Pipeline::parse(&stages, op.variables())?;
    path.push(namespace);
    for read in pipeline.collections_read() {
        follow(op, database, read, path)?;
    }
    follow(op, database, source, path)?;
    path.pop();
    Ok(())
}
