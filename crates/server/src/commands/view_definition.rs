//! What a view may be defined as: a source of the same database and a pipeline that writes nothing, without a circle.

use bson::{Bson, Document, RawDocument, doc};
use fathom_query::{Code, Failure, Pipeline};

use crate::Result;
use crate::operation::Operation;
use crate::parse;

/// Views may stand on views this deep.
const DEEPEST: usize = 20;

/// Checks a definition; the options that the catalog keeps for it.
pub(super) fn check(
    op: &mut Operation<'_>,
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

/// Follows what a view reads down to the collections.
fn follow(op: &mut Operation<'_>, database: &str, name: &str, path: &mut Vec<String>) -> Result<()> {
    let namespace = format!("{database}.{name}");
    if path.contains(&namespace) {
        let circle = format!("View cycle detected: {} => {namespace}", path.join(" => "));
        return Err(Failure::new(Code::GraphContainsCycle, circle));
    }
    let Some(collection) = op.instance.catalog.get(&namespace) else { return Ok(()) };
    let options = collection.lock().options.document.clone();
    let Ok(source) = options.get_str("viewOn") else { return Ok(()) };
    if path.len() >= DEEPEST {
        let what = format!("View depth limit exceeded; maximum depth is {DEEPEST}");
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
