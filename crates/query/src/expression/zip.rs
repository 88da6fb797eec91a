//! `$zip: {inputs, useLongestLength, defaults}`: rows of columns.

use bson::{Bson, RawBsonRef};

use super::node::Node;
use super::operators::Signature;
use super::parse::Parser;
use super::show::show;
use super::value::{Value, bounded, measure, type_name};
use crate::{Code, Failure, Result};

const SIGNATURE: Signature = Signature {
    not_object: 34460,
    unknown: 34464,
    members: &[("inputs", Some(34465)), ("useLongestLength", None), ("defaults", None)],
};

/// The tree: a node of named arguments, of which the first is whether the longest input counts, the second how many inputs
/// there are; then the inputs, then the defaults.
pub(super) fn parse(parser: &mut Parser<'_>, name: &'static str, value: RawBsonRef<'_>) -> Result<Node> {
    let members = parser.members(name, &SIGNATURE, value)?;
    let mut members = members.into_iter().flat_map(|member| [member]);
    let (inputs, longest, defaults) =
        (members.next().flatten(), members.next().flatten(), members.next().flatten());
    let list = |parser: &mut Parser<'_>, value: Option<RawBsonRef<'_>>, what: &str, code: i32| match value {
        None => Ok(Vec::new()),
        Some(RawBsonRef::Array(array)) => parser.list(array),
        Some(other) => {
            let message =
                format!("{what} must be an array of expressions, found {}", type_name(other.element_type()));
            Err(Failure::new(Code(code), message))
        }
    };
    let inputs = list(parser, inputs, "inputs", 34461)?;
    let defaults = list(parser, defaults, "defaults", 34463)?;
    let longest = match longest {
        None => false,
        Some(RawBsonRef::Boolean(longest)) => longest,
        Some(other) => {
            let message =
                format!("useLongestLength must be a bool, found {}", type_name(other.element_type()));
            return Err(Failure::new(Code(34462), message));
        }
    };
    if inputs.is_empty() {
        return Err(Failure::new(Code(34465), "$zip requires at least one input array"));
    }
    if !defaults.is_empty() && !longest {
        return Err(Failure::new(Code(34466), "cannot specify defaults unless useLongestLength is true"));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return Err(Failure::new(Code(34467), "defaults and inputs must have the same length"));
    }
    let columns = i64::try_from(inputs.len()).unwrap_or(0);
    let head = [Node::Constant(Bson::Boolean(longest)), Node::Constant(Bson::Int64(columns))];
    let nodes = head.into_iter().chain(inputs).chain(defaults).map(Some).collect();
    Ok(Node::Named(name, zip, nodes))
}

fn zip<'e>(_: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let mut values = values.into_iter().flatten();
    let longest = values.next().is_some_and(|value| value.is_true());
    let count = values.next().and_then(|value| super::number::Number::of(&value)?.exact_int()).unwrap_or(0);
    let values: Vec<Value<'e>> = values.collect();
    let (inputs, defaults) =
        values.split_at_checked(usize::try_from(count).unwrap_or(0)).unwrap_or((&values, &[]));
    let mut columns = Vec::new();
    for input in inputs {
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(items) = input.items()? else {
            let message = format!("$zip found a non-array expression in input: {}", show(input));
            return Err(Failure::new(Code(34468), message));
        };
        columns.push(items);
    }
    let lengths = columns.iter().map(Vec::len);
    let rows = if longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let mut zipped = Vec::new();
    let mut bytes = 0;
    for row in 0..rows {
        let mut cells = Vec::with_capacity(columns.len());
        for (place, column) in columns.iter().enumerate() {
            let cell = column.get(row).or_else(|| defaults.get(place)).map_or(Value::NULL, Value::borrow);
            cells.push(cell.into_bson()?.unwrap_or(Bson::Null));
        }
        let cells = Bson::Array(cells);
        bytes = bounded(bytes + measure(&cells)?)?;
        zipped.push(cells);
    }
    Ok(Value::Own(Bson::Array(zipped)))
}
