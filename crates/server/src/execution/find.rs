//! Executes one query from its plan to the returned documents: filter, sort, skip, limit, projection.

use std::collections::VecDeque;

use bson::{RawDocument, RawDocumentBuf};
use fathom_query::{Access, Code, Failure, IndexInfo, Plan, Sorter, Variables, between, choose};

use super::scan::ScanFlow;
use crate::Result;
use crate::cursors::{CollectionScan, Fetch, FindQuery, FindState};
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState, Index};

/// The maximum memory of a sort, as `internalQueryMaxBlockingSortMemoryUsageBytes` of 4.4.
pub(crate) const MAX_SORT_BYTES: usize = 100 << 20;

/// Takes a document for the reply; the result tells whether it was taken and whether more fit.
pub(crate) type DocumentSink<'t> = dyn FnMut(&RawDocument) -> Result<BatchEffect> + 't;

/// The effect of a document on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEffect {
    /// The document was added, and the batch has room for more.
    More,
    /// The document was added, and the batch is full.
    Last,
    /// The document was not added.
    No,
}

impl FindState {
    /// Plans a query over a collection.
    pub(crate) fn new(
        op: &mut OperationContext<'_>,
        state: &CollectionState,
        query: FindQuery,
    ) -> Result<FindState> {
        let indexes: Vec<IndexInfo<'_>> = state.indexes.iter().map(|index| index.info()).collect();
        let (plan, rejected) = plan_of(&query, &indexes)?;
        check_table_scan(op, &plan)?;
        let summary = plan_summary(&plan, state);
        op.note_plan(&summary);
        op.figures.plan = Some(summary.into());
        let covered = plan.covered && !query.show_record_id && !query.return_key;
        let fetch = match (query.count_only && !plan.filter, covered) {
            (true, _) => Fetch::Nothing,
            (_, true) => Fetch::Key,
            _ => Fetch::Record,
        };
        let return_key = match (&plan.access, query.return_key) {
            (Access::Index { index, .. }, true) => state.indexes.get(*index).cloned(),
            (Access::Id(_), true) => state.id_index().cloned(),
            _ => None,
        };
        let mut scan =
            CollectionScan::new(&plan, state, &query.filter, fetch)?.owned_by(op.ownership.clone());
        if state.options.has_no_id_index()
            && let Some(from) = query.filter.earliest_timestamp("ts")
        {
            scan.begin_at(i64::try_from(fathom_replication::timestamp_from_bson(from)).unwrap_or(i64::MAX));
        }
        let variables = op.variables().clone();
        op.figures.has_sort_stage = query.sort.is_some() && !plan.sorted;
        Ok(FindState {
            query,
            plan,
            rejected,
            scan,
            sorted: None,
            skipped: 0,
            returned: 0,
            variables,
            return_key,
        })
    }

    /// Hands documents over until `take` has enough or no document remains.
    pub(crate) fn fill(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        state: &CollectionState,
        take: &mut DocumentSink<'_>,
    ) -> Result<()> {
        self.scan.check(state)?;
        if self.query.sort.is_some() && !self.plan.sorted {
            return self.fill_sorted(op, collection, take);
        }
        let FindState { query, scan, skipped, returned, variables, return_key, .. } = self;
        let output = Output { query, variables, return_key: return_key.as_deref() };
        let limit = query.limit;
        if limit.is_some_and(|limit| *returned >= limit) {
            return Ok(());
        }
        scan.run(op, collection, &mut |found| {
            if *skipped < query.skip {
                *skipped += 1;
                return Ok(ScanFlow::More);
            }
            let taken = output.hand_over(found.record, found.document, Some(found.matched), take)?;
            if taken == BatchEffect::No {
                return Ok(ScanFlow::NotThis);
            }
            *returned += 1;
            let enough = taken == BatchEffect::Last || limit.is_some_and(|limit| *returned >= limit);
            Ok(if enough { ScanFlow::Enough } else { ScanFlow::More })
        })
    }

