//! `create`: a collection or view, on its database's primary shard.

use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to};
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Makes it.
pub(super) fn run(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    if let Some(on) = parse::string(request.fields, "viewOn")? {
        let under = format!("{}.{on}", request.database);
        if op.instance.catalog.table(&op.instance.cluster, &under)?.is_some() {
            let what = format!("a view on {under} is not in this router, because that collection is sharded");
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
    }
    op.instance.with_new_route(request.database, &namespace, |route| {
        if route.table.is_some() {
            let what = format!("a collection '{namespace}' already exists");
            return Err(Failure::new(Code::NamespaceExists, what));
        }
        let shard = route.primary.id().to_owned();
        send_to(op, request, route, &shard, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        })
    })
}
