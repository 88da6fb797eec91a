//! The configuration file: YAML with mongod's keys. A key that is not in the table is refused by its name.

use std::path::Path;

use bson::{Bson, Document};
use fathom_errors::{Error, Kind, Result};
use serde_yaml_ng::Value;

use super::assemble::Values;
use super::options::SETTINGS;
use super::setting::{Setting, Shape, refused};

/// The largest file that is read, in bytes; mongod's own are a few hundred.
const LARGEST_BYTES: u64 = 1 << 20;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Values> {
    let failed = |error| Error::io("read the configuration file", path, error);
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > LARGEST_BYTES {
        return Err(Error::usage(format!(
            "{} is no configuration file: it has {length} bytes",
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|error| {
        Error::new(Kind::Usage, format!("the configuration file {} is refused", path.display()))
            .because(error)
    })
}

/// What the text of a file gives.
pub(super) fn parse(text: &str) -> Result<Values> {
    let root: Value =
        serde_yaml_ng::from_str(text).map_err(|error| Error::usage("it is not YAML").because(error))?;
    let mut values = Values::new();
    match root {
        Value::Null => {}
        Value::Mapping(_) => walk(String::new(), &root, &mut values)?,
        _ => return Err(Error::usage("it holds no options, which are written 'key: value'")),
    }
    Ok(values)
}

fn walk(prefix: String, value: &Value, values: &mut Values) -> Result<()> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == prefix) {
        values.insert(setting.key, read_value(setting, value)?);
        return Ok(());
    }
    let inside = format!("{prefix}.");
    match value {
        // A section whose keys are all comments.
        Value::Null if SETTINGS.iter().any(|setting| setting.key.starts_with(&inside)) => Ok(()),
        Value::Mapping(inner)
            if prefix.is_empty() || SETTINGS.iter().any(|setting| setting.key.starts_with(&inside)) =>
        {
            for (name, value) in inner {
                let name = scalar(name)
                    .ok_or_else(|| Error::usage(format!("a key within '{prefix}' is no text")))?;
                let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                walk(key, value, values)?;
            }
            Ok(())
        }
        _ => Err(unknown(&prefix)),
    }
}

fn read_value(setting: &Setting, value: &Value) -> Result<Bson> {
    if let Shape::Refused(reason) = setting.shape {
        return Err(refused(setting.key, reason));
    }
    if setting.shape != Shape::Pairs {
        let text = scalar(value).ok_or_else(|| Error::usage(format!("'{}' takes one value", setting.key)))?;
        return setting.shape.read(setting.key, &text);
    }
    let Value::Mapping(inner) = value else {
        return Err(Error::usage(format!("'{}' takes names with values", setting.key)));
    };
    let mut pairs = Document::new();
    for (name, value) in inner {
        match (scalar(name), scalar(value)) {
            (Some(name), Some(value)) => pairs.insert(name, value),
            _ => return Err(Error::usage(format!("'{}' takes names with one value each", setting.key))),
        };
    }
    Ok(Bson::Document(pairs))
}

/// A value as it was written.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        _ => None,
    }
}

fn unknown(key: &str) -> Error {
    let last = key.rsplit('.').next().unwrap_or(key);
    let error = Error::usage(format!("'{key}' is no option of fathom serve"));
    let same = |setting: &&Setting| {
        setting.key.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case(last))
            || setting.flags.iter().any(|flag| flag.name.eq_ignore_ascii_case(last))
    };
    match SETTINGS.iter().find(same) {
        Some(setting) => error.advise(format!("did you mean '{}'?", setting.key)),
        None => error,
    }
}
