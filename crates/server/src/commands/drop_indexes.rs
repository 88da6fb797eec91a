//! `dropIndexes`: indexes by name, by key, by a list of names, or all but that on `_id`.

use bson::RawBsonRef;
use fathom_query::{Code, Failure, compare_documents};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::State;

/// Drops indexes.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
    let mut state = collection.lock_exclusive_unless(&|| op.check_interrupt())?;
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

fn names(state: &State, which: RawBsonRef<'_>) -> Result<Vec<String>> {
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

fn by_name(state: &State, name: &str) -> Result<String> {
    match state.index(name) {
        None => Err(Failure::new(Code::IndexNotFound, format!("index not found with name [{name}]"))),
        Some(index) if index.spec().is_id() => {
            Err(Failure::new(Code::InvalidOptions, "cannot drop _id index"))
        }
        Some(_) => Ok(name.to_owned()),
    }
}
