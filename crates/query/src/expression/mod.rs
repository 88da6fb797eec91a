//! Expressions of pipelines: `{$add: ["$a", 1]}`.
//!
//! An expression is parsed once into a tree and evaluated for each document. `operators.rs` lists every operator, including
//! those that MongoDB has and this server refuses; each family of operators has a file.

mod accumulators;
mod arithmetic;
mod arrays;
pub(crate) mod calendar;
pub(crate) mod canonical;
mod conversion;
mod date_parts;
mod date_text;
mod environment;
mod functions;
mod logic;
mod loops;
mod node;
pub(crate) mod number;
mod objects;
mod operators;
mod parse;
pub(crate) mod path;
mod pattern;
mod positions;
mod sets;
pub(crate) mod show;
mod strings;
#[cfg(test)]
mod tests;
pub(crate) mod value;
mod zone;

use std::cell::Cell;

use bson::{Bson, RawBsonRef, RawDocument};

use self::environment::{EvaluationScope, MAX_STEPS, VariableFrame};
use self::node::ExpressionNode;
use self::parse::Parser;
use self::path::PathBase;
use self::value::Value;
use crate::Result;

pub(crate) use self::accumulators::{Accumulator, AccumulatorKind};
pub use self::environment::Variables;

#[derive(Clone, Debug)]
pub struct Expression {
    node: ExpressionNode,
}

impl Expression {
    /// Parses an expression; an unknown operator is `InvalidPipelineOperator` (168). A variable that no operator binds is looked
    /// up when the expression is evaluated.
    pub fn parse(expression: RawBsonRef<'_>) -> Result<Expression> {
        Ok(Expression { node: Parser::new(None).operand(expression)? })
    }

    /// Parses an expression that may use the variables of `variables` and no others (17276).
    pub fn parse_with(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Expression> {
        Ok(Expression { node: Parser::new(Some(variables)).operand(expression)? })
    }

    /// Refuses a name that no user variable can have.
    pub(crate) fn check_name(name: &str) -> Result<()> {
        parse::check_bound_name(name)
    }

    /// Parses an expression whose paths begin at a document that is not the root (`$redact`).
    pub(crate) fn parse_of_current(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Expression> {
        Ok(Expression { node: Parser::new(Some(variables)).bound(vec!["CURRENT".to_owned()], expression)? })
    }

    /// The value of an expression from [`Expression::parse_of_current`].
    pub(crate) fn value_of_current(
        &self,
        current: &RawDocument,
        root: &RawDocument,
        variables: &Variables,
    ) -> Result<Value<'static>> {
        let budget = Cell::new(MAX_STEPS);
        let values = [Value::Raw(RawBsonRef::Document(current))];
        let frame = VariableFrame { values: &values, parent: None };
        let environment = EvaluationScope { root, variables, frame: Some(&frame), budget: &budget };
        self.node.evaluate(&environment)?.detach()
    }

    /// Its value for a document; `None` if it is missing (an absent field, `$$REMOVE`).
    pub fn evaluate(&self, document: &RawDocument, variables: &Variables) -> Result<Option<Bson>> {
        self.value(document, variables)?.into_bson()
    }

    /// Whether its value for a document counts as true.
    pub fn is_true(&self, document: &RawDocument, variables: &Variables) -> Result<bool> {
        Ok(self.value(document, variables)?.is_true())
    }

    /// Its value for a document, decoded only if necessary.
    pub(crate) fn value<'e>(
        &'e self,
        document: &'e RawDocument,
        variables: &'e Variables,
    ) -> Result<Value<'e>> {
        match &self.node {
            ExpressionNode::Constant(value) => Ok(Value::Ref(value)),
            ExpressionNode::Path(path) if matches!(path.base, PathBase::Root) => {
                path::of_document(document, &path.fields)
            }
            node => {
                let budget = Cell::new(MAX_STEPS);
                let environment = EvaluationScope { root: document, variables, frame: None, budget: &budget };
                // The result refers to the document, the variables and the tree, never to the budget.
                node.evaluate(&environment)?.detach()
            }
        }
    }

    /// The value, if the expression is a literal and so the same for every document.
    pub(crate) fn constant(&self) -> Option<&Bson> {
        match &self.node {
            ExpressionNode::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The value without a document, if the expression needs none (`$bucket`'s boundaries, `$merge`'s `let`).
    pub(crate) fn without_document(&self, variables: &Variables) -> Result<Option<Bson>> {
        let nothing = bson::RawDocumentBuf::new();
        self.evaluate(&nothing, variables)
    }

    /// Collects the top-level fields of the document that it reads; false if it may read any.
    pub(crate) fn collect_fields(&self, fields: &mut std::collections::BTreeSet<String>) -> bool {
        self.node.collect_fields(fields)
    }
}
