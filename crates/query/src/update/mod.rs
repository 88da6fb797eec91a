//! Updates of documents, as the update commands apply them.
//!
//! An update has one of three forms: operators, a whole replacement, or a pipeline. Operators are applied to the document's bytes
//! in one walk, so untouched fields stay byte for byte. An unknown operator or stage is refused by name.
mod array;
mod document;
mod modify;
mod operator;
mod parse;
mod path;
mod rewrite;
mod storage;
mod target;
#[cfg(test)]
mod tests;
mod text;

use crate::raw::{Builder, Elements, Value, kind, malformed};
use crate::{Code, Failure, Filter, MergePipeline, Pipeline, Result, Variables};
pub(crate) use text::{element_text, type_name};

use bson::{Bson, RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
pub use document::DocumentUpdate;
use operator::PathUpdate;
pub use operator::UpdateMoment;
use rewrite::Rewrite;
use target::ArrayFilters;

/// A parsed update: operators, a replacement, or a pipeline.
#[derive(Clone, Debug)]
pub struct Update {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Operators { leaves: Vec<PathUpdate>, filters: ArrayFilters, paths: Vec<String> },
    Replacement(RawDocumentBuf),
    Pipeline(Box<Pipeline>),
}

impl Update {
    /// Parses `u` of an update command: a document of operators, a replacement document, or a pipeline array.
    pub fn parse(
        update: RawBsonRef<'_>,
        array_filters: &[&RawDocument],
        variables: &Variables,
    ) -> Result<Update> {
        let form = match update {
            RawBsonRef::Array(stages) => {
                if !array_filters.is_empty() {
                    let message = "arrayFilters may not be specified for pipeline-syle updates";
                    return Err(Failure::new(Code::FailedToParse, message));
                }
                Form::Pipeline(Box::new(parse_stages(stages, variables)?))
            }
            RawBsonRef::Document(update) => document_form(update, array_filters, variables)?,
            _ => {
                let message = "Update argument must be either an object or an array";
                return Err(Failure::new(Code::FailedToParse, message));
            }
        };
        Ok(Update { form })
    }

    /// Whether it replaces the whole document (not allowed with `multi`).
    pub fn is_replacement(&self) -> bool {
        matches!(self.form, Form::Replacement(_))
    }

    /// The dotted paths that it may write, without positions in arrays (`a.$[].b` and `a.0.b` are `a.b`); `None` if it may
    /// write any path. With them the server can skip indexes that the update does not affect.
    pub fn paths(&self) -> Option<&[String]> {
        match &self.form {
            Form::Operators { paths, .. } => Some(paths),
            Form::Replacement(_) | Form::Pipeline(_) => None,
        }
    }

    /// The document after the update. `_id` may not change (66); the result may not exceed 16 MiB (17419, and 10334 above
    /// the server's internal limit).
    pub fn apply(&self, before: &RawDocument, moment: &UpdateMoment<'_>) -> Result<DocumentUpdate> {
        match &self.form {
            Form::Operators { leaves, filters, .. } => {
                let targets = target::targets(leaves, filters, before, moment)?;
                let rewrite = Rewrite { root: before.as_bytes(), moment };
                match rewrite.run(&targets)? {
                    Some(bytes) => RawDocumentBuf::from_bytes(bytes)
                        .map(DocumentUpdate::Changed)
                        .map_err(|_| malformed("the result of an update")),
                    None => Ok(DocumentUpdate::Unchanged),
                }
            }
            Form::Replacement(replacement) => document::replace(before, replacement, moment),
            Form::Pipeline(pipeline) => {
                let after = pipeline.transform(before)?;
                document::check_replacement(&after)?;
                document::apply(before, &after)
            }
        }
    }

    /// The document that an upsert inserts: the filter's equalities, then the update. `_id` comes first, if there is one; otherwise the
    /// caller adds one.
    pub fn upsert(&self, filter: &Filter, moment: &UpdateMoment<'_>) -> Result<RawDocumentBuf> {
        let moment = &UpdateMoment { inserting: true, ..*moment };
        let seed = match &self.form {
            Form::Replacement(_) => match document::upsert_id(filter)? {
                Some(id) => {
                    let id = Value::from_bson(&id)?;
                    let mut seed = Builder::with_capacity(id.bytes().len() + 16);
                    seed.push(id.kind(), b"_id", id.bytes());
                    seed.document()?
                }
                None => RawDocumentBuf::new(),
            },
            Form::Operators { .. } | Form::Pipeline(_) => document::upsert_seed(filter, moment)?,
        };
        let document = match self.apply(&seed, moment)? {
            DocumentUpdate::Changed(document) => document,
            DocumentUpdate::Unchanged => seed,
        };
        let document = document::id_first(&document, None)?;
        document::check_inserted_id(&document)?;
        storage::check_size(document.as_bytes().len(), true)?;
        Ok(document)
    }
}

impl MergePipeline {
    /// The update for the document that the row `new` matches. It may not change `_id` (66).
    pub fn update_for(&self, new: &RawDocument) -> Result<Update> {
        let mut variables = self.variables.clone();
        for (name, expression) in &self.bound {
            let value = expression.evaluate(new, &self.variables)?.unwrap_or(Bson::Null);
            variables.insert(name.as_str(), value);
        }
        Update::parse(RawBsonRef::Array(&self.stages), &[], &variables)
    }
}

/// Parses the stages of an update.
fn parse_stages(stages: &RawArray, variables: &Variables) -> Result<Pipeline> {
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

fn document_form(
    update: &RawDocument,
    array_filters: &[&RawDocument],
    variables: &Variables,
) -> Result<Form> {
    let first = Elements::new(update.as_bytes())?.next().transpose()?;
    let filters = ArrayFilters::parse(array_filters, variables)?;
    if first.is_some_and(|first| first.name.first() == Some(&b'$')) {
        let leaves = parse::operators(update, &filters, variables)?;
        let paths = leaves.iter().map(|leaf| path::indexed_path(&leaf.path)).collect();
        return Ok(Form::Operators { leaves, filters, paths });
    }
    filters.check_all_used(&[], update)?;
    document::check_replacement(update)?;
    Ok(Form::Replacement(update.to_owned()))
}
