//! `logRotate`: a new log file begins. There is no audit log.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Rotates.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    if let RawBsonRef::String(which) = request.target
        && which != "server"
    {
        return Err(Failure::new(
            Code::BadValue,
            format!("there is no log '{which}' to rotate, only 'server'"),
        ));
    }
    op.instance.log.rotate().map_err(|error| Failure::new(Code::FileRenameFailed, error.to_string()))
}
