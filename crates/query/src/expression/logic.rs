//! Logical operators: `$and`, `$or`, `$not`, the comparisons `$cmp`, `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, and the
//! conditionals `$cond`, `$ifNull`, `$switch`.
//!
//! A conditional evaluates only the chosen branch.

use std::cmp::Ordering;

use bson::{Bson, RawBsonRef};

use super::environment::EvaluationScope;
use super::node::ExpressionNode;
use super::parse::Parser;
use super::value::{Value, malformed, type_name};
use crate::{Code, Failure, Result};

pub(super) fn parse_and(
    parser: &mut Parser<'_>,
    _: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    parser.arguments(value).map(ExpressionNode::And)
}

pub(super) fn parse_or(
    parser: &mut Parser<'_>,
    _: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    parser.arguments(value).map(ExpressionNode::Or)
}

/// Whether all are true; evaluation stops at the first that is not.
#[inline(never)]
pub(super) fn all<'e>(nodes: &'e [ExpressionNode], environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
    for node in nodes {
        if !node.evaluate(environment)?.is_true() {
            return Ok(Value::Own(Bson::Boolean(false)));
        }
    }
    Ok(Value::Own(Bson::Boolean(true)))
}

/// Whether any is true; evaluation stops at the first that is.
#[inline(never)]
pub(super) fn any<'e>(nodes: &'e [ExpressionNode], environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
    for node in nodes {
        if node.evaluate(environment)?.is_true() {
            return Ok(Value::Own(Bson::Boolean(true)));
        }
    }
    Ok(Value::Own(Bson::Boolean(false)))
}

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

/// `$cond: [if, then, else]` or with these names.
pub(super) fn parse_cond(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let RawBsonRef::Document(document) = value else {
        return Ok(ExpressionNode::Condition(Box::new(parser.exactly(name, value)?)));
    };
    let mut parts: [Option<ExpressionNode>; 3] = [None, None, None];
    for element in document.iter() {
        let (key, value) = element.map_err(malformed)?;
        let place = ["if", "then", "else"].iter().position(|part| *part == key.as_str());
        match place.and_then(|place| parts.get_mut(place)) {
            Some(part) => *part = Some(parser.operand(value)?),
            None => {
                return Err(Failure::new(Code(17083), format!("Unrecognized parameter to $cond: {key}")));
            }
        }
    }
    let missing =
        |part: &str, code: i32| Failure::new(Code(code), format!("Missing '{part}' parameter to $cond"));
    let [condition, then, otherwise] = parts;
    Ok(ExpressionNode::Condition(Box::new([
        condition.ok_or_else(|| missing("if", 17080))?,
        then.ok_or_else(|| missing("then", 17081))?,
        otherwise.ok_or_else(|| missing("else", 17082))?,
    ])))
}

#[inline(never)]
pub(super) fn condition<'e>(
    nodes: &'e [ExpressionNode; 3],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let [condition, then, otherwise] = nodes;
    if condition.evaluate(environment)?.is_true() {
        then.evaluate(environment)
    } else {
        otherwise.evaluate(environment)
    }
}

/// `$ifNull: [a, b, ..., replacement]`.
pub(super) fn parse_if_null(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let nodes = parser.arguments(value)?;
    if nodes.len() < 2 {
        // MongoDB 4.4 takes two and no more; later versions take any number.
        super::parse::check_count(name, nodes.len(), 2, 2)?;
    }
    Ok(ExpressionNode::FirstNotNull(nodes))
}

#[inline(never)]
pub(super) fn first_not_null<'e>(
    nodes: &'e [ExpressionNode],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let mut last = Value::Missing;
    for node in nodes {
        last = node.evaluate(environment)?;
        if !last.is_nullish() {
            break;
        }
    }
    Ok(last)
}

#[derive(Clone, Debug)]
pub(super) struct Switch {
    branches: Vec<(ExpressionNode, ExpressionNode)>,
    default: Option<ExpressionNode>,
}

impl Switch {
    pub(super) fn evaluate<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        for (case, then) in &self.branches {
            if case.evaluate(environment)?.is_true() {
                return then.evaluate(environment);
            }
        }
        match &self.default {
            Some(default) => default.evaluate(environment),
            None => Err(Failure::new(
                Code(40066),
                "$switch could not find a matching branch for an input, and no default was specified.",
            )),
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &ExpressionNode> {
        self.branches.iter().flat_map(|(case, then)| [case, then]).chain(&self.default)
    }
}

/// `$switch: {branches: [{case, then}], default}`.
pub(super) fn parse_switch(
    parser: &mut Parser<'_>,
    _: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let refuse = |code: i32, message: String| Failure::new(Code(code), message);
    let found = |value: RawBsonRef<'_>| type_name(value.element_type());
    let RawBsonRef::Document(document) = value else {
        return Err(refuse(
            40060,
            format!("$switch requires an object as an argument, found: {}", found(value)),
        ));
    };
    let mut switch = Switch { branches: Vec::new(), default: None };
    for element in document.iter() {
        let (key, value) = element.map_err(malformed)?;
        match (key.as_str(), value) {
            ("branches", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    switch.branches.push(parse_branch(parser, branch.map_err(malformed)?)?);
                }
            }
            ("branches", other) => {
                let message = format!("$switch expected an array for 'branches', found: {}", found(other));
                return Err(refuse(40061, message));
            }
            ("default", value) => switch.default = Some(parser.operand(value)?),
            (other, _) => return Err(refuse(40067, format!("$switch found an unknown argument: {other}"))),
        }
    }
    if switch.branches.is_empty() {
        return Err(refuse(40068, "$switch requires at least one branch.".to_owned()));
    }
    Ok(ExpressionNode::Switch(Box::new(switch)))
}

fn parse_branch(parser: &mut Parser<'_>, branch: RawBsonRef<'_>) -> Result<(ExpressionNode, ExpressionNode)> {
    let RawBsonRef::Document(branch) = branch else {
        let found = type_name(branch.element_type());
        let message = format!("$switch expected each branch to be an object, found: {found}");
        return Err(Failure::new(Code(40062), message));
    };
    let (mut case, mut then) = (None, None);
    for element in branch.iter() {
        let (key, value) = element.map_err(malformed)?;
        match key.as_str() {
            "case" => case = Some(parser.operand(value)?),
            "then" => then = Some(parser.operand(value)?),
            other => {
                let message = format!("$switch found an unknown argument to a branch: {other}");
                return Err(Failure::new(Code(40063), message));
            }
        }
    }
    let missing = |part: &str, code: i32| {
        Failure::new(Code(code), format!("$switch requires each branch have a '{part}' expression"))
    };
    Ok((case.ok_or_else(|| missing("case", 40064))?, then.ok_or_else(|| missing("then", 40065))?))
}
