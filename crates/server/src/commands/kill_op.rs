//! `killOp`: asks an operation to stop, which it does at its next look.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::diagnostics::current_op::kill_operation;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Asks; like mongod it does not say whether there was such an operation.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let value = request
        .field("op")
        .ok_or_else(|| Failure::new(Code::NoSuchKey, "Did not provide \"op\" field".to_owned()))?;
    let number = parse::integer_of(value).ok_or_else(|| parse::wrong_type("op", value, "number"))?;
    reply.string("info", "attempting to kill op");
    if let Ok(number) = u64::try_from(number) {
        kill_operation(op.instance, op.client, number, true);
    }
    Ok(())
}
