//! `convertToCapped` and `cloneCollectionAsCapped`, which this server refuses: a collection is capped from its creation or
//! never.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Refuses.
pub(super) fn run(_op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let what = format!(
        "this server does not have {}; create a capped collection and copy the documents into it",
        request.command.name
    );
    Err(Failure::new(Code::CommandNotSupported, what))
}
