//! Whether one value stands to another as `$eq`, `$lt` and their kin ask: only values of one class are compared, null equals
//! what is missing, and NaN equals NaN and nothing else (mongodb/mongo:src/mongo/db/matcher/expression_leaf.cpp).

use std::cmp::Ordering;

use bson::RawBsonRef;

use super::numbers::is_nan;
use super::tree::{Comparison, Membership};
use crate::{Result, canonical_type, compare};

impl Comparison {
    /// Whether a value (none: missing) passes against the constant.
    pub(crate) fn holds(self, value: Option<RawBsonRef<'_>>, constant: RawBsonRef<'_>) -> bool {
        let Some(value) = value else {
            return matches!(constant, RawBsonRef::Null) && self.takes(Ordering::Equal);
        };
        if let (RawBsonRef::String(left), RawBsonRef::String(right)) = (value, constant) {
            return match self {
                Comparison::Equal => left == right,
                _ => self.takes(left.cmp(right)),
            };
        }
        if canonical_type(value) != canonical_type(constant) {
            return match constant {
                RawBsonRef::Null => matches!(value, RawBsonRef::Undefined) && self.takes(Ordering::Equal),
                RawBsonRef::MaxKey => matches!(self, Comparison::Less | Comparison::LessOrEqual),
                RawBsonRef::MinKey => matches!(self, Comparison::Greater | Comparison::GreaterOrEqual),
                _ => false,
            };
        }
        if self != Comparison::Equal && (is_nan(value) || is_nan(constant)) {
            return is_nan(value) && is_nan(constant) && self.takes(Ordering::Equal);
        }
        self.takes(compare(value, constant))
    }

    /// Whether an order of value to constant satisfies it.
    fn takes(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Membership {
    /// Whether a value (none: missing) is in the list or matches one of its patterns.
    pub(crate) fn holds(&self, value: Option<RawBsonRef<'_>>) -> Result<bool> {
        let value = match value {
            None | Some(RawBsonRef::Undefined) if self.null => return Ok(true),
            None => return Ok(false),
            Some(value) => value,
        };
        if self.values.binary_search_by(|constant| compare(constant.as_raw_bson_ref(), value)).is_ok() {
            return Ok(true);
        }
        for pattern in &self.patterns {
            if pattern.holds(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
