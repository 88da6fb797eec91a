//! `aggregate`, and queries on views, which are pipelines.
use std::sync::Arc;

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::execution::FindQuery;
use crate::operation::Operation;
use crate::storage::Collection;

/// A query on a view: the view's pipeline, then the query's stages.
pub(super) fn run_on_view(
    _op: &mut Operation<'_>,
    _view: &Arc<Collection>,
    _query: &FindQuery,
    _batch_size: u64,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    Err(Failure::new(Code::CommandNotSupported, "this server cannot query views"))
}
