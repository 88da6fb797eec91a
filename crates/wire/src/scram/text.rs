//! The `a=value,b=value` texts that SCRAM speaks.
//!
//! RFC 5802 fixes the order of the attributes, so they are taken one after another and anything else is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{Code, Failure};

/// The attributes of a message that are left to read.
pub(super) struct Attributes<'a> {
    rest: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Attributes { rest: Some(text) }
    }

    /// The value of the next attribute, which must be `name`.
    pub(super) fn next(&mut self, name: char) -> Result<&'a str, Failure> {
        let (attribute, rest) = match self.rest.and_then(|rest| rest.split_once(',')) {
            Some((attribute, rest)) => (Some(attribute), Some(rest)),
            None => (self.rest, None),
        };
        self.rest = rest;
        attribute
            .and_then(|attribute| attribute.strip_prefix(name)?.strip_prefix('='))
            .ok_or_else(|| malformed(format!("attribute {name} is missing")))
    }
}

/// The text of a payload.
pub(super) fn text_of(payload: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(payload).map_err(|_| malformed("it is not UTF-8"))
}

/// The bytes of a base64 value.
pub(super) fn bytes_of(value: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(value).map_err(|_| malformed("a value is not base64"))
}

pub(super) fn base64_of(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A user's name as it stands in a message, where commas and equal signs mean something.
pub(super) fn escape(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// The inverse of [`escape`]; an equal sign that begins neither is refused.
pub(super) fn unescape(name: &str) -> Result<String, Failure> {
    let mut pieces = name.split('=');
    let mut unescaped = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (letter, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(malformed("the user's name has an equal sign that escapes nothing")),
        };
        unescaped.push(letter);
        unescaped.push_str(rest);
    }
    Ok(unescaped)
}

/// A message that does not follow the grammar.
pub(super) fn malformed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::BadValue, format!("the SCRAM message is malformed: {what}"))
}
