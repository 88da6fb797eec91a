//! Operators on arrays as sets: `$setEquals`, `$setIntersection`, `$setUnion`, `$setDifference`, `$setIsSubset`,
//! `$anyElementTrue`, `$allElementsTrue`.
//!
//! Elements are equal as values are: 1 is 1.0. `$setUnion` and `$setIntersection` return sorted arrays, as in MongoDB.

use std::collections::HashSet;

use bson::Bson;

use super::canonical;
use super::value::Value;
use crate::{Code, Failure, Result, order};

/// The key of each element for look-ups.
fn keys(items: &[Value<'_>]) -> Result<HashSet<Vec<u8>>> {
    items.iter().map(canonical::encode).collect()
}

/// The elements of an operand; anything but an array is refused.
fn operand<'v>(value: &'v Value<'_>, code: i32, what: &str) -> Result<Vec<Value<'v>>> {
    value
        .items()?
        .ok_or_else(|| Failure::new(Code(code), format!("{what} is of type: {}", value.type_name())))
}

pub(super) fn equals<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    if values.len() < 2 {
        let message = format!("$setEquals needs at least two arguments had: {}", values.len());
        return Err(Failure::new(Code(17045), message));
    }
    let mut first = None;
    let mut same = true;
    for value in &values {
        let set = keys(&operand(value, 17044, "All operands of $setEquals must be arrays. One argument")?)?;
        match &first {
            None => first = Some(set),
            Some(first) => same &= *first == set,
        }
    }
    Ok(Value::Own(Bson::Boolean(same)))
}

pub(super) fn intersection<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let mut sets = Vec::new();
    for value in &values {
        sets.push(keys(&operand(
            value,
            17047,
            "All operands of $setIntersection must be arrays. One argument",
        )?)?);
    }
    let Some(first) = values.into_iter().next() else { return Ok(Value::Own(Bson::Array(Vec::new()))) };
    let mut taken = HashSet::new();
    let mut common = Vec::new();
    for item in first.into_array()?.unwrap_or_default() {
        let key = canonical::encode(&Value::Ref(&item))?;
        if sets.iter().all(|set| set.contains(&key)) && taken.insert(key) {
            common.push(item);
        }
    }
    Ok(sorted(common))
}

pub(super) fn union<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let mut taken = HashSet::new();
    let mut all = Vec::new();
    for value in values {
        operand(&value, 17043, "All operands of $setUnion must be arrays. One argument")?;
        for item in value.into_array()?.unwrap_or_default() {
            if taken.insert(canonical::encode(&Value::Ref(&item))?) {
                all.push(item);
            }
        }
    }
    Ok(sorted(all))
}

fn sorted<'e>(mut items: Vec<Bson>) -> Value<'e> {
    items.sort_by(order::compare_owned);
    Value::Own(Bson::Array(items))
}

/// `$setDifference`: the elements in the first array and not in the second, in the first's order.
pub(super) fn difference<'e>(_: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    operand(&left, 17048, "both operands of $setDifference must be arrays. First argument")?;
    let mut out =
        keys(&operand(&right, 17049, "both operands of $setDifference must be arrays. Second argument")?)?;
    let mut kept = Vec::new();
    for item in left.into_array()?.unwrap_or_default() {
        if out.insert(canonical::encode(&Value::Ref(&item))?) {
            kept.push(item);
        }
    }
    Ok(Value::Own(Bson::Array(kept)))
}

/// `$setIsSubset`: whether the first is within the second.
pub(super) fn is_subset<'e>(_: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    let left = operand(&left, 17046, "both operands of $setIsSubset must be arrays. First argument")
        .and_then(|items| keys(&items))?;
    let right = operand(&right, 17042, "both operands of $setIsSubset must be arrays. Second argument")
        .and_then(|items| keys(&items))?;
    Ok(Value::Own(Bson::Boolean(left.is_subset(&right))))
}

pub(super) fn any_element_true<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let any = elements(name, 17041, &value)?.iter().any(Value::is_true);
    Ok(Value::Own(Bson::Boolean(any)))
}

pub(super) fn all_elements_true<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let all = elements(name, 17040, &value)?.iter().all(Value::is_true);
    Ok(Value::Own(Bson::Boolean(all)))
}

fn elements<'v>(name: &str, code: i32, value: &'v Value<'_>) -> Result<Vec<Value<'v>>> {
    value.items()?.ok_or_else(|| {
        Failure::new(Code(code), format!("{name}'s argument must be an array, but is {}", value.type_name()))
    })
}
