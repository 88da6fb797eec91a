//! The commands that list, rename and drop databases and collections.

use std::collections::VecDeque;

use bson::{Document, doc};
use fathom_query::{Code, Failure, Filter};

use super::Reply;
use super::cursors::write_cursor;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, CollectionState};

/// `listDatabases`: the non-empty databases, and their sizes on disk.
///
/// Lists databases. A user without the right to list all of them sees those that he may read, so that
/// `authorizedDatabases` changes nothing for other users.
pub(super) fn list_databases(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let name_only = parse::boolean(request.fields, "nameOnly")?;
    parse::boolean(request.fields, "authorizedDatabases")?;
    let filter = match parse::document(request.fields, "filter")? {
        Some(filter) => Some(Filter::parse(filter, op.variables())?),
        None => None,
    };
    let mut total = 0.0;
    let mut listed = reply.begin_array("databases");
    for name in op.instance.catalog.databases() {
        op.check_interrupt()?;
        if !crate::auth::may_see_database(op, &name) {
            continue;
        }
        let mut entry = doc! { "name": &name };
        if !name_only {
            let size = size_on_disk(op, &name)?;
            total += size;
            entry.extend(doc! { "sizeOnDisk": size, "empty": false });
        }
        let entry = parse::raw_of(&entry as &Document)?;
        if let Some(filter) = &filter
            && filter.matches(&entry)?.is_none()
        {
            continue;
        }
        listed.document(&entry);
    }
    listed.end();
    if !name_only {
        reply.f64("totalSize", total);
    }
    Ok(())
}

/// The bytes of a database's tables on disk.
#[expect(clippy::cast_precision_loss, reason = "mongod gives a double")]
fn size_on_disk(op: &OperationContext<'_>, database: &str) -> Result<f64> {
    let mut bytes = 0;
    for collection in op.instance.catalog.of_database(database) {
        let state = op.lock(&collection)?;
        let indexes = state.indexes.iter().map(|index| index.table());
        // The tables of a collection that was dropped meanwhile no longer exist.
        for table in collection.table().into_iter().chain(indexes).filter(|_| !state.gone) {
            bytes += op.instance.engine.size_on_disk(table)?;
        }
    }
    Ok(bytes as f64)
}

/// `listCollections`: the collections and views of a database, with their options.
///
/// Lists collections and views by name.
pub(super) fn list_collections(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let name_only = parse::boolean(request.fields, "nameOnly")?;
    parse::boolean(request.fields, "authorizedCollections")?;
    let filter = match parse::document(request.fields, "filter")? {
        Some(filter) => Some(Filter::parse(filter, op.variables())?),
        None => None,
    };
    let namespace = format!("{}.$cmd.listCollections", request.database);
    let mut documents = VecDeque::new();
    for collection in op.instance.catalog.of_database(request.database) {
        let state = op.lock(&collection)?;
        if state.gone {
            continue;
        }
        let entry = parse::raw_of(&entry(&collection, &state, name_only))?;
        if let Some(filter) = &filter
            && filter.matches(&entry)?.is_none()
        {
            continue;
        }
        documents.push_back(entry);
    }
    op.figures.namespace.clone_from(&namespace);
    write_cursor(op, request, reply, &namespace, documents)
}

/// The description of one collection.
fn entry(collection: &Collection, state: &CollectionState, name_only: bool) -> Document {
    let view = state.options.is_view();
    let mut entry = doc! { "name": collection.name(), "type": if view { "view" } else { "collection" } };
    if name_only {
        return entry;
    }
    entry.insert("options", state.options.document.clone());
    if view {
        entry.insert("info", doc! { "readOnly": true });
        return entry;
    }
    entry.insert("info", doc! { "readOnly": false, "uuid": collection.uuid() });
    if let Some(id) = state.id_index() {
        entry.insert("idIndex", id.document());
    }
    entry
}

