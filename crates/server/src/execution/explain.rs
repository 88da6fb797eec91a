//! Explains a query, a count, a distinct or a write: plans it, executes it on request, and reports the counts. An explained
//! write finds its documents and computes the changes, but does not apply them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, RawDocument, doc};
use fathom_query::{DocumentUpdate, Failure, UpdateMoment};

pub(crate) use super::explain_stages::find_stages;
use super::explain_stages::{ExplainStage, Work, millis, number, rejected};
use super::find::BatchEffect;
use super::write::{UpdateRequest, now};
use super::{DistinctValues, distinct_index, first_values};
use crate::Result;
use crate::cursors::{FindQuery, FindState};
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState};

/// The command to explain.
#[derive(Debug)]
pub(crate) struct ExplainedCommand {
    pub(crate) query: FindQuery,
    pub(crate) top: QueryAction,
}

/// The action on the documents that the query finds.
#[derive(Debug)]
pub(crate) enum QueryAction {
    /// They are returned with this projection.
    Find(Option<Document>),
    Count {
        skip: u64,
        limit: Option<u64>,
    },
    /// Their values under a path.
    Distinct(String),
    Update(Box<UpdateRequest>),
    Delete {
        multi: bool,
    },
}

#[derive(Debug)]
pub(crate) struct ExplainOutput {
    pub(crate) planner: Document,
    pub(crate) execution: Option<Document>,
}

impl ExplainOutput {
    pub(crate) fn execution(
        op: &OperationContext<'_>,
        stage: &ExplainStage,
        returned: u64,
        took: Duration,
        failure: Option<&Failure>,
    ) -> Document {
        let mut stats = doc! { "executionSuccess": failure.is_none() };
        if let Some(failure) = failure {
            stats.insert("errorMessage", failure.message());
            stats.insert("errorCode", failure.code().0);
        }
        stats.extend(doc! {
            "nReturned": number(returned),
            "executionTimeMillis": number(millis(took)),
            "totalKeysExamined": number(op.figures.keys_examined),
            "totalDocsExamined": number(op.figures.docs_examined),
            "executionStages": stage.to_document(Some(took)),
        });
        stats
    }
}

/// `queryPlanner`; without a plan's state it has no rejected plans.
pub(crate) fn planner(
    namespace: &str,
    query: &FindQuery,
    stage: &ExplainStage,
    planned: Option<(&FindState, &CollectionState)>,
) -> Document {
    let lost = planned.map(|(find, state)| rejected(find, state)).unwrap_or_default();
    doc! {
        "plannerVersion": 1,
        "namespace": namespace,
        "indexFilterSet": false,
        "parsedQuery": query.filter.to_document(),
        "winningPlan": stage.to_document(None),
        "rejectedPlans": lost,
    }
}

/// The plan for a collection that does not exist.
pub(crate) fn empty_plan(namespace: &str, ran: Option<Duration>) -> ExplainOutput {
    let stage = ExplainStage::over("EOF", None, Work { advanced: 0, works: 1, at_end: true });
    let planner = doc! {
        "plannerVersion": 1,
        "namespace": namespace,
        "indexFilterSet": false,
        "parsedQuery": {},
        "winningPlan": stage.to_document(None),
        "rejectedPlans": [],
    };
    let execution = ran.map(|took| {
        doc! {
            "executionSuccess": true,
            "nReturned": 0,
            "executionTimeMillis": number(millis(took)),
            "totalKeysExamined": 0,
            "totalDocsExamined": 0,
            "executionStages": stage.to_document(Some(took)),
        }
    });
    ExplainOutput { planner, execution }
}

/// Counts of the changed documents.
#[derive(Debug, Default)]
struct ChangeCounts {
    found: u64,
    modified: u64,
}

impl ExplainedCommand {
    /// Plans the command, and executes it if `runs`.
    pub(crate) fn explain(self, op: &mut OperationContext<'_>, runs: bool) -> Result<ExplainOutput> {
        let namespace = op.figures.namespace.clone();
        let Some(collection) = op.instance.catalog.get(&namespace) else {
            let mut verdict = empty_plan(&namespace, runs.then_some(Duration::ZERO));
            verdict.planner.insert("parsedQuery", self.query.filter.to_document());
            return Ok(verdict);
        };
        let state = collection.lock();
        let begun = Instant::now();
        if let Some(stage) = self.without_scan(op, &collection, &state, runs)? {
            let planner = planner(&namespace, &self.query, &stage, None);
            let returned = stage.work().advanced;
            let execution =
                runs.then(|| ExplainOutput::execution(op, &stage, returned, begun.elapsed(), None));
            return Ok(ExplainOutput { planner, execution });
        }
        let mut find = FindState::new(op, &state, self.query.clone())?;
        let mut done = ChangeCounts::default();
        let mut failure = None;
        if runs {
            failure = self.run(op, &collection, &state, &mut find, &mut done).err();
        }
        let took = begun.elapsed();
        let (stage, returned) = self.topped(&find, &state, &done);
        let planner = planner(&namespace, &self.query, &stage, Some((&find, &state)));
        let execution = runs.then(|| ExplainOutput::execution(op, &stage, returned, took, failure.as_ref()));
        Ok(ExplainOutput { planner, execution })
    }

