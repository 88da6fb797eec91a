//! `createIndexes`, `dropIndexes` and `collMod`: on every shard that has some of the collection.

use std::sync::Arc;

use bson::{Bson, Document};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;
use crate::route::Route;
use crate::unique_index::check_unique;

/// `createIndexes`; a unique one of a sharded collection must begin with the shard key.
pub(super) fn create(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.with_new_route(request.database, &namespace, |route| {
        if let Some(table) = &route.table {
            for index in parse::documents(request.fields, "indexes")?.unwrap_or_default() {
                check_unique(index, table.key().to_document())?;
            }
        }
        everywhere(op, request, route, reply)
    })
}

/// `dropIndexes` and `collMod`.
pub(super) fn change(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let done = op
        .instance
        .with_route(request.database, &namespace, |route| everywhere(op, request, route, reply))?;
    done.ok_or_else(|| Failure::new(Code::NamespaceNotFound, format!("ns not found {namespace}")))
}

fn everywhere(op: Operation<'_>, request: &Request<'_>, route: &Route, reply: &mut Reply<'_>) -> Result<()> {
    let mut shards = route.shards();
    if route.table.is_none() {
        let shard = route.primary.id().to_owned();
        return send_to(op, request, route, &shard, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        });
    }
    // The primary shard has the collection's options and indexes even where it has no chunk of it.
    if !shards.iter().any(|shard| shard == route.primary.id()) {
        shards.push(route.primary.id().to_owned());
    }
    let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::new();
    for shard in &shards {
        let command = Outgoing::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let replies = call::ask_all(request.database, &commands, &request.sending());
    let mut raw = Document::new();
    for (answer, (backend, _)) in replies.into_iter().zip(&commands) {
        raw.insert(backend.hosts().to_string(), parse::owned(&answer?)?);
    }
    reply.bson("raw", &Bson::Document(raw));
    Ok(())
}
