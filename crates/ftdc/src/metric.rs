//! The metrics of a chunk: the numbers of its first sample, in the order in which their columns follow.

use bson::spec::ElementType;
use bson::{Decimal128, RawArray, RawBsonRef, RawDocument};
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

/// The metrics of a document, depth first.
///
/// # Errors
/// If the document is malformed, or deeper than 32 documents.
pub(crate) fn metrics(document: &RawDocument) -> Result<Vec<Metric>> {
    let mut found = Vec::new();
    walk(document, &mut String::new(), 0, &mut |path, kind, first| {
        found.push(Metric { path: path.to_owned(), kind, first });
    })?;
    Ok(found)
}

/// Calls `visit` with each metric of a document: path, kind and value.
fn walk(
    document: &RawDocument,
    path: &mut String,
    depth: usize,
    visit: &mut impl FnMut(&str, MetricKind, i64),
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(malformed(format!("documents within each other, more than {MAX_DEPTH}")));
    }
    for element in document.iter_elements() {
        let element = element.map_err(|cause| malformed("BSON that is cut off").because(cause))?;
        if !has_metrics(element.element_type()) {
            continue;
        }
        let value =
            element.value().map_err(|cause| malformed("a value of the wrong length").because(cause))?;
        let parent = path.len();
        if parent > 0 {
            path.push('.');
        }
        path.push_str(element.key().as_str());
        match value {
            RawBsonRef::Double(value) => visit(path, MetricKind::Double, truncated(value)),
            RawBsonRef::Int32(value) => visit(path, MetricKind::Int32, i64::from(value)),
            RawBsonRef::Int64(value) => visit(path, MetricKind::Int64, value),
            RawBsonRef::Decimal128(value) => visit(path, MetricKind::Decimal128, integer_part(value)),
            RawBsonRef::Boolean(value) => visit(path, MetricKind::Bool, i64::from(value)),
            RawBsonRef::DateTime(value) => visit(path, MetricKind::Date, value.timestamp_millis()),
            RawBsonRef::Timestamp(value) => {
                visit(path, MetricKind::TimestampSeconds, i64::from(value.time));
                visit(path, MetricKind::TimestampIncrement, i64::from(value.increment));
            }
            RawBsonRef::Document(inner) => walk(inner, path, depth + 1, visit)?,
            RawBsonRef::Array(inner) => walk(array_as_document(inner)?, path, depth + 1, visit)?,
            _ => {}
        }
        path.truncate(parent);
    }
    Ok(())
}

/// An array is a document whose names are numbers.
fn array_as_document(array: &RawArray) -> Result<&RawDocument> {
    RawDocument::from_bytes(array.as_bytes())
        .map_err(|cause| malformed("an array that is no BSON").because(cause))
}

/// Strings are among the types without a metric: they may not be UTF-8, and are not read.
fn has_metrics(kind: ElementType) -> bool {
    matches!(
        kind,
        ElementType::Double
            | ElementType::Int32
            | ElementType::Int64
            | ElementType::Decimal128
            | ElementType::Boolean
            | ElementType::DateTime
            | ElementType::Timestamp
            | ElementType::EmbeddedDocument
            | ElementType::Array
    )
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