    /// A count by the collection's counter, and a distinct that jumps through an index.
    fn without_scan(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Arc<Collection>,
        state: &CollectionState,
        runs: bool,
    ) -> Result<Option<ExplainStage>> {
        if !self.query.filter.is_empty() || self.query.hint.is_some() {
            return Ok(None);
        }
        match &self.top {
            QueryAction::Count { skip, limit } => {
                let all = collection.records().unsigned_abs();
                let counted = all.saturating_sub(*skip);
                let counted = limit.map_or(counted, |limit| counted.min(limit));
                let work = Work { advanced: 0, works: 1, at_end: true };
                let counts = doc! { "nCounted": number(counted), "nSkipped": number((*skip).min(all)) };
                Ok(Some(ExplainStage::over("RECORD_STORE_COUNT", None, work).counting(counts)))
            }
            QueryAction::Distinct(path) => {
                let Some(index) = distinct_index(state, path) else { return Ok(None) };
                let mut values = DistinctValues::new(path);
                if runs {
                    first_values(op, collection, state, &mut values)?;
                }
                let keys = op.figures.keys_examined;
                let work = Work { advanced: values.count(), works: keys + 1, at_end: true };
                let details = doc! {
                    "keyPattern": index.spec().key().clone(),
                    "indexName": index.name(),
                    "isMultiKey": false,
                    "isUnique": index.is_unique(),
                    "isSparse": false,
                    "isPartial": false,
                    "indexVersion": 2,
                    "direction": "forward",
                };
                let stage = ExplainStage::over("DISTINCT_SCAN", None, work).with(details);
                Ok(Some(stage.counting(doc! { "keysExamined": number(keys) })))
            }
            _ => Ok(None),
        }
    }

    fn run(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Arc<Collection>,
        state: &CollectionState,
        find: &mut FindState,
        done: &mut ChangeCounts,
    ) -> Result<()> {
        let variables = op.variables().clone();
        let mut values =
            DistinctValues::new(if let QueryAction::Distinct(path) = &self.top { path } else { "" });
        find.fill(op, collection, state, &mut |document| {
            done.found += 1;
            let enough = match &self.top {
                QueryAction::Find(_) => false,
                QueryAction::Count { skip, limit } => {
                    limit.is_some_and(|limit| done.found >= skip.saturating_add(limit))
                }
                QueryAction::Distinct(_) => {
                    values.add(document)?;
                    false
                }
                QueryAction::Update(request) => {
                    done.modified += u64::from(would_change(request, document, &variables)?);
                    !request.multi
                }
                QueryAction::Delete { multi } => !multi,
            };
            Ok(if enough { BatchEffect::Last } else { BatchEffect::More })
        })
    }

    /// The stages, and the number of documents that the top stage returns.
    fn topped(&self, find: &FindState, state: &CollectionState, done: &ChangeCounts) -> (ExplainStage, u64) {
        let shown = if let QueryAction::Find(shown) = &self.top { shown.as_ref() } else { None };
        let stage = find_stages(find, state, shown);
        let below = stage.work();
        let work = Work { advanced: 0, works: below.works, at_end: true };
        match &self.top {
            QueryAction::Find(_) | QueryAction::Distinct(_) => (stage, find.returned()),
            QueryAction::Count { skip, limit } => {
                let counted = done.found.saturating_sub(*skip);
                let counted = limit.map_or(counted, |limit| counted.min(limit));
                let counts =
                    doc! { "nCounted": number(counted), "nSkipped": number((*skip).min(done.found)) };
                (ExplainStage::over("COUNT", Some(stage), work).counting(counts), 0)
            }
            QueryAction::Update(request) => {
                let counts = doc! {
                    "nMatched": number(done.found),
                    "nWouldModify": number(done.modified),
                    "wouldInsert": Bson::Boolean(request.upsert && done.found == 0),
                };
                (ExplainStage::over("UPDATE", Some(stage), work).counting(counts), 0)
            }
            QueryAction::Delete { .. } => {
                let counts = doc! { "nWouldDelete": number(done.found) };
                (ExplainStage::over("DELETE", Some(stage), work).counting(counts), 0)
            }
        }
    }
}

fn would_change(
    request: &UpdateRequest,
    document: &RawDocument,
    variables: &fathom_query::Variables,
) -> Result<bool> {
    let matched = request.target.filter.matches(document)?.unwrap_or_default();
    let moment = UpdateMoment { matched, inserting: false, timestamp: now(), variables };
    Ok(matches!(request.update.apply(document, &moment)?, DocumentUpdate::Changed(_)))
}
