//! The words in which a command is refused: mongod's, with the command as its shell would print it and no secret in it.

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use crate::request::Request;

/// As much of a command as a refusal repeats.
const SHOWN_BYTES: usize = 2000;
/// Fields whose values are secrets.
const SECRETS: &[&str] = &["pwd", "payload", "speculativeAuthenticate", "key", "digest"];

/// Nobody has logged in.
#[cold]
pub(super) fn needs_login(request: &Request<'_>) -> Failure {
    Failure::new(Code::Unauthorized, format!("command {} requires authentication", request.command.name))
}

/// Whoever logged in may not do this.
#[cold]
pub(super) fn not_authorized(request: &Request<'_>) -> Failure {
    let mut text = String::new();
    write_document(&mut text, request.body());
    if text.len() >= SHOWN_BYTES {
        text.push_str("...");
    }
    Failure::new(
        Code::Unauthorized,
        format!("not authorized on {} to execute command {text}", request.database),
    )
}

fn write_document(text: &mut String, document: &RawDocument) {
    text.push('{');
    for (place, (name, value)) in document.iter().flatten().enumerate() {
        if text.len() >= SHOWN_BYTES {
            return;
        }
        text.push_str(if place == 0 { " " } else { ", " });
        text.push_str(name.as_str());
        text.push_str(": ");
        if SECRETS.contains(&name.as_str()) {
            text.push_str("\"xxx\"");
        } else {
            write_value(text, value);
        }
    }
    text.push_str(" }");
}

fn write_value(text: &mut String, value: RawBsonRef<'_>) {
    if text.len() >= SHOWN_BYTES {
        return;
    }
    match value {
        RawBsonRef::Document(inner) => write_document(text, inner),
        RawBsonRef::Array(items) => {
            text.push('[');
            for (place, item) in items.into_iter().flatten().enumerate() {
                text.push_str(if place == 0 { " " } else { ", " });
                write_value(text, item);
            }
            text.push_str(" ]");
        }
        RawBsonRef::String(inner) => {
            let shown: String = inner.chars().take(SHOWN_BYTES).collect();
            text.push_str(&format!("{shown:?}"));
        }
        RawBsonRef::Double(number) => text.push_str(&format!("{number:?}")),
        RawBsonRef::Int32(number) => text.push_str(&number.to_string()),
        RawBsonRef::Int64(number) => text.push_str(&number.to_string()),
        RawBsonRef::Boolean(truth) => text.push_str(if truth { "true" } else { "false" }),
        RawBsonRef::Null => text.push_str("null"),
        RawBsonRef::ObjectId(id) => text.push_str(&format!("ObjectId('{id}')")),
        RawBsonRef::Binary(binary) => match binary.bytes.try_into() {
            Ok(bytes) if binary.subtype == bson::spec::BinarySubtype::Uuid => {
                text.push_str(&format!("UUID(\"{}\")", bson::Uuid::from_bytes(bytes)));
            }
            _ => {
                text.push_str(&format!("BinData({}, {} bytes)", u8::from(binary.subtype), binary.bytes.len()))
            }
        },
        other => text.push_str(crate::parse::type_name(other)),
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn secrets_are_not_repeated_and_long_commands_are_cut() {
        let mut text = String::new();
        let command = rawdoc! { "createUser": "u", "pwd": "hidden", "roles": [{ "role": "r" }], "x": 1.5 };
        write_document(&mut text, &command);
        assert_eq!(text, r#"{ createUser: "u", pwd: "xxx", roles: [ { role: "r" } ], x: 1.5 }"#);
        let mut text = String::new();
        write_document(&mut text, &rawdoc! { "a": "y".repeat(100_000), "b": 1 });
        assert!(text.len() < 2 * SHOWN_BYTES, "{}", text.len());
    }
}
