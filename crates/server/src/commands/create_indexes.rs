//! `createIndexes`: builds indexes.
//!
//! The collection is held alone while they are built: reads and writes of it wait, as with mongod's foreground builds
//! before 4.2. `background` does not change that. The build ends at once when its operation is killed, its time is over or
//! the server stops, and leaves nothing behind.

use std::sync::Arc;

use fathom_query::{Code, Failure};

use super::index_conflicts::{check_number, stands_already};
use super::index_options::Unknown;
use super::{Reply, index_options};
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, IndexSpec, State, build_indexes};

/// What a `createIndexes` did.
struct Outcome {
    before: usize,
    after: usize,
}

/// Creates the indexes that are not there.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    if request.field("commitQuorum").is_some() {
        return Err(Failure::new(Code::BadValue, "Standalones can't specify commitQuorum"));
    }
    // mongorestore asks for it, for options that old versions let pass.
    let unknown = if parse::boolean(request.fields, "ignoreUnknownIndexOptions")? {
        Unknown::Ignored
    } else {
        Unknown::Refused
    };
    let given = request.documents("indexes")?;
    if given.is_empty() {
        return Err(Failure::new(Code::BadValue, "Must specify at least one index to create"));
    }
    let specs =
        given.iter().map(|spec| index_options::check(op, spec, unknown)).collect::<Result<Vec<_>>>()?;
    super::batch::refuse_internal(&namespace)?;
    let _ticket = op.write_ticket()?;
    let new = op.instance.catalog.get(&namespace).is_none();
    let outcome = create(op, &namespace, &specs)?;
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    reply.i32("numIndexesBefore", count(outcome.before));
    reply.i32("numIndexesAfter", count(outcome.after));
    reply.bool("createdCollectionAutomatically", new);
    if outcome.after == outcome.before {
        reply.string("note", "all indexes already exist");
    }
    Ok(())
}

fn create(op: &mut Operation<'_>, namespace: &str, specs: &[IndexSpec]) -> Result<Outcome> {
    loop {
        let collection = op.instance.catalog.get_or_create(namespace)?;
        if collection.table().is_none() {
            return Err(Failure::new(
                Code::CommandNotSupportedOnView,
                format!("Cannot create indexes on a view: {namespace}"),
            ));
        }
        // Most clients ask for indexes that are there; that need not keep anybody waiting.
        {
            let state = op.lock(&collection)?;
            if !state.gone && missing(&state, namespace, specs)?.is_empty() {
                return Ok(Outcome { before: state.indexes.len(), after: state.indexes.len() });
            }
        }
        let mut state = collection.lock_exclusive_unless(&|| op.check_interrupt())?;
        if state.gone {
            continue;
        }
        let before = state.indexes.len();
        let wanted = missing(&state, namespace, specs)?;
        add(op, &collection, &mut state, wanted)?;
        return Ok(Outcome { before, after: state.indexes.len() });
    }
}

/// The indexes that are not there; a failure if one is in the way of another.
fn missing(state: &State, namespace: &str, specs: &[IndexSpec]) -> Result<Vec<IndexSpec>> {
    let mut wanted: Vec<IndexSpec> = Vec::new();
    for spec in specs {
        if stands_already(state, spec)? {
            continue;
        }
        let twice = wanted.iter().any(|other| {
            other.name() == spec.name() || super::index_conflicts::same_key(other.document(), spec.document())
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
    op: &mut Operation<'_>,
    collection: &Arc<Collection>,
    state: &mut State,
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
