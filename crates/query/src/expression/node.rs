//! The tree of a parsed expression, and how it is evaluated.
//!
//! Each kind of node is evaluated in a function of its own, so that the recursion's stack frames stay small.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::environment::{BYTES_PER_STEP, Environment};
use super::path::{Base, Path};
use super::value::{Many, Named, One, Two, Value, measure};
use super::{accumulators, logic, loops};
use crate::Result;

/// A node of the tree. Operators carry their name for messages.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Bson),
    Path(Path),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    One(&'static str, One, Box<Node>),
    Two(&'static str, Two, Box<[Node; 2]>),
    Many(&'static str, Many, Vec<Node>),
    Named(&'static str, Named, Vec<Option<Node>>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Condition(Box<[Node; 3]>),
    FirstNotNull(Vec<Node>),
    Switch(Box<logic::Switch>),
    Let(Box<loops::Let>),
    Map(Box<loops::Each>),
    Filter(Box<loops::Each>),
    Reduce(Box<loops::Reduce>),
    Summary(super::Kind, Vec<Node>),
}

impl Node {
    /// The value in these surroundings.
    pub(super) fn evaluate<'e>(&'e self, environment: &Environment<'e>) -> Result<Value<'e>> {
        environment.spend(1)?;
        match self {
            Node::Constant(value) => Ok(Value::Ref(value)),
            Node::Path(path) => path.evaluate(environment),
            Node::Object(fields) => object(fields, environment),
            Node::Array(items) => array(items, environment),
            Node::One(name, apply, argument) => apply(name, argument.evaluate(environment)?),
            Node::Two(name, apply, arguments) => two(name, *apply, arguments, environment),
            Node::Many(name, apply, arguments) => many(name, *apply, arguments, environment),
            Node::Named(name, apply, arguments) => named(name, *apply, arguments, environment),
            Node::And(nodes) => logic::all(nodes, environment),
            Node::Or(nodes) => logic::any(nodes, environment),
            Node::Condition(nodes) => logic::condition(nodes, environment),
            Node::FirstNotNull(nodes) => logic::first_not_null(nodes, environment),
            Node::Switch(switch) => switch.evaluate(environment),
            Node::Let(binding) => binding.evaluate(environment),
            Node::Map(each) => each.map(environment),
            Node::Filter(each) => each.filter(environment),
            Node::Reduce(reduce) => reduce.evaluate(environment),
            Node::Summary(kind, nodes) => accumulators::evaluate(*kind, nodes, environment),
        }
    }

    /// Collects the top-level fields of the document that it reads; false if it may read any.
    pub(super) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            Node::Constant(_) => true,
            Node::Path(path) => match (&path.base, path.fields.first()) {
                (Base::Root, Some(first)) => {
                    fields.insert(first.clone());
                    true
                }
                (Base::Root, None) => false,
                _ => true,
            },
            Node::Object(members) => members.iter().all(|(_, node)| node.collect_fields(fields)),
            Node::One(_, _, argument) => argument.collect_fields(fields),
            Node::Two(_, _, arguments) => arguments.iter().all(|node| node.collect_fields(fields)),
            Node::Array(nodes)
            | Node::Many(_, _, nodes)
            | Node::And(nodes)
            | Node::Or(nodes)
            | Node::FirstNotNull(nodes)
            | Node::Summary(_, nodes) => nodes.iter().all(|node| node.collect_fields(fields)),
            Node::Named(_, _, nodes) => nodes.iter().flatten().all(|node| node.collect_fields(fields)),
            Node::Condition(nodes) => nodes.iter().all(|node| node.collect_fields(fields)),
            Node::Switch(switch) => switch.nodes().all(|node| node.collect_fields(fields)),
            Node::Let(binding) => binding.nodes().all(|node| node.collect_fields(fields)),
            Node::Map(each) | Node::Filter(each) => each.nodes().all(|node| node.collect_fields(fields)),
            Node::Reduce(reduce) => reduce.nodes().all(|node| node.collect_fields(fields)),
        }
    }
}

#[inline(never)]
fn object<'e>(fields: &'e [(String, Node)], environment: &Environment<'e>) -> Result<Value<'e>> {
    let mut document = Document::new();
    for (name, node) in fields {
        if let Some(value) = node.evaluate(environment)?.into_bson()? {
            document.insert(name.as_str(), value);
        }
    }
    made(Bson::Document(document), environment)
}

#[inline(never)]
fn array<'e>(items: &'e [Node], environment: &Environment<'e>) -> Result<Value<'e>> {
    let mut array = Vec::with_capacity(items.len());
    for node in items {
        array.push(node.evaluate(environment)?.into_bson()?.unwrap_or(Bson::Null));
    }
    made(Bson::Array(array), environment)
}

/// A value that was put together: measured, and its size taken off the budget.
pub(super) fn made<'e>(value: Bson, environment: &Environment<'_>) -> Result<Value<'e>> {
    environment.spend(measure(&value)? / BYTES_PER_STEP)?;
    Ok(Value::Own(value))
}

#[inline(never)]
fn two<'e>(
    name: &'static str,
    apply: Two,
    arguments: &'e [Node; 2],
    environment: &Environment<'e>,
) -> Result<Value<'e>> {
    let [left, right] = arguments;
    let left = left.evaluate(environment)?;
    apply(name, left, right.evaluate(environment)?)
}

#[inline(never)]
fn many<'e>(
    name: &'static str,
    apply: Many,
    arguments: &'e [Node],
    environment: &Environment<'e>,
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
    apply: Named,
    arguments: &'e [Option<Node>],
    environment: &Environment<'e>,
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

/// Bounds a value that may be larger than what it was made of.
fn grown<'e>(value: Value<'e>, environment: &Environment<'e>) -> Result<Value<'e>> {
    if let Value::Own(bson @ (Bson::Array(_) | Bson::Document(_) | Bson::String(_))) = &value {
        environment.spend(measure(bson)? / BYTES_PER_STEP)?;
    }
    Ok(value)
}
