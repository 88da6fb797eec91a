//! `$and`, `$or`, `$not`, and the comparisons `$cmp`, `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`.

use std::cmp::Ordering;

use bson::{Bson, RawBsonRef};

use super::environment::Environment;
use super::node::Node;
use super::parse::Parser;
use super::value::Value;
use crate::Result;

/// `$and: [...]`.
pub(super) fn parse_and(parser: &mut Parser<'_>, _: &'static str, value: RawBsonRef<'_>) -> Result<Node> {
    parser.arguments(value).map(Node::And)
}

/// `$or: [...]`.
pub(super) fn parse_or(parser: &mut Parser<'_>, _: &'static str, value: RawBsonRef<'_>) -> Result<Node> {
    parser.arguments(value).map(Node::Or)
}

/// Whether all are true; the rest is not looked at after the first that is not.
#[inline(never)]
pub(super) fn all<'e>(nodes: &'e [Node], environment: &Environment<'e>) -> Result<Value<'e>> {
    for node in nodes {
        if !node.evaluate(environment)?.is_true() {
            return Ok(Value::Own(Bson::Boolean(false)));
        }
    }
    Ok(Value::Own(Bson::Boolean(true)))
}

/// Whether any is true; the rest is not looked at after the first that is.
#[inline(never)]
pub(super) fn any<'e>(nodes: &'e [Node], environment: &Environment<'e>) -> Result<Value<'e>> {
    for node in nodes {
        if node.evaluate(environment)?.is_true() {
            return Ok(Value::Own(Bson::Boolean(true)));
        }
    }
    Ok(Value::Own(Bson::Boolean(false)))
}

/// `$not`.
pub(super) fn not<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    Ok(Value::Own(Bson::Boolean(!value.is_true())))
}

/// The comparison of this name.
pub(super) fn compare<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    let ordering = left.compare(&right);
    Ok(Value::Own(match name {
        "$cmp" => Bson::Int32(match ordering {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        "$eq" => Bson::Boolean(ordering.is_eq()),
        "$ne" => Bson::Boolean(ordering.is_ne()),
        "$gt" => Bson::Boolean(ordering.is_gt()),
        "$gte" => Bson::Boolean(ordering.is_ge()),
        "$lt" => Bson::Boolean(ordering.is_lt()),
        _ => Bson::Boolean(ordering.is_le()),
    }))
}
