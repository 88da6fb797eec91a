//! Formats values in MongoDB's shell-like text, for error messages and the index bounds of explain.

use std::fmt::Write;

use bson::{Bson, RawBsonRef, RawDocument};

/// The number of document levels that are written out; deeper ones become dots.
const MAX_DEPTH: usize = 32;

/// The text of a value: `5`, `2.0`, `"x"`, `{ a: 1 }`, `ObjectId('...')`.
pub(crate) fn value(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    out
}

fn write_value(out: &mut String, value: RawBsonRef<'_>, depth: usize) {
    // Writing into a string does not fail.
    let _ = match value {
        RawBsonRef::Double(number) if number.is_nan() => write!(out, "nan.0"),
        RawBsonRef::Double(number) if number.is_infinite() => {
            write!(out, "{}inf.0", if number < 0.0 { "-" } else { "" })
        }
        RawBsonRef::Double(number) => write!(out, "{number:?}"),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => write!(out, "\"{text}\""),
        RawBsonRef::Document(document) => {
            write_fields(out, document, depth);
            Ok(())
        }
        RawBsonRef::Array(array) => {
            write_items(out, array, depth);
            Ok(())
        }
        RawBsonRef::Boolean(truth) => write!(out, "{truth}"),
        RawBsonRef::Null => write!(out, "null"),
        RawBsonRef::RegularExpression(regex) => {
            write!(out, "/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        RawBsonRef::Int32(number) => write!(out, "{number}"),
        RawBsonRef::Int64(number) => write!(out, "{number}"),
        RawBsonRef::Timestamp(stamp) => write!(out, "Timestamp({}, {})", stamp.time, stamp.increment),
        RawBsonRef::Binary(binary) => {
            let _ = write!(out, "BinData({}, ", u8::from(binary.subtype));
            binary.bytes.iter().for_each(|byte| {
                let _ = write!(out, "{byte:02X}");
            });
            write!(out, ")")
        }
        RawBsonRef::ObjectId(id) => write!(out, "ObjectId('{}')", id.to_hex()),
        RawBsonRef::DateTime(date) => write!(out, "new Date({})", date.timestamp_millis()),
        RawBsonRef::Decimal128(number) => write!(out, "{number}"),
        RawBsonRef::Undefined => write!(out, "undefined"),
        RawBsonRef::MaxKey => write!(out, "MaxKey"),
        RawBsonRef::MinKey => write!(out, "MinKey"),
        RawBsonRef::JavaScriptCode(code) => write!(out, "{code}"),
        RawBsonRef::JavaScriptCodeWithScope(code) => write!(out, "CodeWScope( {}, ...)", code.code),
        RawBsonRef::DbPointer(_) => match Bson::try_from(value) {
            Ok(pointer) => write!(out, "{pointer}"),
            Err(_) => write!(out, "DBRef(...)"),
        },
    };
}

fn write_fields(out: &mut String, document: &RawDocument, depth: usize) {
    if depth >= MAX_DEPTH {
        out.push_str("{ ... }");
        return;
    }
    let mut separator = "{ ";
    for element in document.iter_elements().flatten() {
        out.push_str(separator);
        separator = ", ";
        out.push_str(element.key().as_str());
        out.push_str(": ");
        match element.value() {
            Ok(inner) => write_value(out, inner, depth + 1),
            Err(_) => out.push('?'),
        }
    }
    out.push_str(if separator == "{ " { "{}" } else { " }" });
}

fn write_items(out: &mut String, array: &bson::RawArray, depth: usize) {
    if depth >= MAX_DEPTH {
        out.push_str("[ ... ]");
        return;
    }
    let mut separator = "[ ";
    for item in array.into_iter().flatten() {
        out.push_str(separator);
        separator = ", ";
        write_value(out, item, depth + 1);
    }
    out.push_str(if separator == "[ " { "[]" } else { " ]" });
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn values_read_as_in_mongodb() {
        for (document, expected) in [
            (rawdoc! { "a": 1 }, "{ a: 1 }"),
            (rawdoc! { "a": 1.0 }, "{ a: 1.0 }"),
            (rawdoc! { "a": f64::NEG_INFINITY }, "{ a: -inf.0 }"),
            (rawdoc! { "a": ["x", bson::RawBson::Null, true] }, r#"{ a: [ "x", null, true ] }"#),
            (rawdoc! {}, "{}"),
        ] {
            assert_eq!(value(RawBsonRef::Document(&document)), expected);
        }
    }
}
