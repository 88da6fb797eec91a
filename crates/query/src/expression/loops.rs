//! Operators that bind variables: `$let`, `$map`, `$filter`, `$reduce`.

use bson::{Bson, RawBsonRef};

use super::environment::{BYTES_PER_STEP, EvaluationScope, VariableFrame};
use super::node::{ExpressionNode, made};
use super::parse::{Parser, check_bound_name, text};
use super::show::show;
use super::value::{OperatorSignature, Value, bounded, malformed, measure};
use crate::{Code, Failure, Result};

#[derive(Clone, Debug)]
pub(super) struct Let {
    values: Vec<ExpressionNode>,
    body: ExpressionNode,
}

const LET: OperatorSignature = OperatorSignature {
    not_object: 16874,
    unknown: 16875,
    members: &[("vars", Some(16876)), ("in", Some(16877))],
};

/// `$let: {vars: {name: expression}, in: expression}`.
pub(super) fn parse_let(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let members = parser.members(name, &LET, value)?;
    let [Some(vars), Some(body)] = members.as_slice() else { return Err(incomplete(name)) };
    let RawBsonRef::Document(vars) = vars else {
        return Err(Failure::new(Code(10065), "invalid parameter: expected an object (vars)"));
    };
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for element in vars.iter() {
        let (name, value) = element.map_err(malformed)?;
        check_bound_name(name.as_str())?;
        names.push(name.as_str().to_owned());
        values.push(parser.operand(value)?);
    }
    let body = parser.bound(names, *body)?;
    Ok(ExpressionNode::Let(Box::new(Let { values, body })))
}

/// An internal error: the signature has already refused incomplete arguments.
fn incomplete(name: &str) -> Failure {
    Failure::new(Code::FailedToParse, format!("{name} lacks an argument"))
}

impl Let {
    #[inline(never)]
    pub(super) fn evaluate<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        let mut values = Vec::with_capacity(self.values.len());
        for node in &self.values {
            values.push(node.evaluate(environment)?);
        }
        let frame = VariableFrame { values: &values, parent: environment.frame };
        self.body.evaluate(&environment.within(&frame))?.detach()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &ExpressionNode> {
        self.values.iter().chain([&self.body])
    }
}

/// The operators `$map` and `$filter`.
#[derive(Clone, Debug)]
pub(super) struct ArrayLoop {
    input: ExpressionNode,
    body: ExpressionNode,
}

const MAP: OperatorSignature = OperatorSignature {
    not_object: 16878,
    unknown: 16879,
    members: &[("input", Some(16880)), ("as", None), ("in", Some(16882))],
};
const FILTER: OperatorSignature = OperatorSignature {
    not_object: 28646,
    unknown: 28647,
    members: &[("input", Some(28648)), ("as", None), ("cond", Some(28650))],
};

/// `$map: {input, as, in}`.
pub(super) fn parse_map(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    parse_each(parser, name, &MAP, value).map(|each| ExpressionNode::Map(Box::new(each)))
}

/// `$filter: {input, as, cond}`.
pub(super) fn parse_filter(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    parse_each(parser, name, &FILTER, value).map(|each| ExpressionNode::Filter(Box::new(each)))
}

fn parse_each(
    parser: &mut Parser<'_>,
    name: &'static str,
    signature: &OperatorSignature,
    value: RawBsonRef<'_>,
) -> Result<ArrayLoop> {
    let members = parser.members(name, signature, value)?;
    let [Some(input), variable, Some(body)] = members.as_slice() else { return Err(incomplete(name)) };
    let variable = variable.map_or(Ok("this"), |variable| text(variable, "'as'"))?;
    check_bound_name(variable)?;
    let input = parser.operand(*input)?;
    let body = parser.bound(vec![variable.to_owned()], *body)?;
    Ok(ArrayLoop { input, body })
}

impl ArrayLoop {
    #[inline(never)]
    pub(super) fn map<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        let input = self.input.evaluate(environment)?;
        let Some(items) = input.items()? else { return not_array("$map", 16883, &input) };
        let mut results = Vec::with_capacity(items.len());
        let mut bytes = 0;
        for item in items {
            let bound = [item];
            let frame = VariableFrame { values: &bound, parent: environment.frame };
            let result = self.body.evaluate(&environment.within(&frame))?.into_bson()?.unwrap_or(Bson::Null);
            bytes = bounded(bytes + measure(&result)?)?;
            results.push(result);
        }
        made(Bson::Array(results), environment)
    }

    #[inline(never)]
    pub(super) fn filter<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        let input = self.input.evaluate(environment)?;
        let Some(items) = input.items()? else { return not_array("$filter", 28651, &input) };
        let mut kept = Vec::new();
        for item in items {
            let bound = [item];
            let frame = VariableFrame { values: &bound, parent: environment.frame };
            let keep = self.body.evaluate(&environment.within(&frame))?.is_true();
            let [item] = bound;
            if keep {
                kept.extend(item.into_bson()?);
            }
        }
        made(Bson::Array(kept), environment)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &ExpressionNode> {
        [&self.input, &self.body].into_iter()
    }
}

fn not_array<'e>(name: &str, code: i32, input: &Value<'_>) -> Result<Value<'e>> {
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let message = format!("input to {name} must be an array not {}", input.type_name());
    Err(Failure::new(Code(code), message))
}

#[derive(Clone, Debug)]
pub(super) struct Reduce {
    input: ExpressionNode,
    initial: ExpressionNode,
    body: ExpressionNode,
}

const REDUCE: OperatorSignature = OperatorSignature {
    not_object: 40075,
    unknown: 40076,
    members: &[("input", Some(40077)), ("initialValue", Some(40078)), ("in", Some(40079))],
};

/// `$reduce: {input, initialValue, in}`, which binds `$$this` and `$$value`.
pub(super) fn parse_reduce(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let members = parser.members(name, &REDUCE, value)?;
    let [Some(input), Some(initial), Some(body)] = members.as_slice() else { return Err(incomplete(name)) };
    let input = parser.operand(*input)?;
    let initial = parser.operand(*initial)?;
    let body = parser.bound(vec!["this".to_owned(), "value".to_owned()], *body)?;
    Ok(ExpressionNode::Reduce(Box::new(Reduce { input, initial, body })))
}

impl Reduce {
    #[inline(never)]
    pub(super) fn evaluate<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        let input = self.input.evaluate(environment)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(items) = input.items()? else {
            let message = format!("$reduce requires that 'input' be an array, found: {}", show(&input));
            return Err(Failure::new(Code(40080), message));
        };
        let mut result = self.initial.evaluate(environment)?.detach()?;
        for item in items {
            let bound = [item, result];
            let frame = VariableFrame { values: &bound, parent: environment.frame };
            result = self.body.evaluate(&environment.within(&frame))?.detach()?;
            if let Value::Own(value) = &result {
                environment.spend(measure(value)? / BYTES_PER_STEP)?;
            }
        }
        Ok(result)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &ExpressionNode> {
        [&self.input, &self.initial, &self.body].into_iter()
    }
}
