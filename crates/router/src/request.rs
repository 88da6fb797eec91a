//! A client's command, its variables, and how it is sent to shards: to which member, and whether it may be sent twice.

use bson::{Bson, DateTime};
use fathom_client::{ReadMode, ReadPreference};
use fathom_query::{Expression, Variables};
use fathom_service::parse;

use crate::Result;

/// The way in which a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendKind {
    /// To the member that fits the client's read preference; sent again if the connection breaks.
    Read,
    /// Sent to primaries, and only once.
    Write,
    /// Sent like a write, and counted as a command.
    Admin,
}

/// A row of the table of commands, without its function.
pub(crate) type Command = fathom_service::Command<SendKind>;

/// All commands of the router, by row and by name.
pub(crate) type CommandRegistry = fathom_service::CommandRegistry<SendKind>;

/// A command with its arguments.
pub(crate) type Request<'a> = fathom_service::Request<'a, SendKind, (), GenericArguments>;

/// The arguments that every command takes and that the router acts upon.
#[derive(Debug)]
pub(crate) struct GenericArguments {
    pub(crate) preference: ReadPreference,
    /// Whether it has a `txnNumber`, by which a set recognizes a write that is sent twice.
    pub(crate) is_numbered: bool,
}

impl Default for GenericArguments {
    fn default() -> Self {
        GenericArguments { preference: ReadMode::Primary.into(), is_numbered: false }
    }
}

/// The policy for sending commands.
#[derive(Clone, Debug)]
pub(crate) struct SendPolicy {
    /// The read preference that selects the member.
    pub(crate) preference: ReadPreference,
    /// Whether the commands may be sent twice without harm.
    pub(crate) idempotent: bool,
    /// Whether the client has numbered them, so that it may send them again itself.
    pub(crate) numbered: bool,
}

impl SendPolicy {
    /// The policy for a client's command.
    pub(crate) fn from_request(request: &Request<'_>) -> SendPolicy {
        let generic = &request.generic;
        match request.command.kind {
            SendKind::Read => SendPolicy { preference: generic.preference.clone(), ..SendPolicy::read() },
            SendKind::Write | SendKind::Admin => SendPolicy {
                idempotent: generic.is_numbered,
                numbered: generic.is_numbered,
                ..SendPolicy::write()
            },
        }
    }

    /// The policy for reads from primaries.
    pub(crate) fn read() -> SendPolicy {
        SendPolicy { preference: ReadMode::Primary.into(), idempotent: true, numbered: false }
    }

    pub(crate) fn write() -> SendPolicy {
        SendPolicy { preference: ReadMode::Primary.into(), idempotent: false, numbered: false }
    }
}

/// The time, and the variables of `let`.
pub(crate) fn variables_of(request: &Request<'_>) -> Result<Variables> {
    let mut variables = Variables::at(DateTime::now());
    let Some(named) = parse::document(request.fields, "let")? else { return Ok(variables) };
    for (name, value) in named.iter().map_while(std::result::Result::ok) {
        let value = Expression::parse(value)?.evaluate(parse::empty(), &variables)?;
        variables.insert(name.as_str(), value.unwrap_or(Bson::Null));
    }
    Ok(variables)
}
