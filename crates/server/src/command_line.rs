//! Merges flags and a configuration file into one [`Config`]: the source of each value, the precedence, and the checks.
//!
//! The command line takes precedence over the file, as in mongod. The file is YAML with mongod's keys; an unknown key is refused by name.
//! This module opens only the configuration file.

use std::collections::BTreeMap;
use std::path::Path;

use bson::{Bson, Document};
use fathom_errors::{Error, Kind, Result};
use serde_yaml_ng::Value;

use crate::config::{
    ClusterRole, Config, Flag, LogRotate, SETTINGS, Sets, Setting, Shape, TypedFlag, refused,
};
use crate::server_parameters;

/// The maximum size of a configuration file, in bytes; mongod's own are a few hundred.
const MAX_BYTES: u64 = 1 << 20;

/// The values that were given, by key.
type OptionValues = BTreeMap<&'static str, Bson>;

impl Config {
    /// Builds the configuration from a command line (`argv` whole, for `getCmdLineOpts`) and an optional file.
    pub fn assemble(argv: Vec<String>, flags: &[TypedFlag], file: Option<&Path>) -> Result<Config> {
        let mut values = match file {
            Some(file) => read_file(file)?,
            None => OptionValues::new(),
        };
        for (key, value) in of_flags(flags)? {
            merge(&mut values, key, value);
        }
        let mut config = Config { argv, ..Config::default() };
        config.storage.diagnostic_data = true;
        for setting in SETTINGS {
            if let Some(value) = values.get(setting.key) {
                (setting.set)(&mut config, value)?;
            }
        }
        check(&mut config, &mut values)?;
        let mut parsed = Document::new();
        if let Some(file) = file {
            parsed.insert("config", file.display().to_string());
        }
        for (key, value) in values {
            nest(&mut parsed, key, value);
        }
        config.parsed = parsed.into_iter().collect();
        Ok(config)
    }
}

/// The flag of a name, and its setting.
fn flag_of(name: &str) -> Option<(&'static Setting, &'static Flag)> {
    SETTINGS.iter().find_map(|setting| Some((setting, setting.flags.iter().find(|flag| flag.name == name)?)))
}

fn of_flags(flags: &[TypedFlag]) -> Result<OptionValues> {
    let mut values = OptionValues::new();
    let mut by: BTreeMap<&str, &str> = BTreeMap::new();
    for given in flags {
        let Some((setting, flag)) = flag_of(&given.flag) else {
            let what = format!("--{} is not an option of fathom serve", given.flag);
            return Err(Error::usage(what).with_id("unknown-server-option"));
        };
        let name = format!("--{}", flag.name);
        if let Some(other) = by.insert(setting.key, flag.name) {
            return Err(Error::usage(format!("--{other} and {name} cannot both be given")));
        }
        if let Shape::Refused(reason) = setting.shape {
            return Err(refused(&name, reason));
        }
        let value = match flag.sets {
            Sets::Always(value) => setting.shape.read(&name, value)?,
            Sets::Count(_) => setting.shape.read(&name, &given.values.len().to_string())?,
            Sets::Place(_) => place(setting.shape, &name, only(given))?,
            Sets::Value(_) => setting.shape.read(&name, only(given))?,
            Sets::Pair => pairs(setting.shape, &name, &given.values)?,
        };
        values.insert(setting.key, value);
    }
    Ok(values)
}

fn only(given: &TypedFlag) -> &str {
    given.values.first().map_or("", String::as_str)
}

fn place(shape: Shape, name: &str, text: &str) -> Result<Bson> {
    let words = if let Shape::Choice(words) = shape { words } else { &[] };
    let word = text.parse::<usize>().ok().and_then(|place| words.get(place));
    match word {
        Some(word) => Ok(Bson::String((*word).to_owned())),
        None => {
            Err(Error::usage(format!("{name} takes a number from 0 to {}, not '{text}'", words.len() - 1)))
        }
    }
}

