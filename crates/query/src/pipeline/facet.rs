//! `$facet`: several pipelines over the same rows; one document with an array for each.

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use super::Rows;
use super::context::{Context, run};
use super::memory::{Memory, sized};
use super::options::{kind, object, refused};
use super::parse::{Limits, Place, sub_pipeline};
use super::stages::Stage;
use crate::Result;
use crate::expression::value::{Value, append, malformed};

/// The pipelines, each with its name.
#[derive(Clone, Debug)]
pub(super) struct Facet {
    facets: Vec<(String, Vec<Stage>)>,
}

/// `$facet: {name: [...]}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 40169, "the $facet specification must be a non-empty object")?;
    let mut facets = Vec::new();
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        let name = name.as_str();
        if name.starts_with('$') || name.contains('.') || name.is_empty() {
            return refused(
                16410,
                format!("a facet's name may not be empty, start with '$' or contain '.': '{name}'"),
            );
        }
        let RawBsonRef::Array(array) = value else {
            return refused(
                40170,
                format!("arguments to $facet must be arrays, {name} is type {}", kind(value)),
            );
        };
        facets.push((name.to_owned(), sub_pipeline(array, limits, Place::Facet)?));
    }
    if facets.is_empty() {
        return refused(40169, "the $facet specification must be a non-empty object");
    }
    Ok(vec![Stage::Facet(Facet { facets })])
}

impl Facet {
    /// The collections that its pipelines read.
    pub(super) fn collections(&self) -> Vec<&str> {
        self.facets.iter().flat_map(|(_, stages)| super::plan::collections_read(stages)).collect()
    }

    pub(super) fn run(self, rows: Rows, context: &Context) -> Result<Rows> {
        let mut memory = Memory::of("$facet");
        let mut held: Vec<RawDocumentBuf> = Vec::new();
        for row in rows {
            let row = row?;
            memory.take(row.as_bytes().len())?;
            held.push(row);
        }
        let held = std::sync::Arc::new(held);
        let mut result = RawDocumentBuf::new();
        for (name, stages) in self.facets {
            let mut array = RawArrayBuf::new();
            // The rows are shared by all pipelines, so that each has them one by one as its own.
            let shared = std::sync::Arc::clone(&held);
            let rows = (0..held.len()).filter_map(move |place| shared.get(place).cloned().map(Ok));
            for row in run(stages, Box::new(rows), context)? {
                let row = row?;
                memory.take(row.as_bytes().len())?;
                array.push(row);
            }
            append(&mut result, &name, &Value::Raw(RawBsonRef::Array(&array)))?;
        }
        let result = sized(result)?;
        Ok(Box::new(std::iter::once(Ok(result))))
    }
}
