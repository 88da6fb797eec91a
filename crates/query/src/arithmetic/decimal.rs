//! Decimal numbers with IEEE 754's 34 digits, as MongoDB's decimal type computes them.
//!
//! The bits are those of the binary integer form that BSON stores. Results are exact until they are packed, which rounds
//! them once, half to even. A value that is too large becomes infinite, one that is too small zero. Roots and powers are elsewhere.
use bigdecimal::num_bigint::BigUint;
use bigdecimal::{One, Pow, ToPrimitive, Zero};
use bson::Decimal128;

/// The number of digits of a packed coefficient.
const DIGITS: u64 = 34;
/// The number of digits that are read exactly; no packed number needs as many.
const DIGITS_READ: usize = 10_000;
/// The constant that is added to an exponent before it is stored.
const BIAS: i64 = 6176;
/// The least and the greatest exponent of a packed number.
const EXPONENTS: std::ops::RangeInclusive<i64> = -BIAS..=6111;
/// Bits of the coefficient within the upper half, in the common form.
const UPPER_COEFFICIENT_BITS: u32 = 49;

/// A decimal number taken apart: a finite one is `coefficient * 10^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decimal {
    NotANumber,
    /// Infinity, of either sign.
    Infinite {
        /// Whether it is below every number.
        negative: bool,
    },
    /// A number; zero has a sign and an exponent too.
    Finite {
        /// Whether it has a minus sign.
        negative: bool,
        /// Its digits as one integer.
        coefficient: BigUint,
        /// The exponent of the power of ten.
        exponent: i64,
    },
}

/// The rounding when digits are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, a half to the even neighbour.
    HalfEven,
    /// Rounds a number towards zero.
    Truncate,
    /// Rounds towards minus infinity.
    Floor,
    /// Rounds towards plus infinity.
    Ceiling,
}

fn power_of_ten(exponent: u64) -> BigUint {
    Pow::pow(BigUint::from(10u8), exponent)
}

fn digits(coefficient: &BigUint) -> u64 {
    match coefficient.to_u128() {
        Some(small) => u64::from(small.checked_ilog10().unwrap_or(0)) + 1,
        None => coefficient.to_string().len() as u64,
    }
}

/// Drops the last `count` digits.
fn drop_digits(coefficient: &BigUint, count: u64, negative: bool, rounding: Rounding) -> BigUint {
    let unit = power_of_ten(count);
    let kept = coefficient / &unit;
    let dropped = coefficient % &unit;
    let up = match rounding {
        Rounding::HalfEven => match (dropped << 1u8).cmp(&unit) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => kept.bit(0),
            std::cmp::Ordering::Greater => true,
        },
        Rounding::Truncate => false,
        Rounding::Floor => negative && !dropped.is_zero(),
        Rounding::Ceiling => !negative && !dropped.is_zero(),
    };
    if up { kept + BigUint::one() } else { kept }
}

impl Decimal {
    fn finite(negative: bool, coefficient: BigUint, exponent: i64) -> Decimal {
        Decimal::Finite { negative, coefficient, exponent }
    }

    pub fn from_i64(value: i64) -> Decimal {
        Decimal::finite(value < 0, BigUint::from(value.unsigned_abs()), 0)
    }

    /// A double by its first 15 significant digits, which are written out in full (1.0 becomes 1.00000000000000).
    pub fn from_f64(value: f64) -> Decimal {
        if value.is_nan() {
            return Decimal::NotANumber;
        }
        if value.is_infinite() {
            return Decimal::Infinite { negative: value < 0.0 };
        }
        if value == 0.0 {
            return Decimal::finite(value.is_sign_negative(), BigUint::zero(), 0);
        }
        Decimal::parse(&format!("{value:.14e}")).unwrap_or(Decimal::NotANumber)
    }

