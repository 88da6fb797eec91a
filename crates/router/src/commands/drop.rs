//! `drop` and `dropDatabase`.

use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to};
use crate::Result;
use crate::admin;
use crate::operation::Operation;
use crate::request::Request;

/// Drops a collection.
pub(super) fn collection(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let dropped = op.instance.with_route(request.database, &namespace, |route| {
        if route.table.is_some() {
            admin::drop_sharded(op.instance, &namespace)?;
            reply.string("ns", &namespace);
            return Ok(());
        }
        let shard = route.primary.id().to_owned();
        send_to(op, request, route, &shard, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        })
    })?;
    dropped.ok_or_else(|| Failure::new(Code::NamespaceNotFound, "ns not found"))
}

/// Drops a database.
pub(super) fn database(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if matches!(request.database, "config" | "admin" | "local") {
        let what = format!("Cannot drop '{}' database", request.database);
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    if admin::drop_database(op.instance, request.database)? {
        reply.string("dropped", request.database);
    } else {
        reply.string("info", "database does not exist");
    }
    Ok(())
}
