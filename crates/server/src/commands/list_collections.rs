//! `listCollections`: the collections and views of a database, with their options.

use std::collections::VecDeque;

use bson::{Document, doc};
use fathom_query::Filter;

use super::Reply;
use super::documents::write_cursor;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, State};

/// Lists collections and views by name.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// What is said of one collection.
fn entry(collection: &Collection, state: &State, name_only: bool) -> Document {
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
