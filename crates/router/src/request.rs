//! A command that a client sent, its variables, and how it is sent to shards: to which member, and whether it may be sent twice.

use bson::{Bson, DateTime};
use fathom_client::{ReadMode, ReadPreference};
use fathom_query::{Expression, Variables};
use fathom_service::parse;

use crate::Result;

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the member that the client's read preference asks for, again if the connection breaks.
    Read,
    /// To primaries, once.
    Write,
    /// The same, and counted as a command.
    Admin,
}

/// A row of the table of commands, its function apart.
pub(crate) type Command = fathom_service::Command<Kind>;

/// All commands of the router, by row and by name.
pub(crate) type CommandRegistry = fathom_service::CommandRegistry<Kind>;

/// A command with its arguments.
pub(crate) type Request<'a> = fathom_service::Request<'a, Kind, (), GenericArguments>;

/// The arguments that every command takes, as far as the router acts upon them.
#[derive(Debug)]
pub(crate) struct GenericArguments {
    pub(crate) preference: ReadPreference,
    /// Whether it has a `txnNumber`, by which a set knows a write that comes twice.
    pub(crate) is_numbered: bool,
}

impl Default for GenericArguments {
    fn default() -> Self {
        GenericArguments { preference: ReadMode::Primary.into(), is_numbered: false }
    }
}

/// How commands are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    /// Which member is asked.
    pub(crate) preference: ReadPreference,
    /// Whether it does no harm to send them twice.
    pub(crate) idempotent: bool,
    /// Whether the client has numbered them, so that it may send them again itself.
    pub(crate) numbered: bool,
}

impl Sending {
    /// How a client's command is sent.
    pub(crate) fn of(request: &Request<'_>) -> Sending {
        let generic = &request.generic;
        match request.command.kind {
            Kind::Read => Sending { preference: generic.preference.clone(), ..Sending::read() },
            Kind::Write | Kind::Admin => {
                Sending { idempotent: generic.is_numbered, numbered: generic.is_numbered, ..Sending::write() }
            }
        }
    }

    /// Reads from primaries.
    pub(crate) fn read() -> Sending {
        Sending { preference: ReadMode::Primary.into(), idempotent: true, numbered: false }
    }

    /// Writes.
    pub(crate) fn write() -> Sending {
        Sending { preference: ReadMode::Primary.into(), idempotent: false, numbered: false }
    }
}

/// The time, and what `let` names.
pub(crate) fn variables_of(request: &Request<'_>) -> Result<Variables> {
    let mut variables = Variables::at(DateTime::now());
    let Some(named) = parse::document(request.fields, "let")? else { return Ok(variables) };
    for (name, value) in named.iter().map_while(std::result::Result::ok) {
        let value = Expression::parse(value)?.evaluate(parse::empty(), &variables)?;
        variables.insert(name.as_str(), value.unwrap_or(Bson::Null));
    }
    Ok(variables)
}
