//! A study's file as written: YAML in which everything but the name, the question and the factors may be left out, with the lines of
//! names.
//!
//! Names and levels are checked while the file is read, so that the YAML reader reports the position of a wrong one. Contradictions
//! between several are found later, and their position is looked up in the [`LineNames`].

use std::collections::BTreeMap;
use std::marker::PhantomData;

use fathom_record::study::PublishedTable;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_yaml_ng::Value;

use crate::level::FactorLevel;
use crate::{Factor, Measures, Setup, TrialMetric};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: String,
    pub question: String,
    pub measures: Measures,
    pub factors: FileLevels,
    #[serde(default)]
    pub settings: FixedSettings,
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

/// The changes of another size. Its factors and settings override those of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    #[serde(default)]
    pub factors: FileLevels,
    #[serde(default)]
    pub settings: FixedSettings,
    #[serde(default)]
    pub design: DesignPart,
    #[serde(default)]
    pub metrics: Option<Metrics>,
}

/// The metrics of a study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    #[serde(default, deserialize_with = "metrics")]
    pub primary: Vec<&'static TrialMetric>,
    #[serde(default, deserialize_with = "metrics")]
    pub others: Vec<&'static TrialMetric>,
}

/// The repetitions of a study.
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
pub(super) struct FileLevels(pub Vec<(&'static Factor, Vec<FactorLevel>)>);

/// Factors with one level each.
#[derive(Clone, Debug, Default)]
pub(super) struct FixedSettings(pub Vec<(&'static Factor, FactorLevel)>);

impl<'de> Deserialize<'de> for FileLevels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileLevels, D::Error> {
        let entries = deserializer.deserialize_map(Entries::<LevelList>(PhantomData))?;
        Ok(FileLevels(entries.into_iter().map(|(factor, levels)| (factor, levels.0)).collect()))
    }
}

impl<'de> Deserialize<'de> for FixedSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FixedSettings, D::Error> {
        let entries = deserializer.deserialize_map(Entries::<Value>(PhantomData))?;
        Ok(FixedSettings(
            entries.into_iter().map(|(factor, value)| (factor, FactorLevel::from_value(value))).collect(),
        ))
    }
}

/// The value after a factor's name, as values to check.
trait LevelParser {
    fn values(&self) -> Vec<&Value>;
}

impl LevelParser for Value {
    fn values(&self) -> Vec<&Value> {
        vec![self]
    }
}

#[derive(Debug)]
struct LevelList(Vec<FactorLevel>);

impl LevelParser for LevelList {
    fn values(&self) -> Vec<&Value> {
        self.0.iter().map(|level| &level.value).collect()
    }
}

impl<'de> Deserialize<'de> for LevelList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LevelList, D::Error> {
        let values = Vec::<Value>::deserialize(deserializer)?;
        let levels: Vec<FactorLevel> = values.into_iter().map(FactorLevel::from_value).collect();
        let twice = levels
            .iter()
            .enumerate()
            .find(|(at, one)| levels.iter().take(*at).any(|two| two.label == one.label));
        match twice {
            Some((_, level)) => Err(D::Error::custom(format!("the level '{}' is given twice", level.label))),
            None => Ok(LevelList(levels)),
        }
    }
}

/// Reads names of factors with their values, and checks each value.
struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + LevelParser> Visitor<'de> for Entries<T> {
    type Value = Vec<(&'static Factor, T)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("names of factors with their levels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Self::Value = Vec::new();
        while let Some(FactorName(factor)) = map.next_key()? {
            if entries.iter().any(|(known, _)| std::ptr::eq(*known, factor)) {
                return Err(A::Error::custom(format!("the factor '{}' is given twice", factor.name)));
            }
            let held: LevelValue<T> = map.next_value_seed(LevelSeed { factor, held: PhantomData })?;
            entries.push((factor, held.0));
        }
        Ok(entries)
    }
}

/// The name of a factor.
struct FactorName(&'static Factor);

impl<'de> Deserialize<'de> for FactorName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FactorName, D::Error> {
        let name = String::deserialize(deserializer)?;
        Factor::named(&name).map(FactorName).map_err(D::Error::custom)
    }
}

/// A value that its factor takes.
struct LevelValue<T>(T);

/// Checks a value during parsing, so that its error has the line.
struct LevelSeed<T> {
    factor: &'static Factor,
    held: PhantomData<T>,
}

impl<'de, T: Deserialize<'de> + LevelParser> serde::de::DeserializeSeed<'de> for LevelSeed<T> {
    type Value = LevelValue<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LevelValue<T>, D::Error> {
        let held = T::deserialize(deserializer)?;
        for value in held.values() {
            self.factor.put(&mut Setup::default(), value).map_err(D::Error::custom)?;
        }
        Ok(LevelValue(held))
    }
}

fn metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static TrialMetric>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| TrialMetric::named(name).map_err(D::Error::custom)).collect()
}

/// The names at the beginning of lines, with their line numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineNames(Vec<(String, usize)>);

impl LineNames {
    pub(crate) fn from_text(text: &str) -> LineNames {
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
        LineNames((1..).zip(text.lines()).flat_map(named).collect())
    }

    /// ` (line 7)`, or nothing if the name occurs on no line of its own. The last line counts: it overrides those before it.
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
        let lines = LineNames::from_text(
            "name: a\nfactors:\n  engine: [x, y]  # shards: no\nsizes:\n  quick: {settings: {records: 5}}\n",
        );
        assert_eq!(lines.at("engine"), " (line 3)");
        assert_eq!(lines.at("records"), " (line 5)");
        assert_eq!(lines.at("shards"), "");
    }
}