    /// Reads digits with an optional sign, point and exponent, `Infinity`, `inf` or `NaN` in any case.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf") {
            return Some(Decimal::Infinite { negative });
        }
        if unsigned.eq_ignore_ascii_case("nan") {
            return Some(Decimal::NotANumber);
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let exponent = i64::from(exponent) - fraction.len() as i64;
        let significant = all.trim_start_matches('0');
        // Further digits can only show that the number is not exactly the kept one: a last digit 1 shows the same.
        let Some((kept, rest)) = significant.split_at_checked(DIGITS_READ) else {
            let coefficient = BigUint::parse_bytes(significant.as_bytes(), 10).unwrap_or_default();
            return Some(Decimal::finite(negative, coefficient, exponent).within_range());
        };
        let sticky = u8::from(rest.bytes().any(|digit| digit != b'0'));
        let coefficient = BigUint::parse_bytes(kept.as_bytes(), 10)? * 10u8 + sticky;
        Some(Decimal::finite(negative, coefficient, exponent + rest.len() as i64 - 1).within_range())
    }

    /// The packed form of the number if its exponent is absurd, so that sums never write out millions of zeros.
    fn within_range(self) -> Decimal {
        match &self {
            Decimal::Finite { exponent, .. } if exponent.abs() > 2 * BIAS => Decimal::unpack(self.pack()),
            _ => self,
        }
    }

    /// Decodes the stored form.
    pub fn unpack(packed: Decimal128) -> Decimal {
        let bits = u128::from_le_bytes(packed.bytes());
        let upper = (bits >> 64) as u64;
        let negative = upper >> 63 == 1;
        match (upper >> 58) & 0b11111 {
            0b11111 => return Decimal::NotANumber,
            0b11110 => return Decimal::Infinite { negative },
            _ => {}
        }
        let wide = (upper >> 61) & 0b11 == 0b11;
        let shift = if wide { UPPER_COEFFICIENT_BITS - 2 } else { UPPER_COEFFICIENT_BITS };
        let exponent = ((upper >> shift) & 0x3fff) as i64 - BIAS;
        // The wide form's coefficients exceed 34 digits; by the standard they count as zero, as does any other coefficient that is too large.
        let coefficient = bits & ((1 << (64 + UPPER_COEFFICIENT_BITS)) - 1);
        let valid = !wide && coefficient < 10u128.pow(DIGITS as u32);
        Decimal::finite(negative, BigUint::from(if valid { coefficient } else { 0 }), exponent)
    }

    /// The stored form, rounded to 34 digits and to the possible exponents.
    pub fn pack(&self) -> Decimal128 {
        match self {
            Decimal::NotANumber => packed(false, 0b11111 << 122),
            Decimal::Infinite { negative } => packed(*negative, 0b11110 << 122),
            Decimal::Finite { negative, coefficient, exponent } => {
                pack_finite(*negative, coefficient, *exponent)
            }
        }
    }

    /// Whether it is zero, of either sign.
    pub fn is_zero(&self) -> bool {
        matches!(self, Decimal::Finite { coefficient, .. } if coefficient.is_zero())
    }

    /// Whether it has a minus sign.
    pub fn is_negative(&self) -> bool {
        match self {
            Decimal::NotANumber => false,
            Decimal::Infinite { negative } | Decimal::Finite { negative, .. } => *negative,
        }
    }

    /// The nearest double, ties to even.
    pub fn to_f64(&self) -> f64 {
        match self {
            Decimal::NotANumber => f64::NAN,
            Decimal::Infinite { negative: false } => f64::INFINITY,
            Decimal::Infinite { negative: true } => f64::NEG_INFINITY,
            Decimal::Finite { negative, coefficient, exponent } => {
                let size = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if *negative { -size } else { size }
            }
        }
    }

    /// The number as an int64 if it is whole and fits.
    pub fn to_i64_exact(&self) -> Option<i64> {
        let whole = self.rounded(0, Rounding::Truncate);
        (whole.subtract(self).is_zero()).then(|| whole.whole_i64()).flatten()
    }

    /// The number without its fraction as an int64 if it fits.
    pub fn truncated_i64(&self) -> Option<i64> {
        self.rounded(0, Rounding::Truncate).whole_i64()
    }

    fn whole_i64(&self) -> Option<i64> {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return None };
        if coefficient.is_zero() {
            return Some(0);
        }
        // Past 19 digits nothing fits: that keeps the power small.
        let power = u64::try_from(*exponent).ok().filter(|power| *power <= 19)?;
        let size = (coefficient * power_of_ten(power)).to_i128()?;
        i64::try_from(if *negative { -size } else { size }).ok()
    }

    /// Rounded to `places` digits after the point (before it, if negative).
    pub fn rounded(&self, places: i64, rounding: Rounding) -> Decimal {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return self.clone() };
        let drop = (-places).saturating_sub(*exponent);
        if drop <= 0 {
            return self.clone();
        }
        // Beyond all digits every greater count drops the same.
        let count = (drop as u64).min(digits(coefficient) + 1);
        Decimal::finite(*negative, drop_digits(coefficient, count, *negative, rounding), exponent + drop)
    }

    /// The number with its sign inverted.
    pub fn negate(&self) -> Decimal {
        match self.clone() {
            Decimal::NotANumber => Decimal::NotANumber,
            Decimal::Infinite { negative } => Decimal::Infinite { negative: !negative },
            Decimal::Finite { negative, coefficient, exponent } => {
                Decimal::finite(!negative, coefficient, exponent)
            }
        }
    }

    /// The sum, without any rounding.
    pub fn add(&self, other: &Decimal) -> Decimal {
        let (left, right, exponent) = match (self, other) {
            (Decimal::NotANumber, _) | (_, Decimal::NotANumber) => return Decimal::NotANumber,
            (Decimal::Infinite { negative: left }, Decimal::Infinite { negative: right })
                if left != right =>
            {
                return Decimal::NotANumber;
            }
            (infinite @ Decimal::Infinite { .. }, _) | (_, infinite @ Decimal::Infinite { .. }) => {
                return infinite.clone();
            }
            (Decimal::Finite { .. }, Decimal::Finite { .. }) => aligned(self, other),
        };
        let (left_negative, right_negative) = (self.is_negative(), other.is_negative());
        if left_negative == right_negative {
            Decimal::finite(left_negative, left + right, exponent)
        } else if left >= right {
            let sum = left - right;
            Decimal::finite(left_negative && !sum.is_zero(), sum, exponent)
        } else {
            Decimal::finite(right_negative, right - left, exponent)
        }
    }

    /// The difference, without any rounding.
    pub fn subtract(&self, other: &Decimal) -> Decimal {
        self.add(&other.negate())
    }

    /// The product, without any rounding.
    pub fn multiply(&self, other: &Decimal) -> Decimal {
        let sign = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::NotANumber, _) | (_, Decimal::NotANumber) => Decimal::NotANumber,
            (
                Decimal::Finite { coefficient: left, exponent: left_exponent, .. },
                Decimal::Finite { coefficient: right, exponent: right_exponent, .. },
            ) => Decimal::finite(sign, left * right, left_exponent + right_exponent),
            _ if self.is_zero() || other.is_zero() => Decimal::NotANumber,
            _ => Decimal::Infinite { negative: sign },
        }
    }

    /// The quotient, to more digits than a packed number has.
    pub fn divide(&self, other: &Decimal) -> Decimal {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::NotANumber, _) | (_, Decimal::NotANumber) => Decimal::NotANumber,
            (Decimal::Infinite { .. }, Decimal::Infinite { .. }) => Decimal::NotANumber,
            (Decimal::Infinite { .. }, _) => Decimal::Infinite { negative },
            (_, Decimal::Infinite { .. }) => Decimal::finite(negative, BigUint::zero(), -BIAS),
            _ if other.is_zero() && self.is_zero() => Decimal::NotANumber,
            _ if other.is_zero() => Decimal::Infinite { negative },
            (
                Decimal::Finite { coefficient: left, exponent: left_exponent, .. },
                Decimal::Finite { coefficient: right, exponent: right_exponent, .. },
            ) => {
                let (coefficient, exponent) = quotient(left, right, left_exponent - right_exponent);
                Decimal::finite(negative, coefficient, exponent)
            }
        }
    }

    /// The remainder with the dividend's sign, exact.
    pub fn modulo(&self, other: &Decimal) -> Decimal {
        match (self, other) {
            (Decimal::Finite { .. }, Decimal::Finite { .. }) if !other.is_zero() => {
                let (left, right, exponent) = aligned(self, other);
                Decimal::finite(self.is_negative(), left % right, exponent)
            }
            (Decimal::Finite { .. }, Decimal::Infinite { .. }) => self.clone(),
            _ => Decimal::NotANumber,
        }
    }
}

