//! Arithmetic operators: `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, and `$abs`, `$ceil`, `$floor`,
//! `$round`, `$trunc`.
//!
//! The widest type wins; an int that overflows becomes a long, a long that overflows a double. `$add` and `$subtract` also
//! take dates, with milliseconds.

use bson::{Bson, DateTime, RawBsonRef};

use super::accumulators::Total;
use super::number::Number;
use super::show::show;
use super::value::Value;
use crate::{Code, Decimal, Failure, Result, Rounding};

/// `$add`: numbers, and at most one date.
pub(super) fn add<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut total = Total::default();
    let mut date = None;
    for value in &values {
        if let Some(number) = Number::from_value(value) {
            total.add(number);
        } else if let Some(RawBsonRef::DateTime(moment)) = value.as_raw() {
            if date.replace(moment).is_some() {
                return Err(Failure::new(Code(16612), "only one date allowed in an $add expression"));
            }
        } else if value.is_nullish() {
            return Ok(Value::NULL);
        } else {
            let message = format!("$add only supports numeric or date types, not {}", value.type_name());
            return Err(Failure::new(Code(16554), message));
        }
    }
    match date {
        None => Ok(Value::Own(total.number().bson())),
        Some(moment) => shift(moment, total.number()).map(Value::Own),
    }
}

/// A date moved by a number of milliseconds.
fn shift(moment: DateTime, by: Number) -> Result<Bson> {
    let overflow = || Failure::new(Code::Overflow, "date overflow in $add");
    let by = match by.exact_long() {
        Some(by) => by,
        None => {
            let rounded = by.double().round();
            crate::f64_to_i64_exact(rounded).ok_or_else(overflow)?
        }
    };
    let millis = moment.timestamp_millis().checked_add(by).ok_or_else(overflow)?;
    Ok(Bson::DateTime(DateTime::from_millis(millis)))
}

/// `$subtract`: of numbers, of two dates (milliseconds between), of a date and milliseconds.
pub(super) fn subtract<'e>(_: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    if let (Some(left), Some(right)) = (Number::from_value(&left), Number::from_value(&right)) {
        return crate::subtract(&left.bson(), &right.bson()).map(Value::Own);
    }
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    if let Some(RawBsonRef::DateTime(moment)) = left.as_raw() {
        if let Some(RawBsonRef::DateTime(earlier)) = right.as_raw() {
            let between = moment.timestamp_millis().checked_sub(earlier.timestamp_millis());
            let between =
                between.ok_or_else(|| Failure::new(Code::Overflow, "date overflow in $subtract"))?;
            return Ok(Value::Own(Bson::Int64(between)));
        }
        if let Some(by) = Number::from_value(&right) {
            let by = crate::f64_to_i64_exact(by.double().trunc()).or(by.exact_long());
            let millis = by.and_then(|by| moment.timestamp_millis().checked_sub(by));
            let millis = millis.ok_or_else(|| Failure::new(Code::Overflow, "date overflow in $subtract"))?;
            return Ok(Value::Own(Bson::DateTime(DateTime::from_millis(millis))));
        }
    }
    let message = format!("cant $subtract a{} from a{}", right.type_name(), left.type_name());
    Err(Failure::new(Code(16556), message))
}

pub(super) fn multiply<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut product = Bson::Int32(1);
    for value in &values {
        if let Some(number) = Number::from_value(value) {
            product = crate::multiply_or_widen(&product, &number.bson())?;
        } else if value.is_nullish() {
            return Ok(Value::NULL);
        } else {
            let message = format!("$multiply only supports numeric types, not {}", value.type_name());
            return Err(Failure::new(Code(16555), message));
        }
    }
    Ok(Value::Own(product))
}

/// `$divide`: a double, or a decimal.
pub(super) fn divide<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    match (Number::from_value(&left), Number::from_value(&right)) {
        (Some(left), Some(right)) => crate::divide(&left.bson(), &right.bson()).map(Value::Own),
        _ => two_numbers(name, 16609, &left, &right),
    }
}

/// `$mod`: the sign is that of the dividend.
pub(super) fn modulo<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    match (Number::from_value(&left), Number::from_value(&right)) {
        (Some(left), Some(right)) => crate::modulo(&left.bson(), &right.bson()).map(Value::Own),
        _ => two_numbers(name, 16611, &left, &right),
    }
}

/// Null if either side is null; otherwise an error, since one of them is not a number.
fn two_numbers<'e>(name: &str, code: i32, left: &Value<'_>, right: &Value<'_>) -> Result<Value<'e>> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    let (left, right) = (left.type_name(), right.type_name());
    Err(Failure::new(Code(code), format!("{name} only supports numeric types, not {left} and {right}")))
}

