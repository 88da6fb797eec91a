//! Sort patterns, and the order that they put documents in.
//!
//! A document is sorted by the key that an index on the same fields would give it, of several the one that the sort meets
//! first. Sorting by text score is refused by name.
use crate::key_pattern::MAX_FIELDS;
use crate::paths::{self, PARALLEL_ARRAYS};
use crate::{Bound, Code, Failure, KeyBuilder, Result, compare};
use bson::{Document, RawBsonRef, RawDocument};
use std::cmp::Ordering;

/// A sort pattern: `{a: 1, b: -1}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Dotted paths, each with whether it descends.
    pub fields: Vec<(String, bool)>,
}

impl Sort {
    /// Parses a sort document; an empty one is no sort. Refuses what MongoDB does, with its codes (15974, 15975, 13103 and those
    /// of bad paths), and `{$meta: ...}` (40218). `$natural` is an access path and no field: callers take it out before.
    pub fn parse(sort: &RawDocument) -> Result<Option<Sort>> {
        let mut fields = Vec::new();
        for field in sort {
            let (path, value) = field.map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
            let path = path.as_str();
            let descending = parse_order(path, value)?;
            check_path(path)?;
            fields.push((path.to_owned(), descending));
        }
        if fields.len() > MAX_FIELDS {
            return Err(Failure::new(Code(13103), "too many compound keys"));
        }
        Ok((!fields.is_empty()).then_some(Sort { fields }))
    }

    /// The pattern with 1 and -1.
    pub fn to_document(&self) -> Document {
        let order = |descending: bool| if descending { -1 } else { 1 };
        self.fields.iter().map(|(path, descending)| (path.clone(), order(*descending).into())).collect()
    }

    /// The key whose byte order is the sort's order: of arrays, the least element when ascending, the greatest when descending.
    /// Where [`try_key`](Self::try_key) refuses a document, each field counts for itself, and malformed ones as missing.
    pub fn key(&self, document: &RawDocument) -> Vec<u8> {
        self.try_key(document).unwrap_or_else(|_| {
            let mut key = Vec::new();
            for field in &self.fields {
                // Without the end byte, which stands once after all fields.
                let alone = key_of(document, std::slice::from_ref(field)).unwrap_or_default();
                key.extend_from_slice(alone.split_last().map_or(&[], |(_, values)| values));
            }
            key
        })
    }

    /// As [`key`](Self::key); two arrays in parallel paths are refused as MongoDB refuses to sort them (2).
    pub fn try_key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        key_of(document, &self.fields).map_err(|failure| {
            if failure.code() == PARALLEL_ARRAYS {
                Failure::new(Code::BadValue, "cannot sort with keys that are parallel arrays")
            } else {
                failure
            }
        })
    }

    /// Compares two documents as their keys compare.
    pub fn compare(&self, left: &RawDocument, right: &RawDocument) -> Ordering {
        let mut order = Ordering::Equal;
        for (path, descending) in &self.fields {
            // An array in any field makes tuples of all of them, which only keys compare.
            let (Ok(left_value), Ok(right_value)) = (flat(left, path), flat(right, path)) else {
                return self.key(left).cmp(&self.key(right));
            };
            if order.is_eq() {
                order = compare(left_value, right_value);
                order = if *descending { order.reverse() } else { order };
            }
        }
        order
    }
}

/// The value of a path that goes through no array; an error where it does, or where the document is malformed.
fn flat<'a>(document: &'a RawDocument, path: &'a str) -> Result<RawBsonRef<'a>, ()> {
    match paths::find(document, path) {
        Ok(Some(found)) if found.value.as_array().is_none() => Ok(found.value),
        Ok(None) => Ok(RawBsonRef::Null),
        _ => Err(()),
    }
}

fn key_of(document: &RawDocument, fields: &[(String, bool)]) -> Result<Vec<u8>> {
    let mut builder = KeyBuilder::new();
    for (path, descending) in fields {
        match flat(document, path) {
            Ok(value) => builder.append(value, *descending),
            Err(()) => return key_through_arrays(document, fields),
        }
    }
    Ok(builder.finish(Bound::Exact).bytes)
}

/// Descending bytes are inverted, so that the least of all keys is the best in either direction.
fn key_through_arrays(document: &RawDocument, fields: &[(String, bool)]) -> Result<Vec<u8>> {
    let mut best: Option<Vec<u8>> = None;
    let mut take = |values: &[RawBsonRef<'_>], _: bool| {
        let mut builder = KeyBuilder::new();
        for (value, (_, descending)) in values.iter().zip(fields) {
            builder.append(*value, *descending);
        }
        let key = builder.finish(Bound::Exact).bytes;
        if best.as_ref().is_none_or(|best| key < *best) {
            best = Some(key);
        }
        Ok(())
    };
    paths::tuples(document, fields.iter().map(|(path, _)| path.as_str()), &mut take)?;
    Ok(best.unwrap_or_default())
}

fn parse_order(path: &str, value: RawBsonRef<'_>) -> Result<bool> {
    let number = match value {
        RawBsonRef::Int32(value) => f64::from(value),
        RawBsonRef::Int64(value) => value as f64,
        RawBsonRef::Double(value) => value,
        RawBsonRef::Decimal128(value) => value.to_string().parse().unwrap_or(f64::NAN),
        RawBsonRef::Document(document) => {
            let meta = document.get("$meta").ok().flatten();
            return Err(match meta {
                Some(kind) => Failure::new(
                    Code(40218),
                    format!(
                        "sort by $meta is not supported by this server ({path}: {})",
                        kind.as_str().unwrap_or("")
                    ),
                ),
                None => {
                    Failure::new(Code(17312), "$meta is the only expression supported by $sort right now")
                }
            });
        }
        other => {
            let value = bson::Bson::try_from(other).map(|value| value.to_string()).unwrap_or_default();
            return Err(Failure::new(
                Code(15974),
                format!("Illegal key in $sort specification: {path}: {value}"),
            ));
        }
    };
    // As an integer, towards zero: 1.5 sorts as 1.
    match number.trunc() {
        1.0 => Ok(false),
        -1.0 => Ok(true),
        _ => Err(Failure::new(
            Code(15975),
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Failure::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Failure::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    for part in path.split('.') {
        if part.is_empty() {
            return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
        }
        if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
            return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sort_tests.rs"]
mod tests;
