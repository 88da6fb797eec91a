//! A study's file as it is written: YAML in which everything but the name, the question and the factors may be left out; and where names
//! stand in it.
//!
//! Names and levels are tried while the file is read, so that the reader of YAML tells where a wrong one stands. What contradicts
//! something else is found later, and its place is looked up in the [`Lines`].

use std::collections::BTreeMap;
use std::marker::PhantomData;

use fathom_record::study::PublishedTable;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_yaml_ng::Value;

use crate::level::Level;
use crate::{Factor, Measures, Metric, Setup};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub question: String,
    pub measures: Measures,
    pub factors: Levels,
    #[serde(default)]
    pub settings: Settings,
    #[serde(default)]
    pub compare: Vec<String>,
    #[serde(default)]
    pub across: Option<String>,
    #[serde(default)]
    pub metrics: Metrics,
    #[serde(default)]
    pub design: DesignPart,
    #[serde(default)]
    pub sizes: BTreeMap<String, Size>,
    #[serde(default)]
    pub published: Option<PublishedTable>,
    #[serde(default)]
    pub cautions: Vec<String>,
}

/// What another size changes. Factors and settings are put over those of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    #[serde(default)]
    pub factors: Levels,
    #[serde(default)]
    pub settings: Settings,
    #[serde(default)]
    pub design: DesignPart,
    #[serde(default)]
    pub metrics: Option<Metrics>,
}

/// What is measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    #[serde(default, deserialize_with = "metrics")]
    pub primary: Vec<&'static Metric>,
    #[serde(default, deserialize_with = "metrics")]
    pub others: Vec<&'static Metric>,
}

/// How it is repeated.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DesignPart {
    pub blocks: Option<usize>,
    pub seed: Option<u64>,
    pub twin: Option<bool>,
    pub looks: Option<usize>,
    pub fraction: Option<u32>,
    pub margin: Option<f64>,
}

/// Factors with their levels, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels(pub Vec<(&'static Factor, Vec<Level>)>);

/// Factors with one level each.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(pub Vec<(&'static Factor, Level)>);

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Levels, D::Error> {
        let entries = deserializer.deserialize_map(Entries::<SeveralLevels>(PhantomData))?;
        Ok(Levels(entries.into_iter().map(|(factor, levels)| (factor, levels.0)).collect()))
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
        let entries = deserializer.deserialize_map(Entries::<Value>(PhantomData))?;
        Ok(Settings(entries.into_iter().map(|(factor, value)| (factor, Level::of(value))).collect()))
    }
}

/// What stands behind a factor's name, as values to try.
trait Tried {
    fn values(&self) -> Vec<&Value>;
}

impl Tried for Value {
    fn values(&self) -> Vec<&Value> {
        vec![self]
    }
}

#[derive(Debug)]
struct SeveralLevels(Vec<Level>);

impl Tried for SeveralLevels {
    fn values(&self) -> Vec<&Value> {
        self.0.iter().map(|level| &level.value).collect()
    }
}

impl<'de> Deserialize<'de> for SeveralLevels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SeveralLevels, D::Error> {
        let values = Vec::<Value>::deserialize(deserializer)?;
        let levels: Vec<Level> = values.into_iter().map(Level::of).collect();
        let twice = levels
            .iter()
            .enumerate()
            .find(|(at, one)| levels.iter().take(*at).any(|two| two.label == one.label));
        match twice {
            Some((_, level)) => {
                Err(D::Error::custom(format!("the level '{}' stands there twice", level.label)))
            }
            None => Ok(SeveralLevels(levels)),
        }
    }
}

/// Reads names of factors with what stands behind them, and tries each value.
struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Tried> Visitor<'de> for Entries<T> {
    type Value = Vec<(&'static Factor, T)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("names of factors with their levels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Self::Value = Vec::new();
        while let Some(Name(factor)) = map.next_key()? {
            if entries.iter().any(|(known, _)| std::ptr::eq(*known, factor)) {
                return Err(A::Error::custom(format!("the factor '{}' stands there twice", factor.name)));
            }
            let held: Held<T> = map.next_value_seed(Place { factor, held: PhantomData })?;
            entries.push((factor, held.0));
        }
        Ok(entries)
    }
}

/// The name of a factor.
struct Name(&'static Factor);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let name = String::deserialize(deserializer)?;
        Factor::named(&name).map(Name).map_err(D::Error::custom)
    }
}

/// A value that its factor takes.
struct Held<T>(T);

/// Tries a value where it stands, so that the error has its place.
struct Place<T> {
    factor: &'static Factor,
    held: PhantomData<T>,
}

impl<'de, T: Deserialize<'de> + Tried> serde::de::DeserializeSeed<'de> for Place<T> {
    type Value = Held<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Held<T>, D::Error> {
        let held = T::deserialize(deserializer)?;
        for value in held.values() {
            self.factor.put(&mut Setup::default(), value).map_err(D::Error::custom)?;
        }
        Ok(Held(held))
    }
}

fn metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static Metric>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| Metric::named(name).map_err(D::Error::custom)).collect()
}

/// The names at the beginning of lines, with their line numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Vec<(String, usize)>);

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        let named = |(number, line): (usize, &str)| {
            let line = line.split(" #").next().unwrap_or_default();
            let words = line.split(['{', ',', '[', '-']).filter_map(|part| {
                let (name, _) = part.split_once(':')?;
                let name = name.trim().trim_matches(['"', '\'']);
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                is_name.then(|| (name.to_owned(), number))
            });
            words.collect::<Vec<_>>()
        };
        Lines((1..).zip(text.lines()).flat_map(named).collect())
    }

    /// ` (line 7)`, or nothing where the name does not stand there by itself. The last place counts: it beats those before it.
    pub(crate) fn at(&self, name: &str) -> String {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, line)| format!(" (line {line})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_at_their_lines() {
        let lines = Lines::of(
            "name: a\nfactors:\n  engine: [x, y]  # shards: no\nsizes:\n  quick: {settings: {records: 5}}\n",
        );
        assert_eq!(lines.at("engine"), " (line 3)");
        assert_eq!(lines.at("records"), " (line 5)");
        assert_eq!(lines.at("shards"), "");
    }
}
