//! Arithmetic on BSON numbers with MongoDB's rules for the result's type.
//!
//! The widest of int32, int64, double and decimal wins. If int64 is too small an update fails and an expression continues
//! in doubles, so sums and products have two forms. Types other than numbers are refused; this module does not know dates.
mod decimal;
#[cfg(test)]
mod tests;

use crate::{Code, Failure, Result};
use bson::{Bson, Decimal128};

pub use decimal::{Decimal, Rounding};

/// 2 to the 63rd: the first double beyond int64.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

/// Two numbers converted to the type of the result.
enum Pair {
    Int32(i32, i32),
    Int64(i64, i64),
    Double(f64, f64),
    Decimal(Decimal, Decimal),
}

impl Pair {
    fn new(left: &Bson, right: &Bson) -> Result<Pair> {
        let pair = match (left, right) {
            (Bson::Int32(left), Bson::Int32(right)) => Some(Pair::Int32(*left, *right)),
            (Bson::Decimal128(_), _) | (_, Bson::Decimal128(_)) => {
                to_decimal(left).zip(to_decimal(right)).map(|(left, right)| Pair::Decimal(left, right))
            }
            (Bson::Double(_), _) | (_, Bson::Double(_)) => {
                to_f64(left).zip(to_f64(right)).map(|(left, right)| Pair::Double(left, right))
            }
            _ => integer(left).zip(integer(right)).map(|(left, right)| Pair::Int64(left, right)),
        };
        pair.ok_or_else(|| Failure::new(Code::TypeMismatch, "Arithmetic takes numbers only"))
    }
}

/// One operation, for each type.
struct ArithmeticOperation {
    int64: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> f64,
    decimal: fn(&Decimal, &Decimal) -> Decimal,
}

const ADD: ArithmeticOperation = ArithmeticOperation {
    int64: i64::checked_add,
    double: |left, right| left + right,
    decimal: Decimal::add,
};
const SUBTRACT: ArithmeticOperation = ArithmeticOperation {
    int64: i64::checked_sub,
    double: |left, right| left - right,
    decimal: Decimal::subtract,
};
const MULTIPLY: ArithmeticOperation = ArithmeticOperation {
    int64: i64::checked_mul,
    double: |left, right| left * right,
    decimal: Decimal::multiply,
};

impl ArithmeticOperation {
    /// The result, or `None` if int64 overflows.
    fn checked(&self, left: &Bson, right: &Bson) -> Result<Option<Bson>> {
        Ok(match Pair::new(left, right)? {
            Pair::Int32(left, right) => (self.int64)(left.into(), right.into()).map(narrowest),
            Pair::Int64(left, right) => (self.int64)(left, right).map(Bson::Int64),
            Pair::Double(left, right) => Some(Bson::Double((self.double)(left, right))),
            Pair::Decimal(left, right) => Some(Bson::Decimal128((self.decimal)(&left, &right).pack())),
        })
    }

    /// The result; a double when int64 overflows.
    fn widening(&self, left: &Bson, right: &Bson) -> Result<Bson> {
        if let Some(result) = self.checked(left, right)? {
            return Ok(result);
        }
        let (left, right) = (to_f64(left).unwrap_or(f64::NAN), to_f64(right).unwrap_or(f64::NAN));
        Ok(Bson::Double((self.double)(left, right)))
    }
}

fn overflow() -> Failure {
    Failure::new(Code::BadValue, "The result does not fit into a 64-bit integer")
}

