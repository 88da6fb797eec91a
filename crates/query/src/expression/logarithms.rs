//! `$sqrt`, `$pow`, `$exp`, `$ln`, `$log`, `$log10`.

use std::str::FromStr;

use bigdecimal::BigDecimal;
use bson::Bson;

use super::number::{Number, Pair};
use super::rounding::numeric;
use super::show::show;
use super::value::Value;
use crate::{Code, Decimal, Failure, Result};

/// A function of doubles on a double or decimal.
pub(super) fn by_double(number: Number, function: impl Fn(f64) -> f64) -> Bson {
    match number {
        Number::Decimal(value) => {
            Bson::Decimal128(Decimal::from_f64(function(Decimal::unpack(value).to_f64())).pack())
        }
        other => Bson::Double(function(other.double())),
    }
}

/// `$sqrt`.
pub(super) fn sqrt<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    if number.double() < 0.0 {
        return Err(Failure::new(Code(28714), "$sqrt's argument must be greater than or equal to 0"));
    }
    if let Number::Decimal(value) = number
        && let Some(root) = BigDecimal::from_str(&value.to_string()).ok().and_then(|exact| exact.sqrt())
        && let Some(root) = Decimal::parse(&root.normalized().to_scientific_notation())
    {
        return Ok(Value::Own(Bson::Decimal128(root.pack())));
    }
    Ok(Value::Own(by_double(number, f64::sqrt)))
}

/// `$exp`.
pub(super) fn exp<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    Ok(Value::Own(by_double(number, f64::exp)))
}

/// `$ln`.
pub(super) fn natural<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    positive(name, 28766, &value, f64::ln)
}

/// `$log10`.
pub(super) fn decimal<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    positive(name, 28761, &value, f64::log10)
}

fn positive<'e>(name: &str, code: i32, value: &Value<'_>, function: fn(f64) -> f64) -> Result<Value<'e>> {
    let Some(number) = numeric(name, value)? else { return Ok(Value::NULL) };
    if number.double() <= 0.0 {
        let message = format!("{name}'s argument must be a positive number, but is {}", show(value));
        return Err(Failure::new(Code(code), message));
    }
    Ok(Value::Own(by_double(number, function)))
}

/// `$log`: `[number, base]`.
pub(super) fn to_base<'e>(_: &'static str, value: Value<'e>, base: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() || base.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = |value: &Value<'_>, what: &str, code: i32| {
        Number::of(value).ok_or_else(|| {
            Failure::new(Code(code), format!("$log's {what} must be numeric, not {}", value.type_name()))
        })
    };
    let (number, root) = (number(&value, "argument", 28756)?, number(&base, "base", 28757)?);
    if number.double() <= 0.0 {
        let message = format!("$log's argument must be a positive number, but is {}", show(&value));
        return Err(Failure::new(Code(28758), message));
    }
    if root.double() <= 0.0 || root.double() == 1.0 {
        let message = format!("$log's base must be a positive number not equal to 1, but is {}", show(&base));
        return Err(Failure::new(Code(28759), message));
    }
    let result = number.double().ln() / root.double().ln();
    Ok(Value::Own(match number.pair(root) {
        Pair::Decimal(..) => Bson::Decimal128(Decimal::from_f64(result).pack()),
        _ => Bson::Double(result),
    }))
}

/// `$pow`: integral as long as it is exact.
pub(super) fn pow<'e>(_: &'static str, base: Value<'e>, exponent: Value<'e>) -> Result<Value<'e>> {
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = |value: &Value<'_>, what: &str, code: i32| {
        Number::of(value).ok_or_else(|| {
            Failure::new(Code(code), format!("$pow's {what} must be numeric, not {}", value.type_name()))
        })
    };
    let (base, exponent) = (number(&base, "base", 28762)?, number(&exponent, "exponent", 28763)?);
    if base.double() == 0.0 && exponent.double() < 0.0 {
        return Err(Failure::new(Code(28764), "$pow cannot take a base of 0 and a negative exponent"));
    }
    Ok(Value::Own(match base.pair(exponent) {
        Pair::Double(base, exponent) => Bson::Double(base.powf(exponent)),
        Pair::Decimal(base, exponent) => Bson::Decimal128(decimal_power(base, exponent)),
        Pair::Int(base, exponent) => match integral_power(i64::from(base), i64::from(exponent)) {
            Some(power) => Number::integer(power).bson(),
            None => Bson::Double(f64::from(base).powf(f64::from(exponent))),
        },
        Pair::Long(base, exponent) => integral_power(base, exponent)
            .map_or_else(|| Bson::Double((base as f64).powf(exponent as f64)), Bson::Int64),
    }))
}

fn integral_power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        0 | 1 if exponent >= 0 => Some(if exponent == 0 { 1 } else { base }),
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

fn decimal_power(base: bson::Decimal128, exponent: bson::Decimal128) -> bson::Decimal128 {
    // Small whole exponents exactly: at most some thousand digits before the result is rounded.
    let (base, exponent) = (Decimal::unpack(base), Decimal::unpack(exponent));
    if let Some(times) = exponent.to_i64_exact()
        && (0..=64).contains(&times)
    {
        let mut power = Decimal::from_i64(1);
        for _ in 0..times {
            power = power.multiply(&base);
        }
        return power.pack();
    }
    Decimal::from_f64(base.to_f64().powf(exponent.to_f64())).pack()
}
