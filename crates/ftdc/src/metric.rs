//! The metrics of a chunk: the numbers of its first sample, in the order in which their columns follow.

use std::ffi::CStr;

use bson::spec::ElementType;
use bson::{Decimal128, RawDocument};
use fathom_errors::{Error, Kind, Result};

/// The nesting depth of documents. mongod's reader allows 10 (mongodb/mongo:src/mongo/db/ftdc/util.cpp); a bound is needed so that a hostile file
/// does not exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 32;

/// The BSON type that a metric was read from, which gives its numbers a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A double, truncated to an integer. NaN is 0, and so is a number beyond 64 bits, such as the 2^63 that 8.0 records if there is no limit.
    Double,
    Int32,
    Int64,
    /// A decimal number, truncated to an integer.
    Decimal128,
    /// A Boolean, stored as 0 or 1.
    Bool,
    /// Milliseconds since 1970 in UTC.
    Date,
    /// The seconds of a timestamp, since 1970 in UTC.
    TimestampSeconds,
    /// The increment of a timestamp.
    TimestampIncrement,
}

/// A number of each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The names of the documents that contain it and its own, joined by dots. Names may contain dots themselves, and two metrics of a chunk may have
    /// the same path.
    pub path: String,
    /// The type of its numbers.
    pub kind: MetricKind,
    /// Its value in the first sample.
    pub first: i64,
}

/// Bytes of a document that may differ while its fields remain the same: a number, or text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VariablePart {
    pub(crate) at: usize,
    pub(crate) length: usize,
    /// The type of the number, of a timestamp's first one.
    pub(crate) kind: Option<MetricKind>,
}

/// A visitor of the variable parts of a document: the path of the field, and the bytes.
pub(crate) type PartVisitor<'v> = dyn FnMut(&str, VariablePart, &[u8]) -> Result<()> + 'v;

/// Calls `visit` with each variable part of a document, depth first.
///
/// # Errors
/// If the document is malformed, or deeper than 32 documents, and those of `visit`.
pub(crate) fn walk(document: &RawDocument, visit: &mut PartVisitor<'_>) -> Result<()> {
    walk_below(document, 0, &mut String::new(), 0, visit)
}

/// The same for a document that begins at `begin` of the outermost one.
fn walk_below(
    document: &RawDocument,
    begin: usize,
    path: &mut String,
    depth: usize,
    visit: &mut PartVisitor<'_>,
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(malformed(format!("documents within each other, more than {MAX_DEPTH}")));
    }
    let bytes = document.as_bytes();
    // Its own length comes first, and a zero last.
    let mut next = 4;
    while next + 1 < bytes.len() {
        let (element_type, key, at) = field(bytes, next).ok_or_else(cut_off)?;
        next = at + value_size(element_type, bytes.get(at..).unwrap_or(&[])).ok_or_else(cut_off)?;
        if next >= bytes.len() {
            return Err(cut_off());
        }
        let (prefix, kind) = match element_type {
            ElementType::EmbeddedDocument | ElementType::Array => (0, None),
            // Strings may not be UTF-8, and are not read. Their lengths come before them.
            ElementType::String => (4, None),
            ElementType::Binary => (5, None),
            _ => match metric_kind(element_type) {
                Some(kind) => (0, Some(kind)),
                None => continue,
            },
        };
        let value = bytes.get(at + prefix..next).ok_or_else(cut_off)?;
        let parent = path.len();
        if parent > 0 {
            path.push('.');
        }
        path.push_str(key);
        match element_type {
            ElementType::EmbeddedDocument | ElementType::Array => {
                // An array is a document whose names are numbers.
                let inner = RawDocument::from_bytes(value)
                    .map_err(|cause| malformed("a document within it that is no BSON").because(cause))?;
                walk_below(inner, begin + at, path, depth + 1, visit)?;
            }
            _ => {
                let part = VariablePart { at: begin + at + prefix, length: value.len(), kind };
                visit(path, part, value)?;
            }
        }
        path.truncate(parent);
    }
    Ok(())
}

fn cut_off() -> Error {
    malformed("BSON that is cut off")
}

