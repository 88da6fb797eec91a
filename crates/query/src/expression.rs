//! Expressions of pipelines: `{$add: ["$a", 1]}`.
use crate::{Result, Variables};
use bson::{Bson, RawBsonRef, RawDocument};

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {}

impl Expression {
    /// Parses an expression; an unknown operator is `InvalidPipelineOperator` (168).
    pub fn parse(_expression: RawBsonRef<'_>) -> Result<Expression> {
        Ok(Expression {})
    }

    /// Its value for a document; none when it is missing (a field that is not there, `$$REMOVE`).
    pub fn evaluate(&self, _document: &RawDocument, _variables: &Variables) -> Result<Option<Bson>> {
        Ok(None)
    }
}