/// `renameCollection`: renames a collection within its database.
///
/// mongod copies the collection behind the scenes if the databases differ; here that is refused, since a client can copy
/// it with `$out` or `mongodump` and then sees the cost.
pub(super) fn rename(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let from = match request.target {
        bson::RawBsonRef::String(from) => from,
        other => return Err(parse::wrong_type("renameCollection.renameCollection", other, "string")),
    };
    let to = parse::required_string(request.fields, "to")?;
    let replace = match request.field("dropTarget") {
        None => false,
        Some(
            value @ (bson::RawBsonRef::Boolean(_) | bson::RawBsonRef::Int32(_) | bson::RawBsonRef::Double(_)),
        ) => parse::truth_of(value),
        Some(other) => return Err(parse::wrong_type("renameCollection.dropTarget", other, "bool")),
    };
    if parse::boolean(request.fields, "stayTemp")? {
        return Err(Failure::new(Code::InvalidOptions, "this server has no temporary collections"));
    }
    op.figures.namespace = from.to_owned();
    check(op, from, to)?;
    let _ticket = op.write_ticket()?;
    op.session().release(None);
    op.instance.catalog.rename(from, to, replace)
}

fn check(op: &OperationContext<'_>, from: &str, to: &str) -> Result<()> {
    crate::namespace::check(from)
        .map_err(|_| Failure::new(Code::InvalidNamespace, format!("Invalid source namespace: {from}")))?;
    crate::namespace::check(to)
        .map_err(|_| Failure::new(Code::InvalidNamespace, format!("Invalid target namespace: {to}")))?;
    for namespace in [from, to] {
        if crate::namespace::is_internal(namespace) {
            return Err(Failure::new(
                Code::IllegalOperation,
                format!("renaming system collections is not allowed: {namespace}"),
            ));
        }
    }
    if from == to {
        return Err(Failure::new(Code::IllegalOperation, "Can't rename a collection to itself"));
    }
    let is_view = |name: &str| op.instance.catalog.get(name).is_some_and(|one| one.table().is_none());
    if is_view(from) {
        return Err(Failure::new(Code::CommandNotSupportedOnView, format!("cannot rename view: {from}")));
    }
    if is_view(to) {
        return Err(Failure::new(
            Code::NamespaceExists,
            format!("a view already exists with that name: {to}"),
        ));
    }
    if from.split('.').next() != to.split('.').next() {
        let what = format!("this server renames within one database only, not from {from} to {to}");
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    Ok(())
}

/// Drops a collection or view.
pub(super) fn drop_collection(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    if crate::namespace::is_internal(&namespace) {
        return Err(Failure::new(
            Code::IllegalOperation,
            format!("can't drop system collection {namespace}"),
        ));
    }
    let _ticket = op.write_ticket()?;
    // Cursors of our own would keep the engine from dropping the tables at once.
    op.session().release(None);
    let collection = op.instance.catalog.drop_collection(&namespace)?;
    let indexes = collection.lock().indexes.len();
    if collection.table().is_some() {
        reply.i32("nIndexesWas", i32::try_from(indexes).unwrap_or(i32::MAX));
    }
    reply.string("ns", &namespace);
    Ok(())
}

/// Drops all collections of a database.
pub(super) fn drop_database(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    if parse::integer_of(request.target) != Some(1) {
        return Err(Failure::new(Code::IllegalOperation, "have to pass 1 as db parameter"));
    }
    if request.database == "admin" {
        return Err(Failure::new(Code::IllegalOperation, "Dropping the 'admin' database is prohibited."));
    }
    op.figures.namespace = format!("{}.$cmd", request.database);
    let _ticket = op.write_ticket()?;
    op.session().release(None);
    let mut dropped = false;
    for collection in op.instance.catalog.of_database(request.database) {
        op.check_interrupt()?;
        match op.instance.catalog.drop_collection(collection.namespace()) {
            // Another session created it first.
            Err(failure) if failure.code() == Code::NamespaceNotFound => {}
            other => dropped |= other.map(|_| true)?,
        }
    }
    if dropped {
        reply.string("dropped", request.database);
    }
    Ok(())
}
