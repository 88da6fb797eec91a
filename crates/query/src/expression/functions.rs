//! Operators for functions of real numbers: `$sqrt`, `$pow`, `$exp`, `$ln`, `$log`, `$log10`, those of angles, `$sin` ...
//! `$atanh`, `$degreesToRadians`, `$radiansToDegrees`, and `$rand`, a number in 0..1.
//!
//! The functions of angles compute decimals as doubles.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use bigdecimal::BigDecimal;
use bson::{Bson, RawBsonRef};

use super::arithmetic::numeric;
use super::node::ExpressionNode;
use super::number::{Number, Pair};
use super::parse::Parser;
use super::show::show;
use super::value::Value;
use crate::{Code, Decimal, Failure, Result};

/// A function of doubles on a double or decimal.
fn by_double(number: Number, function: impl Fn(f64) -> f64) -> Bson {
    match number {
        Number::Decimal(value) => {
            Bson::Decimal128(Decimal::from_f64(function(Decimal::unpack(value).to_f64())).pack())
        }
        other => Bson::Double(function(other.double())),
    }
}

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

pub(super) fn exp<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    Ok(Value::Own(by_double(number, f64::exp)))
}

pub(super) fn ln<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    positive(name, 28766, &value, f64::ln)
}

pub(super) fn log10<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
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

/// The operator `$log`, whose arguments are `[number, base]`.
pub(super) fn log<'e>(_: &'static str, value: Value<'e>, base: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() || base.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = |value: &Value<'_>, what: &str, code: i32| {
        Number::from_value(value).ok_or_else(|| {
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
        Number::from_value(value).ok_or_else(|| {
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
    // Small whole exponents are computed exactly: the result has at most some thousand digits before it is rounded.
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

/// A function of angles with one argument, by its name.
pub(super) fn angle<'e>(name: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    let Some(number) = numeric(name, &value)? else { return Ok(Value::NULL) };
    let function: fn(f64) -> f64 = match name {
        "$sin" => f64::sin,
        "$cos" => f64::cos,
        "$tan" => f64::tan,
        "$asin" => f64::asin,
        "$acos" => f64::acos,
        "$atan" => f64::atan,
        "$sinh" => f64::sinh,
        "$cosh" => f64::cosh,
        "$tanh" => f64::tanh,
        "$asinh" => f64::asinh,
        "$acosh" => f64::acosh,
        "$atanh" => f64::atanh,
        "$degreesToRadians" => f64::to_radians,
        _ => f64::to_degrees,
    };
    check_range(name, number.double(), &value)?;
    Ok(Value::Own(by_double(number, function)))
}

/// Refuses an argument for which the function is not defined.
fn check_range(name: &str, number: f64, value: &Value<'_>) -> Result<()> {
    let (range, inside) = match name {
        "$sin" | "$cos" | "$tan" => ("(-inf,inf)", !number.is_infinite()),
        "$asin" | "$acos" | "$atanh" => ("[-1,1]", number.is_nan() || (-1.0..=1.0).contains(&number)),
        "$acosh" => ("[1,inf]", number.is_nan() || number >= 1.0),
        _ => return Ok(()),
    };
    if inside {
        return Ok(());
    }
    let message = format!("cannot apply {name} to {}, value must be in {range}", show(value));
    Err(Failure::new(Code(50989), message))
}

/// The operator `$atan2`, in radians.
pub(super) fn angle_of_two<'e>(name: &'static str, left: Value<'e>, right: Value<'e>) -> Result<Value<'e>> {
    let (Some(left), Some(right)) = (numeric(name, &left)?, numeric(name, &right)?) else {
        return Ok(Value::NULL);
    };
    let angle = left.double().atan2(right.double());
    Ok(Value::Own(match left.pair(right) {
        Pair::Decimal(..) => Bson::Decimal128(crate::Decimal::from_f64(angle).pack()),
        _ => Bson::Double(angle),
    }))
}

thread_local! {
    /// Each thread begins with another state, from the standard library's random hash keys.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u64));
}

/// `$rand: {}`, with nothing in it.
pub(super) fn parse_rand(
    _: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    match value {
        RawBsonRef::Document(arguments) if arguments.is_empty() => {
            Ok(ExpressionNode::Many(name, rand, Vec::new()))
        }
        RawBsonRef::Array(arguments) if arguments.is_empty() => {
            Ok(ExpressionNode::Many(name, rand, Vec::new()))
        }
        _ => Err(Failure::new(Code(3040501), "$rand does not currently accept arguments")),
    }
}

fn rand<'e>(_: &'static str, _: Vec<Value<'e>>) -> Result<Value<'e>> {
    let bits = STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        mixed(next)
    });
    // 53 bits, as many as a double's fraction holds.
    Ok(Value::Own(Bson::Double((bits >> 11) as f64 / (1_u64 << 53) as f64)))
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mixed(state: u64) -> u64 {
    let mut bits = state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
