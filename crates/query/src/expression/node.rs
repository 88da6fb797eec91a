//! The tree of a parsed expression, and its evaluation.
//!
//! Each kind of node is evaluated in a function of its own, so that the recursion's stack frames stay small.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::environment::{BYTES_PER_STEP, EvaluationScope};
use super::path::{Path, PathBase};
use super::value::{BinaryOperator, NamedOperator, UnaryOperator, Value, VariadicOperator, measure};
use super::{accumulators, logic, loops};
use crate::Result;

/// A node of the tree. Operators carry their name for messages.
#[derive(Clone, Debug)]
pub(super) enum ExpressionNode {
    Constant(Bson),
    Path(Path),
    Object(Vec<(String, ExpressionNode)>),
    Array(Vec<ExpressionNode>),
    One(&'static str, UnaryOperator, Box<ExpressionNode>),
    Two(&'static str, BinaryOperator, Box<[ExpressionNode; 2]>),
    Many(&'static str, VariadicOperator, Vec<ExpressionNode>),
    Named(&'static str, NamedOperator, Vec<Option<ExpressionNode>>),
    And(Vec<ExpressionNode>),
    Or(Vec<ExpressionNode>),
    Condition(Box<[ExpressionNode; 3]>),
    FirstNotNull(Vec<ExpressionNode>),
    Switch(Box<logic::Switch>),
    Let(Box<loops::Let>),
    Map(Box<loops::ArrayLoop>),
    Filter(Box<loops::ArrayLoop>),
    Reduce(Box<loops::Reduce>),
    Summary(super::AccumulatorKind, Vec<ExpressionNode>),
}

impl ExpressionNode {
    /// The value in this environment.
    pub(super) fn evaluate<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        environment.spend(1)?;
        match self {
            ExpressionNode::Constant(value) => Ok(Value::Ref(value)),
            ExpressionNode::Path(path) => path.evaluate(environment),
            ExpressionNode::Object(fields) => object(fields, environment),
            ExpressionNode::Array(items) => array(items, environment),
            ExpressionNode::One(name, apply, argument) => apply(name, argument.evaluate(environment)?),
            ExpressionNode::Two(name, apply, arguments) => two(name, *apply, arguments, environment),
            ExpressionNode::Many(name, apply, arguments) => many(name, *apply, arguments, environment),
            ExpressionNode::Named(name, apply, arguments) => named(name, *apply, arguments, environment),
            ExpressionNode::And(nodes) => logic::all(nodes, environment),
            ExpressionNode::Or(nodes) => logic::any(nodes, environment),
            ExpressionNode::Condition(nodes) => logic::condition(nodes, environment),
            ExpressionNode::FirstNotNull(nodes) => logic::first_not_null(nodes, environment),
            ExpressionNode::Switch(switch) => switch.evaluate(environment),
            ExpressionNode::Let(binding) => binding.evaluate(environment),
            ExpressionNode::Map(each) => each.map(environment),
            ExpressionNode::Filter(each) => each.filter(environment),
            ExpressionNode::Reduce(reduce) => reduce.evaluate(environment),
            ExpressionNode::Summary(kind, nodes) => accumulators::evaluate(*kind, nodes, environment),
        }
    }

    /// Collects the top-level fields of the document that it reads; false if it may read any.
    pub(super) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            ExpressionNode::Constant(_) => true,
            ExpressionNode::Path(path) => match (&path.base, path.fields.first()) {
                (PathBase::Root, Some(first)) => {
                    fields.insert(first.clone());
                    true
                }
                (PathBase::Root, None) => false,
                _ => true,
            },
            ExpressionNode::Object(members) => members.iter().all(|(_, node)| node.collect_fields(fields)),
            ExpressionNode::One(_, _, argument) => argument.collect_fields(fields),
            ExpressionNode::Two(_, _, arguments) => arguments.iter().all(|node| node.collect_fields(fields)),
            ExpressionNode::Array(nodes)
            | ExpressionNode::Many(_, _, nodes)
            | ExpressionNode::And(nodes)
            | ExpressionNode::Or(nodes)
            | ExpressionNode::FirstNotNull(nodes)
            | ExpressionNode::Summary(_, nodes) => nodes.iter().all(|node| node.collect_fields(fields)),
            ExpressionNode::Named(_, _, nodes) => {
                nodes.iter().flatten().all(|node| node.collect_fields(fields))
            }
            ExpressionNode::Condition(nodes) => nodes.iter().all(|node| node.collect_fields(fields)),
            ExpressionNode::Switch(switch) => switch.nodes().all(|node| node.collect_fields(fields)),
            ExpressionNode::Let(binding) => binding.nodes().all(|node| node.collect_fields(fields)),
            ExpressionNode::Map(each) | ExpressionNode::Filter(each) => {
                each.nodes().all(|node| node.collect_fields(fields))
            }
            ExpressionNode::Reduce(reduce) => reduce.nodes().all(|node| node.collect_fields(fields)),
        }
    }
}

#[inline(never)]
fn object<'e>(
    fields: &'e [(String, ExpressionNode)],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let mut document = Document::new();
    for (name, node) in fields {
        if let Some(value) = node.evaluate(environment)?.into_bson()? {
            document.insert(name.as_str(), value);
        }
    }
    made(Bson::Document(document), environment)
}

#[inline(never)]
fn array<'e>(items: &'e [ExpressionNode], environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
    let mut array = Vec::with_capacity(items.len());
    for node in items {
        array.push(node.evaluate(environment)?.into_bson()?.unwrap_or(Bson::Null));
    }
    made(Bson::Array(array), environment)
}

/// A new value: measures it and deducts its size from the budget.
pub(super) fn made<'e>(value: Bson, environment: &EvaluationScope<'_>) -> Result<Value<'e>> {
    environment.spend(measure(&value)? / BYTES_PER_STEP)?;
    Ok(Value::Own(value))
}

#[inline(never)]
fn two<'e>(
    name: &'static str,
    apply: BinaryOperator,
    arguments: &'e [ExpressionNode; 2],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let [left, right] = arguments;
    let left = left.evaluate(environment)?;
    apply(name, left, right.evaluate(environment)?)
}

#[inline(never)]
fn many<'e>(
    name: &'static str,
    apply: VariadicOperator,
    arguments: &'e [ExpressionNode],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let mut values = Vec::with_capacity(arguments.len());
    for node in arguments {
        values.push(node.evaluate(environment)?);
    }
    grown(apply(name, values)?, environment)
}

#[inline(never)]
fn named<'e>(
    name: &'static str,
    apply: NamedOperator,
    arguments: &'e [Option<ExpressionNode>],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let mut values = Vec::with_capacity(arguments.len());
    for node in arguments {
        values.push(match node {
            Some(node) => Some(node.evaluate(environment)?),
            None => None,
        });
    }
    grown(apply(name, values)?, environment)
}

/// Bounds a value that may be larger than its inputs.
fn grown<'e>(value: Value<'e>, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
    if let Value::Own(bson @ (Bson::Array(_) | Bson::Document(_) | Bson::String(_))) = &value {
        environment.spend(measure(bson)? / BYTES_PER_STEP)?;
    }
    Ok(value)
}