/// An int32 if it fits, else an int64, as int32 arithmetic returns.
fn narrowest(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// The sum: int32, int64, double, decimal, the widest wins; int32 overflow gives int64, int64 overflow an error (`BadValue`).
pub fn add(left: &Bson, right: &Bson) -> Result<Bson> {
    ADD.checked(left, right)?.ok_or_else(overflow)
}

/// The product, with the same rules.
pub fn multiply(left: &Bson, right: &Bson) -> Result<Bson> {
    MULTIPLY.checked(left, right)?.ok_or_else(overflow)
}

/// The sum as `$add` has it: int64 overflow gives a double.
pub fn add_or_widen(left: &Bson, right: &Bson) -> Result<Bson> {
    ADD.widening(left, right)
}

/// The product as `$multiply` has it: int64 overflow gives a double.
pub fn multiply_or_widen(left: &Bson, right: &Bson) -> Result<Bson> {
    MULTIPLY.widening(left, right)
}

/// The difference as `$subtract` has it: int64 overflow gives a double.
pub fn subtract(left: &Bson, right: &Bson) -> Result<Bson> {
    SUBTRACT.widening(left, right)
}

/// The quotient as `$divide` has it: a decimal if either is one, else a double; dividing by zero is code 16608.
pub fn divide(left: &Bson, right: &Bson) -> Result<Bson> {
    let by_zero = || Failure::new(Code(16608), "can't $divide by zero");
    if let Pair::Decimal(left, right) = Pair::new(left, right)? {
        return match right.is_zero() {
            true => Err(by_zero()),
            false => Ok(Bson::Decimal128(left.divide(&right).pack())),
        };
    }
    let (left, right) = (to_f64(left).unwrap_or(f64::NAN), to_f64(right).unwrap_or(f64::NAN));
    if right == 0.0 {
        return Err(by_zero());
    }
    Ok(Bson::Double(left / right))
}

/// The remainder with the dividend's sign, as `$mod` has it; by zero is code 16610.
pub fn modulo(left: &Bson, right: &Bson) -> Result<Bson> {
    let by_zero = || Failure::new(Code(16610), "can't $mod by zero");
    Ok(match Pair::new(left, right)? {
        Pair::Int32(_, 0) | Pair::Int64(_, 0) => return Err(by_zero()),
        // The only overflow is the least integer by -1, whose remainder is 0.
        Pair::Int32(left, right) => Bson::Int32(left.checked_rem(right).unwrap_or(0)),
        Pair::Int64(left, right) => Bson::Int64(left.checked_rem(right).unwrap_or(0)),
        Pair::Double(_, 0.0) => return Err(by_zero()),
        Pair::Double(left, right) => Bson::Double(left % right),
        Pair::Decimal(_, right) if right.is_zero() => return Err(by_zero()),
        Pair::Decimal(left, right) => Bson::Decimal128(left.modulo(&right).pack()),
    })
}

/// The number with its sign inverted; the least int32 becomes an int64, the least int64 a double.
pub fn negate(value: &Bson) -> Result<Bson> {
    match value {
        Bson::Double(value) => Ok(Bson::Double(-value)),
        Bson::Decimal128(value) => Ok(Bson::Decimal128(Decimal::unpack(*value).negate().pack())),
        integer => subtract(&Bson::Int32(0), integer),
    }
}

/// The number without its sign, with the rules of [`negate`].
pub fn absolute(value: &Bson) -> Result<Bson> {
    match value {
        Bson::Double(value) => Ok(Bson::Double(value.abs())),
        Bson::Int32(0..) | Bson::Int64(0..) => Ok(value.clone()),
        Bson::Decimal128(decimal) => match Decimal::unpack(*decimal) {
            number if number.is_negative() => Ok(Bson::Decimal128(number.negate().pack())),
            _ => Ok(value.clone()),
        },
        negative => negate(negative),
    }
}

/// Whether it is an int32, int64, double or decimal.
pub fn is_number(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
}

fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        _ => None,
    }
}

/// The number as an int64 if it is whole and fits; `None` otherwise, and for types other than numbers.
pub fn to_i64_exact(value: &Bson) -> Option<i64> {
    match value {
        Bson::Double(value) => f64_to_i64_exact(*value),
        Bson::Decimal128(value) => Decimal::unpack(*value).to_i64_exact(),
        other => integer(other),
    }
}

/// A double as an int64 if it is whole and fits.
pub fn f64_to_i64_exact(value: f64) -> Option<i64> {
    // The cast saturates, so only whole numbers within range may reach it; NaN fails the comparison.
    (value.trunc() == value && (-BEYOND_I64..BEYOND_I64).contains(&value)).then_some(value as i64)
}

/// The number as the nearest double; `None` for other types than numbers.
pub fn to_f64(value: &Bson) -> Option<f64> {
    match value {
        Bson::Double(value) => Some(*value),
        Bson::Decimal128(value) => Some(Decimal::unpack(*value).to_f64()),
        other => integer(other).map(|value| value as f64),
    }
}

/// The number as a decimal, a double by its first 15 digits as in MongoDB; `None` for other types than numbers.
pub fn to_decimal(value: &Bson) -> Option<Decimal> {
    match value {
        Bson::Double(value) => Some(Decimal::from_f64(*value)),
        Bson::Decimal128(value) => Some(Decimal::unpack(*value)),
        other => integer(other).map(Decimal::from_i64),
    }
}

/// Reads a decimal as `NumberDecimal("...")` is written, rounding to 34 digits; `None` if it is not one.
pub fn parse_decimal(text: &str) -> Option<Decimal128> {
    Decimal::parse(text).map(|decimal| decimal.pack())
}
