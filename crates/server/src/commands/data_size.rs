//! `dataSize`: bytes and documents of a whole collection. A part of one, between two keys, is refused.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::diagnostics::build::number;
use crate::elapsed::elapsed_micros;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes them from the counts that are kept anyway, exact or `estimate`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = parse::required_string(request.fields, "dataSize")
        .or_else(|_| parse::required_string(request.fields, "datasize"))?;
    crate::namespace::check(namespace)?;
    if !namespace.strip_prefix(request.database).is_some_and(|rest| rest.starts_with('.')) {
        let what = format!("{namespace} is not of the database {}", request.database);
        return Err(Failure::new(Code::InvalidNamespace, what));
    }
    for bound in ["min", "max"] {
        if parse::document(request.fields, bound)?.is_some_and(|bound| !bound.is_empty()) {
            let what = format!("this server does not have '{bound}' of dataSize");
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
    }
    let estimate = parse::boolean(request.fields, "estimate")?;
    op.figures.namespace = namespace.to_owned();
    let (bytes, records) = match op.instance.catalog.get(namespace) {
        Some(collection) => (collection.bytes(), collection.records()),
        None => (0, 0),
    };
    reply.bool("estimate", estimate);
    number(reply, "size", bytes);
    number(reply, "numObjects", records);
    number(reply, "millis", i64::try_from(elapsed_micros(op.begun) / 1000).unwrap_or(i64::MAX));
    Ok(())
}
