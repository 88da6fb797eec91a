//! Collections, their indexes and databases: made, listed, changed and dropped, on each shard that has some of them; what is not sharded is the
//! matter of its database's primary shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use fathom_query::Filter;
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::statistics::number;
use super::{Reply, cursor_terms, pass_cursor_on, pass_on, send_to, variables_of, write_empty_cursor};
use crate::Result;
use crate::admin::{self, check_unique};
use crate::backend::Backend;
use crate::call;
use crate::instance::Operation;
use crate::outgoing::Outgoing;
use crate::request::{Request, Sending};
use crate::route::Route;

/// `create`: a collection or view, on its database's primary shard.
pub(super) fn create(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// Drops a collection.
pub(super) fn drop_collection(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
pub(super) fn drop_database(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `createIndexes`; a unique one of a sharded collection must begin with the shard key.
pub(super) fn create_indexes(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.with_new_route(request.database, &namespace, |route| {
        if let Some(table) = &route.table {
            for index in parse::documents(request.fields, "indexes")?.unwrap_or_default() {
                check_unique(index, table.key().to_document())?;
            }
        }
        on_all_shards(op, request, route, reply)
    })
}

/// `dropIndexes` and `collMod`.
pub(super) fn change(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let done = op
        .instance
        .with_route(request.database, &namespace, |route| on_all_shards(op, request, route, reply))?;
    done.ok_or_else(|| Failure::new(Code::NamespaceNotFound, format!("ns not found {namespace}")))
}

fn on_all_shards(
    op: Operation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<()> {
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
    let replies = call::ask_all(request.database, &commands, &Sending::of(request));
    let mut raw = Document::new();
    for (answer, (backend, _)) in replies.into_iter().zip(&commands) {
        raw.insert(backend.hosts().to_string(), parse::owned(&answer?)?);
    }
    reply.bson("raw", &Bson::Document(raw));
    Ok(())
}

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
    call::call(&route.primary, request.database, &command, &Sending::of(request), |answer| {
        pass_cursor_on(op.instance, cursor_terms(request)?, &route.primary, answer, reply)
    })
}

/// `listIndexes`: of the first shard that has some of the collection.
pub(super) fn list_indexes(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let shard = route.shards().into_iter().next().unwrap_or_else(|| route.primary.id().to_owned());
        send_to(op, request, route, &shard, |backend, answer| {
            pass_cursor_on(op.instance, cursor_terms(request)?, backend, answer, reply)
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
    call::call(&from_route.primary, "admin", &command, &Sending::of(request), |answer| {
        pass_on(answer, reply);
        Ok(())
    })
}

/// `profile`, and what else is a matter of single servers.
pub(super) fn only_on_shards(_: Operation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let what = format!("{} is a matter of each shard: connect to it", request.command.name);
    Err(Failure::new(Code::CommandNotSupported, what))
}

/// `listDatabases`: those of all shards and of the config servers, each once, their sizes added up.
pub(super) fn list_databases(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let name_only = parse::boolean(request.fields, "nameOnly")?;
    let filter = match parse::document(request.fields, "filter")? {
        Some(filter) => Some(Filter::parse(filter, &variables_of(request)?)?),
        None => None,
    };
    let command = Outgoing::of(&doc! { "listDatabases": 1 })?;
    let config = Arc::clone(op.instance.cluster.config());
    let backends = op.instance.cluster.shards().into_iter().map(|shard| shard.backend);
    let commands: Vec<_> =
        std::iter::once(config).chain(backends).map(|backend| (backend, command.clone())).collect();
    let mut databases: BTreeMap<String, (f64, bool, Document)> = BTreeMap::new();
    for (answer, (backend, _)) in
        call::ask_all("admin", &commands, &Sending::of(request)).into_iter().zip(&commands)
    {
        let answer = parse::owned(&answer?)?;
        let of_config = backend.id() == "config";
        for entry in answer.get_array("databases").into_iter().flatten().filter_map(Bson::as_document) {
            let name = entry.get_str("name").unwrap_or_default();
            // What a shard keeps for itself is nobody's; `config` and `admin` are the config servers'.
            if name == "local" || matches!(name, "config" | "admin") != of_config {
                continue;
            }
            let place = databases.entry(name.to_owned()).or_insert_with(|| (0.0, true, Document::new()));
            place.0 += number(entry, "sizeOnDisk");
            place.1 &= entry.get_bool("empty").unwrap_or(false);
            place.2.insert(backend.id(), number(entry, "sizeOnDisk"));
        }
    }
    let mut total = 0.0;
    let mut array = reply.begin_array("databases");
    for (name, (bytes, empty, shards)) in databases {
        let entry = match name_only {
            true => doc! { "name": name },
            false => doc! { "name": name, "sizeOnDisk": bytes, "empty": empty, "shards": shards },
        };
        if let Some(filter) = &filter
            && filter.matches(&parse::raw_of(&entry)?)?.is_none()
        {
            continue;
        }
        total += bytes;
        array.bson(&Bson::Document(entry));
    }
    array.end();
    if !name_only {
        reply.f64("totalSize", total);
    }
    Ok(())
}
