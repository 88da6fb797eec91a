//! The context in which the templates of a file are read: collections, record choosers, and variables drawn before.

use std::sync::Arc;

use bson::Bson;
use fathom_errors::Error;
use serde_yaml_ng::Value;

use super::super::item::{Item, kind};
use super::{ExistingValue, Template};
use crate::core_workload::Lengths;
use crate::generators::{Distribution, Zipf};

/// The most levels of a template: servers accept 100 levels of nested documents, and this is enough for any template.
const MAX_LEVELS: usize = 60;
/// The most record choosers, and the most different zipfian ranges: each takes memory and time to set up.
const MAX_CHOOSERS: usize = 64;
const MAX_ZIPFIAN_RANGES: usize = 32;

/// The settings of a chooser of records.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ChooserSettings {
    /// The collection's index in the workload.
    pub(in super::super) collection: usize,
    pub(in super::super) distribution: Distribution,
    pub(in super::super) skew: Option<f64>,
}

#[derive(Debug, Default)]
pub(in super::super) struct Compiler {
    /// The names of the collections.
    pub(in super::super) collections: Vec<String>,
    pub(in super::super) choosers: Vec<ChooserSettings>,
    pub(in super::super) existing: Vec<ExistingValue>,
    /// The values that the operation draws first, by name.
    pub(in super::super) variables: Vec<(String, Template)>,
    /// Whether the template being read is that of a record, which has a number.
    pub(in super::super) is_record: bool,
    zipfian: Vec<(u64, f64, Arc<Zipf>)>,
}

impl Compiler {
    /// Reads a document without generators.
    pub(in super::super) fn plain_document(&mut self, item: &Item<'_>) -> Result<bson::Document, Error> {
        match plain(item, 0)? {
            Bson::Document(document) => Ok(document),
            _ => Err(item.refuse(format!("{} is not a document", kind(item.value)))),
        }
    }

    /// Zipf's law over this many items; computed once.
    pub(super) fn zipf(&mut self, item: &Item<'_>, items: u64, skew: f64) -> Result<Lengths, Error> {
        let known = self.zipfian.iter().find(|(known, with, _)| (*known, *with) == (items, skew));
        if let Some((_, _, zipf)) = known {
            return Ok(Lengths::Zipfian { least: 0, zipf: Box::new((**zipf).clone()) });
        }
        if self.zipfian.len() == MAX_ZIPFIAN_RANGES {
            return Err(
                item.refuse(format!("there are more than {MAX_ZIPFIAN_RANGES} different zipfian ranges"))
            );
        }
        let zipf = Zipf::new(items, skew);
        self.zipfian.push((items, skew, Arc::new(zipf.clone())));
        Ok(Lengths::Zipfian { least: 0, zipf: Box::new(zipf) })
    }

    /// Adds a reference to existing records; returns its place.
    pub(super) fn add_existing(
        &mut self,
        item: &Item<'_>,
        settings: ChooserSettings,
        field: &str,
    ) -> Result<usize, Error> {
        let known = self.choosers.iter().position(|one| *one == settings);
        let collection = settings.collection;
        let chooser = match known {
            Some(place) => place,
            None if self.choosers.len() == MAX_CHOOSERS => {
                return Err(
                    item.refuse(format!("records are chosen in more than {MAX_CHOOSERS} different ways"))
                );
            }
            None => {
                self.choosers.push(settings);
                self.choosers.len() - 1
            }
        };
        let place = item.place().to_owned();
        let value = Template::constant(&Bson::Null);
        self.existing.push(ExistingValue { collection, field: field.to_owned(), chooser, value, place });
        Ok(self.existing.len() - 1)
    }

    /// Fills in the templates of the fields that references name; `document` gives the template of a collection.
    pub(in super::super) fn resolve<'t>(
        &mut self,
        document: impl Fn(usize) -> Option<&'t Template>,
    ) -> Result<(), Error> {
        for existing in &mut self.existing {
            let found = document(existing.collection).and_then(|document| document.at(&existing.field));
            let Some(value) = found.filter(|value| value.is_numbered()) else {
                let name = self.collections.get(existing.collection).map_or("", String::as_str);
                return Err(Error::usage(format!(
                    "{}: the field '{}' of '{name}' cannot be derived from a record's number",
                    existing.place, existing.field
                ))
                .advise(
                    "make it !sequence, !key or a !join of them and texts, or refer to a field that is",
                ));
            };
            existing.value = value.clone();
        }
        Ok(())
    }
}

pub(super) fn check_depth(item: &Item<'_>, depth: usize) -> Result<(), Error> {
    if depth > MAX_LEVELS {
        return Err(item.refuse(format!("it is nested deeper than {MAX_LEVELS} levels")));
    }
    Ok(())
}

/// Reads a value without generators.
pub(super) fn plain(item: &Item<'_>, depth: usize) -> Result<Bson, Error> {
    check_depth(item, depth)?;
    Ok(match item.value {
        Value::Null => Bson::Null,
        Value::Bool(truth) => Bson::Boolean(*truth),
        Value::String(text) => Bson::String(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32),
            (None, Some(double)) if number.is_f64() => Bson::Double(double),
            _ => return Err(item.refuse(format!("{number} does not fit into 64 bits"))),
        },
        Value::Sequence(_) => {
            let items: Result<Vec<_>, _> = item.list()?.iter().map(|inner| plain(inner, depth + 1)).collect();
            Bson::Array(items?)
        }
        Value::Mapping(_) => {
            let mut document = bson::Document::new();
            for (name, inner) in item.entries()? {
                document.insert(name, plain(&inner, depth + 1)?);
            }
            Bson::Document(document)
        }
        Value::Tagged(tagged) => {
            return Err(item.refuse(format!("{} draws a value, and here it must stay the same", tagged.tag)));
        }
    })
}

/// The place of a collection by its name.
pub(in super::super) fn collection(compiler: &Compiler, name: &Item<'_>) -> Result<usize, Error> {
    let text = name.text()?;
    let found = compiler.collections.iter().position(|known| known == text);
    let known = || compiler.collections.iter().map(String::as_str);
    found.ok_or_else(|| name.unknown("collection", text, known()))
}
