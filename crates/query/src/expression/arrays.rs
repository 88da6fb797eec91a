//! Operators of arrays: `$arrayElemAt`, `$first`, `$last`, `$concatArrays`, `$in`, `$isArray`, `$range`, `$reverseArray`, `$size`,
//! `$zip`.

use bson::{Bson, RawBsonRef};

use super::node::ExpressionNode;
use super::number::Number;
use super::parse::Parser;
use super::show::show;
use super::value::{MAX_VALUE_BYTES, OperatorSignature, Value, bounded, measure, type_name};
use crate::{Code, Failure, Result};

/// `$arrayElemAt: [array, index]`; a negative index counts from the end.
pub(super) fn element_at<'e>(name: &'static str, array: Value<'e>, index: Value<'e>) -> Result<Value<'e>> {
    if array.is_nullish() || index.is_nullish() {
        return Ok(Value::NULL);
    }
    check_array(name, &array)?;
    let Some(number) = Number::from_value(&index) else {
        let message =
            format!("{name}'s second argument must be a numeric value, but is {}", index.type_name());
        return Err(Failure::new(Code(28690), message));
    };
    let Some(index) = number.exact_int() else {
        let message =
            format!("{name}'s second argument must be representable as a 32-bit integer: {}", show(&index));
        return Err(Failure::new(Code(28691), message));
    };
    pick(&array, i64::from(index))
}

/// The operators `$first` and `$last`.
pub(super) fn end<'e>(name: &'static str, array: Value<'e>) -> Result<Value<'e>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    check_array(name, &array)?;
    pick(&array, if name == "$first" { 0 } else { -1 })
}

fn check_array(name: &str, array: &Value<'_>) -> Result<()> {
    if array.is_array() {
        return Ok(());
    }
    let message = format!("{name}'s first argument must be an array, but is {}", array.type_name());
    Err(Failure::new(Code(28689), message))
}

fn pick<'e>(array: &Value<'_>, index: i64) -> Result<Value<'e>> {
    let items = array.items()?.unwrap_or_default();
    let place = if index < 0 { index + i64::try_from(items.len()).unwrap_or(i64::MAX) } else { index };
    match usize::try_from(place).ok().and_then(|place| items.into_iter().nth(place)) {
        Some(item) => item.detach(),
        None => Ok(Value::Missing),
    }
}

pub(super) fn concat<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for value in values {
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        let found = value.type_name();
        let Some(items) = value.into_array()? else {
            let message = format!("$concatArrays only supports arrays, not {found}");
            return Err(Failure::new(Code(28664), message));
        };
        for item in &items {
            bytes = bounded(bytes + measure(item)?)?;
        }
        all.extend(items);
    }
    Ok(Value::Own(Bson::Array(all)))
}

pub(super) fn contains<'e>(_: &'static str, value: Value<'e>, array: Value<'e>) -> Result<Value<'e>> {
    let Some(items) = array.items()? else {
        let message = format!("$in requires an array as a second argument, found: {}", array.type_name());
        return Err(Failure::new(Code(40081), message));
    };
    for item in &items {
        if item.compare(&value).is_eq() {
            return Ok(Value::Own(Bson::Boolean(true)));
        }
    }
    Ok(Value::Own(Bson::Boolean(false)))
}

pub(super) fn is_array<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    Ok(Value::Own(Bson::Boolean(value.is_array())))
}

pub(super) fn size<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    match value.items()? {
        Some(items) => Ok(Value::Own(Bson::Int32(i32::try_from(items.len()).unwrap_or(i32::MAX)))),
        None => {
            let message =
                format!("The argument to $size must be an array, but was of type: {}", value.type_name());
            Err(Failure::new(Code(17124), message))
        }
    }
}

pub(super) fn reverse<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let found = value.type_name();
    let Some(mut items) = value.into_array()? else {
        let message = format!("The argument to $reverseArray must be an array, but was of type: {found}");
        return Err(Failure::new(Code(34435), message));
    };
    items.reverse();
    Ok(Value::Own(Bson::Array(items)))
}

/// `$range: [start, end, step]`.
pub(super) fn range<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut values = values.iter();
    let start = bound(values.next(), "starting value", 34443)?;
    let end = bound(values.next(), "ending value", 34445)?;
    let step = values.next().map_or(Ok(1), |step| bound(Some(step), "step value", 34447))?;
    if step == 0 {
        return Err(Failure::new(Code(34449), "$range requires a non-zero step value"));
    }
    let count = if (step > 0) == (start < end) {
        (end - start).unsigned_abs().div_ceil(step.unsigned_abs())
    } else {
        0
    };
    // Each element takes sixteen bytes during the evaluation.
    if count > (MAX_VALUE_BYTES / 16) as u64 {
        let message = format!("$range would use too much memory: it has {count} elements");
        return Err(Failure::new(Code::ExceededMemoryLimit, message));
    }
    let mut items = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut next = start;
    while if step > 0 { next < end } else { next > end } {
        items.push(Number::integer(next).bson());
        next += step;
    }
    Ok(Value::Own(Bson::Array(items)))
}

/// A bound of `$range`; the code after `code` is for a number that is not a 32-bit integer.
fn bound(value: Option<&Value<'_>>, what: &str, code: i32) -> Result<i64> {
    let value = value.unwrap_or(&Value::Missing);
    let Some(number) = Number::from_value(value) else {
        let article = if what.starts_with('e') { "an" } else { "a" };
        let message =
            format!("$range requires {article} numeric {what}, found value of type: {}", value.type_name());
        return Err(Failure::new(Code(code), message));
    };
    number.exact_int().map(i64::from).ok_or_else(|| {
        let message = format!(
            "$range requires a {what} that can be represented as a 32-bit integer, found value: {}",
            show(value)
        );
        Failure::new(Code(code + 1), message)
    })
}

const ZIP: OperatorSignature = OperatorSignature {
    not_object: 34460,
    unknown: 34464,
    members: &[("inputs", Some(34465)), ("useLongestLength", None), ("defaults", None)],
};

/// `$zip: {inputs, useLongestLength, defaults}`: rows of columns. The tree is a node of named arguments: whether the longest
/// input counts, the number of inputs, the inputs, and the defaults.
pub(super) fn parse_zip(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let members = parser.members(name, &ZIP, value)?;
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
    let head =
        [ExpressionNode::Constant(Bson::Boolean(longest)), ExpressionNode::Constant(Bson::Int64(columns))];
    let nodes = head.into_iter().chain(inputs).chain(defaults).map(Some).collect();
    Ok(ExpressionNode::Named(name, zip, nodes))
}

fn zip<'e>(_: &'static str, values: Vec<Option<Value<'e>>>) -> Result<Value<'e>> {
    let mut values = values.into_iter().flatten();
    let longest = values.next().is_some_and(|value| value.is_true());
    let count =
        values.next().and_then(|value| super::number::Number::from_value(&value)?.exact_int()).unwrap_or(0);
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
