//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet` and `$bitsAnyClear`: tests of single bits of whole numbers and of binary data.
//! Refuses negative masks and positions.

use bson::{Bson, RawBsonRef};

use super::{numbers, show};
use crate::raw::unreadable;
use crate::{Code, Failure, Result};

/// One of the four tests of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitTest {
    /// All positions hold 1.
    AllSet,
    /// All positions hold 0.
    AllClear,
    /// One position holds 1.
    AnySet,
    /// One position holds 0.
    AnyClear,
}

/// A test with the bit positions it checks, counted from the least significant bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) test: BitTest,
    /// Positions, each once, ascending.
    pub(crate) positions: Vec<u32>,
}

impl BitTest {
    /// The test of an operator's name.
    pub(crate) fn from_name(name: &str) -> Option<BitTest> {
        Some(match name {
            "$bitsAllSet" => BitTest::AllSet,
            "$bitsAllClear" => BitTest::AllClear,
            "$bitsAnySet" => BitTest::AnySet,
            "$bitsAnyClear" => BitTest::AnyClear,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }
}

impl Bits {
    /// Reads the argument: a number or binary data as a mask, or an array of positions.
    pub(crate) fn parse(test: BitTest, field: &str, argument: RawBsonRef<'_>) -> Result<Bits> {
        let mut positions = Vec::new();
        match argument {
            RawBsonRef::Array(items) => {
                for item in items {
                    positions.push(position(item.map_err(unreadable)?)?);
                }
                positions.sort_unstable();
                positions.dedup();
            }
            RawBsonRef::Binary(binary) => {
                for (place, byte) in (0..).zip(binary.bytes) {
                    positions.extend((0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| place * 8 + bit));
                }
            }
            number if numbers::is_number(number) => {
                let mask = numbers::exact(number).ok_or_else(|| not_whole(number))?;
                if mask < 0 {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        format!("Expected a positive number in: {}: {}", test.name(), show::value(number)),
                    ));
                }
                positions.extend((0..64).filter(|bit| mask >> bit & 1 == 1));
            }
            other => {
                let got = show::value(other);
                return Err(Failure::new(
                    Code::BadValue,
                    format!(
                        "{field} takes an Array, a number, or a BinData but received: {}: {got}",
                        test.name()
                    ),
                ));
            }
        }
        Ok(Bits { test, positions })
    }

    /// Whether a value passes; only whole numbers and binary data can.
    pub(crate) fn holds(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::Binary(binary) => self.check(|position| {
                let byte = usize::try_from(position / 8).ok().and_then(|place| binary.bytes.get(place));
                byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
            }),
            RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) => {
                // Beyond the 64th bit a number is sign-extended.
                numbers::exact(value)
                    .is_some_and(|number| self.check(|position| number >> position.min(63) & 1 == 1))
            }
            _ => false,
        }
    }

    fn check(&self, set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.test {
            BitTest::AllSet => positions.all(set),
            BitTest::AllClear => !positions.any(set),
            BitTest::AnySet => positions.any(set),
            BitTest::AnyClear => !positions.all(set),
        }
    }

    /// The positions as explain lists them.
    pub(crate) fn listed(&self) -> Bson {
        Bson::Array(self.positions.iter().map(|position| Bson::Int64((*position).into())).collect())
    }
}

fn not_whole(number: RawBsonRef<'_>) -> Failure {
    let text = show::value(number);
    let message = match number {
        _ if numbers::is_nan(number) => format!("Expected an integer, but found NaN in: {text}"),
        RawBsonRef::Double(value) if value.is_finite() && value.fract() != 0.0 => {
            format!("Expected an integer: {text}")
        }
        _ => format!("Cannot represent as a 64-bit integer: {text}"),
    };
    Failure::new(Code::FailedToParse, message)
}

fn position(item: RawBsonRef<'_>) -> Result<u32> {
    let refuse =
        |why: &str| Failure::new(Code::BadValue, format!("bit positions {why}: {}", show::value(item)));
    if !numbers::is_number(item) {
        return Err(refuse("must be an integer but got"));
    }
    if numbers::is_nan(item) {
        return Err(refuse("cannot take a NaN"));
    }
    let Some(number) = numbers::exact(item) else {
        return Err(refuse("must be an integer but got"));
    };
    let number =
        i32::try_from(number).map_err(|_| refuse("cannot be represented as a 32-bit signed integer"))?;
    u32::try_from(number).map_err(|_| refuse("must be >= 0 but got"))
}
