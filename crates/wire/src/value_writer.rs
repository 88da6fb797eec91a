//! The bytes of one value of any type, without its type and name; the two BSON value types of the `bson` crate, each once.

use bson::raw::{RawBson, cstr};
use bson::{Bson, RawBsonRef, RawDocumentBuf};

use crate::document_writer::{append_binary, append_length, append_string, append_timestamp, patch_length};
use crate::{ArrayWriter, DocumentWriter};

/// Appends a value as its raw form has it.
pub(crate) fn append_raw(buffer: &mut Vec<u8>, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Double(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            append_string(buffer, text);
        }
        RawBsonRef::Document(document) => buffer.extend_from_slice(document.as_bytes()),
        RawBsonRef::Array(array) => buffer.extend_from_slice(array.as_bytes()),
        RawBsonRef::Binary(binary) => append_binary(buffer, binary.subtype, binary.bytes),
        RawBsonRef::Undefined | RawBsonRef::Null | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
        RawBsonRef::ObjectId(id) => buffer.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(truth) => buffer.push(u8::from(truth)),
        RawBsonRef::DateTime(time) => buffer.extend_from_slice(&time.timestamp_millis().to_le_bytes()),
        RawBsonRef::RegularExpression(regex) => {
            append_cstring(buffer, regex.pattern.as_str());
            append_cstring(buffer, regex.options.as_str());
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let start = buffer.len();
            append_length(buffer, 0);
            append_string(buffer, code.code);
            buffer.extend_from_slice(code.scope.as_bytes());
            patch_length(buffer, start);
        }
        RawBsonRef::Int32(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Int64(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Timestamp(value) => append_timestamp(buffer, value),
        RawBsonRef::Decimal128(value) => buffer.extend_from_slice(&value.bytes()),
        RawBsonRef::DbPointer(_) => append_by_document(buffer, value),
    }
}

/// Appends a value of the owned form.
pub(crate) fn append_bson(buffer: &mut Vec<u8>, value: &Bson) {
    match value {
        Bson::Document(fields) => DocumentWriter::new(buffer).extend(fields),
        Bson::Array(items) => {
            let mut array = ArrayWriter::new(buffer);
            items.iter().for_each(|item| array.bson(item));
        }
        Bson::Double(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => append_string(buffer, text),
        Bson::Binary(binary) => append_binary(buffer, binary.subtype, &binary.bytes),
        Bson::Undefined | Bson::Null | Bson::MinKey | Bson::MaxKey => {}
        Bson::ObjectId(id) => buffer.extend_from_slice(&id.bytes()),
        Bson::Boolean(truth) => buffer.push(u8::from(*truth)),
        Bson::DateTime(time) => buffer.extend_from_slice(&time.timestamp_millis().to_le_bytes()),
        Bson::RegularExpression(regex) => {
            append_cstring(buffer, regex.pattern.as_str());
            append_cstring(buffer, regex.options.as_str());
        }
        Bson::JavaScriptCodeWithScope(code) => {
            let start = buffer.len();
            append_length(buffer, 0);
            append_string(buffer, &code.code);
            DocumentWriter::new(buffer).extend(&code.scope);
            patch_length(buffer, start);
        }
        Bson::Int32(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::Int64(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::Timestamp(value) => append_timestamp(buffer, *value),
        Bson::Decimal128(value) => buffer.extend_from_slice(&value.bytes()),
        Bson::DbPointer(_) => {
            if let Ok(raw) = RawBson::try_from(value.clone()) {
                append_by_document(buffer, raw.as_raw_bson_ref());
            }
        }
    }
}

fn append_cstring(buffer: &mut Vec<u8>, value: &str) {
    buffer.extend_from_slice(value.as_bytes());
    buffer.push(0);
}

/// Appends a value whose parts the `bson` crate keeps to itself, by way of a document with nothing else in it.
fn append_by_document(buffer: &mut Vec<u8>, value: RawBsonRef<'_>) {
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!(""), value);
    // Around it: the length, the type, the NUL of an empty name; and the NUL of the document.
    let bytes = alone.as_bytes();
    if let Some(value) = bytes.get(6..bytes.len().saturating_sub(1)) {
        buffer.extend_from_slice(value);
    }
}
