//! Builds the tree of stages that explain shows for a query's plan, with the work of each stage if it ran.
//!
//! Keys, records, seeks and matches are counted by the scan. `works`, `advanced` and `needTime` are derived from them by the
//! calls that each stage would get: one for each key or record, and one for the end. All stages of a query run in one loop
//! here, so each stage's `executionTimeMillisEstimate` is the time of that loop.

use std::time::Duration;

use bson::{Bson, Document, doc};
use fathom_query::{IndexInfo, Plan};

use super::find::MAX_SORT_BYTES;
use crate::cursors::{Fetch, FindQuery, FindState, ScanTally};
use crate::storage::CollectionState;

/// The work of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) advanced: u64,
    pub(crate) works: u64,
    pub(crate) at_end: bool,
}

/// A stage with its work.
#[derive(Clone, Debug)]
pub(crate) struct ExplainStage {
    name: String,
    /// The filter is shown before the figures.
    filter: Option<Bson>,
    details: Document,
    /// Figures that are specific to this kind of stage.
    counted: Document,
    work: Work,
    inputs: Vec<ExplainStage>,
}

impl ExplainStage {
    /// A stage with this name that reads another.
    pub(crate) fn over(name: &str, input: Option<ExplainStage>, work: Work) -> ExplainStage {
        ExplainStage {
            name: name.to_owned(),
            filter: None,
            details: Document::new(),
            counted: Document::new(),
            work,
            inputs: input.into_iter().collect(),
        }
    }

    /// Adds the details of the stage.
    pub(crate) fn with(mut self, details: Document) -> ExplainStage {
        self.details.extend(details);
        self
    }

    /// Adds figures of its own.
    pub(crate) fn counting(mut self, counted: Document) -> ExplainStage {
        self.counted.extend(counted);
        self
    }

    /// The work that it did.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Builds a stage from a tree that the planner shows.
    fn from_document(mut document: Document) -> ExplainStage {
        let name = document.get_str("stage").unwrap_or_default().to_owned();
        document.remove("stage");
        let filter = document.remove("filter");
        let mut inputs = Vec::new();
        if let Some(Bson::Document(input)) = document.remove("inputStage") {
            inputs.push(ExplainStage::from_document(input));
        }
        if let Some(Bson::Array(several)) = document.remove("inputStages") {
            let several = several.into_iter().filter_map(|input| match input {
                Bson::Document(input) => Some(ExplainStage::from_document(input)),
                _ => None,
            });
            inputs.extend(several);
        }
        ExplainStage {
            name,
            filter,
            details: document,
            counted: Document::new(),
            work: Work::default(),
            inputs,
        }
    }

    /// The stage as explain shows it; with figures if it ran.
    pub(crate) fn to_document(&self, ran: Option<Duration>) -> Document {
        let mut out = doc! { "stage": &self.name };
        if let Some(filter) = &self.filter {
            out.insert("filter", filter.clone());
        }
        if let Some(took) = ran {
            let Work { advanced, works, at_end } = self.work;
            out.extend(doc! {
                "nReturned": number(advanced),
                "executionTimeMillisEstimate": number(millis(took)),
                "works": number(works),
                "advanced": number(advanced),
                "needTime": number(works.saturating_sub(advanced + u64::from(at_end))),
                "needYield": 0,
                "saveState": 0,
                "restoreState": 0,
                "isEOF": i32::from(at_end),
                "invalidates": 0,
            });
        }
        out.extend(self.details.clone());
        if ran.is_some() {
            out.extend(self.counted.clone());
        }
        match self.inputs.as_slice() {
            [] => {}
            [input] if self.name != "OR" => {
                out.insert("inputStage", input.to_document(ran));
            }
            inputs => {
                let inputs: Vec<Document> = inputs.iter().map(|input| input.to_document(ran)).collect();
                out.insert("inputStages", inputs);
            }
        }
        out
    }
}

