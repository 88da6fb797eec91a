//! A level of a factor as written in a file: a word, a number, a list or a few names with values.
//!
//! The factor defines the meaning of a level; here it only gets its label and becomes the factor's value. Text without a clear
//! meaning is refused, with a valid form.

use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_units::{Bytes, Nanos};
use serde_yaml_ng::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FactorLevel {
    /// Its label in tables.
    pub label: String,
    /// Its value in the file.
    pub value: Value,
}

impl FactorLevel {
    pub(crate) fn from_value(value: Value) -> FactorLevel {
        // A level of several parts may have a name of its own.
        let named = value.get("name").and_then(Value::as_str).filter(|_| value.get("path").is_none());
        FactorLevel { label: named.map_or_else(|| label(&value), str::to_owned), value }
    }
}

/// A value in a few words.
fn label(value: &Value) -> String {
    let several = |labels: Vec<String>, by: &str| labels.join(by);
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(is) => if *is { "on" } else { "off" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Sequence(values) => several(values.iter().map(label).collect(), " + "),
        Value::Mapping(map) => several(
            map.iter().map(|(name, value)| format!("{} {}", label(name), label(value))).collect(),
            ", ",
        ),
        Value::Tagged(tagged) => label(&tagged.value),
    }
}

pub(crate) fn text(value: &Value) -> Result<String> {
    match value {
        Value::String(_) | Value::Number(_) => Ok(label(value)),
        _ => Err(Error::usage("a word is expected")),
    }
}

/// A whole number of at least `least`.
pub(crate) fn count(value: &Value, least: u64) -> Result<u64> {
    let number = value.as_u64().filter(|number| *number >= least);
    number.ok_or_else(|| Error::usage(format!("a whole number of at least {least} is expected")))
}

/// A number above zero.
pub(crate) fn number(value: &Value) -> Result<f64> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| Error::usage("a number above 0 is expected"))
}

/// Parses `on`, `off`, `true` or `false`.
pub(crate) fn flag(value: &Value) -> Result<bool> {
    match value {
        Value::Bool(is) => Ok(*is),
        Value::String(text) if text == "on" => Ok(true),
        Value::String(text) if text == "off" => Ok(false),
        _ => Err(Error::usage("'on' or 'off' is expected")),
    }
}

/// A size, as `512M`.
pub(crate) fn bytes(value: &Value) -> Result<Bytes> {
    text(value)?.parse()
}

/// A time, as `30s`; a bare number counts seconds.
pub(crate) fn time(value: &Value) -> Result<Duration> {
    if let Some(seconds) = value.as_f64() {
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| Error::usage("a time such as 30s is expected"));
    }
    Ok(Duration::from_nanos(text(value)?.parse::<Nanos>()?.0))
}

pub(crate) fn is_none(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("none")
}

pub(crate) fn named(value: &Value) -> Result<Vec<(String, &Value)>> {
    let map = value
        .as_mapping()
        .ok_or_else(|| Error::usage("names with values are expected, like {name: value}"))?;
    map.iter().map(|(name, value)| Ok((text(name)?, value))).collect()
}

/// One word, or a list of words.
pub(crate) fn words(value: &Value) -> Result<Vec<String>> {
    match value {
        Value::Sequence(values) => values.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_yaml_ng::from_str(text).unwrap()
    }

    #[test]
    fn labels_are_what_people_wrote() {
        for (written, shown) in [
            ("xfs", "xfs"),
            ("32", "32"),
            ("0.5", "0.5"),
            ("none", "none"),
            ("null", "none"),
            ("true", "on"),
            ("[wiredTiger, rocksdb]", "wiredTiger + rocksdb"),
            ("{iops: 300, bandwidth: 20M}", "iops 300, bandwidth 20M"),
            ("{name: md, array: md-raid0}", "md"),
        ] {
            assert_eq!(FactorLevel::from_value(yaml(written)).label, shown);
        }
    }

    #[test]
    fn what_has_no_plain_meaning_is_refused() {
        assert!(
            count(&yaml("-1"), 0).is_err()
                && count(&yaml("0"), 1).is_err()
                && count(&yaml("two"), 0).is_err()
        );
        assert!(number(&yaml(".nan")).is_err() && number(&yaml("0")).is_err());
        assert!(
            flag(&yaml("maybe")).is_err() && flag(&yaml("on")).unwrap() && !flag(&yaml("false")).unwrap()
        );
        assert_eq!(time(&yaml("1.5")).unwrap(), Duration::from_millis(1500));
        assert_eq!(time(&yaml("2m")).unwrap(), Duration::from_secs(120));
        assert!(time(&yaml("-3")).is_err() && text(&yaml("[a]")).is_err() && named(&yaml("x")).is_err());
    }
}
