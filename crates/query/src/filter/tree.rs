//! The shape of a parsed filter: a tree of logic over tests of fields, and the fields that it holds to one value.
//!
//! Parsing, matching and planning are beside it.

use std::borrow::Cow;

use bson::{Bson, RawBson};

use super::bits::Bits;
use super::pattern::Pattern;
use super::schema::Schema;
use super::types::TypeSet;
use crate::{Code, Expression, Failure, Result, Variables};

/// How deep operators may nest; documents on the wire nest to 200, each operator taking up to two levels.
const DEPTH_LIMIT: usize = 100;

/// One node.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Matches every document, or none.
    Always(bool),
    /// All of them; none of them is an `And`. Empty: every document.
    And(Vec<Node>),
    /// One of them.
    Or(Vec<Node>),
    /// None of them.
    Nor(Vec<Node>),
    /// Not this one.
    Not(Box<Node>),
    /// A test of the values at a path.
    Field(Field),
    /// `$expr`.
    Computed(Box<Computed>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
}

/// A test of the values at a path; the path is empty for a test of an array's element itself.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The dotted path.
    pub(crate) path: Cow<'static, str>,
    /// What is asked of it.
    pub(crate) test: Test,
}

/// What is asked of a value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`.
    Compare(Comparison, RawBson),
    /// `$in`.
    Member(Membership),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$regex`.
    Regex(Pattern),
    /// `$mod`.
    Modulo {
        /// Never 0.
        divisor: i64,
        /// What must be left.
        remainder: i64,
    },
    /// `$size`.
    Size(usize),
    /// `$bitsAllSet` and its kin.
    Bits(Bits),
    /// `$elemMatch` whose argument is a filter of documents.
    ElementObject(Box<Node>),
    /// `$elemMatch` whose argument is a list of operators, each a node with an empty path.
    ElementValue(Vec<Node>),
}

/// How two values must stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Equal.
    Equal,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
}

/// The list of `$in`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    /// Sorted, each once.
    pub(crate) values: Vec<RawBson>,
    /// Regular expressions, tried in turn.
    pub(crate) patterns: Vec<Pattern>,
    /// Whether null is among the values, so that a missing field matches.
    pub(crate) null: bool,
}

/// An `$expr` with what it may refer to.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    /// The parsed expression.
    pub(crate) expression: Expression,
    /// As the client wrote it, for explain.
    pub(crate) source: RawBson,
    /// The command's variables.
    pub(crate) variables: Variables,
}

impl Comparison {
    /// MongoDB's name of the operator.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Comparison::Equal => "$eq",
            Comparison::Less => "$lt",
            Comparison::LessOrEqual => "$lte",
            Comparison::Greater => "$gt",
            Comparison::GreaterOrEqual => "$gte",
        }
    }
}

impl Node {
    /// A test of a field.
    pub(crate) fn field(path: &str, test: Test) -> Node {
        // The most frequent paths take no memory.
        let path = match path {
            "" => Cow::Borrowed(""),
            "_id" => Cow::Borrowed("_id"),
            other => Cow::Owned(other.to_owned()),
        };
        Node::Field(Field { path, test })
    }

    /// The conjunction: flattened, and the node itself when there is but one.
    pub(crate) fn all(mut nodes: Vec<Node>) -> Node {
        if nodes.len() == 1 {
            return nodes.pop().unwrap_or(Node::Always(true));
        }
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            1 => flat.pop().unwrap_or(Node::Always(true)),
            _ => Node::And(flat),
        }
    }
}

/// Refuses nesting beyond the limit.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH_LIMIT {
        return Err(Failure::new(
            Code::BadValue,
            format!("exceeded the depth limit of {DEPTH_LIMIT} for nested filters"),
        ));
    }
    Ok(())
}

/// Paths and values, in the filter's order.
pub(super) fn equalities(root: &Node) -> Vec<(String, Bson)> {
    let mut found = Vec::new();
    match root {
        Node::And(nodes) => nodes.iter().for_each(|node| add(node, &mut found)),
        node => add(node, &mut found),
    }
    found
}

fn add(node: &Node, found: &mut Vec<(String, Bson)>) {
    if let Node::Field(Field { path, test: Test::Compare(Comparison::Equal, constant) }) = node
        && let Ok(value) = Bson::try_from(constant.as_raw_bson_ref())
    {
        found.push((path.clone().into_owned(), value));
    }
}
