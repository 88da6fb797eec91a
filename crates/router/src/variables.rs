//! The variables of a command.

use bson::{Bson, DateTime};
use fathom_query::{Expression, Variables};
use fathom_service::parse;

use crate::Result;
use crate::outgoing::fields_of;
use crate::request::Request;

/// The time, and what `let` names.
pub(crate) fn variables_of(request: &Request<'_>) -> Result<Variables> {
    let mut variables = Variables::at(DateTime::now());
    let Some(named) = parse::document(request.fields, "let")? else { return Ok(variables) };
    for (name, value) in fields_of(named) {
        let value = Expression::parse(value)?.evaluate(parse::empty(), &variables)?;
        variables.insert(name, value.unwrap_or(Bson::Null));
    }
    Ok(variables)
}
