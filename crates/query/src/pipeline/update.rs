//! Stages as an update: one document in, one out.

use bson::{RawDocument, RawDocumentBuf};

use super::stages::Stage;
use crate::{Code, Failure, Result, Variables};

/// What stages that were parsed for an update make of a document.
pub(super) fn transform(
    stages: &[Stage],
    document: &RawDocument,
    variables: &Variables,
) -> Result<RawDocumentBuf> {
    let mut current = document.to_owned();
    for stage in stages {
        current = match stage {
            Stage::Project(stage) => stage.apply(&current, variables)?,
            Stage::AddFields(stage) => stage.apply(&current, variables)?,
            Stage::ReplaceRoot(stage) => stage.apply(&current, variables)?,
            _ => {
                return Err(Failure::new(
                    Code::InvalidOptions,
                    "the stage is not allowed to be used within an update",
                ));
            }
        };
    }
    Ok(current)
}
