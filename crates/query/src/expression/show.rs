//! Values as MongoDB's messages write them: `{a: 1, b: "x"}`.
//!
//! The length is bounded: a message shows only the beginning of a large value.

use std::fmt::Write;

use bson::Bson;

use super::number::double_text;
use super::value::Value;

const MAX_BYTES: usize = 1024;

/// A value in a message; `MISSING` if there is none.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value.decoded() {
        Ok(Some(bson)) => show_bson(&bson),
        Ok(None) => "MISSING".to_owned(),
        Err(_) => "INVALID".to_owned(),
    }
}

/// A value in a message.
pub(crate) fn show_bson(value: &Bson) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Bson) {
    if text.len() > MAX_BYTES {
        if !text.ends_with("...") {
            text.push_str("...");
        }
        return;
    }
    // Writing to a string cannot fail.
    let _ = match value {
        Bson::Double(value) => write!(text, "{}", double_text(*value)),
        Bson::String(value) => write!(text, "\"{}\"", value.chars().take(MAX_BYTES).collect::<String>()),
        Bson::Boolean(value) => write!(text, "{value}"),
        Bson::Null => write!(text, "null"),
        Bson::Undefined => write!(text, "undefined"),
        Bson::Int32(value) => write!(text, "{value}"),
        Bson::Int64(value) => write!(text, "{value}"),
        Bson::Decimal128(value) => write!(text, "{value}"),
        Bson::ObjectId(value) => write!(text, "{value}"),
        Bson::DateTime(value) => write!(text, "{}", super::calendar::iso_text(value.timestamp_millis())),
        Bson::RegularExpression(value) => {
            write!(text, "/{}/{}", value.pattern.as_str(), value.options.as_str())
        }
        Bson::Timestamp(value) => write!(text, "Timestamp({}, {})", value.time, value.increment),
        Bson::MinKey => write!(text, "MinKey"),
        Bson::MaxKey => write!(text, "MaxKey"),
        Bson::Symbol(value) => write!(text, "Symbol(\"{value}\")"),
        Bson::Binary(value) => {
            write!(text, "BinData({}, {} bytes)", u8::from(value.subtype), value.bytes.len())
        }
        Bson::Array(items) => {
            write_list(text, "[", "]", items.iter(), write_value);
            Ok(())
        }
        Bson::Document(fields) => {
            write_list(text, "{", "}", fields.iter(), |text, (name, value)| {
                text.push_str(name);
                text.push_str(": ");
                write_value(text, value);
            });
            Ok(())
        }
        other => write!(text, "{}", super::value::type_name(other.element_type())),
    };
}

fn write_list<I>(
    text: &mut String,
    open: &str,
    close: &str,
    items: impl Iterator<Item = I>,
    write: impl Fn(&mut String, I),
) {
    text.push_str(open);
    for (index, item) in items.enumerate() {
        if text.len() > MAX_BYTES {
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        write(text, item);
    }
    text.push_str(close);
}
