//! Which index serves a query, and which of its keys.
//!
//! MongoDB lets the candidates race on the data for a while and keeps the winner in a cache. Here the choice is made from the
//! filter, the sort and the indexes alone, so that it is the same on every run: first `_id`, then a unique index held to one
//! key, then the number of leading fields that are held to values, then whether anything is narrowed at all, then whether the
//! index spares a sort, then how narrow the last field is, then whether it is a partial index, then whether the index alone can
//! answer, then the shorter index, then the older. MongoDB would mostly choose the same; where data are skewed it may not, and a hint decides.
//!
//! Bounds may say less than the filter (then [`Plan::filter`] is set), never more. Keys of a multikey index are each held to one
//! statement of the filter, as different elements may satisfy different ones.

mod bounds;
mod brackets;
mod candidate;
mod choose;
mod hint;
mod implied;
mod interval;
mod min_max;
mod predicates;
mod prefix;
mod ranges;
mod shown;
mod sorting;

use crate::{Filter, KeyPattern};
use bson::{Bson, Document};

pub use choose::choose;
pub use min_max::between;

/// Whether the keys of an index come in the order of a sort, and then whether from its end; no sort is any order.
fn covers_sort(pattern: &KeyPattern, sort: Option<&crate::Sort>) -> Option<bool> {
    match sort {
        None => Some(false),
        Some(sort) => sorting::order(pattern, sort, |_| false),
    }
}

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
