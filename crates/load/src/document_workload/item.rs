//! A value of the file, with its position: it is read as the type it must have, or refused with one sentence.
//!
//! Nothing is ignored: an unknown key is refused with the most similar known one.

use std::time::Duration;

use fathom_errors::Error;
use fathom_units::Nanos;
use serde_yaml_ng::Value;
use serde_yaml_ng::value::TaggedValue;

/// A value and its place, such as `operations.pay.update.filter`.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub(super) value: &'a Value,
    place: String,
}

impl<'a> Item<'a> {
    pub(super) fn root(value: &'a Value) -> Item<'a> {
        Item { value, place: String::new() }
    }

    /// A value within this one.
    pub(super) fn inner(&self, name: &str, value: &'a Value) -> Item<'a> {
        let place = if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) };
        Item { value, place }
    }

    /// Its path in the file.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// An error at this path.
    pub(super) fn refuse(&self, what: impl std::fmt::Display) -> Error {
        match self.place.as_str() {
            "" => Error::usage(what.to_string()),
            place => Error::usage(format!("{place}: {what}")),
        }
    }

    /// An error on a name at this path, with the most similar known name.
    pub(super) fn unknown<'k>(&self, what: &str, name: &str, known: impl Iterator<Item = &'k str>) -> Error {
        let error = self.refuse(format!("there is no {what} '{name}'"));
        match nearest(name, known) {
            Some(nearest) => error.advise(format!("did you mean '{nearest}'")),
            None => error,
        }
    }

    /// The entries of a mapping, in their order.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Item<'a>)>, Error> {
        let Value::Mapping(mapping) = self.value else {
            return Err(self
                .refuse(format!("{} was found, but names with values are expected here", kind(self.value))));
        };
        let entry = |(name, value): (&'a Value, &'a Value)| match name {
            Value::String(name) if name.contains('\0') => Err(self.refuse("a name holds a NUL")),
            Value::String(name) => Ok((name.as_str(), self.inner(name, value))),
            other => Err(self
                .refuse(format!("{} cannot be a name", kind(other)))
                .advise("put it in quotes to make it text")),
        };
        mapping.iter().map(entry).collect()
    }

    /// The entries of a mapping that may have only these names.
    pub(super) fn fields(&self, known: &[&str]) -> Result<MappingEntries<'a>, Error> {
        let entries = self.entries()?;
        if let Some((name, _)) = entries.iter().find(|(name, _)| !known.contains(name)) {
            return Err(self.unknown("key", name, known.iter().copied()));
        }
        Ok(MappingEntries { item: self.clone(), entries })
    }

    /// The items of a list.
    pub(super) fn list(&self) -> Result<Vec<Item<'a>>, Error> {
        let Value::Sequence(items) = self.value else {
            return Err(self.refuse(format!("{} is not a list", kind(self.value))));
        };
        Ok(items.iter().enumerate().map(|(place, value)| self.inner(&place.to_string(), value)).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.refuse(format!("{} is not a text", kind(self.value))))
    }

    pub(super) fn truth(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.refuse("true or false is expected"))
    }

    /// A whole number within bounds, both included.
    pub(super) fn whole(&self, least: i64, most: i64) -> Result<i64, Error> {
        let wrong = || self.refuse(format!("a whole number from {least} to {most} is expected"));
        self.value.as_i64().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    /// A count within bounds, both included.
    pub(super) fn count(&self, least: u64, most: u64) -> Result<u64, Error> {
        let wrong = || self.refuse(format!("a whole number from {least} to {most} is expected"));
        self.value.as_u64().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    /// A number that is finite and within bounds, both included.
    pub(super) fn number(&self, least: f64, most: f64) -> Result<f64, Error> {
        let wrong = || self.refuse(format!("a number from {least} to {most} is expected"));
        self.value.as_f64().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    /// A time such as `90s` or `5m`; a bare number means seconds.
    pub(super) fn duration(&self) -> Result<Duration, Error> {
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(self.refuse(format!("{} is not a time such as 90s", kind(other)))),
        };
        let nanos: Nanos = text.parse().map_err(|error: Error| self.refuse(error))?;
        Ok(nanos.into())
    }

    /// A tag's name without its mark, and the value that it precedes.
    pub(super) fn tagged(&self) -> Option<(String, Item<'a>)> {
        let Value::Tagged(tagged) = self.value else { return None };
        let TaggedValue { tag, value } = &**tagged;
        let tag = tag.to_string();
        let inner = self.inner(&tag, value);
        Some((tag.trim_start_matches('!').to_owned(), inner))
    }
}

/// The entries of a mapping whose names are known.
#[derive(Debug)]
pub(super) struct MappingEntries<'a> {
    item: Item<'a>,
    entries: Vec<(&'a str, Item<'a>)>,
}

impl<'a> MappingEntries<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&Item<'a>> {
        self.entries.iter().find(|(known, _)| *known == name).map(|(_, item)| item)
    }

    pub(super) fn need(&self, name: &str) -> Result<&Item<'a>, Error> {
        self.get(name).ok_or_else(|| self.item.refuse(format!("'{name}' is missing")))
    }

    pub(super) fn item(&self) -> &Item<'a> {
        &self.item
    }

    pub(super) fn truth(&self, name: &str, default: bool) -> Result<bool, Error> {
        self.get(name).map_or(Ok(default), Item::truth)
    }

    pub(super) fn count(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Error> {
        self.get(name).map(|item| item.count(least, most)).transpose()
    }

    pub(super) fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Error> {
        self.get(name).map(|item| item.number(least, most)).transpose()
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        self.get(name).map(Item::text).transpose()
    }

    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Error> {
        self.get(name).map(Item::duration).transpose()
    }
}

/// The known name that is most similar to a name, if any is similar enough.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    /// The least similarity of two spellings of one word.
    const MIN_SIMILARITY: f64 = 0.75;
    let lower = name.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&lower, &known.to_lowercase());
    let best = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) >= MIN_SIMILARITY).then_some(best)
}

/// The type of a value, in words.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text '{}'", text.chars().take(40).collect::<String>()),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        Value::Tagged(tagged) => tagged.tag.to_string(),
    }
}