/// A count as MongoDB writes it: 32 bits if it fits.
pub(crate) fn number(count: u64) -> Bson {
    match i32::try_from(count) {
        Ok(count) => Bson::Int32(count),
        Err(_) => Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

/// A time in whole milliseconds.
pub(crate) fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// The stages of a query, with the figures of its execution so far; `projection` is as the client wrote it.
pub(crate) fn find_stages(
    find: &FindState,
    state: &CollectionState,
    projection: Option<&Document>,
) -> ExplainStage {
    let indexes: Vec<IndexInfo<'_>> = state.indexes.iter().map(|index| index.info()).collect();
    let (plan, _) = find.plans();
    let mut stage = base(find.query(), plan, &indexes, find.scan().fetch());
    measure(&mut stage, find.scan().tallies(), find.scan().is_done());
    let stage = on_top(stage, find.query(), plan, find.returned(), find.is_done());
    projected(stage, find.query(), plan, projection)
}

/// The rejected plans of a query.
pub(crate) fn rejected(find: &FindState, state: &CollectionState) -> Vec<Document> {
    let indexes: Vec<IndexInfo<'_>> = state.indexes.iter().map(|index| index.info()).collect();
    let (_, lost) = find.plans();
    let shown = lost.iter().map(|plan| {
        let stage = base(find.query(), plan, &indexes, Fetch::Record);
        on_top(stage, find.query(), plan, 0, false).to_document(None)
    });
    shown.collect()
}

/// The stages that yield documents, from the top one down to the scan.
fn base(query: &FindQuery, plan: &Plan, indexes: &[IndexInfo<'_>], fetch: Fetch) -> ExplainStage {
    let mut stage = ExplainStage::from_document(plan.winning_plan(&query.filter, indexes));
    let reads_keys_only = fetch != Fetch::Record;
    if reads_keys_only && stage.name == "FETCH" && !stage.inputs.is_empty() {
        stage = stage.inputs.swap_remove(0);
    }
    if fetch == Fetch::Nothing && stage.name == "IXSCAN" {
        "COUNT_SCAN".clone_into(&mut stage.name);
    }
    stage
}

/// Fills in the counts of the scan's legs.
fn measure(stage: &mut ExplainStage, tallies: &[ScanTally], done: bool) {
    let total = tallies.iter().fold(ScanTally::default(), |mut sum, tally| {
        sum.keys += tally.keys;
        sum.documents += tally.documents;
        sum.seeks += tally.seeks;
        sum.repeated += tally.repeated;
        sum.matched += tally.matched;
        sum
    });
    let end = u64::from(done);
    match stage.name.as_str() {
        "COLLSCAN" => {
            // One additional call opens the cursor.
            stage.work = Work { advanced: total.matched, works: total.documents + 1 + end, at_end: done };
            stage.counted.insert("docsExamined", number(total.documents));
        }
        "IDHACK" => {
            stage.work = Work { advanced: total.matched, works: total.matched + end, at_end: done };
            stage.counted.insert("keysExamined", number(total.keys));
            stage.counted.insert("docsExamined", number(total.documents));
        }
        "FETCH" => {
            let works = stage.inputs.iter_mut().map(|input| keys(input, tallies, done)).sum();
            stage.work = Work { advanced: total.matched, works, at_end: done };
            stage.counted.insert("docsExamined", number(total.documents));
            stage.counted.insert("alreadyHasObj", 0);
        }
        "EOF" => stage.work = Work { advanced: 0, works: 1, at_end: true },
        _ => {
            keys(stage, tallies, done);
            stage.work.advanced = total.matched;
        }
    }
}

/// Fills in the counts of index scans; returns the number of calls to the stage.
fn keys(stage: &mut ExplainStage, tallies: &[ScanTally], done: bool) -> u64 {
    if stage.name == "OR" {
        let mut rest = tallies;
        let mut works = 0;
        for input in &mut stage.inputs {
            let legs = legs_of(input);
            let (own, others) = rest.split_at_checked(legs).unwrap_or((rest, &[]));
            rest = others;
            works += keys(input, own, done);
        }
        let tested = tallies.iter().map(|tally| tally.keys).sum();
        let dropped = tallies.iter().map(|tally| tally.repeated).sum();
        stage.work = Work { advanced: tested - dropped, works, at_end: done };
        stage.counted.extend(doc! {
            "dupsTested": number(tested),
            "dupsDropped": number(dropped),
            "recordIdsForgotten": 0,
        });
        return works;
    }
    let tally = tallies.first().copied().unwrap_or_default();
    let multikey = stage.details.get_bool("isMultiKey").unwrap_or(false);
    let works = tally.keys + u64::from(done);
    let advanced = if multikey { tally.keys - tally.repeated } else { tally.keys };
    stage.work = Work { advanced, works, at_end: done };
    stage.counted.extend(doc! {
        "keysExamined": number(tally.keys),
        "seeks": number(tally.seeks),
        "dupsTested": number(if multikey { tally.keys } else { 0 }),
        "dupsDropped": number(if multikey { tally.repeated } else { 0 }),
    });
    works
}

fn legs_of(stage: &ExplainStage) -> usize {
    match stage.name.as_str() {
        "OR" => stage.inputs.iter().map(legs_of).sum(),
        "EOF" => 0,
        _ => 1,
    }
}

/// Sort, skip, limit and projection above a plan.
fn on_top(stage: ExplainStage, query: &FindQuery, plan: &Plan, returned: u64, done: bool) -> ExplainStage {
    let mut stage = stage;
    let sorts = query.sort.as_ref().filter(|_| !plan.sorted);
    let below = stage.work;
    if let Some(sort) = sorts {
        let mut details =
            doc! { "sortPattern": sort.to_document(), "memLimit": number(MAX_SORT_BYTES as u64) };
        if let Some(limit) = query.limit {
            details.insert("limitAmount", number(limit.saturating_add(query.skip)));
        }
        details.insert("type", "simple");
        let advanced = if below.works == 0 { 0 } else { returned + query.skip.min(below.advanced) };
        let work = Work { advanced, works: below.works + advanced + u64::from(done), at_end: done };
        stage =
            ExplainStage::over("SORT", Some(stage), work).with(details).counting(doc! { "usedDisk": false });
    }
    if query.skip > 0 {
        let work = Work { advanced: returned, ..stage.work };
        stage = ExplainStage::over("SKIP", Some(stage), work).with(doc! { "skipAmount": number(query.skip) });
    }
    if let Some(limit) = query.limit.filter(|_| sorts.is_none()) {
        let work = Work { advanced: returned, works: stage.work.works.max(returned), at_end: done };
        stage = ExplainStage::over("LIMIT", Some(stage), work).with(doc! { "limitAmount": number(limit) });
    }
    stage
}

/// The projection or similar stage above a plan.
fn projected(
    stage: ExplainStage,
    query: &FindQuery,
    plan: &Plan,
    document: Option<&Document>,
) -> ExplainStage {
    let work = stage.work;
    if query.return_key {
        return ExplainStage::over("RETURN_KEY", Some(stage), work);
    }
    let Some(projection) = &query.projection else { return stage };
    let name = match (plan.covered, projection.included_paths()) {
        (true, _) => "PROJECTION_COVERED",
        (false, Some(paths)) if !paths.iter().any(|path| path.contains('.')) => "PROJECTION_SIMPLE",
        _ => "PROJECTION_DEFAULT",
    };
    let by = document.cloned().unwrap_or_default();
    ExplainStage::over(name, Some(stage), work).with(doc! { "transformBy": by })
}
