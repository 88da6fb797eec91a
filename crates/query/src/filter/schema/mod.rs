//! `$jsonSchema`: JSON Schema draft 4 with MongoDB's `bsonType`, evaluated for a value. A keyword for numbers accepts any string,
//! and so on, as in JSON Schema.
//!
//! It refuses unknown keywords, and by name those of the draft that MongoDB does not have either (`$ref`, `default`,
//! `definitions`, `format`, `id`, `$schema`).

mod parse;

use bson::{Document, RawArray, RawBson, RawBsonRef, RawDocument};

use super::numbers;
use super::pattern::RegexPattern;
use super::types::TypeSet;
use crate::decimal::Decimal;
use crate::raw::unreadable;
use crate::{Result, compare};

/// A parsed schema. An absent keyword sets no condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// The schema as the client wrote it, for explain; kept only at the top level.
    source: Document,
    /// The keywords `type` and `bsonType`.
    types: Option<TypeSet>,
    /// The values that `enum` lists.
    allowed: Option<Vec<RawBson>>,
    numbers: Numbers,
    strings: Strings,
    arrays: Arrays,
    objects: Objects,
    all_of: Vec<Schema>,
    any_of: Option<Vec<Schema>>,
    one_of: Option<Vec<Schema>>,
    not: Option<Box<Schema>>,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    minimum: Option<RawBson>,
    exclusive_minimum: bool,
    maximum: Option<RawBson>,
    exclusive_maximum: bool,
    multiple_of: Option<RawBson>,
}

#[derive(Clone, Debug, Default)]
struct Strings {
    /// The minimum length in characters.
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<RegexPattern>,
}

#[derive(Clone, Debug, Default)]
struct Arrays {
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    /// `items` as one schema, for every item.
    every: Option<Box<Schema>>,
    /// `items` as a list: one schema for each place, from the first.
    places: Option<Vec<Schema>>,
    /// `additionalItems`: the condition on items beyond `places`.
    others: AdditionalFields,
}

#[derive(Clone, Debug, Default)]
struct Objects {
    required: Vec<String>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    properties: Vec<(String, Schema)>,
    pattern_properties: Vec<(RegexPattern, Schema)>,
    /// The condition on fields that neither list names.
    others: AdditionalFields,
    dependencies: Vec<(String, Dependency)>,
}

/// The condition on fields that no other keyword names.
#[derive(Clone, Debug, Default)]
enum AdditionalFields {
    /// No condition on other fields.
    #[default]
    Free,
    /// The field must not exist.
    Forbidden,
    /// The field must fit a schema.
    Fit(Box<Schema>),
}

/// The conditions that a present field sets for its document.
#[derive(Clone, Debug)]
enum Dependency {
    /// The names of other fields that are allowed.
    Fields(Vec<String>),
    Fit(Box<Schema>),
}

impl Schema {
    /// As the client wrote it.
    pub(crate) fn source(&self) -> &Document {
        &self.source
    }
}

impl Schema {
    /// Whether a value fits.
    pub(crate) fn holds(&self, value: RawBsonRef<'_>) -> Result<bool> {
        let plain = self.types.is_none_or(|types| types.has(value))
            && self.allowed.as_ref().is_none_or(|allowed| {
                allowed.iter().any(|one| compare(one.as_raw_bson_ref(), value).is_eq())
            });
        Ok(plain && self.keywords_hold(value)? && self.combinations_hold(value)?)
    }

    fn keywords_hold(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match value {
            RawBsonRef::String(text) => self.strings.hold(text),
            RawBsonRef::Array(array) => self.arrays.hold(array),
            RawBsonRef::Document(document) => self.objects.hold(document),
            number if numbers::is_number(number) => Ok(self.numbers.hold(number)),
            _ => Ok(true),
        }
    }

    fn combinations_hold(&self, value: RawBsonRef<'_>) -> Result<bool> {
        for schema in &self.all_of {
            if !schema.holds(value)? {
                return Ok(false);
            }
        }
        if let Some(schemas) = &self.any_of
            && count(schemas, value, 1)? == 0
        {
            return Ok(false);
        }
        if let Some(schemas) = &self.one_of
            && count(schemas, value, 2)? != 1
        {
            return Ok(false);
        }
        match &self.not {
            Some(schema) => Ok(!schema.holds(value)?),
            None => Ok(true),
        }
    }
}

/// How many schemas a value fits, counted up to `enough`.
fn count(schemas: &[Schema], value: RawBsonRef<'_>, enough: usize) -> Result<usize> {
    let mut fits = 0;
    for schema in schemas {
        if fits < enough && schema.holds(value)? {
            fits += 1;
        }
    }
    Ok(fits)
}

