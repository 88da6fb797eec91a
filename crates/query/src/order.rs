//! The order of BSON values across types, as MongoDB compares and sorts them.
use bson::{Bson, RawBsonRef, RawDocument};
use std::cmp::Ordering;

/// The class that values are first ordered by: MinKey -1, null 5, numbers 10, strings 15, ... MaxKey 127.
pub fn canonical_type(_value: RawBsonRef<'_>) -> i8 {
    0
}

/// Compares two values; numbers by value whatever their type, NaN below all numbers, arrays element by element.
pub fn compare(_left: RawBsonRef<'_>, _right: RawBsonRef<'_>) -> Ordering {
    Ordering::Equal
}

/// As [`compare`], for owned values.
pub fn compare_owned(_left: &Bson, _right: &Bson) -> Ordering {
    Ordering::Equal
}

/// Compares two documents field by field: type, then name, then value.
pub fn compare_documents(_left: &RawDocument, _right: &RawDocument) -> Ordering {
    Ordering::Equal
}
