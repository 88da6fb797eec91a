//! Explains a query, a count, a distinct or a write: plans it, runs it if asked to, and says what was counted. A write is looked
//! for and worked out, but not done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, RawDocument, doc};
use fathom_query::{Applied, Failure, UpdateMoment};

pub(crate) use super::explain_stages::find_stages;
use super::explain_stages::{Stage, Work, millis, number, rejected};
use super::find::Taken;
use super::write::{UpdateRequest, now};
use super::{Values, distinct_index, first_values};
use crate::Result;
use crate::cursors::{FindQuery, FindState};
use crate::operation_context::OperationContext;
use crate::storage::{Collection, State};

/// What is explained.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) query: FindQuery,
    pub(crate) top: Top,
}

/// What is done with the documents that the query finds.
#[derive(Debug)]
pub(crate) enum Top {
    /// They are returned, projected so.
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

/// What explain says.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) planner: Document,
    pub(crate) execution: Option<Document>,
}

impl Verdict {
    /// `executionStats`.
    pub(crate) fn execution(
        op: &OperationContext<'_>,
        stage: &Stage,
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

/// `queryPlanner`; without a plan's state there are none that lost.
pub(crate) fn planner(
    namespace: &str,
    query: &FindQuery,
    stage: &Stage,
    planned: Option<(&FindState, &State)>,
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

/// The plan over a collection that is not there.
pub(crate) fn empty_plan(namespace: &str, ran: Option<Duration>) -> Verdict {
    let stage = Stage::over("EOF", None, Work { advanced: 0, works: 1, at_end: true });
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
    Verdict { planner, execution }
}

/// What was done with what was found.
#[derive(Debug, Default)]
struct Done {
    found: u64,
    modified: u64,
}

impl Subject {
    /// Plans it, and runs it if `runs`.
    pub(crate) fn explain(self, op: &mut OperationContext<'_>, runs: bool) -> Result<Verdict> {
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
            let execution = runs.then(|| Verdict::execution(op, &stage, returned, begun.elapsed(), None));
            return Ok(Verdict { planner, execution });
        }
        let mut find = FindState::new(op, &state, self.query.clone())?;
        let mut done = Done::default();
        let mut failure = None;
        if runs {
            failure = self.run(op, &collection, &state, &mut find, &mut done).err();
        }
        let took = begun.elapsed();
        let (stage, returned) = self.topped(&find, &state, &done);
        let planner = planner(&namespace, &self.query, &stage, Some((&find, &state)));
        let execution = runs.then(|| Verdict::execution(op, &stage, returned, took, failure.as_ref()));
        Ok(Verdict { planner, execution })
    }

    /// A count by the collection's counter, and a distinct that jumps through an index.
    fn without_scan(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Arc<Collection>,
        state: &State,
        runs: bool,
    ) -> Result<Option<Stage>> {
        if !self.query.filter.is_empty() || self.query.hint.is_some() {
            return Ok(None);
        }
        match &self.top {
            Top::Count { skip, limit } => {
                let all = collection.records().unsigned_abs();
                let counted = all.saturating_sub(*skip);
                let counted = limit.map_or(counted, |limit| counted.min(limit));
                let work = Work { advanced: 0, works: 1, at_end: true };
                let counts = doc! { "nCounted": number(counted), "nSkipped": number((*skip).min(all)) };
                Ok(Some(Stage::over("RECORD_STORE_COUNT", None, work).counting(counts)))
            }
            Top::Distinct(path) => {
                let Some(index) = distinct_index(state, path) else { return Ok(None) };
                let mut values = Values::new(path);
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
                let stage = Stage::over("DISTINCT_SCAN", None, work).with(details);
                Ok(Some(stage.counting(doc! { "keysExamined": number(keys) })))
            }
            _ => Ok(None),
        }
    }

    fn run(
        &self,
        op: &mut OperationContext<'_>,
        collection: &Arc<Collection>,
        state: &State,
        find: &mut FindState,
        done: &mut Done,
    ) -> Result<()> {
        let variables = op.variables().clone();
        let mut values = Values::new(if let Top::Distinct(path) = &self.top { path } else { "" });
        find.fill(op, collection, state, &mut |document| {
            done.found += 1;
            let enough = match &self.top {
                Top::Find(_) => false,
                Top::Count { skip, limit } => {
                    limit.is_some_and(|limit| done.found >= skip.saturating_add(limit))
                }
                Top::Distinct(_) => {
                    values.add(document)?;
                    false
                }
                Top::Update(request) => {
                    done.modified += u64::from(would_change(request, document, &variables)?);
                    !request.multi
                }
                Top::Delete { multi } => !multi,
            };
            Ok(if enough { Taken::Last } else { Taken::More })
        })
    }

    /// The stages, and how many documents come out at the top.
    fn topped(&self, find: &FindState, state: &State, done: &Done) -> (Stage, u64) {
        let shown = if let Top::Find(shown) = &self.top { shown.as_ref() } else { None };
        let stage = find_stages(find, state, shown);
        let below = stage.work();
        let work = Work { advanced: 0, works: below.works, at_end: true };
        match &self.top {
            Top::Find(_) | Top::Distinct(_) => (stage, find.returned()),
            Top::Count { skip, limit } => {
                let counted = done.found.saturating_sub(*skip);
                let counted = limit.map_or(counted, |limit| counted.min(limit));
                let counts =
                    doc! { "nCounted": number(counted), "nSkipped": number((*skip).min(done.found)) };
                (Stage::over("COUNT", Some(stage), work).counting(counts), 0)
            }
            Top::Update(request) => {
                let counts = doc! {
                    "nMatched": number(done.found),
                    "nWouldModify": number(done.modified),
                    "wouldInsert": Bson::Boolean(request.upsert && done.found == 0),
                };
                (Stage::over("UPDATE", Some(stage), work).counting(counts), 0)
            }
            Top::Delete { .. } => {
                let counts = doc! { "nWouldDelete": number(done.found) };
                (Stage::over("DELETE", Some(stage), work).counting(counts), 0)
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
    Ok(matches!(request.update.apply(document, &moment)?, Applied::Changed(_)))
}
