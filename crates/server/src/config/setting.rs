//! What an option is: its key in a configuration file, its flags, what values it takes, and what it changes.
//!
//! Flags and files meet here: both give text, and one shape reads it. A value that makes no sense is refused in one
//! sentence, before anything is opened.

use std::path::PathBuf;

use bson::Bson;
use fathom_errors::{Error, Result};

use super::Config;

/// One option of the server, under mongod's names.
#[derive(Debug)]
pub struct Setting {
    /// The key in a configuration file, such as `net.port`.
    pub key: &'static str,
    /// What values it takes.
    pub shape: Shape,
    /// What it is if nobody says, in words.
    pub default: &'static str,
    /// The flags that set it.
    pub flags: &'static [Flag],
    /// Puts a value that has the shape into the configuration.
    pub(crate) set: fn(&mut Config, &Bson) -> Result<()>,
}

/// A flag as it was typed: its name and its values, none for one that takes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The name in the table, without the dashes.
    pub flag: String,
    /// Its values; for a flag that counts, one empty text for each time.
    pub values: Vec<String>,
}

/// A flag of the command line.
#[derive(Debug)]
pub struct Flag {
    /// Without the dashes.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// What it does to the setting.
    pub sets: Sets,
    /// One line for `--help`.
    pub help: &'static str,
}

/// What a flag does to its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sets {
    /// Takes a value; the word stands for it in `--help`.
    Value(&'static str),
    /// Takes the number of one of the setting's choices.
    Place(&'static str),
    /// Takes no value and means this one.
    Always(&'static str),
    /// Takes no value and counts how often it is there; the letter is its short form.
    Count(char),
    /// May be there several times, each with `name=value`.
    Pair,
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// true or false.
    Boolean,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A number within bounds.
    Number(f64, f64),
    /// Any text.
    Text,
    /// A file or directory.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Names with values, each a text.
    Pairs,
    /// None: mongod has it and this server has not, for this reason.
    Refused(&'static str),
}

impl Shape {
    /// The value that `text` stands for; `name` is the flag or key that it was given by.
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

/// The error for what mongod has and this server has not.
pub(crate) fn refused(name: &str, reason: &str) -> Error {
    Error::usage(format!("fathom serve has no {name}: {reason}"))
}

/// A whole number as mongod shows it: 32 bits where it fits.
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

/// The value of a setting whose shape is a path, from the root: a server in the background works in another directory.
pub(super) fn path(value: &Bson) -> Result<PathBuf> {
    let given = value.as_str().unwrap_or_default();
    std::path::absolute(given).map_err(|error| Error::io("find", given, error))
}

/// The parts of a text with commas between them.
pub(super) fn list(value: &Bson) -> Vec<String> {
    let parts = value.as_str().unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
