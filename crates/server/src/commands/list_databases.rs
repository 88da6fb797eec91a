//! `listDatabases`: the databases that hold something, and their sizes on the disk.

use bson::{Document, doc};
use fathom_query::Filter;

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Lists databases. Who is logged in and may list none of them all sees those that he may read, so that
/// `authorizedDatabases` changes nothing for anybody else.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// Bytes of a database's tables on the disk.
#[expect(clippy::cast_precision_loss, reason = "mongod gives a double")]
fn size_on_disk(op: &Operation<'_>, database: &str) -> Result<f64> {
    let mut bytes = 0;
    for collection in op.instance.catalog.of_database(database) {
        let state = op.lock(&collection)?;
        let indexes = state.indexes.iter().map(|index| index.table());
        // A collection that was dropped meanwhile has no tables any more.
        for table in collection.table().into_iter().chain(indexes).filter(|_| !state.gone) {
            bytes += op.instance.engine.size_on_disk(table)?;
        }
    }
    Ok(bytes as f64)
}
