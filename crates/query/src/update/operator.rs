//! The update operators and their arguments; an operator that is not in [`Operator::parse`] is refused by name.
use super::array::{Pull, Push, each_value};
use super::text::{element_text, type_name};
use crate::raw::{Element, Elements, Value, kind};
use crate::{Code, Failure, FilterMatch, Result, Variables, is_number, to_f64, to_i64_exact};
use bson::{Bson, Timestamp};

/// One operator with its argument, for one path.
#[derive(Clone, Debug)]
pub(super) enum Operator {
    /// The operators `$set` and `$setOnInsert`.
    Set(Value),
    Unset,
    /// The operators `$inc` and `$mul`.
    Arithmetic {
        multiply: bool,
        operand: Bson,
    },
    /// The operators `$min` and `$max`.
    Extreme {
        greatest: bool,
        value: Value,
    },
    CurrentDate {
        timestamp: bool,
    },
    Bit(Vec<BitStep>),
    Push(Push),
    /// `$addToSet`, each value once.
    AddToSet(Vec<Value>),
    Pull(Pull),
    PullAll(Vec<Value>),
    Pop {
        first: bool,
    },
    /// `$rename`, at its target path.
    RenameFrom(String),
    /// `$rename`, at its source path, which no other operator may change.
    RenamedAway,
}

/// The update of one path.
#[derive(Clone, Debug)]
pub(super) struct PathUpdate {
    pub(super) path: String,
    pub(super) operator: Operator,
    /// `$setOnInsert`: only when an upsert inserts.
    pub(super) inserting_only: bool,
    /// Whether the path depends on the document.
    pub(super) dynamic: bool,
}

/// The time and other inputs of an update.
#[derive(Clone, Copy, Debug)]
pub struct UpdateMoment<'a> {
    /// The position at which the filter matched (`$`).
    pub matched: FilterMatch,
    /// Whether the document is being inserted by an upsert (`$setOnInsert`).
    pub inserting: bool,
    /// `$$NOW`, `$currentDate` and `let`.
    pub variables: &'a Variables,
    /// The value of `$currentDate: {$type: "timestamp"}`.
    pub timestamp: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BitStep {
    pub(super) apply: fn(i64, i64) -> i64,
    pub(super) operand: i64,
    pub(super) wide: bool,
}

fn bad_value<T>(message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code::BadValue, message))
}

impl Operator {
    /// Reads the argument that `field` holds for the operator of this name.
    pub(super) fn parse(name: &str, field: &Element<'_>, variables: &Variables) -> Result<Operator> {
        Ok(match name {
            "$set" | "$setOnInsert" => Operator::Set(Value::from_element(field)?),
            "$unset" => Operator::Unset,
            "$inc" | "$mul" => arithmetic(name == "$mul", field)?,
            "$min" | "$max" => {
                Operator::Extreme { greatest: name == "$max", value: Value::from_element(field)? }
            }
            "$currentDate" => current_date(field)?,
            "$bit" => bit(field)?,
            "$push" => Operator::Push(Push::parse(field)?),
            "$addToSet" => add_to_set(field)?,
            "$pull" => Operator::Pull(Pull::parse(field, variables)?),
            "$pullAll" => pull_all(field)?,
            "$pop" => pop(field)?,
            "$rename" => rename(field)?,
            _ => return Err(unknown_modifier(name)),
        })
    }

    /// The values of its argument that are stored unchanged, which must therefore be storable.
    pub(super) fn stored_values(&self) -> &[Value] {
        match self {
            Operator::Set(value) | Operator::Extreme { value, .. } => std::slice::from_ref(value),
            Operator::AddToSet(values) => values,
            Operator::Push(push) => &push.values,
            _ => &[],
        }
    }

    /// Whether the argument's values become elements of an array at the path rather than the value there.
    pub(super) fn stores_elements(&self) -> bool {
        matches!(self, Operator::AddToSet(_) | Operator::Push(_))
    }

    /// Whether a path that cannot exist is not an error.
    pub(super) fn tolerates_blocked_path(&self) -> bool {
        matches!(self, Operator::Unset | Operator::RenamedAway)
    }
}

/// The failure for an operator that is not known.
pub(super) fn unknown_modifier(name: &str) -> Failure {
    let message = format!(
        "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
    );
    Failure::new(Code::FailedToParse, message)
}

fn arithmetic(multiply: bool, field: &Element<'_>) -> Result<Operator> {
    let operand = Value::from_element(field)?.to_bson()?;
    if is_number(&operand) {
        return Ok(Operator::Arithmetic { multiply, operand });
    }
    let verb = if multiply { "multiply" } else { "increment" };
    let message = format!("Cannot {verb} with non-numeric argument: {{{}}}", element_text(field)?);
    Err(Failure::new(Code::TypeMismatch, message))
}

