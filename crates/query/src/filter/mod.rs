//! Filters, which select the documents of a query.
//!
//! A filter is parsed once and then evaluated for many documents, on their raw bytes. Operators that MongoDB has and this
//! module lacks, such as `$where`, `$text` and the geographic ones, are refused by name.

mod bits;
mod evaluate;
pub(crate) mod numbers;
mod operators;
mod parse;
pub(crate) mod path;
pub(crate) mod pattern;
mod print;
mod schema;
pub(crate) mod show;
pub(crate) mod tree;
pub(crate) mod types;

use std::sync::OnceLock;

use bson::{Bson, Document, RawBson, RawDocument};

use crate::{Result, Variables};
pub(crate) use tree::FilterNode;
use tree::{ComparisonOperator, Test};

#[derive(Clone, Debug)]
pub struct Filter {
    /// The tree. For a filter on one plain `_id` it is built on demand: most of these never need it.
    root: OnceLock<FilterNode>,
    id: Option<Bson>,
}

/// The result for a matching document, with the array position for the positional operator `$`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterMatch {
    /// The index within the array that the filter went through, if it went through one; of several, the last in the
    /// filter's order.
    pub position: Option<usize>,
}

/// Whether a value of `_id` means exactly itself and can always be compared.
fn is_plain(id: &Bson) -> bool {
    matches!(id, Bson::String(_) | Bson::ObjectId(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::DateTime(_))
}

impl Filter {
    /// Parses a filter document.
    pub fn parse(filter: &RawDocument, variables: &Variables) -> Result<Filter> {
        let id = parse::only_id(filter)?;
        if id.as_ref().is_some_and(is_plain) {
            return Ok(Filter { root: OnceLock::new(), id });
        }
        let root = parse::Parser::new(variables).filter(filter, parse::FilterLevel::Document, 0)?;
        Ok(Filter { root: root.into(), id })
    }

    /// The filter that matches what both this filter and another match.
    #[must_use]
    pub fn and(&self, other: &Filter) -> Filter {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let parts = [self.root(), other.root()].into_iter().flat_map(|root| match root {
            FilterNode::And(nodes) => nodes.clone(),
            node => vec![node.clone()],
        });
        Filter { root: FilterNode::And(parts.collect()).into(), id: None }
    }

    /// Whether every document matches.
    pub fn is_empty(&self) -> bool {
        match self.root() {
            FilterNode::And(nodes) => nodes.is_empty(),
            FilterNode::Always(truth) => *truth,
            _ => false,
        }
    }

    /// The earliest timestamp that the value at `path` may have, if the filter sets a lower bound. A reader of an oplog,
    /// whose records are numbered by their timestamps, begins there instead of at its beginning.
    pub fn earliest_timestamp(&self, path: &str) -> Option<bson::Timestamp> {
        let of = |node: &FilterNode| match node {
            FilterNode::Field(field) if field.path == path => match &field.test {
                Test::Compare(
                    ComparisonOperator::Equal
                    | ComparisonOperator::Greater
                    | ComparisonOperator::GreaterOrEqual,
                    RawBson::Timestamp(from),
                ) => Some(*from),
                _ => None,
            },
            _ => None,
        };
        match self.root() {
            FilterNode::And(nodes) => nodes.iter().find_map(of),
            node => of(node),
        }
    }

    /// The value of `_id` when the filter is exactly `{_id: <value>}` (or `{_id: {$eq: <value>}}`): the fast path. `None` for
    /// arrays, regular expressions and null, which mean more than one key.
    pub fn only_id(&self) -> Option<&Bson> {
        self.id.as_ref()
    }

    /// Whether `document` matches, and where. Fails if an `$expr` fails, or if the document is malformed.
    pub fn matches(&self, document: &RawDocument) -> Result<Option<FilterMatch>> {
        let mut position = None;
        let matched = self.root().matches(document, &mut position)?;
        Ok(matched.then_some(FilterMatch { position }))
    }

    /// The dotted paths that the filter fixes to one value by equality (top level, `$and`, `$eq`, single `$in`), in order, for an upsert.
    pub fn equalities(&self) -> Vec<(String, Bson)> {
        tree::equalities(self.root())
    }

    /// The parsed filter as a document, normalised as MongoDB shows it in `parsedQuery`.
    pub fn to_document(&self) -> Document {
        print::document(self.root())
    }

    /// The tree, for the planner.
    pub(crate) fn root(&self) -> &FilterNode {
        self.root.get_or_init(|| match self.id.as_ref().and_then(|id| RawBson::try_from(id.clone()).ok()) {
            Some(id) => FilterNode::field("_id", Test::Compare(ComparisonOperator::Equal, id)),
            // This case does not occur; a filter that matches nothing changes nothing.
            None => FilterNode::Always(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_tree_made_later_is_the_one_that_is_parsed() {
        let variables = Variables::at(bson::DateTime::now());
        let id = bson::oid::ObjectId::new();
        let filters = [
            rawdoc! { "_id": 7 },
            rawdoc! { "_id": 7_i64 },
            rawdoc! { "_id": "seven" },
            rawdoc! { "_id": { "$eq": id } },
            rawdoc! { "_id": bson::DateTime::from_millis(7) },
        ];
        for filter in filters {
            let made = Filter::parse(&filter, &variables).unwrap();
            assert!(made.root.get().is_none(), "{filter:?}");
            let parsed =
                parse::Parser::new(&variables).filter(&filter, parse::FilterLevel::Document, 0).unwrap();
            assert_eq!(format!("{:?}", made.root()), format!("{parsed:?}"));
        }
    }
}
