//! The stages that run other pipelines: `$facet` runs several over the same rows and yields one document with an
//! array for each; `$unionWith` runs one over another collection and appends its rows to the stage's own.

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use super::context::{Rows, StageContext, StageMemory, sized};
use super::parse::{PipelinePosition, StageLimits, kind, members, object, refused, sub_pipeline};
use super::stages::{Stage, run, run_over};
use crate::expression::value::{Value, append, malformed};
use crate::{Code, Result};

/// `$facet`: its pipelines, each with its name.
#[derive(Clone, Debug)]
pub(super) struct Facet {
    facets: Vec<(String, Vec<Stage>)>,
}

/// The stage `$facet: {name: [stages]}`.
pub(super) fn parse_facet(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
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
        facets.push((name.to_owned(), sub_pipeline(array, limits, PipelinePosition::Facet)?));
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

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        let mut memory = StageMemory::new("$facet");
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
            // All pipelines share the rows, and each copies them one by one.
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

/// `$unionWith`: the source of the other rows.
#[derive(Clone, Debug)]
pub(super) struct Union {
    collection: String,
    stages: Vec<Stage>,
}

/// `$unionWith: "collection"` or `{coll, pipeline}`.
pub(super) fn parse_union(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let (collection, pipeline) = match value {
        RawBsonRef::String(_) => (Some(value), None),
        RawBsonRef::Document(document) => {
            let [collection, pipeline] = members(
                document,
                ["coll", "pipeline"],
                (40415, "BSON field '$unionWith' is an unknown field"),
            )?;
            (collection, pipeline)
        }
        other => {
            let message = format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                kind(other)
            );
            return refused(Code::FailedToParse.0, message);
        }
    };
    let collection = match collection {
        Some(RawBsonRef::String(collection)) => collection.to_owned(),
        Some(other) => {
            let message = format!(
                "BSON field '$unionWith.coll' is the wrong type '{}', expected type 'string'",
                kind(other)
            );
            return refused(Code::TypeMismatch.0, message);
        }
        None => return refused(40414, "BSON field '$unionWith.coll' is missing but a required field"),
    };
    let stages = match pipeline {
        None => Vec::new(),
        Some(RawBsonRef::Array(array)) => sub_pipeline(array, limits, PipelinePosition::Sub("$unionWith"))?,
        Some(other) => {
            let message = format!(
                "BSON field '$unionWith.pipeline' is the wrong type '{}', expected type 'array'",
                kind(other)
            );
            return refused(Code::TypeMismatch.0, message);
        }
    };
    Ok(vec![Stage::Union(Union { collection, stages })])
}

impl Union {
    /// The collections that it reads.
    pub(super) fn collections(&self) -> Vec<&str> {
        let mut collections = vec![self.collection.as_str()];
        collections.extend(super::plan::collections_read(&self.stages));
        collections
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let context = context.clone();
        // The other rows are requested only after the end of the stage's own rows.
        let other = std::iter::once_with(move || {
            run_over(self.stages, &self.collection, &context)
                .unwrap_or_else(|failure| Box::new(std::iter::once(Err(failure))))
        });
        Box::new(rows.chain(other.flatten()))
    }
}
