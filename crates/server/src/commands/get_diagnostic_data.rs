//! `getDiagnosticData`: one sample of everything that monitors keep.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Makes a sample.
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    crate::diagnostics::diagnostic_data::write(op.instance, reply)
}
