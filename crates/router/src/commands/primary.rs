//! Commands that concern the primary shard of a database alone, or what is not sharded.

use fathom_wire::{Code, Failure};

use super::{Reply, pass_cursor_on, pass_on, send_to, write_empty_cursor};
use crate::Result;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;

/// `listCollections`: the primary shard has each collection of its database, sharded or not.
pub(super) fn list_collections(
    op: Operation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = format!("{}.$cmd.listCollections", request.database);
    let Some(route) = op.instance.route(request.database, &namespace)? else {
        write_empty_cursor(&namespace, reply);
        return Ok(());
    };
    let command = Outgoing::forwarded(request, &[], |_| {})?;
    call::call(&route.primary, request.database, &command, &request.sending(), |answer| {
        pass_cursor_on(op.instance, request.cursor_terms()?, &route.primary, answer, reply)
    })
}

/// `listIndexes`: of the first shard that has some of the collection.
pub(super) fn list_indexes(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let shard = route.shards().into_iter().next().unwrap_or_else(|| route.primary.id().to_owned());
        send_to(op, request, route, &shard, |backend, answer| {
            pass_cursor_on(op.instance, request.cursor_terms()?, backend, answer, reply)
        })
    })?;
    found.ok_or_else(|| Failure::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}")))
}

/// `renameCollection`: within one database, of what is not sharded.
pub(super) fn rename(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let from = request.named_namespace()?;
    let to = fathom_service::parse::required_string(request.fields, "to")?;
    let database = |namespace: &str| namespace.split_once('.').map(|(database, _)| database.to_owned());
    let (Some(source), Some(target)) = (database(from), database(to)) else {
        return Err(Failure::new(Code::InvalidNamespace, format!("Invalid target namespace: {to}")));
    };
    for (namespace, database) in [(from, &source), (to, &target)] {
        if op.instance.route(database, namespace)?.is_some_and(|route| route.table.is_some()) {
            let what =
                format!("{namespace} is sharded, and a sharded collection cannot be renamed or replaced");
            return Err(Failure::new(Code::IllegalOperation, what));
        }
    }
    let gone = || Failure::new(Code::NamespaceNotFound, format!("source namespace {from} does not exist"));
    let from_route = op.instance.route(&source, from)?.ok_or_else(gone)?;
    let to_route = op.instance.route_or_new(&target, to)?;
    if from_route.primary.id() != to_route.primary.id() {
        let what = "Source and destination databases must be on the same shard.";
        return Err(Failure::new(Code(13137), what));
    }
    let command = Outgoing::forwarded(request, &[], |_| {})?;
    call::call(&from_route.primary, "admin", &command, &request.sending(), |answer| {
        pass_on(answer, reply);
        Ok(())
    })
}

/// `profile`, and what else is a matter of single servers.
pub(super) fn only_on_shards(_: Operation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let what = format!("{} is a matter of each shard: connect to it", request.name);
    Err(Failure::new(Code::CommandNotSupported, what))
}
