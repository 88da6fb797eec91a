//! `renameCollection`: another name for a collection of the same database.
//!
//! Across databases mongod copies the collection behind the scenes; here that is refused, since a client can copy it with
//! `$out` or `mongodump` and see what it costs.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Renames.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
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

fn check(op: &Operation<'_>, from: &str, to: &str) -> Result<()> {
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
