//! The least and the greatest value of each type, between which comparisons of that type stay.

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, RawRegexRef, Timestamp};

use super::interval::{Cut, Interval};

/// All values that a comparison with one of this type can match, or `$type` of it: at least them, and nothing else where
/// [`is_exact`]. Of the rare types between regular expressions and MaxKey it is all of them.
pub(super) fn of(kind: ElementType) -> Interval {
    let (low, high) = match kind {
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            (Cut::before(RawBson::Double(f64::NEG_INFINITY)), Cut::after(RawBson::Double(f64::INFINITY)))
        }
        ElementType::String | ElementType::Symbol => {
            (Cut::before(RawBson::String(String::new())), Cut::before(empty_document()))
        }
        ElementType::EmbeddedDocument => (Cut::before(empty_document()), Cut::before(empty_array())),
        ElementType::Array => (Cut::before(empty_array()), Cut::before(empty_binary())),
        ElementType::Binary => (Cut::before(empty_binary()), Cut::before(id(0))),
        ElementType::ObjectId => (Cut::before(id(0)), Cut::after(id(0xff))),
        ElementType::Boolean => (Cut::before(RawBson::Boolean(false)), Cut::after(RawBson::Boolean(true))),
        ElementType::DateTime => (
            Cut::before(RawBson::DateTime(DateTime::from_millis(i64::MIN))),
            Cut::after(RawBson::DateTime(DateTime::from_millis(i64::MAX))),
        ),
        ElementType::Timestamp => (Cut::before(timestamp(0)), Cut::after(timestamp(u32::MAX))),
        ElementType::Null => (Cut::before(RawBson::Null), Cut::after(RawBson::Null)),
        ElementType::Undefined => (Cut::before(RawBson::Undefined), Cut::after(RawBson::Undefined)),
        ElementType::MinKey => (Cut::before(RawBson::MinKey), Cut::after(RawBson::MinKey)),
        ElementType::MaxKey => (Cut::before(RawBson::MaxKey), Cut::after(RawBson::MaxKey)),
        ElementType::RegularExpression
        | ElementType::DbPointer
        | ElementType::JavaScriptCode
        | ElementType::JavaScriptCodeWithScope => (Cut::before(empty_regex()), Cut::before(RawBson::MaxKey)),
    };
    Interval { low, high }
}

/// Whether keys between two values of this type are just the values between them, so that no document need be looked at.
/// Arrays and documents are left out: what an index holds of them is not them.
pub(super) fn is_exact(kind: ElementType) -> bool {
    matches!(
        kind,
        ElementType::Double
            | ElementType::Int32
            | ElementType::Int64
            | ElementType::Decimal128
            | ElementType::String
            | ElementType::Symbol
            | ElementType::Binary
            | ElementType::ObjectId
            | ElementType::Boolean
            | ElementType::DateTime
            | ElementType::Timestamp
    )
}

fn empty_document() -> RawBson {
    RawBson::Document(RawDocumentBuf::new())
}

fn empty_array() -> RawBson {
    RawBson::Array(RawArrayBuf::new())
}

fn empty_binary() -> RawBson {
    RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() })
}

fn empty_regex() -> RawBson {
    RawBsonRef::RegularExpression(RawRegexRef { pattern: cstr!(""), options: cstr!("") }).into()
}

fn id(byte: u8) -> RawBson {
    RawBson::ObjectId(ObjectId::from_bytes([byte; 12]))
}

fn timestamp(part: u32) -> RawBson {
    RawBson::Timestamp(Timestamp { time: part, increment: part })
}
