//! The stages that produce documents: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`, `$listSessions`,
//! `$documents`.
//!
//! The host provides the documents, except for `$documents`, which contains them. Of the others only the form is checked here.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};

use super::context::{Rows, StageContext};
use super::parse::{StageLimits, kind, refused};
use super::stages::Stage;
use crate::expression::value::{decode_document, malformed};
use crate::{Expression, Result};

/// A source with its options.
#[derive(Clone, Debug)]
pub(super) struct StageSource {
    name: &'static str,
    options: Document,
    /// The value that `$documents` computes.
    documents: Option<Expression>,
}

/// `$documents: [...]`, or an expression that gives such an array.
pub(super) fn parse_documents(
    name: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let documents = Some(Expression::parse_with(value, limits.variables)?);
    Ok(vec![Stage::Source(StageSource { name, options: Document::new(), documents })])
}

/// Parses any of these stages, by its name.
pub(super) fn parse(name: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let code = match name {
        "$collStats" => 5447000,
        "$indexStats" => 28803,
        "$currentOp" => 9,
        _ => 14,
    };
    let RawBsonRef::Document(options) = value else {
        return refused(code, format!("{name} must take a nested object but found: {}", kind(value)));
    };
    let options = decode_document(options)?;
    if name == "$indexStats" && !options.is_empty() {
        return refused(28803, "The $indexStats stage specification must be an empty object");
    }
    Ok(vec![Stage::Source(StageSource { name, options, documents: None })])
}

impl StageSource {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn run(self, context: &StageContext) -> Result<Rows> {
        if let Some(expression) = &self.documents {
            return computed(expression, context);
        }
        let documents = context.host.special(context.collection.as_deref(), self.name, &self.options)?;
        Ok(Box::new(documents.into_iter().map(Ok)))
    }
}

/// The rows of `$documents`.
fn computed(expression: &Expression, context: &StageContext) -> Result<Rows> {
    let nothing = RawDocumentBuf::new();
    let nothing: &RawDocument = &nothing;
    let Some(Bson::Array(items)) = expression.evaluate(nothing, &context.variables)? else {
        return refused(5858203, "an array is expected for the $documents stage");
    };
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Bson::Document(document) => {
                rows.push(RawDocumentBuf::try_from(&document).map_err(malformed)?);
            }
            _ => return refused(5858203, "$documents: an array of objects is expected"),
        }
    }
    Ok(Box::new(rows.into_iter().map(Ok)))
}
