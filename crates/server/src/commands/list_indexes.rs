//! `listIndexes`: the indexes of a collection.

use fathom_query::{Code, Failure};

use super::Reply;
use super::documents::write_cursor;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Lists the indexes in the order they were made.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