/// The coefficients of two finite numbers, scaled to the same power of ten.
fn aligned(left: &Decimal, right: &Decimal) -> (BigUint, BigUint, i64) {
    let parts = |number: &Decimal| match number {
        Decimal::Finite { coefficient, exponent, .. } => (coefficient.clone(), *exponent),
        _ => (BigUint::zero(), 0),
    };
    let ((left, left_exponent), (right, right_exponent)) = (parts(left), parts(right));
    let exponent = left_exponent.min(right_exponent);
    let scaled = |coefficient: BigUint, own: i64| coefficient * power_of_ten(own.abs_diff(exponent));
    (scaled(left, left_exponent), scaled(right, right_exponent), exponent)
}

/// Divides integers to at least two digits more than a packed number has; a last digit 1 represents a remainder.
fn quotient(left: &BigUint, right: &BigUint, exponent: i64) -> (BigUint, i64) {
    let extra = (DIGITS + 2 + digits(right)).saturating_sub(digits(left));
    let scaled = left * power_of_ten(extra);
    let (mut result, mut result_exponent) = (&scaled / right, exponent - extra as i64);
    if !(scaled % right).is_zero() {
        return (result * BigUint::from(10u8) + BigUint::one(), result_exponent - 1);
    }
    // An exact quotient is written as short as the operands allow.
    let ten = BigUint::from(10u8);
    while result_exponent < exponent && (&result % &ten).is_zero() {
        result /= &ten;
        result_exponent += 1;
    }
    (result, result_exponent)
}

