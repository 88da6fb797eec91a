//! The commands on the indexes of a collection: `createIndexes` builds them; `dropIndexes` removes them by name, by key, by a list of names, or
//! all but the `_id` index; `listIndexes` lists them.

use std::sync::Arc;

use bson::RawBsonRef;
use fathom_query::{Code, Failure, compare_documents};

use super::cursors::write_cursor;
use super::index_options::{UnknownOptions, check_number, stands_already};
use super::{Reply, index_options};
use crate::Result;
use crate::execution::build_indexes;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, CollectionState, IndexSpec};

/// The result of a `createIndexes`.
struct IndexCounts {
    before: usize,
    after: usize,
}

/// `createIndexes`: builds indexes.
///
/// The collection is locked exclusively during the build: its reads and writes wait, as with mongod's foreground builds
/// before 4.2. `background` does not change that. The build stops at once, without leaving anything behind, when its
/// operation is killed, its time is over or the server stops.
///
/// Creates the indexes that do not exist yet.
pub(super) fn create(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    if request.field("commitQuorum").is_some() {
        return Err(Failure::new(Code::BadValue, "Standalones can't specify commitQuorum"));
    }
    // mongorestore asks for this because of options that old versions accepted.
    let unknown = if parse::boolean(request.fields, "ignoreUnknownIndexOptions")? {
        UnknownOptions::Ignored
    } else {
        UnknownOptions::Refused
    };
    let given = request.documents("indexes")?;
    if given.is_empty() {
        return Err(Failure::new(Code::BadValue, "Must specify at least one index to create"));
    }
    let specs =
        given.iter().map(|spec| index_options::check(op, spec, unknown)).collect::<Result<Vec<_>>>()?;
    super::writes::refuse_internal(&namespace)?;
    let _ticket = op.write_ticket()?;
    let new = op.instance.catalog.get(&namespace).is_none();
    let outcome = create_in(op, &namespace, &specs)?;
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    reply.i32("numIndexesBefore", count(outcome.before));
    reply.i32("numIndexesAfter", count(outcome.after));
    reply.bool("createdCollectionAutomatically", new);
    if outcome.after == outcome.before {
        reply.string("note", "all indexes already exist");
    }
    Ok(())
}

fn create_in(op: &mut OperationContext<'_>, namespace: &str, specs: &[IndexSpec]) -> Result<IndexCounts> {
    loop {
        let collection = op.instance.catalog.get_or_create(namespace)?;
        if collection.table().is_none() {
            return Err(Failure::new(
                Code::CommandNotSupportedOnView,
                format!("Cannot create indexes on a view: {namespace}"),
            ));
        }
        // Most clients ask for indexes that exist already, and those requests must not wait.
        {
            let state = op.lock(&collection)?;
            if !state.gone && missing(&state, namespace, specs)?.is_empty() {
                return Ok(IndexCounts { before: state.indexes.len(), after: state.indexes.len() });
            }
        }
        let mut state = op.lock_exclusive(&collection)?;
        if state.gone {
            continue;
        }
        let before = state.indexes.len();
        let wanted = missing(&state, namespace, specs)?;
        add(op, &collection, &mut state, wanted)?;
        return Ok(IndexCounts { before, after: state.indexes.len() });
    }
}

/// The indexes that do not exist yet; a failure if one conflicts with another.
fn missing(state: &CollectionState, namespace: &str, specs: &[IndexSpec]) -> Result<Vec<IndexSpec>> {
    let mut wanted: Vec<IndexSpec> = Vec::new();
    for spec in specs {
        if stands_already(state, spec)? {
            continue;
        }
        let twice = wanted.iter().any(|other| {
            other.name() == spec.name() || super::index_options::same_key(other.document(), spec.document())
        });
        if twice {
            return Err(Failure::new(
                Code::IndexAlreadyExists,
                format!("Identical index already exists: {}", spec.name()),
            ));
        }
        wanted.push(spec.clone());
    }
    check_number(namespace, state.indexes.len(), &wanted)?;
    Ok(wanted)
}

