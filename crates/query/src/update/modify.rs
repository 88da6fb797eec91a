//! The effect of one operator on the value at its path, and the value that it creates if the path has none.
use super::array;
use super::operator::{BitStep, Operator, UpdateMoment};
use super::text::{id_text, type_name};
use crate::raw::{Element, Value, kind};
use crate::{Code, Failure, Result, add, compare, multiply};
use bson::Bson;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The change of a value.
#[derive(Debug, PartialEq)]
pub(super) enum ValueChange<'a> {
    /// The value stays, byte for byte.
    Keep,
    /// The value is removed.
    Remove,
    /// Another value replaces it: type byte and bytes.
    Replace(u8, Cow<'a, [u8]>),
}

/// The place where an operator is applied, for its messages.
#[derive(Clone, Copy)]
pub(super) struct UpdateSite<'s> {
    /// The whole document before the update.
    pub(super) root: &'s [u8],
    /// The path, with its positions filled in.
    pub(super) path: &'s str,
    pub(super) moment: &'s UpdateMoment<'s>,
}

/// The bytes of an empty array.
const NO_ELEMENTS: [u8; 5] = [5, 0, 0, 0, 0];

fn array_or_keep<'a>(array: Option<Vec<u8>>) -> ValueChange<'a> {
    array.map_or(ValueChange::Keep, |array| ValueChange::Replace(kind::ARRAY, Cow::Owned(array)))
}

fn bad_value<T>(message: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code::BadValue, message))
}

impl Operator {
    /// The change of the existing value at the path.
    pub(super) fn modify<'a>(
        &'a self,
        existing: &Element<'_>,
        site: UpdateSite<'_>,
    ) -> Result<ValueChange<'a>> {
        match self {
            Operator::Set(value) => Ok(replace_unless_same(existing, value)),
            Operator::Unset => Ok(ValueChange::Remove),
            Operator::Arithmetic { multiply, operand } => arithmetic(*multiply, operand, existing, site),
            Operator::Extreme { greatest, value } => {
                let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
                let current = Value::from_element(existing)?;
                match compare(value.view()?, current.view()?) == wanted {
                    true => Ok(ValueChange::Replace(value.kind(), Cow::Borrowed(value.bytes()))),
                    false => Ok(ValueChange::Keep),
                }
            }
            Operator::CurrentDate { timestamp } => {
                let (kind, bytes) = current_date(*timestamp, site.moment);
                Ok(ValueChange::Replace(kind, bytes))
            }
            Operator::Bit(steps) => bits(steps, existing, site),
            Operator::Push(push) => {
                if existing.kind != kind::ARRAY {
                    return not_array_for_push(existing, site);
                }
                push.apply(existing.value).map(array_or_keep)
            }
            Operator::AddToSet(values) => {
                if existing.kind != kind::ARRAY {
                    return bad_value(format!(
                        "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
                        existing.name_text()?,
                        type_name(existing.kind)
                    ));
                }
                let missing = array::missing_from(existing.value, values)?;
                if missing.is_empty() {
                    return Ok(ValueChange::Keep);
                }
                array::append(existing.value, &missing).map(|array| array_or_keep(Some(array)))
            }
            Operator::Pull(_) | Operator::PullAll(_) if existing.kind != kind::ARRAY => {
                bad_value("Cannot apply $pull to a non-array value")
            }
            Operator::Pull(pull) => {
                array::without(existing.value, |view| pull.takes(view)).map(array_or_keep)
            }
            Operator::PullAll(values) => {
                array::without(existing.value, |view| array::is_among(values, view)).map(array_or_keep)
            }
            Operator::Pop { first } => {
                if existing.kind != kind::ARRAY {
                    let found = type_name(existing.kind);
                    let message =
                        format!("Path '{}' contains an element of non-array type '{found}'", site.path);
                    return Err(Failure::new(Code::TypeMismatch, message));
                }
                array::popped(existing.value, *first).map(array_or_keep)
            }
            // A rename is split into a set and a removal before any operator is applied.
            Operator::RenameFrom(_) | Operator::RenamedAway => Ok(ValueChange::Keep),
        }
    }

    /// The value to create if there is none: type byte and bytes; `None` if none is created.
    pub(super) fn initial<'a>(&'a self, moment: &UpdateMoment<'_>) -> Result<Option<(u8, Cow<'a, [u8]>)>> {
        let value = match self {
            Operator::Set(value) | Operator::Extreme { value, .. } => {
                (value.kind(), Cow::Borrowed(value.bytes()))
            }
            Operator::Arithmetic { multiply: false, operand } => number_bytes(operand),
            Operator::Arithmetic { multiply: true, operand } => {
                number_bytes(&multiply(operand, &Bson::Int32(0))?)
            }
            Operator::CurrentDate { timestamp } => current_date(*timestamp, moment),
            Operator::Bit(steps) => number_bytes(&bits_of(steps, 0, false)),
            Operator::Push(push) => {
                let pushed = push.apply(&NO_ELEMENTS)?;
                (kind::ARRAY, Cow::Owned(pushed.unwrap_or_else(|| NO_ELEMENTS.to_vec())))
            }
            Operator::AddToSet(values) => {
                let values: Vec<&Value> = values.iter().collect();
                (kind::ARRAY, Cow::Owned(array::append(&NO_ELEMENTS, &values)?))
            }
            Operator::Unset
            | Operator::Pull(_)
            | Operator::PullAll(_)
            | Operator::Pop { .. }
            | Operator::RenameFrom(_)
            | Operator::RenamedAway => return Ok(None),
        };
        Ok(Some(value))
    }
}

