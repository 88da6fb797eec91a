//! Which index serves a query.
use crate::{Filter, KeyPattern, Projection, Result, Sort};
use bson::{Bson, Document};

/// What the planner knows of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its fields.
    pub pattern: &'a KeyPattern,
    /// Whether any document has several keys in it.
    pub multikey: bool,
    /// Whether documents without its fields are left out.
    pub sparse: bool,
    /// Whether keys are unique.
    pub unique: bool,
    /// The filter of a partial index.
    pub partial: Option<&'a Filter>,
}

/// What the client asks for.
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
/// make both ends exact without looking at record ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key that may be in it.
    pub low: Vec<u8>,
    /// The first key that is beyond it.
    pub high: Vec<u8>,
}

/// How documents are reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// All records.
    Scan {
        /// From the last to the first.
        backwards: bool,
    },
    /// The one record of an `_id`.
    Id(Bson),
    /// Ranges of one index.
    Index {
        /// Its place in the list that the planner was given.
        index: usize,
        /// Ascending in key order, disjoint.
        ranges: Vec<Range>,
        /// Walk the ranges and keys from the end.
        backwards: bool,
        /// What explain shows: path to list of interval strings, as MongoDB writes `indexBounds`.
        bounds: Document,
    },
    /// One plan for each branch of an `$or`; a record is taken once.
    Union(Vec<Plan>),
    /// Nothing can match (`{$in: []}`, contradictory bounds).
    Nothing,
}

/// A way to answer a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How documents are reached.
    pub access: Access,
    /// Whether the filter must still be looked at for each document (false only when the bounds say all of it).
    pub filter: bool,
    /// Whether documents come in the sort's order.
    pub sorted: bool,
    /// Whether the index alone can answer, so that no record is fetched.
    pub covered: bool,
}

/// Chooses; the second list is the plans that lost, for explain.
pub fn choose(
    _filter: &Filter,
    _sort: Option<&Sort>,
    _projection: Option<&Projection>,
    _hint: Option<&Hint>,
    _indexes: &[IndexInfo<'_>],
) -> Result<(Plan, Vec<Plan>)> {
    Ok((
        Plan { access: Access::Scan { backwards: false }, filter: true, sorted: false, covered: false },
        Vec::new(),
    ))
}
