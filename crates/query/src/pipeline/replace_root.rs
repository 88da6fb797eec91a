//! `$replaceRoot` and `$replaceWith`: a document that an expression makes takes the row's place.

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Rows;
use super::context::Context;
use super::memory::sized;
use super::options::{members, object, refused};
use super::parse::Limits;
use super::stages::Stage;
use crate::expression::show::show;
use crate::expression::value::{Value, malformed};
use crate::{Expression, Result, Variables};

/// The expression.
#[derive(Clone, Debug)]
pub(super) struct ReplaceRoot {
    expression: Expression,
}

/// `$replaceRoot: {newRoot: expression}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 40229, "expected an object as specification for $replaceRoot stage")?;
    let unknown = (40230, "unrecognized option to $replaceRoot stage, only valid option is 'newRoot'");
    let [Some(root)] = members(document, ["newRoot"], unknown)? else {
        return refused(40231, "no newRoot specified for the $replaceRoot stage");
    };
    of_expression(root, limits)
}

/// `$replaceWith: expression`.
pub(super) fn parse_with(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    of_expression(value, limits)
}

fn of_expression(value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let expression = Expression::parse_with(value, limits.variables)?;
    Ok(vec![Stage::ReplaceRoot(ReplaceRoot { expression })])
}

impl ReplaceRoot {
    /// The new document.
    pub(super) fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        let root = match self.expression.value(document, variables)? {
            Value::Raw(RawBsonRef::Document(root)) => root.to_owned(),
            Value::Ref(Bson::Document(root)) => RawDocumentBuf::try_from(root).map_err(malformed)?,
            Value::Own(Bson::Document(root)) => RawDocumentBuf::try_from(&root).map_err(malformed)?,
            other => {
                let message = format!(
                    "'newRoot' expression must evaluate to an object, but resulting value was: {}. Type of resulting value: \
                     '{}'. Input document: {}",
                    show(&other),
                    other.type_name(),
                    show(&Value::Raw(RawBsonRef::Document(document)))
                );
                return refused(40228, message);
            }
        };
        sized(root)
    }

    pub(super) fn run(self, rows: Rows, context: &Context) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}