fn pairs(shape: Shape, name: &str, texts: &[String]) -> Result<Bson> {
    let mut all = Document::new();
    for text in texts {
        if let Bson::Document(pair) = shape.read(name, text)? {
            all.extend(pair);
        }
    }
    Ok(Bson::Document(all))
}

/// A later value replaces an earlier one; for names with values, each name separately.
fn merge(values: &mut OptionValues, key: &'static str, value: Bson) {
    match (values.get_mut(key), value) {
        (Some(Bson::Document(before)), Bson::Document(more)) => before.extend(more),
        (_, value) => {
            values.insert(key, value);
        }
    }
}

/// Checks that concern several settings.
fn check(config: &mut Config, values: &mut OptionValues) -> Result<()> {
    if values.contains_key("net.bindIp") && values.get("net.bindIpAll") == Some(&Bson::Boolean(true)) {
        return Err(Error::usage("--bind_ip and --bind_ip_all cannot both be given"));
    }
    if config.fork && config.log_path.is_none() {
        return Err(Error::usage(
            "--fork needs --logpath: a server in the background has no standard output",
        ));
    }
    match (&config.log_path, values.contains_key("systemLog.destination")) {
        (None, true) => return Err(Error::usage("systemLog.destination needs systemLog.path")),
        (Some(_), false) => {
            values.insert("systemLog.destination", Bson::from("file"));
        }
        _ => {}
    }
    if config.log_rotate == LogRotate::Reopen && !config.log_append {
        return Err(Error::usage("--logRotate reopen needs --logappend, or a restart would empty the log"));
    }
    if !values.contains_key("net.port") {
        config.net.port = match config.cluster_role {
            ClusterRole::None => config.net.port,
            ClusterRole::Shard => 27018,
            ClusterRole::Config => 27019,
        };
    }
    config.auth |= config.key_file.is_some();
    server_parameters::check_start(config)
}

/// Inserts a value under its dotted key.
fn nest(into: &mut Document, key: &str, value: Bson) {
    match key.split_once('.') {
        None => {
            into.insert(key, value);
        }
        Some((first, rest)) => {
            if let Bson::Document(inner) =
                into.entry(first.to_owned()).or_insert_with(|| Bson::Document(Document::new()))
            {
                nest(inner, rest, value);
            }
        }
    }
}

/// Reads a configuration file.
fn read_file(path: &Path) -> Result<OptionValues> {
    let failed = |error| Error::io("read the configuration file", path, error);
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_BYTES {
        return Err(Error::usage(format!(
            "{} is not a configuration file: it has {length} bytes",
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    parse(&text).map_err(|error| {
        Error::new(Kind::Usage, format!("the configuration file {} is refused", path.display()))
            .because(error)
    })
}

/// The values in the text of a file.
fn parse(text: &str) -> Result<OptionValues> {
    let root: Value =
        serde_yaml_ng::from_str(text).map_err(|error| Error::usage("it is not YAML").because(error))?;
    let mut values = OptionValues::new();
    match root {
        Value::Null => {}
        Value::Mapping(_) => walk(String::new(), &root, &mut values)?,
        _ => return Err(Error::usage("it holds no options, which are written 'key: value'")),
    }
    Ok(values)
}

fn walk(prefix: String, value: &Value, values: &mut OptionValues) -> Result<()> {
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
                    .ok_or_else(|| Error::usage(format!("a key within '{prefix}' is not text")))?;
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
    let what = format!("'{key}' is not an option of fathom serve");
    let error = Error::usage(what).with_id("unknown-server-option");
    let same = |setting: &&Setting| {
        setting.key.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case(last))
            || setting.flags.iter().any(|flag| flag.name.eq_ignore_ascii_case(last))
    };
    match SETTINGS.iter().find(same) {
        Some(setting) => error.advise(format!("did you mean '{}'?", setting.key)),
        None => error,
    }
}
