//! Values as bytes that are equal exactly when the values are: 1, 1.0 and NumberLong(1) give the same bytes.
//!
//! `$group`, `$addToSet` and the set operators use these bytes for look-ups. The bytes have no order; `order.rs` defines the order.

use bson::{Bson, RawBsonRef, RawDocument};

use super::value::{MAX_DEPTH, Value, malformed, scalar, too_deep, type_name};
use crate::{Decimal, Result, f64_to_i64_exact, order};

/// Tags of the classes that compare as equal across types.
mod tag {
    pub(super) const MISSING: u8 = 0;
    pub(super) const INTEGER: u8 = 1;
    pub(super) const DOUBLE: u8 = 2;
    pub(super) const DECIMAL: u8 = 3;
    pub(super) const TEXT: u8 = 4;
    pub(super) const DOCUMENT: u8 = 5;
    pub(super) const ARRAY: u8 = 6;
    pub(super) const END: u8 = 7;
    pub(super) const ITEM: u8 = 8;
    pub(super) const OTHER: u8 = 9;
}

/// Appends the bytes of a value.
pub(crate) fn append(bytes: &mut Vec<u8>, value: &Value<'_>) -> Result<()> {
    match value {
        Value::Missing => {
            bytes.push(tag::MISSING);
            Ok(())
        }
        Value::Raw(raw) => append_raw(bytes, *raw, 0),
        Value::Ref(bson) => append_bson(bytes, bson, 0),
        Value::Own(bson) => append_bson(bytes, bson, 0),
    }
}

/// The bytes of a value.
pub(crate) fn encode(value: &Value<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    append(&mut bytes, value)?;
    Ok(bytes)
}

fn append_raw(bytes: &mut Vec<u8>, value: RawBsonRef<'_>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        RawBsonRef::Int32(value) => integer(bytes, i64::from(value)),
        RawBsonRef::Int64(value) => integer(bytes, value),
        RawBsonRef::Double(value) => double(bytes, value),
        RawBsonRef::Decimal128(value) => append_decimal(bytes, value),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => sized(bytes, tag::TEXT, text.as_bytes()),
        RawBsonRef::Document(document) => raw_fields(bytes, document, depth)?,
        RawBsonRef::Array(array) => {
            bytes.push(tag::ARRAY);
            for item in array {
                bytes.push(tag::ITEM);
                append_raw(bytes, item.map_err(malformed)?, depth + 1)?;
            }
            bytes.push(tag::END);
        }
        other => append_other(bytes, other, depth)?,
    }
    Ok(())
}

fn raw_fields(bytes: &mut Vec<u8>, document: &RawDocument, depth: usize) -> Result<()> {
    bytes.push(tag::DOCUMENT);
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        sized(bytes, tag::ITEM, name.as_str().as_bytes());
        append_raw(bytes, value, depth + 1)?;
    }
    bytes.push(tag::END);
    Ok(())
}

fn append_bson(bytes: &mut Vec<u8>, value: &Bson, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        Bson::Array(items) => {
            bytes.push(tag::ARRAY);
            for item in items {
                bytes.push(tag::ITEM);
                append_bson(bytes, item, depth + 1)?;
            }
            bytes.push(tag::END);
        }
        Bson::Document(fields) => {
            bytes.push(tag::DOCUMENT);
            for (name, item) in fields {
                sized(bytes, tag::ITEM, name.as_bytes());
                append_bson(bytes, item, depth + 1)?;
            }
            bytes.push(tag::END);
        }
        Bson::JavaScriptCodeWithScope(code) => {
            named(bytes, "javascriptWithScope");
            sized(bytes, tag::TEXT, code.code.as_bytes());
            for (name, item) in &code.scope {
                sized(bytes, tag::ITEM, name.as_bytes());
                append_bson(bytes, item, depth + 1)?;
            }
            bytes.push(tag::END);
        }
        other => match scalar(other) {
            Some(raw) => append_raw(bytes, raw, depth)?,
            None => {
                let raw = bson::RawBson::try_from(other.clone()).map_err(malformed)?;
                append_other(bytes, raw.as_raw_bson_ref(), depth)?;
            }
        },
    }
    Ok(())
}

/// Types that are equal to no other type.
fn append_other(bytes: &mut Vec<u8>, value: RawBsonRef<'_>, depth: usize) -> Result<()> {
    named(bytes, type_name(value.element_type()));
    match value {
        RawBsonRef::Boolean(value) => bytes.push(u8::from(value)),
        RawBsonRef::ObjectId(value) => bytes.extend(value.bytes()),
        RawBsonRef::DateTime(value) => bytes.extend(value.timestamp_millis().to_le_bytes()),
        RawBsonRef::Timestamp(value) => {
            bytes.extend(value.time.to_le_bytes());
            bytes.extend(value.increment.to_le_bytes());
        }
        RawBsonRef::Binary(value) => sized(bytes, u8::from(value.subtype), value.bytes),
        RawBsonRef::RegularExpression(value) => {
            sized(bytes, tag::TEXT, value.pattern.as_str().as_bytes());
            sized(bytes, tag::TEXT, value.options.as_str().as_bytes());
        }
        RawBsonRef::JavaScriptCode(code) => sized(bytes, tag::TEXT, code.as_bytes()),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            sized(bytes, tag::TEXT, code.code.as_bytes());
            for element in code.scope.iter() {
                let (name, value) = element.map_err(malformed)?;
                sized(bytes, tag::ITEM, name.as_str().as_bytes());
                append_raw(bytes, value, depth + 1)?;
            }
            bytes.push(tag::END);
        }
        RawBsonRef::DbPointer(pointer) => {
            let text = format!("{pointer:?}");
            sized(bytes, tag::TEXT, text.as_bytes());
        }
        _ => {}
    }
    Ok(())
}

fn named(bytes: &mut Vec<u8>, name: &str) {
    sized(bytes, tag::OTHER, name.as_bytes());
}

fn sized(bytes: &mut Vec<u8>, tag: u8, content: &[u8]) {
    bytes.push(tag);
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content);
}

fn integer(bytes: &mut Vec<u8>, value: i64) {
    bytes.push(tag::INTEGER);
    bytes.extend(value.to_le_bytes());
}

fn double(bytes: &mut Vec<u8>, value: f64) {
    if let Some(value) = f64_to_i64_exact(value) {
        return integer(bytes, value);
    }
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    bytes.push(tag::DOUBLE);
    bytes.extend(bits.to_le_bytes());
}

fn append_decimal(bytes: &mut Vec<u8>, value: bson::Decimal128) {
    let number = Decimal::unpack(value);
    if let Some(value) = number.to_i64_exact() {
        return integer(bytes, value);
    }
    let near = number.to_f64();
    if order::compare(RawBsonRef::Decimal128(value), RawBsonRef::Double(near)).is_eq() {
        return double(bytes, near);
    }
    if let Decimal::Finite { negative, coefficient, exponent } = number {
        let digits = coefficient.to_string();
        let significant = digits.trim_end_matches('0');
        let exponent = exponent + (digits.len() - significant.len()) as i64;
        bytes.push(tag::DECIMAL);
        bytes.push(u8::from(negative));
        bytes.extend(exponent.to_le_bytes());
        sized(bytes, tag::TEXT, significant.as_bytes());
    }
}
