//! Views: a query on one is a query on what it stands for, behind its pipeline.

use bson::{Bson, RawDocumentBuf};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::storage::Catalog;

/// How many views may stand on one another (mongodb/mongo:src/mongo/db/views/view_graph.cpp).
pub(crate) const VIEWS_DEEP: usize = 20;

/// What a namespace comes to when it may be a view.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The collection, which need not be there.
    pub(crate) namespace: String,
    /// The stages of the views on the way, to be run first.
    pub(crate) stages: Vec<RawDocumentBuf>,
    /// Whether any view was on the way.
    pub(crate) is_view: bool,
}

/// Follows views down to a collection.
pub(crate) fn resolve(catalog: &Catalog, namespace: &str) -> Result<Resolved> {
    let mut resolved = Resolved { namespace: namespace.to_owned(), stages: Vec::new(), is_view: false };
    for _ in 0..=VIEWS_DEEP {
        let Some(collection) = catalog.get(&resolved.namespace) else { return Ok(resolved) };
        let (on, mut stages) = {
            let state = collection.lock();
            let options = &state.options.document;
            let Ok(on) = options.get_str("viewOn") else { return Ok(resolved) };
            let stages = options.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
            (on.to_owned(), stages.iter().map(raw_stage).collect::<Result<Vec<_>>>()?)
        };
        stages.append(&mut resolved.stages);
        resolved = Resolved { namespace: format!("{}.{on}", collection.database()), stages, is_view: true };
    }
    let what = format!("View depth limit exceeded; maximum depth is {VIEWS_DEEP}");
    Err(Failure::new(Code::ViewDepthLimitExceeded, what))
}

fn raw_stage(stage: &Bson) -> Result<RawDocumentBuf> {
    match stage {
        Bson::Document(stage) => crate::parse::raw_of(stage),
        _ => Err(Failure::new(Code::TypeMismatch, "Each element of the 'pipeline' array must be an object")),
    }
}
