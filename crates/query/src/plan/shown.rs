//! What explain shows of a plan: MongoDB's tree of stages.

use bson::{Bson, Document, doc};

use super::bounds::Bounds;
use super::interval::Interval;
use super::{Access, IndexInfo, Plan};
use crate::{FieldKind, Filter, KeyPattern};

/// `indexBounds`: for each field, the intervals that the walk goes through, in its direction. Fields behind one that is not held to
/// points show all values, as the walk does not skip within a range.
pub(super) fn bounds(pattern: &KeyPattern, fields: &[Bounds], backwards: bool) -> Document {
    let all = [Interval::all()];
    let mut out = Document::new();
    for (place, field) in pattern.fields.iter().enumerate() {
        let intervals = fields.get(place).map_or(all.as_slice(), |bounds| &bounds.intervals);
        let down = (field.kind == FieldKind::Descending) != backwards;
        let mut shown: Vec<Bson> = intervals.iter().map(|interval| interval.show(down).into()).collect();
        if down {
            shown.reverse();
        }
        out.insert(&field.path, shown);
    }
    out
}

impl Plan {
    /// The stages as explain shows them under `winningPlan`, from the one that yields documents down; the server puts sorting,
    /// projecting, skipping and limiting on top. `indexes` is the list that the planner was given.
    pub fn winning_plan(&self, filter: &Filter, indexes: &[IndexInfo<'_>]) -> Document {
        let filter = self.filter.then(|| filter.to_document());
        match &self.access {
            Access::Scan { backwards } => {
                let mut stage = doc! { "stage": "COLLSCAN" };
                stage.extend(filter.map(|filter| ("filter".to_owned(), Bson::Document(filter))));
                stage.insert("direction", direction(*backwards));
                stage
            }
            Access::Id(_) => doc! { "stage": "IDHACK" },
            Access::Nothing => doc! { "stage": "EOF" },
            _ => match self.keys(indexes) {
                keys if self.covered => keys,
                keys => {
                    let mut stage = doc! { "stage": "FETCH" };
                    stage.extend(filter.map(|filter| ("filter".to_owned(), Bson::Document(filter))));
                    stage.insert("inputStage", keys);
                    stage
                }
            },
        }
    }

    /// The stages that yield keys of indexes.
    fn keys(&self, indexes: &[IndexInfo<'_>]) -> Document {
        match &self.access {
            Access::Index { index, backwards, bounds, .. } => match indexes.get(*index) {
                Some(index) => index_scan(index, *backwards, bounds),
                None => Document::new(),
            },
            Access::Union(branches) => {
                let branches: Vec<Document> = branches.iter().map(|branch| branch.keys(indexes)).collect();
                doc! { "stage": "OR", "inputStages": branches }
            }
            _ => doc! { "stage": "EOF" },
        }
    }
}

fn index_scan(index: &IndexInfo<'_>, backwards: bool, bounds: &Document) -> Document {
    let mut stage = doc! {
        "stage": "IXSCAN",
        "keyPattern": index.pattern.to_document(),
        "indexName": index.name,
        "isMultiKey": index.multikey,
    };
    // Which paths are multikey is not kept; MongoDB too leaves the field out for an index that does not know.
    if !index.multikey {
        let paths: Document =
            index.pattern.fields.iter().map(|field| (field.path.clone(), Bson::Array(Vec::new()))).collect();
        stage.insert("multiKeyPaths", paths);
    }
    stage.extend(doc! {
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": index.partial.is_some(),
        "indexVersion": 2,
        "direction": direction(backwards),
        "indexBounds": bounds.clone(),
    });
    stage
}

fn direction(backwards: bool) -> &'static str {
    if backwards { "backward" } else { "forward" }
}
