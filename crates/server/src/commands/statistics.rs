//! The commands that return statistics of the server, a database or a collection: `serverStatus`, `getDiagnosticData`, `top`, `dbStats`,
//! `collStats`, `dataSize`.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::stats::elapsed_micros;
use crate::stats::output::{counter, number};
use crate::storage::collection_stats;

/// `serverStatus`: the server's counters and state.
///
/// Writes the requested sections.
pub(super) fn server(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::diagnostics::server_status::write(op.instance, request.body(), reply)
}

/// `getDiagnosticData`: one sample of everything that monitors record.
pub(super) fn diagnostic_data(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::diagnostics::diagnostic_data::write(op.instance, reply)
}

/// `top`: the time and number of each kind of use of each collection since the server started.
///
/// Writes a row for every existing collection.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn top(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut totals = reply.begin_document("totals");
    totals.string("note", "all times in microseconds");
    for collection in op.instance.catalog.all() {
        let mut one = totals.begin_document(collection.namespace());
        for (name, micros, count) in collection.usage().tallies() {
            let mut tally = one.begin_document(name);
            counter(&mut tally, "time", micros);
            counter(&mut tally, "count", count);
        }
    }
    Ok(())
}

/// `dbStats`: sizes of a database.
///
/// Writes the sizes; a database that does not exist has zeros, as in mongod.
pub(super) fn database(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let free = parse::boolean(request.fields, "freeStorage")?;
    crate::diagnostics::database_stats::write(op.instance, request.database, scale(request)?, free, reply)
}

/// `collStats`: sizes and engine counters of a collection and its indexes.
///
/// Writes the figures; a collection that does not exist has zeros, as in mongod.
pub(super) fn collection(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let scale = scale(request)?;
    reply.string("ns", &namespace);
    let found = op.instance.catalog.get(&namespace);
    op.figures.namespace = namespace;
    match found {
        None => {
            collection_stats::write_missing(reply, scale);
            Ok(())
        }
        Some(collection) => collection_stats::write(&*op.instance.engine, &collection, scale, reply),
    }
}

/// The divisor of the sizes in the reply.
pub(super) fn scale(request: &Request<'_>) -> Result<i64> {
    let scale = request.field("scale").map(parse::owned_value).transpose()?;
    crate::execution::stages::scale_of(scale.as_ref())
}

/// `dataSize`: the bytes and documents of a whole collection. A range between two keys is refused.
///
/// Writes them from the counts that are maintained anyway, exact or `estimate`.
pub(super) fn data_size(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
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