impl Numbers {
    fn hold(&self, number: RawBsonRef<'_>) -> bool {
        let beside = |bound: &bson::RawBson| compare(number, bound.as_raw_bson_ref());
        let above = self.minimum.as_ref().is_none_or(|bound| match self.exclusive_minimum {
            true => beside(bound).is_gt(),
            false => beside(bound).is_ge(),
        });
        let below = self.maximum.as_ref().is_none_or(|bound| match self.exclusive_maximum {
            true => beside(bound).is_lt(),
            false => beside(bound).is_le(),
        });
        // NaN is not within any bounds.
        let bounded = self.minimum.is_some() || self.maximum.is_some();
        let multiple = self.multiple_of.as_ref();
        above
            && below
            && !(bounded && numbers::is_nan(number))
            && multiple.is_none_or(|divisor| is_multiple(number, divisor.as_raw_bson_ref()))
    }
}

/// Whether a number is a whole multiple: exact for whole numbers and decimals, by floating point if a double is involved.
fn is_multiple(number: RawBsonRef<'_>, divisor: RawBsonRef<'_>) -> bool {
    if let (Some(number), Some(divisor)) = (numbers::exact(number), numbers::exact(divisor)) {
        return divisor != 0 && number.wrapping_rem(divisor) == 0;
    }
    match (float(number), float(divisor)) {
        (Some(number), Some(divisor)) => number % divisor == 0.0,
        _ => false,
    }
}

fn float(number: RawBsonRef<'_>) -> Option<f64> {
    match number {
        RawBsonRef::Double(number) => Some(number),
        RawBsonRef::Decimal128(number) => match Decimal::from_value(number) {
            Decimal::Finite(_) => number.to_string().parse().ok(),
            _ => None,
        },
        #[expect(
            clippy::cast_precision_loss,
            reason = "only beside a fraction, where nothing exact is promised"
        )]
        number => numbers::exact(number).map(|number| number as f64),
    }
}

impl Strings {
    fn hold(&self, text: &str) -> Result<bool> {
        let within = || {
            let length = text.chars().count() as u64;
            self.min_length.is_none_or(|least| length >= least)
                && self.max_length.is_none_or(|most| length <= most)
        };
        let unbounded = self.min_length.is_none() && self.max_length.is_none();
        if !unbounded && !within() {
            return Ok(false);
        }
        self.pattern.as_ref().map_or(Ok(true), |pattern| pattern.finds(text))
    }
}

impl Arrays {
    fn hold(&self, array: &RawArray) -> Result<bool> {
        let mut length = 0;
        let mut seen: Vec<RawBsonRef<'_>> = Vec::new();
        let mut places = self.places.as_ref().map(|places| places.iter());
        for item in array {
            let item = item.map_err(unreadable)?;
            length += 1;
            let fits = match (&mut places, &self.every) {
                (Some(places), _) => match places.next() {
                    Some(schema) => schema.holds(item)?,
                    None => self.others.hold(item)?,
                },
                (None, Some(every)) => every.holds(item)?,
                (None, None) => true,
            };
            if !fits {
                return Ok(false);
            }
            if self.unique_items {
                seen.push(item);
            }
        }
        seen.sort_by(|left, right| compare(*left, *right));
        let repeated = seen.windows(2).any(|pair| match pair {
            [left, right] => compare(*left, *right).is_eq(),
            _ => false,
        });
        Ok(!repeated
            && self.min_items.is_none_or(|least| length >= least)
            && self.max_items.is_none_or(|most| length <= most))
    }
}

impl Objects {
    fn hold(&self, document: &RawDocument) -> Result<bool> {
        let mut length = 0;
        let named = !self.properties.is_empty() || !self.pattern_properties.is_empty();
        for element in document.iter_elements() {
            let element = element.map_err(unreadable)?;
            length += 1;
            if (named || !matches!(self.others, AdditionalFields::Free))
                && !self.field_holds(element.key().as_str(), element.value().map_err(unreadable)?)?
            {
                return Ok(false);
            }
        }
        if self.min_properties.is_some_and(|least| length < least)
            || self.max_properties.is_some_and(|most| length > most)
            || !has_all(document, &self.required)?
        {
            return Ok(false);
        }
        for (name, dependency) in &self.dependencies {
            if document.get(name).map_err(unreadable)?.is_none() {
                continue;
            }
            let fits = match dependency {
                Dependency::Fields(names) => has_all(document, names)?,
                Dependency::Fit(schema) => schema.holds(RawBsonRef::Document(document))?,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether one field fits the keywords that apply to its name.
    fn field_holds(&self, name: &str, value: RawBsonRef<'_>) -> Result<bool> {
        let mut named = false;
        for (property, schema) in &self.properties {
            if property == name {
                named = true;
                if !schema.holds(value)? {
                    return Ok(false);
                }
            }
        }
        for (pattern, schema) in &self.pattern_properties {
            if pattern.finds(name)? {
                named = true;
                if !schema.holds(value)? {
                    return Ok(false);
                }
            }
        }
        if named { Ok(true) } else { self.others.hold(value) }
    }
}

fn has_all(document: &RawDocument, names: &[String]) -> Result<bool> {
    for name in names {
        if document.get(name).map_err(unreadable)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl AdditionalFields {
    fn hold(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match self {
            AdditionalFields::Free => Ok(true),
            AdditionalFields::Forbidden => Ok(false),
            AdditionalFields::Fit(schema) => schema.holds(value),
        }
    }
}
