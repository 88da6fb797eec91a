//! Updates written as a pipeline: the stages that may make a document from a document, and no others.
use crate::raw::{Elements, kind, malformed};
use crate::{Code, Failure, Filter, Host, Pipeline, Result, Rows, Variables};
use bson::{Document, RawArray, RawDocument, RawDocumentBuf};

/// Parses the stages of an update.
pub(super) fn parse(stages: &RawArray, variables: &Variables) -> Result<Pipeline> {
    let mut documents = Vec::new();
    for stage in Elements::new(stages.as_bytes())? {
        let stage = stage?;
        if stage.kind != kind::DOCUMENT {
            let message = "Each element of the 'pipeline' array must be an object";
            return Err(Failure::new(Code::TypeMismatch, message));
        }
        if let Some(first) = Elements::new(stage.value)?.next() {
            let name = first?.name_text()?;
            if !matches!(
                name,
                "$set" | "$addFields" | "$unset" | "$project" | "$replaceRoot" | "$replaceWith"
            ) {
                let message = format!("{name} is not allowed to be used within an update");
                return Err(Failure::new(Code::InvalidOptions, message));
            }
        }
        documents.push(RawDocument::from_bytes(stage.value).map_err(|_| malformed("a stage"))?);
    }
    Pipeline::parse(&documents, variables)
}

/// Runs the stages over one document.
pub(super) fn run(pipeline: &Pipeline, document: &RawDocument) -> Result<RawDocumentBuf> {
    let one: Rows<'_> = Box::new(std::iter::once(Ok(document.to_owned())));
    let mut rows = pipeline.clone().run(one, &Nobody)?;
    match (rows.next(), rows.next()) {
        (Some(row), None) => row,
        _ => Err(Failure::new(Code::InternalError, "An update pipeline did not yield one document")),
    }
}

/// A host with nothing to offer: no stage of an update asks for anything.
struct Nobody;

fn refused<T>(what: &str) -> Result<T> {
    Err(Failure::new(Code::InvalidOptions, format!("{what} is not allowed to be used within an update")))
}

impl Host for Nobody {
    fn find(&self, _: Option<&str>, _: &str, _: &Filter) -> Result<Vec<RawDocumentBuf>> {
        refused("$lookup")
    }

    fn out(&self, _: Option<&str>, _: &str, _: Rows<'_>) -> Result<()> {
        refused("$out")
    }

    fn merge(&self, _: &Document, _: Rows<'_>) -> Result<()> {
        refused("$merge")
    }

    fn special(&self, stage: &str, _: &Document) -> Result<Vec<RawDocumentBuf>> {
        refused(stage)
    }

    fn random(&self) -> f64 {
        0.5
    }
}
