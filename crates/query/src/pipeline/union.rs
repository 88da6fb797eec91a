//! `$unionWith`: the rows of another collection, or of a pipeline over it, after one's own.

use bson::RawBsonRef;

use super::Rows;
use super::context::{Context, run_over};
use super::options::{kind, members, refused};
use super::parse::{Limits, Place, sub_pipeline};
use super::stages::Stage;
use crate::{Code, Result};

/// The other rows.
#[derive(Clone, Debug)]
pub(super) struct Union {
    collection: String,
    stages: Vec<Stage>,
}

/// `$unionWith: "collection"` or `{coll, pipeline}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
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
        Some(RawBsonRef::Array(array)) => sub_pipeline(array, limits, Place::Sub("$unionWith"))?,
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

    pub(super) fn run(self, rows: Rows, context: &Context) -> Rows {
        let context = context.clone();
        // Asked for only when one's own rows have come to an end.
        let other = std::iter::once_with(move || {
            run_over(self.stages, &self.collection, &context)
                .unwrap_or_else(|failure| Box::new(std::iter::once(Err(failure))))
        });
        Box::new(rows.chain(other.flatten()))
    }
}
