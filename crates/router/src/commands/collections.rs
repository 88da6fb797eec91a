//! Creates, lists, changes and drops collections, indexes and databases, on each shard that has a part of them. Commands on
//! unsharded collections are sent to the database's primary shard.

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
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// `create`: creates a collection or view on its database's primary shard.
pub(super) fn create(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

pub(super) fn drop_collection(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
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

pub(super) fn drop_database(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
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

/// `createIndexes`; a unique index of a sharded collection must begin with the shard key.
pub(super) fn create_indexes(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
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

/// The commands `dropIndexes` and `collMod`.
pub(super) fn change(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let done = op
        .instance
        .with_route(request.database, &namespace, |route| on_all_shards(op, request, route, reply))?;
    done.ok_or_else(|| Failure::new(Code::NamespaceNotFound, format!("ns not found {namespace}")))
}

fn on_all_shards(
    op: RouterOperation<'_>,
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
    // The primary shard holds the collection's options and indexes even if it has no chunk of it.
    if !shards.iter().any(|shard| shard == route.primary.id()) {
        shards.push(route.primary.id().to_owned());
    }
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::new();
    for shard in &shards {
        let command = ShardCommand::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let replies = call::ask_all(request.database, &commands, &SendPolicy::from_request(request));
    let mut raw = Document::new();
    for (answer, (backend, _)) in replies.into_iter().zip(&commands) {
        raw.insert(backend.hosts().to_string(), parse::owned(&answer?)?);
    }
    reply.bson("raw", &Bson::Document(raw));
    Ok(())
}

/// `listCollections`: the primary shard knows every collection of its database, sharded or not.
pub(super) fn list_collections(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = format!("{}.$cmd.listCollections", request.database);
    let Some(route) = op.instance.route(request.database, &namespace)? else {
        write_empty_cursor(&namespace, reply);
        return Ok(());
    };
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    call::call(&route.primary, request.database, &command, &SendPolicy::from_request(request), |answer| {
        pass_cursor_on(op.instance, cursor_terms(request)?, &route.primary, answer, reply)
    })
}

/// `listIndexes`: asks the first shard that has a part of the collection.
pub(super) fn list_indexes(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let shard = route.shards().into_iter().next().unwrap_or_else(|| route.primary.id().to_owned());
        send_to(op, request, route, &shard, |backend, answer| {
            pass_cursor_on(op.instance, cursor_terms(request)?, backend, answer, reply)
        })
    })?;
    found.ok_or_else(|| Failure::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}")))
}

/// `renameCollection`: renames unsharded collections within one database.
pub(super) fn rename(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    call::call(&from_route.primary, "admin", &command, &SendPolicy::from_request(request), |answer| {
        pass_on(answer, reply);
        Ok(())
    })
}

/// `profile` and other commands that only make sense on a single server.
pub(super) fn only_on_shards(_: RouterOperation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let what = format!("{} is a matter of each shard: connect to it", request.command.name);
    Err(Failure::new(Code::CommandNotSupported, what))
}

/// `listDatabases`: the databases of all shards and of the config servers, each once, with their sizes added up.
pub(super) fn list_databases(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let name_only = parse::boolean(request.fields, "nameOnly")?;
    let filter = match parse::document(request.fields, "filter")? {
        Some(filter) => Some(Filter::parse(filter, &variables_of(request)?)?),
        None => None,
    };
    let command = ShardCommand::from_command(&doc! { "listDatabases": 1 })?;
    let config = Arc::clone(op.instance.cluster.config());
    let backends = op.instance.cluster.shards().into_iter().map(|shard| shard.backend);
    let commands: Vec<_> =
        std::iter::once(config).chain(backends).map(|backend| (backend, command.clone())).collect();
    let mut databases: BTreeMap<String, (f64, bool, Document)> = BTreeMap::new();
    for (answer, (backend, _)) in
        call::ask_all("admin", &commands, &SendPolicy::from_request(request)).into_iter().zip(&commands)
    {
        let answer = parse::owned(&answer?)?;
        let of_config = backend.id() == "config";
        for entry in answer.get_array("databases").into_iter().flatten().filter_map(Bson::as_document) {
            let name = entry.get_str("name").unwrap_or_default();
            // A shard's own databases are not visible; `config` and `admin` are the config servers'.
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