fn add(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &mut CollectionState,
    wanted: Vec<IndexSpec>,
) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let defaults = state.options.index_defaults();
    let catalog = &op.instance.catalog;
    let indexes = build_indexes(op, collection, wanted, &defaults).map_err(|failure| {
        if failure.code() != Code::DuplicateKey {
            return failure;
        }
        let what = format!(
            "Index build failed: {}: Collection {} ( {} ) :: caused by :: {}",
            bson::Uuid::new(),
            collection.namespace(),
            collection.uuid(),
            failure.message()
        );
        failure.extra().iter().fold(Failure::new(Code::DuplicateKey, what), |failure, (name, value)| {
            failure.with(name, value.clone())
        })
    })?;
    catalog.add_indexes(collection, state, indexes)
}

/// `dropIndexes`: drops indexes by name, by key, by a list of names, or all but the `_id` index.
pub(super) fn drop(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let which = request.field("index").ok_or_else(|| parse::missing("dropIndexes.index"))?;
    let missing = || Failure::new(Code::NamespaceNotFound, format!("ns not found {namespace}"));
    let collection = op.instance.catalog.get(&namespace).ok_or_else(missing)?;
    if collection.table().is_none() {
        return Err(Failure::new(
            Code::CommandNotSupportedOnView,
            format!("Cannot drop indexes on view {namespace}"),
        ));
    }
    let _ticket = op.write_ticket()?;
    op.session().release(None);
    let mut state = op.lock_exclusive(&collection)?;
    if state.gone {
        return Err(missing());
    }
    let before = state.indexes.len();
    let names = names(&state, which)?;
    if !names.is_empty() {
        op.instance.catalog.drop_indexes(&collection, &mut state, &names)?;
    }
    reply.i32("nIndexesWas", i32::try_from(before).unwrap_or(i32::MAX));
    if which == RawBsonRef::String("*") {
        reply.string("msg", "non-_id indexes dropped for collection");
    }
    Ok(())
}

fn names(state: &CollectionState, which: RawBsonRef<'_>) -> Result<Vec<String>> {
    match which {
        RawBsonRef::String("*") => Ok(state
            .indexes
            .iter()
            .filter(|index| !index.spec().is_id())
            .map(|index| index.name().to_owned())
            .collect()),
        RawBsonRef::String(name) => Ok(vec![by_name(state, name)?]),
        RawBsonRef::Array(names) => names
            .into_iter()
            .map(|name| match name.map_err(|error| parse::malformed(&error))? {
                RawBsonRef::String(name) => by_name(state, name),
                other => Err(parse::wrong_type("dropIndexes.index", other, "string")),
            })
            .collect(),
        RawBsonRef::Document(key) => {
            for index in &state.indexes {
                if compare_documents(&index.spec().key_raw()?, key).is_eq() {
                    return Ok(vec![by_name(state, index.name())?]);
                }
            }
            let what = format!("can't find index with key: {}", parse::owned(key)?);
            Err(Failure::new(Code::IndexNotFound, what))
        }
        other => Err(parse::wrong_type("dropIndexes.index", other, "string")),
    }
}

fn by_name(state: &CollectionState, name: &str) -> Result<String> {
    match state.index(name) {
        None => Err(Failure::new(Code::IndexNotFound, format!("index not found with name [{name}]"))),
        Some(index) if index.spec().is_id() => {
            Err(Failure::new(Code::InvalidOptions, "cannot drop _id index"))
        }
        Some(_) => Ok(name.to_owned()),
    }
}

/// `listIndexes`: the indexes of a collection.
///
/// Lists the indexes in the order they were made.
pub(super) fn list(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let missing = || Failure::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}"));
    let collection = op.instance.catalog.get(&namespace).ok_or_else(missing)?;
    collection.records_table()?;
    let documents = {
        let state = op.lock(&collection)?;
        if state.gone {
            return Err(missing());
        }
        state.indexes.iter().map(|index| parse::raw_of(&index.document())).collect::<Result<_>>()?
    };
    write_cursor(op, request, reply, &namespace, documents)
}
