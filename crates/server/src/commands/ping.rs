//! `ping`: whether the server answers.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Answers.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(_op: &mut Operation<'_>, _request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    Ok(())
}
