//! Stages that make documents of their own: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`, `$listSessions`.
//!
//! What they say is the host's matter; here only their form is checked.

use bson::{Document, RawBsonRef};

use super::Rows;
use super::context::Context;
use super::options::{kind, refused};
use super::parse::Limits;
use super::stages::Stage;
use crate::Result;
use crate::expression::value::decode_document;

/// A source with its options.
#[derive(Clone, Debug)]
pub(super) struct Source {
    name: &'static str,
    options: Document,
}

/// Any of them, by its name.
pub(super) fn parse(name: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
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
    Ok(vec![Stage::Source(Source { name, options })])
}

impl Source {
    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn run(self, context: &Context) -> Result<Rows> {
        let documents = context.host.special(context.collection.as_deref(), self.name, &self.options)?;
        Ok(Box::new(documents.into_iter().map(Ok)))
    }
}
