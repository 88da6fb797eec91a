//! `$abs`, `$ceil`, `$floor`, `$round`, `$trunc`.

use bson::Bson;

use super::number::Number;
use super::show::show;
use super::value::Value;
use crate::{Code, Decimal, Failure, Result, Rounding};

/// The number of a unary operator; none for null. Anything else is refused (28765).
pub(super) fn numeric(name: &str, value: &Value<'_>) -> Result<Option<Number>> {
    match Number::of(value) {
        Some(number) => Ok(Some(number)),
        None if value.is_nullish() => Ok(None),
        None => {
            let message = format!("{name} only supports numeric types, not {}", value.type_name());
            Err(Failure::new(Code(28765), message))
        }
    }
}

/// `$abs`.
pub(super) fn abs<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    if matches!(number, Number::Long(i64::MIN)) {
        return Err(Failure::new(Code(28680), "can't take $abs of long long min"));
    }
    crate::absolute(&number.bson()).map(Value::Own)
}

/// `$ceil`.
pub(super) fn ceil<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    whole(name, &value, f64::ceil, Rounding::Ceiling)
}

/// `$floor`.
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

/// `$round` (half to even) and `$trunc`, to so many places: `[number, place]`.
pub(super) fn round<'e>(name: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut values = values.into_iter();
    let value = values.next().unwrap_or(Value::Missing);
    let place = values.next();
    let Some(place) = places(name, place)? else { return Ok(Value::NULL) };
    let number = match Number::of(&value) {
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

/// The place to round to; none if it is null.
fn places(name: &str, place: Option<Value<'_>>) -> Result<Option<i64>> {
    let Some(place) = place else { return Ok(Some(0)) };
    if place.is_nullish() {
        return Ok(None);
    }
    let exact = Number::of(&place).and_then(Number::exact_long);
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
    // By the decimal digits of the number, as MongoDB does: 1.005 is what it is written as.
    Decimal::from_f64(value).rounded(place, mode).to_f64()
}