fn packed(negative: bool, bits: u128) -> Decimal128 {
    Decimal128::from_bytes((bits | u128::from(negative) << 127).to_le_bytes())
}

fn pack_finite(negative: bool, coefficient: &BigUint, exponent: i64) -> Decimal128 {
    let excess = digits(coefficient).saturating_sub(DIGITS) as i64;
    let drop = excess.max(EXPONENTS.start() - exponent).max(0);
    let (mut kept, mut exponent) = (coefficient.clone(), exponent + drop);
    if drop > 0 {
        let count = (drop as u64).min(digits(coefficient) + 1);
        kept = drop_digits(coefficient, count, negative, Rounding::HalfEven);
        if digits(&kept) > DIGITS {
            // The rounding carried over nines: the last digit is a zero.
            kept /= 10u8;
            exponent += 1;
        }
    }
    let above = exponent - EXPONENTS.end();
    if above > 0 {
        let room = (DIGITS - digits(&kept)) as i64;
        if kept.is_zero() || above <= room {
            let zeros = if kept.is_zero() { 0 } else { above as u64 };
            kept *= power_of_ten(zeros);
            exponent = *EXPONENTS.end();
        } else {
            return Decimal::Infinite { negative }.pack();
        }
    }
    let biased = (exponent + BIAS) as u128;
    packed(negative, kept.to_u128().unwrap_or(0) | biased << (64 + UPPER_COEFFICIENT_BITS))
}
