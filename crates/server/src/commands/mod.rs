//! The table of commands: the name of each, the rights it needs, the fields it takes, and the function that runs it.
//!
//! Each command, or each small group of related commands, has its own file. Commands of mongod that this server does
//! not support are listed too, each with the reason, so that they are refused by name.

mod administration;
mod aggregate;
mod cursors;
mod definition;
mod explain;
mod find;
mod find_and_modify;
mod index_options;
mod indexes;
mod information;
mod login;
mod matches;
mod namespaces;
mod operations;
mod parameters;
mod pipeline;
mod refused;
mod repl_set_config;
mod repl_set_members;
mod sessions;
mod sharding;
mod statistics;
mod table;
mod users;
mod users_info;
mod writes;

use bson::RawBsonRef;

use crate::Result;
use crate::auth::Conversation;
use crate::request::Request;

use crate::operation_context::OperationContext;
pub(crate) use crate::request::Reply;

pub(crate) use table::{function_of, registry};

/// The function of a command.
#[derive(Clone, Copy)]
pub(crate) enum CommandFunction {
    /// The function of most commands.
    Plain(fn(&mut OperationContext<'_>, &Request<'_>, &mut Reply<'_>) -> Result<()>),
    /// The function of commands that carry a login from one message to the next.
    Login(
        fn(&mut OperationContext<'_>, &Request<'_>, &mut Option<Conversation>, &mut Reply<'_>) -> Result<()>,
    ),
}

/// A command as the oplog stores it: its name and its own fields, without the generic arguments.
pub(crate) fn as_logged(request: &Request<'_>) -> Result<bson::Document> {
    let mut command = bson::Document::new();
    for (place, element) in request.body().iter().enumerate() {
        let (name, value) = element.map_err(|error| crate::parse::malformed(&error))?;
        if place == 0 || request.command.rules.fields.contains(&name.as_str()) {
            command.insert(name.as_str(), crate::parse::owned_value(value)?);
        }
    }
    Ok(command)
}

/// Refuses a collation other than the simple one: strings are compared by their bytes here.
pub(crate) fn refuse_collation(value: Option<RawBsonRef<'_>>) -> Result<()> {
    let refused = |what: &str| {
        Err(fathom_query::Failure::new(
            fathom_query::Code::CommandNotSupported,
            format!("this server has the simple collation only; {what}"),
        ))
    };
    match value {
        None | Some(RawBsonRef::Null) => Ok(()),
        Some(RawBsonRef::Document(collation)) => match crate::parse::string(collation, "locale")? {
            Some("simple") => Ok(()),
            Some(locale) => refused(&format!("the locale '{locale}' is refused")),
            None if collation.is_empty() => Ok(()),
            None => Err(crate::parse::missing("collation.locale")),
        },
        Some(other) => Err(crate::parse::wrong_type("collation", other, "object")),
    }
}

/// The result of a read as a hint.
pub(crate) fn hint_of(value: Option<RawBsonRef<'_>>) -> Result<Option<fathom_query::Hint>> {
    use fathom_query::{Code, Failure, Hint};
    match value {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(RawBsonRef::String(name)) => Ok(Some(Hint::Name(name.to_owned()))),
        Some(RawBsonRef::Document(pattern)) if pattern.is_empty() => Ok(None),
        Some(RawBsonRef::Document(pattern)) => match crate::parse::field(pattern, "$natural") {
            Some(direction) => Ok(Some(Hint::Natural {
                backwards: crate::parse::integer_of(direction).is_some_and(|d| d < 0),
            })),
            None => Ok(Some(Hint::Pattern(crate::parse::owned(pattern)?))),
        },
        Some(_) => Err(Failure::new(Code::FailedToParse, "Hint must be a string or an object")),
    }
}

/// Variables of a command with `let`.
pub(crate) fn read_let<'d>(op: &mut OperationContext<'_>, body: impl crate::parse::Fields<'d>) -> Result<()> {
    let Some(named) = crate::parse::document(body, "let")? else { return Ok(()) };
    let mut variables = op.variables().clone();
    for element in named {
        let (name, value) = element.map_err(|error| crate::parse::malformed(&error))?;
        let value = fathom_query::Expression::parse(value)?.evaluate(crate::parse::empty(), &variables)?;
        variables.insert(name.as_str(), value.unwrap_or(bson::Bson::Null));
    }
    op.set_variables(variables);
    Ok(())
}