fn current_date(field: &Element<'_>) -> Result<Operator> {
    if field.kind == kind::BOOLEAN {
        return Ok(Operator::CurrentDate { timestamp: false });
    }
    if field.kind != kind::DOCUMENT {
        return bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
            type_name(field.kind)
        ));
    }
    let mut timestamp = None;
    for option in Elements::new(field.value)? {
        let option = option?;
        if option.name != b"$type" {
            return bad_value(format!("Unrecognized $currentDate option: {}", option.name_text()?));
        }
        match option.text()? {
            Some("date") => timestamp = Some(false),
            Some("timestamp") => timestamp = Some(true),
            _ => {}
        }
    }
    match timestamp {
        Some(timestamp) => Ok(Operator::CurrentDate { timestamp }),
        None => bad_value(
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
        ),
    }
}

fn bit(field: &Element<'_>) -> Result<Operator> {
    if field.kind != kind::DOCUMENT {
        return bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            type_name(field.kind)
        ));
    }
    let mut steps = Vec::new();
    for step in Elements::new(field.value)? {
        let step = step?;
        let apply: fn(i64, i64) -> i64 = match step.name {
            b"and" => |left, right| left & right,
            b"or" => |left, right| left | right,
            b"xor" => |left, right| left ^ right,
            _ => {
                return bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{}' which is an unknown operator: {{{}}}",
                    step.name_text()?,
                    element_text(&step)?
                ));
            }
        };
        let (operand, wide) = match Value::from_element(&step)?.to_bson()? {
            Bson::Int32(operand) => (i64::from(operand), false),
            Bson::Int64(operand) => (operand, true),
            _ => {
                return bad_value(format!(
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}}}",
                    type_name(step.kind),
                    element_text(&step)?
                ));
            }
        };
        steps.push(BitStep { apply, operand, wide });
    }
    match steps.is_empty() {
        false => Ok(Operator::Bit(steps)),
        true => bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ),
    }
}

fn add_to_set(field: &Element<'_>) -> Result<Operator> {
    let first = match field.kind {
        kind::DOCUMENT => Elements::new(field.value)?.next().transpose()?,
        _ => None,
    };
    let Some(each) = first.filter(|first| first.name == b"$each") else {
        return Ok(Operator::AddToSet(vec![Value::from_element(field)?]));
    };
    if each.kind != kind::ARRAY {
        let message = format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            type_name(each.kind)
        );
        return Err(Failure::new(Code::TypeMismatch, message));
    }
    if Elements::new(field.value)?.nth(1).is_some() {
        let argument = Value::from_element(field)?.to_bson()?;
        let text = argument.as_document().map(super::text::document_text).unwrap_or_default();
        return bad_value(format!("Found unexpected fields after $each in $addToSet: {text}"));
    }
    Ok(Operator::AddToSet(super::array::distinct(each_value(&each)?)?))
}

fn pull_all(field: &Element<'_>) -> Result<Operator> {
    if field.kind != kind::ARRAY {
        return bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            type_name(field.kind)
        ));
    }
    Ok(Operator::PullAll(each_value(field)?))
}

fn pop(field: &Element<'_>) -> Result<Operator> {
    let argument = Value::from_element(field)?.to_bson()?;
    if to_f64(&argument).is_none() {
        let message = format!("Expected a number in: {}", element_text(field)?);
        return Err(Failure::new(Code::FailedToParse, message));
    }
    match to_i64_exact(&argument) {
        Some(1) => Ok(Operator::Pop { first: false }),
        Some(-1) => Ok(Operator::Pop { first: true }),
        _ => {
            let text = element_text(field)?;
            let shown = text.split_once(": ").map_or("", |(_, shown)| shown);
            Err(Failure::new(Code::FailedToParse, format!("$pop expects 1 or -1, found: {shown}")))
        }
    }
}

fn rename(field: &Element<'_>) -> Result<Operator> {
    let Some(to) = field.text()? else {
        return bad_value(format!("The 'to' field for $rename must be a string: {}", element_text(field)?));
    };
    let from = field.name_text()?;
    if to.contains('\0') {
        return bad_value("The 'to' field for $rename cannot contain an embedded null byte");
    }
    if from == to {
        let text = element_text(field)?;
        return bad_value(format!("The source and target field for $rename must differ: {text}"));
    }
    if super::path::leads_to(from, to) || super::path::leads_to(to, from) {
        let text = element_text(field)?;
        return bad_value(format!(
            "The source and target field for $rename must not be on the same path: {text}"
        ));
    }
    if super::path::is_dynamic(from) {
        return bad_value(format!("The source field for $rename may not be dynamic: {from}"));
    }
    if super::path::is_dynamic(to) {
        return bad_value(format!("The destination field for $rename may not be dynamic: {to}"));
    }
    Ok(Operator::RenameFrom(from.to_string()))
}