/// The number of a unary operator; `None` for null. Other types are refused (28765).
pub(super) fn numeric(name: &str, value: &Value<'_>) -> Result<Option<Number>> {
    match Number::from_value(value) {
        Some(number) => Ok(Some(number)),
        None if value.is_nullish() => Ok(None),
        None => {
            let message = format!("{name} only supports numeric types, not {}", value.type_name());
            Err(Failure::new(Code(28765), message))
        }
    }
}

pub(super) fn abs<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    if matches!(number, Number::Long(i64::MIN)) {
        return Err(Failure::new(Code(28680), "can't take $abs of long long min"));
    }
    crate::absolute(&number.bson()).map(Value::Own)
}

pub(super) fn ceil<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    whole(name, &value, f64::ceil, Rounding::Ceiling)
}

pub(super) fn floor<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    whole(name, &value, f64::floor, Rounding::Floor)
}

fn whole<'e>(name: &str, value: &Value<'_>, double: fn(f64) -> f64, mode: Rounding) -> Result<Value<'e>> {
    let Some(number) = numeric(name, value)? else { return Ok(Value::NULL) };
    Ok(Value::Own(match number {
        Number::Double(value) => Bson::Double(double(value)),
        Number::Decimal(value) => Bson::Decimal128(decimal_places(value, 0, mode)),
        integral => integral.bson(),
    }))
}

fn decimal_places(value: bson::Decimal128, places: i64, mode: Rounding) -> bson::Decimal128 {
    Decimal::unpack(value).rounded(places, mode).pack()
}

/// `$round` (half to even) and `$trunc`, to a number of places: `[number, place]`.
pub(super) fn round<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut values = values.into_iter();
    let value = values.next().unwrap_or(Value::Missing);
    let place = values.next();
    let Some(place) = places(name, place)? else { return Ok(Value::NULL) };
    let number = match Number::from_value(&value) {
        Some(number) => number,
        None if value.is_nullish() => return Ok(Value::NULL),
        None => {
            let message = format!("{name} only supports numeric types, not {}", value.type_name());
            return Err(Failure::new(Code(51081), message));
        }
    };
    let mode = if name == "$round" { Rounding::HalfEven } else { Rounding::Truncate };
    Ok(Value::Own(match number {
        Number::Int(value) => integer(name, i64::from(value), place, false)?,
        Number::Long(value) => integer(name, value, place, true)?,
        Number::Double(value) => Bson::Double(round_double(value, place, mode)),
        Number::Decimal(value) => Bson::Decimal128(decimal_places(value, place, mode)),
    }))
}

/// The digit to round to; `None` if it is null.
fn places(name: &str, place: Option<Value<'_>>) -> Result<Option<i64>> {
    let Some(place) = place else { return Ok(Some(0)) };
    if place.is_nullish() {
        return Ok(None);
    }
    let exact = Number::from_value(&place).and_then(Number::exact_long);
    let Some(exact) = exact else {
        let message = format!("precision argument to  {name} must be a integral value");
        return Err(Failure::new(Code(51082), message));
    };
    if !(-20..=100).contains(&exact) {
        let message =
            format!("cannot apply {name} with precision value {} value must be in [-20, 100]", show(&place));
        return Err(Failure::new(Code(51083), message));
    }
    Ok(Some(exact))
}

fn integer(name: &str, value: i64, place: i64, long: bool) -> Result<Bson> {
    let exponent = u32::try_from(-place).ok().filter(|exponent| *exponent > 0);
    let rounded = match exponent {
        None => i128::from(value),
        Some(exponent) => {
            // At most 10^20, which 128 bits hold.
            let unit = 10_i128.pow(exponent);
            let whole = i128::from(value) / unit * unit;
            let rest = (i128::from(value) - whole).abs() * 2;
            let odd = (whole / unit) % 2 != 0;
            let up = name == "$round" && (rest > unit || (rest == unit && odd));
            if up { whole + unit * i128::from(value.signum()) } else { whole }
        }
    };
    let rounded = i64::try_from(rounded).map_err(|_| {
        let message = format!(
            "invalid conversion from Decimal128 result in {name} resulting from arguments: [{value}, {place}]"
        );
        Failure::new(Code(51080), message)
    })?;
    Ok(if long { Bson::Int64(rounded) } else { Number::integer(rounded).bson() })
}

fn round_double(value: f64, place: i64, mode: Rounding) -> f64 {
    let even = mode == Rounding::HalfEven;
    if !value.is_finite() {
        return value;
    }
    if place == 0 {
        return if even { value.round_ties_even() } else { value.trunc() };
    }
    // Rounds by the decimal digits of the number, as MongoDB does: 1.005 counts as it is written.
    Decimal::from_f64(value).rounded(place, mode).to_f64()
}
