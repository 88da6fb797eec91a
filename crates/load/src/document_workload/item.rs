//! A value of the file, with the place where it stands: reads it as what it must be, or says in one sentence what is wrong.
//!
//! Nothing is ignored: a key that is not known is refused with the one that it is most like.

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

    /// Where it stands.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong here.
    pub(super) fn refuse(&self, what: impl std::fmt::Display) -> Error {
        match self.place.as_str() {
            "" => Error::usage(what.to_string()),
            place => Error::usage(format!("{place}: {what}")),
        }
    }

    /// What is wrong with a name here, with the name that it is most like.
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
            return Err(self.refuse(format!(
                "{} is not what is wanted here, which is names with values",
                kind(self.value)
            )));
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

    /// The entries of a mapping that has no names but these.
    pub(super) fn fields(&self, known: &[&str]) -> Result<Fields<'a>, Error> {
        let entries = self.entries()?;
        if let Some((name, _)) = entries.iter().find(|(name, _)| !known.contains(name)) {
            return Err(self.unknown("key", name, known.iter().copied()));
        }
        Ok(Fields { item: self.clone(), entries })
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
        self.value.as_bool().ok_or_else(|| self.refuse("true or false is wanted"))
    }

    /// A whole number within bounds, both included.
    pub(super) fn whole(&self, least: i64, most: i64) -> Result<i64, Error> {
        let wrong = || self.refuse(format!("a whole number from {least} to {most} is wanted"));
        self.value.as_i64().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    /// How many, within bounds.
    pub(super) fn count(&self, least: u64, most: u64) -> Result<u64, Error> {
        let wrong = || self.refuse(format!("a whole number from {least} to {most} is wanted"));
        self.value.as_u64().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
    }

    /// A number that is finite and within bounds, both included.
    pub(super) fn number(&self, least: f64, most: f64) -> Result<f64, Error> {
        let wrong = || self.refuse(format!("a number from {least} to {most} is wanted"));
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

    /// A tag's name without its mark, and what it stands before.
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
pub(super) struct Fields<'a> {
    item: Item<'a>,
    entries: Vec<(&'a str, Item<'a>)>,
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&Item<'a>> {
        self.entries.iter().find(|(known, _)| *known == name).map(|(_, item)| item)
    }

    pub(super) fn need(&self, name: &str) -> Result<&Item<'a>, Error> {
        self.get(name).ok_or_else(|| self.item.refuse(format!("'{name}' is missing")))
    }

    /// The whole mapping.
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

/// The known name that a name is most like, if it is like any.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    /// As alike as two spellings of one word are.
    const ALIKE: f64 = 0.75;
    let lower = name.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&lower, &known.to_lowercase());
    let best = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) >= ALIKE).then_some(best)
}

/// What a value is, in words.
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