/// Replaces the existing value, unless both are the same byte for byte.
pub(super) fn replace_unless_same<'a>(existing: &Element<'_>, value: &'a Value) -> ValueChange<'a> {
    match existing.kind == value.kind() && existing.value == value.bytes() {
        true => ValueChange::Keep,
        false => ValueChange::Replace(value.kind(), Cow::Borrowed(value.bytes())),
    }
}

fn not_array_for_push<T>(existing: &Element<'_>, site: UpdateSite<'_>) -> Result<T> {
    bad_value(format!(
        "The field '{}' must be an array but is of type {} in document {{{}}}",
        site.path,
        type_name(existing.kind),
        id_text(site.root)?
    ))
}

fn number(existing: &Element<'_>) -> Option<Bson> {
    Some(match existing.kind {
        kind::INT32 => Bson::Int32(i32::from_le_bytes(existing.value.try_into().ok()?)),
        kind::INT64 => Bson::Int64(i64::from_le_bytes(existing.value.try_into().ok()?)),
        kind::DOUBLE => Bson::Double(f64::from_le_bytes(existing.value.try_into().ok()?)),
        kind::DECIMAL => Bson::Decimal128(bson::Decimal128::from_bytes(existing.value.try_into().ok()?)),
        _ => return None,
    })
}

/// A number as type byte and bytes; anything else, which does not occur, as null.
fn number_bytes<'a>(number: &Bson) -> (u8, Cow<'a, [u8]>) {
    match number {
        Bson::Int32(value) => (kind::INT32, Cow::Owned(value.to_le_bytes().to_vec())),
        Bson::Int64(value) => (kind::INT64, Cow::Owned(value.to_le_bytes().to_vec())),
        Bson::Double(value) => (kind::DOUBLE, Cow::Owned(value.to_le_bytes().to_vec())),
        Bson::Decimal128(value) => (kind::DECIMAL, Cow::Owned(value.bytes().to_vec())),
        _ => (kind::NULL, Cow::Borrowed(&[])),
    }
}

fn replace_number<'a>(existing: &Element<'_>, result: &Bson) -> ValueChange<'a> {
    let (kind, bytes) = number_bytes(result);
    match existing.kind == kind && *existing.value == *bytes {
        true => ValueChange::Keep,
        false => ValueChange::Replace(kind, bytes),
    }
}

fn arithmetic<'a>(
    multiplied: bool,
    operand: &Bson,
    existing: &Element<'_>,
    site: UpdateSite<'_>,
) -> Result<ValueChange<'a>> {
    let name = if multiplied { "$mul" } else { "$inc" };
    let Some(current) = number(existing) else {
        let message = format!(
            "Cannot apply {name} to a value of non-numeric type. {{{}}} has the field '{}' of non-numeric type {}",
            id_text(site.root)?,
            existing.name_text()?,
            type_name(existing.kind)
        );
        return Err(Failure::new(Code::TypeMismatch, message));
    };
    let result = if multiplied { multiply(&current, operand) } else { add(&current, operand) };
    let Ok(result) = result else {
        let current = match current {
            Bson::Int32(value) => format!("(NumberInt){value}"),
            other => format!("(NumberLong){other}"),
        };
        return bad_value(format!(
            "Failed to apply {name} operations to current value ({current}) for document {{{}}}",
            id_text(site.root)?
        ));
    };
    Ok(replace_number(existing, &result))
}

fn bits<'a>(steps: &[BitStep], existing: &Element<'_>, site: UpdateSite<'_>) -> Result<ValueChange<'a>> {
    let result = match number(existing) {
        Some(Bson::Int32(value)) => bits_of(steps, value.into(), false),
        Some(Bson::Int64(value)) => bits_of(steps, value, true),
        _ => {
            return bad_value(format!(
                "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
                id_text(site.root)?,
                existing.name_text()?,
                type_name(existing.kind)
            ));
        }
    };
    Ok(replace_number(existing, &result))
}

/// Two int32s give an int32; sign extension makes the same operation on 64 bits give the same value.
fn bits_of(steps: &[BitStep], value: i64, wide: bool) -> Bson {
    let result = steps.iter().fold(value, |value, step| (step.apply)(value, step.operand));
    match wide || steps.iter().any(|step| step.wide) {
        true => Bson::Int64(result),
        false => i32::try_from(result).map_or(Bson::Int64(result), Bson::Int32),
    }
}

fn current_date<'a>(timestamp: bool, moment: &UpdateMoment<'_>) -> (u8, Cow<'a, [u8]>) {
    match timestamp {
        false => {
            let now = moment.variables.now.timestamp_millis();
            (kind::DATE, Cow::Owned(now.to_le_bytes().to_vec()))
        }
        true => {
            let stamp = u64::from(moment.timestamp.time) << 32 | u64::from(moment.timestamp.increment);
            (kind::TIMESTAMP, Cow::Owned(stamp.to_le_bytes().to_vec()))
        }
    }
}
