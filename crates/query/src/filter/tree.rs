//! The tree of a parsed filter: logical nodes over tests of fields, and the fields that it fixes to one value.
//!
//! Parsing, matching and planning are in other modules.

use std::borrow::Cow;

use bson::{Bson, RawBson};

use super::bits::Bits;
use super::pattern::RegexPattern;
use super::schema::Schema;
use super::types::TypeSet;
use crate::{Code, Expression, Failure, Result, Variables};

/// The most levels of nested operators: documents on the wire nest to 200, and each operator takes up to two levels.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug)]
pub(crate) enum FilterNode {
    /// Matches every document, or none.
    Always(bool),
    /// Matches if all of them do; no element is an `And`. An empty list matches every document.
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    /// Matches if none of them does.
    Nor(Vec<FilterNode>),
    Not(Box<FilterNode>),
    /// A test of the values at a path.
    Field(Field),
    /// The operator `$expr` with its expression.
    Computed(Box<ExpressionTest>),
    /// The operator `$jsonSchema` with its schema.
    Schema(Box<Schema>),
}

/// A test of the values at a path, which is empty for a test of an array's element itself.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) path: Cow<'static, str>,
    pub(crate) test: Test,
}

/// A condition on a value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`.
    Compare(ComparisonOperator, RawBson),
    Member(InList),
    /// `$exists: true`; `$exists: false` is its negation.
    Exists,
    Type(TypeSet),
    Regex(RegexPattern),
    /// The operator `$mod`: divisor and remainder.
    Modulo {
        /// The divisor, never 0.
        divisor: i64,
        /// The remainder of the division.
        remainder: i64,
    },
    Size(usize),
    /// `$bitsAllSet` and the other tests of bits.
    Bits(Bits),
    /// `$elemMatch` whose argument is a filter of documents.
    ElementObject(Box<FilterNode>),
    /// `$elemMatch` whose argument is a list of operators, each a node with an empty path.
    ElementValue(Vec<FilterNode>),
}

/// The required order of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The list of `$in`.
#[derive(Clone, Debug, Default)]
pub(crate) struct InList {
    /// Sorted and without any duplicates.
    pub(crate) values: Vec<RawBson>,
    /// Regular expressions, tried in turn.
    pub(crate) patterns: Vec<RegexPattern>,
    /// Whether null is among the values, so that a missing field matches.
    pub(crate) null: bool,
}

/// An `$expr` with the variables that it may refer to.
#[derive(Clone, Debug)]
pub(crate) struct ExpressionTest {
    pub(crate) expression: Expression,
    /// As the client wrote it, for explain.
    pub(crate) source: RawBson,
    pub(crate) variables: Variables,
}

impl ComparisonOperator {
    /// MongoDB's name of the operator.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ComparisonOperator::Equal => "$eq",
            ComparisonOperator::Less => "$lt",
            ComparisonOperator::LessOrEqual => "$lte",
            ComparisonOperator::Greater => "$gt",
            ComparisonOperator::GreaterOrEqual => "$gte",
        }
    }
}

impl FilterNode {
    /// A test of a field.
    pub(crate) fn field(path: &str, test: Test) -> FilterNode {
        // The most frequent paths need no allocation.
        let path = match path {
            "" => Cow::Borrowed(""),
            "_id" => Cow::Borrowed("_id"),
            other => Cow::Owned(other.to_owned()),
        };
        FilterNode::Field(Field { path, test })
    }

    /// The conjunction, flattened; of a single node, the node itself.
    pub(crate) fn all(mut nodes: Vec<FilterNode>) -> FilterNode {
        if nodes.len() == 1 {
            return nodes.pop().unwrap_or(FilterNode::Always(true));
        }
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                FilterNode::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            1 => flat.pop().unwrap_or(FilterNode::Always(true)),
            _ => FilterNode::And(flat),
        }
    }
}

/// Refuses nesting beyond the limit.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Failure::new(
            Code::BadValue,
            format!("exceeded the depth limit of {MAX_DEPTH} for nested filters"),
        ));
    }
    Ok(())
}

/// Paths and values, in the filter's order.
pub(super) fn equalities(root: &FilterNode) -> Vec<(String, Bson)> {
    let mut found = Vec::new();
    match root {
        FilterNode::And(nodes) => nodes.iter().for_each(|node| add(node, &mut found)),
        node => add(node, &mut found),
    }
    found
}

fn add(node: &FilterNode, found: &mut Vec<(String, Bson)>) {
    if let FilterNode::Field(Field { path, test: Test::Compare(ComparisonOperator::Equal, constant) }) = node
        && let Ok(value) = Bson::try_from(constant.as_raw_bson_ref())
    {
        found.push((path.clone().into_owned(), value));
    }
}
