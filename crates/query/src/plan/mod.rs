//! The query planner: chooses an index for a query and the ranges of its keys, and formats the plan as explain's tree of stages.
//!
//! MongoDB runs the candidates on the data for a while and caches the winner. Here the choice depends only on the
//! filter, the sort and the indexes, so that it is the same on every run: first `_id`, then a unique index bound to one
//! key, then the number of leading fields that are bound to values, then whether anything is narrowed at all, then whether the
//! index avoids a sort, then how narrow the last field is, then whether it is a partial index, then whether the index alone can
//! answer, then the shorter index, then the older. MongoDB mostly chooses the same; with skewed data it may not, and a hint helps.
//!
//! Bounds may be wider than the filter (then [`Plan::filter`] is set), but never narrower. Each key of a multikey index is bound
//! by one predicate of the filter, as different elements may satisfy different ones.

mod bounds;
mod candidate;
mod choose;
mod hint;
mod implied;
mod interval;
mod predicates;

use crate::{FieldKind, Filter, KeyPattern};
use bounds::Bounds;
use bson::{Bson, Document, doc};
use interval::ValueInterval;

pub use choose::choose;
pub use hint::between;

/// The planner's view of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexInfo<'a> {
    pub name: &'a str,
    pub pattern: &'a KeyPattern,
    /// Whether any document may have several keys in it.
    pub multikey: bool,
    /// Whether documents without its fields are left out.
    pub sparse: bool,
    /// Whether keys are unique.
    pub unique: bool,
    /// The filter of a partial index.
    pub partial: Option<&'a Filter>,
}

/// The index that the client asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// An index by its name.
    Name(String),
    /// An index by its pattern.
    Pattern(Document),
    /// The records in their own order (`$natural`), backwards if -1.
    Natural {
        /// From the last to the first.
        backwards: bool,
    },
}

/// A range of index keys, as bytes of a [`crate::KeyString`]: from `low` up to, not including, `high`. `Before` and `After` bounds
/// make both ends exact regardless of record ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key that may be in it.
    pub low: Vec<u8>,
    /// The first key that is beyond it.
    pub high: Vec<u8>,
}

/// The access path to the documents.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// Reads all records of the collection.
    Scan {
        /// From the last to the first.
        backwards: bool,
    },
    /// The one record of an `_id`.
    Id(Bson),
    /// Ranges of one index.
    Index {
        /// Its place in the planner's list of indexes.
        index: usize,
        /// Ascending in key order, disjoint.
        ranges: Vec<Range>,
        /// Whether the ranges and keys are walked from the end.
        backwards: bool,
        /// The bounds for explain: path to list of interval strings, as MongoDB writes `indexBounds`.
        bounds: Document,
    },
    /// One plan for each branch of an `$or`; a record is taken once.
    Union(Vec<Plan>),
    /// No document can match (`{$in: []}`, contradictory bounds).
    Nothing,
}

/// A way to answer a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The access path to the documents.
    pub access: Access,
    /// Whether the filter must still be evaluated for each document (false only if the bounds express all of it).
    pub filter: bool,
    /// Whether documents come in the sort's order.
    pub sorted: bool,
    /// Whether the index alone can answer, so that no record is fetched.
    pub covered: bool,
}

/// `indexBounds`: for each field, the intervals that the walk covers, in its direction. Fields after one that is not bound to
/// points show all values, as the walk does not skip within a range.
fn index_bounds(pattern: &KeyPattern, fields: &[Bounds], backwards: bool) -> Document {
    let all = [ValueInterval::all()];
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
    /// The stages as explain shows them under `winningPlan`, from the one that yields documents down; the server adds sorting,
    /// projecting, skipping and limiting on top. `indexes` is the planner's list of indexes.
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
    // The multikey paths are not stored; MongoDB also leaves the field out for an index without this information.
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
