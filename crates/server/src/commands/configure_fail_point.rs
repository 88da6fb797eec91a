//! `configureFailPoint`: failures on demand, on a server that was started with `enableTestCommands=1`.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Sets a fail point. A server that was not started for tests does not have the command, as mongod.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let fail_points = &op.instance.fail_points;
    if !fail_points.are_allowed() {
        return Err(Failure::new(Code::CommandNotFound, "no such command: 'configureFailPoint'"));
    }
    let bson::RawBsonRef::String(name) = request.target else {
        return Err(parse::wrong_type("configureFailPoint", request.target, "string"));
    };
    let mode = request.field("mode").ok_or_else(|| parse::missing("configureFailPoint.mode"))?;
    let data = parse::document(request.fields, "data")?.unwrap_or(parse::empty());
    let count = fail_points.configure(name, mode, data)?;
    op.instance.log.warning(
        "COMMAND",
        23829,
        &format!("conn{}", op.client.id),
        "Set failpoint",
        bson::doc! { "failPointName": name },
    );
    reply.i64("count", count);
    Ok(())
}
