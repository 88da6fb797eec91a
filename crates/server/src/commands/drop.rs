//! `drop` and `dropDatabase`: collections, views and whole databases that go.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Drops a collection or view.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// Drops all of a database.
pub(super) fn database(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
            // Somebody else was first.
            Err(failure) if failure.code() == Code::NamespaceNotFound => {}
            other => dropped |= other.map(|_| true)?,
        }
    }
    if dropped {
        reply.string("dropped", request.database);
    }
    Ok(())
}
