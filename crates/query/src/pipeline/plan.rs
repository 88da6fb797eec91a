//! Finds the parts of a pipeline that a query planner can do, and the fields that it need not read.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::selection::Match;
use super::stages::Stage;
use crate::Sort;

/// Removes the leading `$match`es and returns them as one filter document.
pub(super) fn take_matches(stages: &mut Vec<Stage>) -> Document {
    let count = stages.iter().take_while(|stage| matches!(stage, Stage::Match(_))).count();
    let filters: Vec<Document> = stages.drain(..count).filter_map(filter_of).collect();
    both(filters)
}

fn filter_of(stage: Stage) -> Option<Document> {
    match stage {
        Stage::Match(Match { document, .. }) if !document.is_empty() => Some(document),
        _ => None,
    }
}

/// Combines several filters into one.
fn both(filters: Vec<Document>) -> Document {
    match <[Document; 1]>::try_from(filters) {
        Ok([only]) => only,
        Err(none) if none.is_empty() => Document::new(),
        Err(several) => {
            let filters: Vec<Bson> = several.into_iter().map(Bson::Document).collect();
            doc! { "$and": filters }
        }
    }
}

/// Removes the stages that a query can do: filter, sort, limit.
pub(super) fn take_query(stages: &mut Vec<Stage>) -> (Document, Option<Sort>, Option<u64>) {
    let mut filter = take_matches(stages);
    let mut sort = None;
    if let Some(Stage::Sort(stage)) = stages.first() {
        sort = Some(stage.sort.clone());
        stages.remove(0);
        // A filter after the sort selects the same rows as before it.
        let more = take_matches(stages);
        filter = both([filter, more].into_iter().filter(|filter| !filter.is_empty()).collect());
    }
    let limit = leading_limit(stages);
    if matches!(stages.first(), Some(Stage::Limit(_))) {
        stages.remove(0);
    }
    (filter, sort, limit)
}

/// The number of rows that the stages read, if a limit comes first or after skips.
pub(super) fn leading_limit(stages: &[Stage]) -> Option<u64> {
    let mut skipped: u64 = 0;
    for stage in stages {
        match stage {
            Stage::Skip(skip) => skipped = skipped.saturating_add(*skip),
            Stage::Limit(limit) => return Some(skipped.saturating_add(*limit)),
            _ => return None,
        }
    }
    None
}

/// The top-level fields that are needed; `None` if whole documents are.
pub(super) fn needed_fields(stages: &[Stage]) -> Option<BTreeSet<String>> {
    let mut fields = BTreeSet::new();
    let top = |path: &str| path.split('.').next().unwrap_or(path).to_owned();
    for stage in stages {
        match stage {
            Stage::Limit(_) | Stage::Skip(_) | Stage::Sample(_) => {}
            Stage::Sort(stage) => fields.extend(stage.sort.fields.iter().map(|(path, _)| top(path))),
            Stage::Unwind(stage) => {
                let (path, index) = stage.roots();
                fields.extend(path.map(str::to_owned));
                fields.extend(index.map(str::to_owned));
            }
            Stage::AddFields(stage) => {
                if !stage.collect_fields(&mut fields) {
                    return None;
                }
            }
            Stage::Project(stage) => {
                fields.extend(stage.included_paths()?.into_iter().map(top));
                return Some(fields);
            }
            Stage::Group(stage) => return stage.collect_fields(&mut fields).then_some(fields),
            Stage::Count(_) => return Some(fields),
            _ => return None,
        }
    }
    None
}

/// The other collections that stages read.
pub(super) fn collections_read(stages: &[Stage]) -> Vec<&str> {
    let mut collections = Vec::new();
    for stage in stages {
        match stage {
            Stage::Lookup(stage) => collections.extend(stage.collections()),
            Stage::GraphLookup(stage) => collections.push(stage.collection()),
            Stage::Union(stage) => collections.extend(stage.collections()),
            Stage::Facet(stage) => collections.extend(stage.collections()),
            _ => {}
        }
    }
    collections
}
