//! A command that a client sent: what it is asked of, its fields, and its generic arguments, which every command takes.
//!
//! What the process makes of the generic arguments (`G`) is its own matter: a server waits by a write concern, a router passes it on.

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure, OpMsg};

use crate::command::{Command, CommandRegistry};
use crate::parse::{self, Listed};
use crate::{Counter, Incoming, Result};

/// The names of the generic arguments that clients give.
pub static GENERIC_ARGUMENTS: &[&str] = &[
    "$db",
    "lsid",
    "$clusterTime",
    "$readPreference",
    "comment",
    "maxTimeMS",
    "writeConcern",
    "readConcern",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "$audit",
    "$client",
    "$configServerState",
    "$queryOptions",
];

/// A command with its arguments.
#[derive(Debug)]
pub struct Request<'a, K: 'static, R: 'static, G> {
    /// The row of the table.
    pub command: &'static Command<K, R>,
    /// The first field's value: mostly the collection.
    pub target: RawBsonRef<'a>,
    /// The database that it is run against.
    pub database: &'a str,
    /// The body's fields.
    pub fields: &'a Listed<'a>,
    /// The message that it came in; none if it came by OP_QUERY, as old handshakes do.
    pub message: Option<&'a OpMsg<'a>>,
    /// What the process has read of the generic arguments.
    pub generic: G,
}

impl<'a, K, R, G: Default> Request<'a, K, R, G> {
    /// The request that came in: the command that its first field names, and what `read_generic` reads of the generic arguments, the
    /// database (`$db`) among them. A command that there is not counts as `unknown`.
    pub fn read(
        commands: &'static CommandRegistry<K, R>,
        unknown: &Counter,
        incoming: &Incoming<'a>,
        fields: &'a Listed<'a>,
        read_generic: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let (message, query_database) = match incoming {
            Incoming::Message(message) => (Some(*message), None),
            Incoming::Query(query) => (None, query.command_database()),
        };
        let Some((name, target)) = fields.first() else {
            return Err(Failure::new(Code::CommandNotFound, "no command was given: the document is empty"));
        };
        let command = commands.find(name).ok_or_else(|| {
            unknown.add(1);
            Failure::new(Code::CommandNotFound, format!("no such command: '{name}'"))
        })?;
        let database = query_database.unwrap_or_default();
        let mut request = Request { command, target, database, fields, message, generic: G::default() };
        read_generic(&mut request)?;
        if request.database.is_empty() {
            return Err(Failure::new(Code(40571), "OP_MSG requests require a $db argument"));
        }
        Ok(request)
    }
}

impl<'a, K, R, G> Request<'a, K, R, G> {
    /// Takes the value of `$db`, if `check` has nothing against the name.
    pub fn set_database(
        &mut self,
        value: RawBsonRef<'a>,
        check: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        let RawBsonRef::String(database) = value else {
            return Err(parse::wrong_type("$db", value, "string"));
        };
        check(database)?;
        self.database = database;
        Ok(())
    }

    /// The command as it came.
    pub fn body(&self) -> &'a RawDocument {
        self.fields.document()
    }

    /// Bytes of the documents that it came as.
    pub fn bytes(&self) -> usize {
        self.message.map_or(self.body().as_bytes().len(), OpMsg::bytes)
    }

    /// Whether it came by OP_QUERY.
    pub fn is_legacy(&self) -> bool {
        self.message.is_none()
    }

    /// `database.collection`.
    pub fn namespace(&self) -> Result<String> {
        parse::namespace(self.database, self.target)
    }

    /// The `database.collection` that an administrative command names whole.
    pub fn named_namespace(&self) -> Result<&'a str> {
        match self.target {
            RawBsonRef::String(name)
                if name.split_once('.').is_some_and(|(db, coll)| !db.is_empty() && !coll.is_empty()) =>
            {
                Ok(name)
            }
            _ => {
                let what =
                    format!("{} takes a namespace, such as \"database.collection\"", self.command.name);
                Err(Failure::new(Code::InvalidNamespace, what))
            }
        }
    }

    /// A field of the body.
    pub fn field(&self, name: &str) -> Option<RawBsonRef<'a>> {
        parse::field(self.fields, name)
    }

    /// The documents of a field that may come beside the body.
    pub fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        parse::documents_of_command(self.message, self.fields, name)
    }

    /// The documents that came beside the body, with the name of their field.
    pub fn sequence(&self) -> Option<(&'static str, Vec<&'a RawDocument>)> {
        let sequence = self.message?.sequences().next()?;
        let name = ["documents", "updates", "deletes"].into_iter().find(|name| *name == sequence.name())?;
        Some((name, sequence.documents().collect()))
    }
}
