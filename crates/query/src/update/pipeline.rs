//! Updates written as a pipeline. Which stages may stand in one is the pipelines' to say.
use crate::raw::{Elements, kind, malformed};
use crate::{Code, Failure, Pipeline, Result, Variables};
use bson::{RawArray, RawDocument};

/// Parses the stages of an update.
pub(super) fn parse(stages: &RawArray, variables: &Variables) -> Result<Pipeline> {
    let mut documents = Vec::new();
    for stage in Elements::new(stages.as_bytes())? {
        let stage = stage?;
        if stage.kind != kind::DOCUMENT {
            let message = "Each element of the 'pipeline' array must be an object";
            return Err(Failure::new(Code::TypeMismatch, message));
        }
        documents.push(RawDocument::from_bytes(stage.value).map_err(|_| malformed("a stage"))?);
    }
    Pipeline::parse_update(&documents, variables)
}
