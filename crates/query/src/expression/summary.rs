//! Accumulators as expressions: `{$sum: ["$a", "$b"]}`, `{$max: "$array"}`.
//!
//! One argument that is an array is gone through; of several arguments each counts for itself.

use bson::RawBsonRef;

use super::environment::Environment;
use super::node::Node;
use super::parse::Parser;
use super::value::Value;
use super::{Accumulator, Kind};
use crate::{Code, Failure, Result};

/// Any of `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`, `$stdDevSamp`.
pub(super) fn parse(parser: &mut Parser<'_>, name: &'static str, value: RawBsonRef<'_>) -> Result<Node> {
    let kind = Kind::of(name).ok_or_else(|| {
        Failure::new(Code::InvalidPipelineOperator, format!("Unrecognized expression '{name}'"))
    })?;
    Ok(Node::Summary(kind, parser.arguments(value)?))
}

#[inline(never)]
pub(super) fn evaluate<'e>(
    kind: Kind,
    nodes: &'e [Node],
    environment: &Environment<'e>,
) -> Result<Value<'e>> {
    let mut accumulator = Accumulator::new(kind);
    if let [only] = nodes {
        let value = only.evaluate(environment)?;
        if value.is_array() {
            for item in value.items()?.unwrap_or_default() {
                accumulator.push(item)?;
            }
        } else {
            accumulator.push(value)?;
        }
    } else {
        for node in nodes {
            accumulator.push(node.evaluate(environment)?)?;
        }
    }
    Ok(Value::Own(accumulator.finish()))
}
