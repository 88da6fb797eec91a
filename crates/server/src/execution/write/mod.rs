//! Inserts, updates and deletes, each in transactions of the engine that are retried on a write conflict. A write finds
//! its document inside its own transaction.

mod delete;
mod insert;
#[cfg(test)]
mod speed;
mod update;

use std::sync::Arc;

use bson::RawDocumentBuf;
use fathom_query::{Code, Failure, Filter, FilterMatch, Hint, IndexInfo, Sort, choose};

use crate::Result;
use crate::buffers;
use crate::cursors::{CollectionScan, Fetch};
use crate::execution::plan_summary;
use crate::execution::scan::ScanFlow;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState};

pub(crate) use delete::{DeleteRequest, delete, delete_one, delete_some};
pub(crate) use insert::{insert_capped, insert_documents, now, prepare};
pub(crate) use update::{UpdateRequest, update};

/// Looks a collection up for writing and passes it to `work` with its state locked; looks it up again if it was dropped meanwhile.
pub(crate) fn with_collection<T>(
    op: &mut OperationContext<'_>,
    namespace: &str,
    create: bool,
    mut work: impl FnMut(&mut OperationContext<'_>, Option<(&Arc<Collection>, &CollectionState)>) -> Result<T>,
) -> Result<T> {
    loop {
        let catalog = &op.instance.catalog;
        let found = if create { Some(catalog.get_or_create(namespace)?) } else { catalog.get(namespace) };
        let Some(collection) = found else { return work(op, None) };
        let state = op.lock(&collection)?;
        if state.gone {
            continue;
        }
        if state.options.is_view() {
            return Err(Failure::new(
                Code::CommandNotSupportedOnView,
                format!("Namespace {namespace} is a view, not a collection"),
            ));
        }
        op.instance.catalog.before_write(&collection)?;
        op.collection = Some(Arc::clone(&collection));
        return work(op, Some((&collection, &state)));
    }
}

/// The search of a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteTarget {
    pub(crate) filter: Filter,
    pub(crate) hint: Option<Hint>,
    /// The sort that decides which match is the first, for `findAndModify`.
    pub(crate) sort: Option<Sort>,
}

/// The document that was found.
#[derive(Clone, Debug)]
pub(crate) struct DocumentMatch {
    pub(crate) record: i64,
    pub(crate) document: RawDocumentBuf,
    pub(crate) matched: FilterMatch,
}

impl WriteTarget {
    /// The first match in the open transaction.
    pub(crate) fn first(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        state: &CollectionState,
    ) -> Result<Option<DocumentMatch>> {
        if let (Some(id), None) = (self.filter.only_id(), &self.hint)
            && op.owns_id(id) == Some(true)
        {
            op.figures.plan.get_or_insert("IDHACK".into());
            let mut bytes = buffers::take();
            let Some(record) = op.document_by_id(collection, id, &mut bytes)? else { return Ok(None) };
            let document = owned_document(bytes)?;
            return Ok(Some(DocumentMatch { record, document, matched: FilterMatch::default() }));
        }
        let (mut scan, sorted) = self.scan(op, state, Fetch::Record)?;
        let sort = self.sort.as_ref().filter(|_| !sorted);
        let mut best: Option<(Vec<u8>, DocumentMatch)> = None;
        scan.run_within(op, collection, &mut |found| {
            let key = sort.map(|sort| sort.key(found.document)).unwrap_or_default();
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                let document = found.document.to_owned();
                best = Some((key, DocumentMatch { record: found.record, document, matched: found.matched }));
            }
            Ok(if sort.is_some() { ScanFlow::More } else { ScanFlow::Enough })
        })?;
        Ok(best.map(|(_, located)| located))
    }

    /// The records of all matches, at most `most`, read in snapshots of their own; a write to many then checks them one by one.
    pub(crate) fn all(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        state: &CollectionState,
        most: usize,
    ) -> Result<Vec<i64>> {
        let (mut scan, _) = self.scan(op, state, Fetch::Nothing)?;
        let mut records = Vec::new();
        scan.run(op, collection, &mut |found| {
            records.push(found.record);
            Ok(if records.len() < most { ScanFlow::More } else { ScanFlow::Enough })
        })?;
        Ok(records)
    }

    /// Reads a record again in the open transaction, if it still exists and still matches.
    pub(crate) fn again(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        record: i64,
    ) -> Result<Option<DocumentMatch>> {
        let mut bytes = Vec::new();
        let key = fathom_engine::Key::Number(record);
        if !op.session().get(collection.records_table()?, key, &mut bytes)? {
            return Ok(None);
        }
        let document = owned_document(bytes)?;
        let Some(matched) = self.filter.matches(&document)? else { return Ok(None) };
        Ok(Some(DocumentMatch { record, document, matched }))
    }

    fn scan(
        &self,
        op: &mut OperationContext<'_>,
        state: &CollectionState,
        fetch: Fetch,
    ) -> Result<(CollectionScan, bool)> {
        let indexes: Vec<IndexInfo<'_>> = state.indexes.iter().map(|index| index.info()).collect();
        let (plan, _) = choose(&self.filter, self.sort.as_ref(), None, self.hint.as_ref(), &indexes)?;
        crate::execution::find::check_table_scan(op, &plan)?;
        let summary = plan_summary(&plan, state);
        op.note_plan(&summary);
        op.figures.plan.get_or_insert_with(|| summary.into());
        Ok((
            CollectionScan::new(&plan, state, &self.filter, fetch)?.owned_by(op.ownership.clone()),
            plan.sorted,
        ))
    }
}

/// Converts bytes of a table into a document without a copy.
fn owned_document(bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    RawDocumentBuf::from_bytes(bytes)
        .map_err(|error| Failure::new(Code::InvalidBSON, format!("a record is not a BSON document: {error}")))
}
