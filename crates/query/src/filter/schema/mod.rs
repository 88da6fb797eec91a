//! `$jsonSchema`: JSON Schema draft 4 with MongoDB's `bsonType`. Refuses unknown keywords, and by name those of the draft that
//! MongoDB does not have either (`$ref`, `default`, `definitions`, `format`, `id`, `$schema`).

mod check;
mod keywords;
mod parse;

use bson::{Document, RawBson};

use super::pattern::Pattern;
use super::types::TypeSet;

/// A parsed schema. A keyword that was not given asks nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// As the client wrote it, for explain; only kept at the top.
    source: Document,
    /// `type`, `bsonType`.
    types: Option<TypeSet>,
    /// `enum`.
    allowed: Option<Vec<RawBson>>,
    numbers: Numbers,
    strings: Strings,
    arrays: Arrays,
    objects: Objects,
    /// `allOf`.
    all_of: Vec<Schema>,
    /// `anyOf`.
    any_of: Option<Vec<Schema>>,
    /// `oneOf`.
    one_of: Option<Vec<Schema>>,
    /// `not`.
    not: Option<Box<Schema>>,
}

/// What is asked of numbers.
#[derive(Clone, Debug, Default)]
struct Numbers {
    minimum: Option<RawBson>,
    exclusive_minimum: bool,
    maximum: Option<RawBson>,
    exclusive_maximum: bool,
    multiple_of: Option<RawBson>,
}

/// What is asked of strings.
#[derive(Clone, Debug, Default)]
struct Strings {
    /// In characters.
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<Pattern>,
}

/// What is asked of arrays.
#[derive(Clone, Debug, Default)]
struct Arrays {
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    /// `items` as one schema, for every item.
    every: Option<Box<Schema>>,
    /// `items` as a list: one schema for each place, from the first.
    places: Option<Vec<Schema>>,
    /// `additionalItems`: for those beyond `places`.
    others: Others,
}

/// What is asked of documents.
#[derive(Clone, Debug, Default)]
struct Objects {
    required: Vec<String>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    properties: Vec<(String, Schema)>,
    pattern_properties: Vec<(Pattern, Schema)>,
    /// For fields that neither list names.
    others: Others,
    dependencies: Vec<(String, Dependency)>,
}

/// What is asked of what no other keyword names.
#[derive(Clone, Debug, Default)]
enum Others {
    /// Nothing.
    #[default]
    Free,
    /// That it is not there.
    Forbidden,
    /// That it fits a schema.
    Fit(Box<Schema>),
}

/// What a field that is there asks of its document.
#[derive(Clone, Debug)]
enum Dependency {
    /// Other fields.
    Fields(Vec<String>),
    /// A schema.
    Fit(Box<Schema>),
}

impl Schema {
    /// As the client wrote it.
    pub(crate) fn source(&self) -> &Document {
        &self.source
    }
}
