//! `insert`, `update` and `delete`.

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;
use crate::write::{self, Verb};

/// Inserts.
pub(super) fn insert(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, Verb::Insert, reply)
}

/// Updates.
pub(super) fn update(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, Verb::Update, reply)
}

/// Deletes.
pub(super) fn delete(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, Verb::Delete, reply)
}
