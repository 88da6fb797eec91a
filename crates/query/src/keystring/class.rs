//! Table: the bytes that begin values and end keys (mongodb/mongo:src/mongo/db/storage/key_string.cpp).
//!
//! No value begins with 0 to 9 or 246 to 255, so that an end, a bound or the second byte of an escaped NUL is never taken for
//! one, inverted or not.
use crate::{Code, Failure};
use bson::spec::ElementType;

/// Ends an object, an array and a text.
pub(super) const NUL: u8 = 0;
/// Follows a NUL within a text.
pub(super) const ESCAPE: u8 = 0xff;
/// Ends a bound that lies before all keys with its values.
pub(super) const LESS: u8 = 1;
/// The byte that ends a key.
pub(super) const END: u8 = 4;
/// Ends a bound that lies after all keys with its values.
pub(super) const GREATER: u8 = 254;

pub(super) const MIN_KEY: u8 = 10;
pub(super) const UNDEFINED: u8 = 15;
pub(super) const NULL: u8 = 20;
pub(super) const NUMBER: u8 = 30;
pub(super) const NAN: u8 = NUMBER;
/// At most -2^63, with minus infinity.
pub(super) const NEGATIVE_LARGE: u8 = 31;
pub(super) const NEGATIVE_8_BYTES: u8 = 32;
pub(super) const NEGATIVE_1_BYTE: u8 = 39;
/// Between -1 and 0.
pub(super) const NEGATIVE_SMALL: u8 = 40;
pub(super) const ZERO: u8 = 41;
/// Between 0 and 1.
pub(super) const POSITIVE_SMALL: u8 = 42;
pub(super) const POSITIVE_1_BYTE: u8 = 43;
pub(super) const POSITIVE_8_BYTES: u8 = 50;
/// At least 2^63, with infinity.
pub(super) const POSITIVE_LARGE: u8 = 51;
pub(super) const TEXT: u8 = 60;
pub(super) const OBJECT: u8 = 70;
pub(super) const ARRAY: u8 = 80;
pub(super) const BINARY: u8 = 90;
pub(super) const OBJECT_ID: u8 = 100;
pub(super) const FALSE: u8 = 110;
pub(super) const TRUE: u8 = 111;
pub(super) const DATE: u8 = 120;
pub(super) const TIMESTAMP: u8 = 130;
pub(super) const REGEX: u8 = 140;
pub(super) const DB_POINTER: u8 = 150;
pub(super) const CODE: u8 = 160;
pub(super) const CODE_WITH_SCOPE: u8 = 170;
pub(super) const MAX_KEY: u8 = 240;

/// The class byte, which precedes a field's name within an object, so that fields are ordered by class before name.
pub(super) fn from_type(kind: ElementType) -> u8 {
    match kind {
        ElementType::MinKey => MIN_KEY,
        ElementType::Undefined => UNDEFINED,
        ElementType::Null => NULL,
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => NUMBER,
        ElementType::String | ElementType::Symbol => TEXT,
        ElementType::EmbeddedDocument => OBJECT,
        ElementType::Array => ARRAY,
        ElementType::Binary => BINARY,
        ElementType::ObjectId => OBJECT_ID,
        ElementType::Boolean => FALSE,
        ElementType::DateTime => DATE,
        ElementType::Timestamp => TIMESTAMP,
        ElementType::RegularExpression => REGEX,
        ElementType::DbPointer => DB_POINTER,
        ElementType::JavaScriptCode => CODE,
        ElementType::JavaScriptCodeWithScope => CODE_WITH_SCOPE,
        ElementType::MaxKey => MAX_KEY,
    }
}

/// The failure for stored bytes that are not a key.
pub(super) fn malformed(what: &'static str) -> Failure {
    Failure::new(MALFORMED, format!("KeyString format error: {what}"))
}

/// The code of MongoDB's assertion for a byte with which no value begins.
const MALFORMED: Code = Code(50811);
