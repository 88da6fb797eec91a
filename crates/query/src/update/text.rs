//! Formats the names of types and values as MongoDB's messages do.
use crate::Result;
use crate::raw::{Element, Value, find};
use bson::{Bson, Document};

/// The name of a type, as `$type` and messages have it.
pub(crate) fn type_name(kind: u8) -> &'static str {
    match kind {
        0x01 => "double",
        0x02 => "string",
        0x03 => "object",
        0x04 => "array",
        0x05 => "binData",
        0x06 => "undefined",
        0x07 => "objectId",
        0x08 => "bool",
        0x09 => "date",
        0x0a => "null",
        0x0b => "regex",
        0x0c => "dbPointer",
        0x0d => "javascript",
        0x0e => "symbol",
        0x0f => "javascriptWithScope",
        0x10 => "int",
        0x11 => "timestamp",
        0x12 => "long",
        0x13 => "decimal",
        0x7f => "maxKey",
        0xff => "minKey",
        _ => "unknown",
    }
}

/// An element as text: `name: value`.
pub(crate) fn element_text(element: &Element<'_>) -> Result<String> {
    named_text(&String::from_utf8_lossy(element.name), &Value::from_element(element)?)
}

pub(crate) fn named_text(name: &str, value: &Value) -> Result<String> {
    Ok(format!("{name}: {}", value_text(&value.to_bson()?)))
}

/// `_id: value` of a document, or `no id`.
pub(crate) fn id_text(document: &[u8]) -> Result<String> {
    find(document, b"_id")?.map_or_else(|| Ok("no id".to_string()), |id| element_text(&id))
}

/// `{ a: 1, b: "x" }`.
pub(crate) fn document_text(document: &Document) -> String {
    if document.is_empty() {
        return "{}".to_string();
    }
    let fields: Vec<String> =
        document.iter().map(|(name, value)| format!("{name}: {}", value_text(value))).collect();
    format!("{{ {} }}", fields.join(", "))
}

fn value_text(value: &Bson) -> String {
    match value {
        Bson::Double(value) => format!("{value:?}"),
        Bson::String(text) | Bson::Symbol(text) => format!("\"{text}\""),
        Bson::Document(document) => document_text(document),
        Bson::Array(items) if items.is_empty() => "[]".to_string(),
        Bson::Array(items) => {
            format!("[ {} ]", items.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        Bson::Int64(value) => value.to_string(),
        Bson::Null => "null".to_string(),
        Bson::Undefined => "undefined".to_string(),
        Bson::MinKey => "MinKey".to_string(),
        Bson::MaxKey => "MaxKey".to_string(),
        Bson::ObjectId(id) => format!("ObjectId('{id}')"),
        Bson::DateTime(date) => format!("new Date({})", date.timestamp_millis()),
        Bson::Timestamp(stamp) => format!("Timestamp({}, {})", stamp.time, stamp.increment),
        Bson::Binary(binary) => {
            let digits: String = binary.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("BinData({}, {digits})", u8::from(binary.subtype))
        }
        other => other.to_string(),
    }
}
