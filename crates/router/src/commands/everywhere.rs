//! Commands about a collection that every shard that has some of it answers for itself: `validate`, `dataSize`.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, number_of, pass_on, send_to};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;
use crate::route::Route;

/// `validate`: valid where it is valid on all shards.
pub(super) fn validate(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let replies = match ask(op, request, route, reply)? {
            None => return Ok(()),
            Some(replies) => replies,
        };
        let mut raw = Document::new();
        let mut valid = true;
        for (host, answer) in replies {
            valid &= answer.get_bool("valid").unwrap_or(false);
            raw.insert(host, answer);
        }
        reply.bool("valid", valid);
        reply.bson("raw", &Bson::Document(raw));
        Ok(())
    })?;
    found.ok_or_else(|| {
        Failure::new(Code::NamespaceNotFound, format!("Collection '{namespace}' does not exist to validate."))
    })
}

/// `dataSize`: sums.
pub(super) fn data_size(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.named_namespace()?.to_owned();
    let database = namespace.split_once('.').map_or("", |(database, _)| database);
    let found = op.instance.with_route(database, &namespace, |route| {
        let Some(replies) = ask(op, request, route, reply)? else { return Ok(()) };
        for field in ["size", "numObjects", "millis"] {
            reply.f64(field, replies.iter().map(|(_, answer)| number(answer, field)).sum());
        }
        Ok(())
    })?;
    if found.is_none() {
        ["size", "numObjects", "millis"].iter().for_each(|field| reply.f64(field, 0.0));
    }
    Ok(())
}

/// A number of a reply, 0 if it has none.
pub(super) fn number(answer: &Document, field: &str) -> f64 {
    let value = answer.get(field).cloned().and_then(|value| bson::RawBson::try_from(value).ok());
    value.and_then(|value| number_of(value.as_raw_bson_ref())).unwrap_or(0.0)
}

/// The replies of the shards that have some of the collection; none if it is not sharded, where the one reply was handed on.
pub(super) fn ask(
    op: Operation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<Option<Vec<(String, Document)>>> {
    if route.table.is_none() {
        let shard = route.primary.id().to_owned();
        send_to(op, request, route, &shard, |_, answer: &RawDocument| {
            pass_on(answer, reply);
            Ok(())
        })?;
        return Ok(None);
    }
    let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::new();
    for shard in route.shards() {
        let command = Outgoing::forwarded(request, &[], |_| {})?.with_versions(route.versions(&shard));
        commands.push((op.instance.cluster.shard(&shard)?, command));
    }
    let replies = call::ask_all(request.database, &commands, &request.sending());
    let mut all = Vec::with_capacity(replies.len());
    for (answer, (backend, _)) in replies.into_iter().zip(&commands) {
        all.push((backend.id().to_owned(), parse::owned(&answer?)?));
    }
    Ok(Some(all))
}
