//! `$match`: keeps the rows that a filter means.
//!
//! `$where`, `$text` and `$near` are refused where the filter is parsed.

use bson::{Document, RawBsonRef};

use super::Rows;
use super::options::kind;
use super::parse::Limits;
use super::stages::Stage;
use crate::expression::value::decode_document;
use crate::{Code, Failure, Filter, Result};

/// A filter, with the document that it was parsed from.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) document: Document,
    filter: Filter,
}

/// `$match: {...}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = value else {
        let message = format!("the match filter must be an expression in an object, got {}", kind(value));
        return Err(Failure::new(Code(15959), message));
    };
    let filter = Filter::parse(document, limits.variables)?;
    Ok(vec![Stage::Match(Match { document: decode_document(document)?, filter })])
}

impl Match {
    pub(super) fn run(self, rows: Rows) -> Rows {
        Box::new(rows.filter_map(move |row| match row {
            Ok(row) => match self.filter.matches(&row) {
                Ok(Some(_)) => Some(Ok(row)),
                Ok(None) => None,
                Err(failure) => Some(Err(failure)),
            },
            failed => Some(failed),
        }))
    }
}