/// The type and the name of the field at `at`, and where its value begins.
fn field(bytes: &[u8], at: usize) -> Option<(ElementType, &str, usize)> {
    let (kind, rest) = bytes.get(at..)?.split_first()?;
    let key = CStr::from_bytes_until_nul(rest).ok()?.to_str().ok()?;
    Some((ElementType::from(*kind)?, key, at + key.len() + 2))
}

/// The bytes of a value at the front of `bytes`, which need not be whole.
fn value_size(element_type: ElementType, bytes: &[u8]) -> Option<usize> {
    let length = |from: usize| {
        let field = bytes.get(from..)?.first_chunk::<4>()?;
        usize::try_from(i32::from_le_bytes(*field)).ok()
    };
    Some(match element_type {
        ElementType::Null | ElementType::Undefined | ElementType::MinKey | ElementType::MaxKey => 0,
        ElementType::Boolean => 1,
        ElementType::Int32 => 4,
        ElementType::Double | ElementType::Int64 | ElementType::DateTime | ElementType::Timestamp => 8,
        ElementType::ObjectId => 12,
        ElementType::Decimal128 => 16,
        ElementType::String | ElementType::JavaScriptCode | ElementType::Symbol => 4 + length(0)?,
        ElementType::Binary => 5 + length(0)?,
        ElementType::DbPointer => 4 + length(0)? + 12,
        ElementType::EmbeddedDocument | ElementType::Array | ElementType::JavaScriptCodeWithScope => {
            length(0)?
        }
        ElementType::RegularExpression => {
            let pattern = CStr::from_bytes_until_nul(bytes).ok()?.to_bytes_with_nul().len();
            let options = CStr::from_bytes_until_nul(bytes.get(pattern..)?).ok()?;
            pattern + options.to_bytes_with_nul().len()
        }
    })
}

/// The type of the first metric that a BSON type has.
fn metric_kind(element_type: ElementType) -> Option<MetricKind> {
    Some(match element_type {
        ElementType::Double => MetricKind::Double,
        ElementType::Int32 => MetricKind::Int32,
        ElementType::Int64 => MetricKind::Int64,
        ElementType::Decimal128 => MetricKind::Decimal128,
        ElementType::Boolean => MetricKind::Bool,
        ElementType::DateTime => MetricKind::Date,
        ElementType::Timestamp => MetricKind::TimestampSeconds,
        _ => return None,
    })
}

/// The type of the metric that follows one of the same field.
pub(crate) fn second_metric(kind: MetricKind) -> Option<MetricKind> {
    (kind == MetricKind::TimestampSeconds).then_some(MetricKind::TimestampIncrement)
}

/// A metric of the bytes of its field; `None` if these are not of its type.
pub(crate) fn number(kind: MetricKind, value: &[u8]) -> Option<i64> {
    Some(match kind {
        MetricKind::Double => truncated(f64::from_le_bytes(value.try_into().ok()?)),
        MetricKind::Int32 => i64::from(i32::from_le_bytes(value.try_into().ok()?)),
        MetricKind::Int64 | MetricKind::Date => i64::from_le_bytes(value.try_into().ok()?),
        MetricKind::Decimal128 => integer_part(Decimal128::from_bytes(value.try_into().ok()?)),
        MetricKind::Bool => match value {
            [byte @ 0..=1] => i64::from(*byte),
            _ => return None,
        },
        MetricKind::TimestampSeconds => i64::from(u32::from_le_bytes(*value.last_chunk()?)),
        MetricKind::TimestampIncrement => i64::from(u32::from_le_bytes(*value.first_chunk()?)),
    })
}

fn truncated(value: f64) -> i64 {
    // 2^63 is the least double that is too large.
    if (i64::MIN as f64..-(i64::MIN as f64)).contains(&value) { value as i64 } else { 0 }
}

fn integer_part(value: Decimal128) -> i64 {
    value.to_string().parse().map_or(0, truncated)
}

/// An error on a chunk or document; `what` completes "FTDC has".
pub(crate) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Malformed, format!("FTDC has {what}"))
}
