//! `compact` and `reIndex`: the engine gives space back, and indexes are built anew.

use std::sync::Arc;

use bson::Bson;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, IndexSpec, build_indexes};

/// Lets the engine compact the tables of a collection. Reads and writes go on meanwhile.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    // Without members to fail over to, `force` has nothing to override.
    parse::boolean(request.fields, "force")?;
    let collection = collection(op, request)?;
    let tables: Vec<_> = {
        let state = op.lock(&collection)?;
        let indexes = state.indexes.iter().map(|index| index.table());
        collection.table().into_iter().chain(indexes).cloned().collect()
    };
    let size = |op: &Operation<'_>| -> Result<u64> {
        tables.iter().try_fold(0, |sum, table| Ok(sum + op.instance.engine.size_on_disk(table)?))
    };
    let before = size(op)?;
    for table in &tables {
        op.check_interrupt()?;
        op.instance.engine.compact(table)?;
    }
    let freed = before.saturating_sub(size(op)?);
    reply.bson("bytesFreed", &super::create::number(i64::try_from(freed).unwrap_or(i64::MAX)));
    Ok(())
}

/// Builds all indexes of a collection anew, `_id` among them; the collection is held alone.
pub(super) fn re_index(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let collection = collection(op, request)?;
    let _ticket = op.write_ticket()?;
    let mut state = collection.lock_exclusive_unless(&|| op.check_interrupt())?;
    if state.gone {
        return Err(Failure::new(Code::NamespaceNotFound, "collection does not exist"));
    }
    let specs: Vec<IndexSpec> = state.indexes.iter().map(|index| IndexSpec::new(index.document())).collect();
    let count = i32::try_from(specs.len()).unwrap_or(i32::MAX);
    let shown: Bson = specs.iter().map(|spec| spec.document().clone()).collect();
    let defaults = state.options.index_defaults();
    let indexes = build_indexes(op, &collection, specs, &defaults)?;
    op.session().release(None);
    op.instance.catalog.replace_indexes(&collection, &mut state, indexes)?;
    reply.i32("nIndexesWas", count);
    reply.i32("nIndexes", count);
    reply.bson("indexes", &shown);
    Ok(())
}

fn collection(op: &mut Operation<'_>, request: &Request<'_>) -> Result<Arc<Collection>> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let collection = op
        .instance
        .catalog
        .get(&namespace)
        .ok_or_else(|| Failure::new(Code::NamespaceNotFound, "collection does not exist"))?;
    if collection.table().is_none() {
        let what = format!("can't {} a view", request.command.name);
        return Err(Failure::new(Code::CommandNotSupportedOnView, what));
    }
    Ok(collection)
}
