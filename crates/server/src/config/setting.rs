//! The definition of an option: its key in a configuration file, its flags, its possible values, and the setting that it changes.
//!
//! Flags and files both give text, which the same shape parses. An invalid value is refused in one sentence, before
//! anything is opened.

use std::path::PathBuf;

use bson::Bson;
use fathom_errors::{Error, Result};

use super::Config;

/// One option of the server, under mongod's names.
#[derive(Debug)]
pub struct Setting {
    /// The key in a configuration file, such as `net.port`.
    pub key: &'static str,
    /// The values that it accepts.
    pub shape: Shape,
    /// Its default, in words.
    pub default: &'static str,
    /// The flags that set it.
    pub flags: &'static [Flag],
    /// Stores a parsed value in the configuration.
    pub(crate) set: fn(&mut Config, &Bson) -> Result<()>,
}

/// A flag as it was typed: its name and its values; a flag without a value has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedFlag {
    /// The name in the table, without the dashes.
    pub flag: String,
    /// Its values; for a flag that counts, one empty text per occurrence.
    pub values: Vec<String>,
}

/// A flag of the command line.
#[derive(Debug)]
pub struct Flag {
    /// The name without the dashes.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// Its effect on the setting.
    pub sets: Sets,
    /// One line for `--help`.
    pub help: &'static str,
}

/// The effect of a flag on its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sets {
    /// Takes a value; the word represents it in `--help`.
    Value(&'static str),
    /// Takes the number of one of the setting's choices.
    Place(&'static str),
    /// Takes no value and sets this one.
    Always(&'static str),
    /// Takes no value and counts its occurrences; the letter is its short form.
    Count(char),
    /// May occur several times, each time with `name=value`.
    Pair,
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Boolean,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A number within bounds.
    Number(f64, f64),
    Text,
    /// A file or directory.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Names with values, each a text.
    Pairs,
    /// No value: mongod has the option but this server does not, for this reason.
    Refused(&'static str),
}

impl Shape {
    /// Parses the value in `text`; `name` is the flag or key that it was given by.
    pub(crate) fn read(self, name: &str, text: &str) -> Result<Bson> {
        let wants = |what: String| Err(Error::usage(format!("{name} takes {what}, not '{text}'")));
        match self {
            Shape::Boolean => match text {
                "true" => Ok(Bson::Boolean(true)),
                "false" => Ok(Bson::Boolean(false)),
                _ => wants("true or false".to_owned()),
            },
            Shape::Integer(least, most) => match text.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(integer_value(number)),
                _ => wants(format!("a whole number from {least} to {most}")),
            },
            Shape::Number(least, most) => match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(Bson::Double(number)),
                _ => wants(format!("a number from {least} to {most}")),
            },
            Shape::Path if text.is_empty() => wants("a path".to_owned()),
            Shape::Text | Shape::Path => Ok(Bson::String(text.to_owned())),
            Shape::Choice(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Bson::String((*word).to_owned())),
                None => wants(format!("one of {}", words.join(", "))),
            },
            Shape::Pairs => match text.split_once('=') {
                Some((name, value)) if !name.is_empty() => Ok(Bson::Document(bson::doc! { name: value })),
                _ => wants("name=value".to_owned()),
            },
            Shape::Refused(reason) => Err(refused(name, reason)),
        }
    }
}

/// The error for an option of mongod that this server does not have.
pub(crate) fn refused(name: &str, reason: &str) -> Error {
    Error::usage(format!("fathom serve has no {name}: {reason}"))
}

/// A whole number as mongod shows it: 32 bits if it fits.
pub(crate) fn integer_value(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

/// The value of a setting whose shape is a boolean.
pub(super) fn boolean(value: &Bson) -> bool {
    value.as_bool().unwrap_or(false)
}

/// The value of a setting whose shape is a whole number from 0.
pub(super) fn natural(value: &Bson) -> u64 {
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// The value of a setting whose shape is a number.
pub(super) fn number(value: &Bson) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// The value of a setting whose shape is text or a choice.
pub(super) fn text(value: &Bson) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The value of a path setting as an absolute path: a server in the background works in another directory.
pub(super) fn path(value: &Bson) -> Result<PathBuf> {
    let given = value.as_str().unwrap_or_default();
    std::path::absolute(given).map_err(|error| Error::io("find", given, error))
}

/// The parts of a comma-separated text.
pub(super) fn list(value: &Bson) -> Vec<String> {
    let parts = value.as_str().unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