    fn fill_sorted(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
        take: &mut DocumentSink<'_>,
    ) -> Result<()> {
        if self.sorted.is_none() {
            self.sorted = Some(self.sort(op, collection)?);
        }
        let FindState { query, sorted, returned, variables, return_key, .. } = self;
        let output = Output { query, variables, return_key: return_key.as_deref() };
        let Some(rest) = sorted else { return Ok(()) };
        while let Some(document) = rest.front() {
            match output.hand_over(0, document, None, take)? {
                BatchEffect::No => return Ok(()),
                taken => {
                    rest.pop_front();
                    *returned += 1;
                    if taken == BatchEffect::Last {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads all documents and sorts them; skip and limit are applied here.
    fn sort(
        &mut self,
        op: &mut OperationContext<'_>,
        collection: &Collection,
    ) -> Result<VecDeque<RawDocumentBuf>> {
        let Some(sort) = self.query.sort.clone() else { return Ok(VecDeque::new()) };
        let keep = self
            .query
            .limit
            .map(|limit| usize::try_from(limit.saturating_add(self.query.skip)).unwrap_or(usize::MAX));
        let mut sorter = Sorter::new(sort, keep, MAX_SORT_BYTES);
        self.scan.run(op, collection, &mut |found| {
            sorter.push(found.document.to_owned())?;
            Ok(ScanFlow::More)
        })?;
        let skip = usize::try_from(self.query.skip).unwrap_or(usize::MAX);
        Ok(sorter.finish().into_iter().skip(skip).collect())
    }
}

/// The plan of a query, and the rejected plans.
fn plan_of(query: &FindQuery, indexes: &[IndexInfo<'_>]) -> Result<(Plan, Vec<Plan>)> {
    let FindQuery { filter, sort, hint, .. } = query;
    let (sort, hint) = (sort.as_ref(), hint.as_ref());
    if query.min.is_some() || query.max.is_some() {
        let plan = between(query.min.as_deref(), query.max.as_deref(), filter, sort, hint, indexes)?;
        return Ok((plan, Vec::new()));
    }
    let projection = query.projection.as_ref().or(query.needed.as_ref());
    choose(filter, sort, projection, hint, indexes)
}

/// Converts a match into a document of the reply.
struct Output<'o> {
    query: &'o FindQuery,
    variables: &'o Variables,
    return_key: Option<&'o Index>,
}

impl Output<'_> {
    fn hand_over(
        &self,
        record: i64,
        document: &RawDocument,
        matched: Option<fathom_query::FilterMatch>,
        take: &mut DocumentSink<'_>,
    ) -> Result<BatchEffect> {
        if self.query.return_key {
            return take(&self.key_of(document)?);
        }
        let Some(projection) = &self.query.projection else {
            return if self.query.show_record_id {
                take(&with_record_id(document.to_owned(), record)?)
            } else {
                take(document)
            };
        };
        let matched = match matched {
            Some(matched) => matched,
            None if projection.is_positional() => self.query.filter.matches(document)?.unwrap_or_default(),
            None => fathom_query::FilterMatch::default(),
        };
        let projected = projection.apply(document, matched, self.variables)?;
        if self.query.show_record_id { take(&with_record_id(projected, record)?) } else { take(&projected) }
    }

    fn key_of(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let Some(index) = self.return_key else { return Ok(RawDocumentBuf::new()) };
        let mut keys = fathom_query::IndexKeys::default();
        index.keys(document, &mut keys)?;
        let Some(key) = keys.keys.first() else { return Ok(RawDocumentBuf::new()) };
        crate::parse::raw_of(&index.key_document(&key.bytes, &key.type_bits)?)
    }
}

fn with_record_id(mut document: RawDocumentBuf, record: i64) -> Result<RawDocumentBuf> {
    document.append(bson::cstr!("$recordId"), record);
    Ok(document)
}

/// Refuses a plan that scans a whole collection if the parameter `notablescan` is set. The server's own collections are small, and exempt.
pub(super) fn check_table_scan(op: &OperationContext<'_>, plan: &Plan) -> Result<()> {
    if !op.instance.parameters.no_table_scan() || !scans(&plan.access) {
        return Ok(());
    }
    let namespace = &op.figures.namespace;
    if namespace.contains(".system.") {
        return Ok(());
    }
    let what = format!(
        "error processing query: ns={namespace}: No indexed plans available, and running with 'notablescan'"
    );
    Err(Failure::new(Code::NoQueryExecutionPlans, what))
}

fn scans(access: &Access) -> bool {
    match access {
        Access::Scan { .. } => true,
        Access::Union(plans) => plans.iter().any(|plan| scans(&plan.access)),
        _ => false,
    }
}

/// A plan in the log's format: `IXSCAN { a: 1 }`.
pub(crate) fn plan_summary(plan: &Plan, state: &CollectionState) -> String {
    match &plan.access {
        Access::Scan { .. } => "COLLSCAN".to_owned(),
        Access::Id(_) => "IDHACK".to_owned(),
        Access::Nothing => "EOF".to_owned(),
        Access::Index { index, .. } => match state.indexes.get(*index) {
            Some(index) => format!("IXSCAN {}", pattern_text(index.spec().key())),
            None => "IXSCAN".to_owned(),
        },
        Access::Union(plans) => {
            plans.iter().map(|plan| plan_summary(plan, state)).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A key pattern in the log's format, `{ a: 1, b: -1 }`: names without quotes, and whole numbers regardless of their type.
pub(super) fn pattern_text(pattern: &bson::Document) -> String {
    let field = |(name, direction): (&String, &bson::Bson)| match direction {
        bson::Bson::Double(direction) => format!("{name}: {direction}"),
        other => format!("{name}: {other}"),
    };
    format!("{{ {} }}", pattern.iter().map(field).collect::<Vec<_>>().join(", "))
}

/// The failure for a collection that was dropped between two batches.
pub(crate) fn gone(namespace: &str) -> Failure {
    Failure::new(Code::QueryPlanKilled, format!("collection dropped or renamed: {namespace}"))
}
