//! A command from a client: its database, its fields, and the generic arguments, which every command accepts.
//!
//! Each process treats the generic arguments (`G`) in its own way: a server waits for a write concern, a router passes it on.

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure, OpMsg};

use crate::command::{Command, CommandRegistry};
use crate::parse::{self, IndexedDocument};
use crate::{Counter, RequestMessage, Result};

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

/// Refuses a name that no database may have.
pub fn check_database_name(database: &str) -> Result<()> {
    let forbidden = |byte: &u8| matches!(byte, b'/' | b'\\' | b'.' | b' ' | b'"' | b'$' | 0);
    if database.is_empty() || database.len() >= 64 || database.as_bytes().iter().any(forbidden) {
        return Err(Failure::new(Code::InvalidNamespace, format!("Invalid database name: '{database}'")));
    }
    Ok(())
}

/// A command with its arguments.
#[derive(Debug)]
pub struct Request<'a, K: 'static, R: 'static, G> {
    /// The row of the table.
    pub command: &'static Command<K, R>,
    /// The first field's value: usually the collection.
    pub target: RawBsonRef<'a>,
    /// The database against which it runs.
    pub database: &'a str,
    pub fields: &'a IndexedDocument<'a>,
    /// Its message; `None` if it came as OP_QUERY, as old handshakes do.
    pub message: Option<&'a OpMsg<'a>>,
    /// The generic arguments that the process has read.
    pub generic: G,
}

impl<'a, K, R, G: Default> Request<'a, K, R, G> {
    /// Reads a request: the command that its first field names, and the generic arguments that `read_generic` accepts, including the
    /// database (`$db`). An unknown command is counted as `unknown`.
    pub fn read(
        commands: &'static CommandRegistry<K, R>,
        unknown: &Counter,
        incoming: &RequestMessage<'a>,
        fields: &'a IndexedDocument<'a>,
        read_generic: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let (message, query_database) = match incoming {
            RequestMessage::Message(message) => (Some(*message), None),
            RequestMessage::Query(query) => (None, query.command_database()),
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
    /// Takes the value of `$db`. `$external` is not a database, but drivers send logins to it, which are refused later.
    pub fn set_database(&mut self, value: RawBsonRef<'a>) -> Result<()> {
        let RawBsonRef::String(database) = value else {
            return Err(parse::wrong_type("$db", value, "string"));
        };
        if database != "$external" {
            check_database_name(database)?;
        }
        self.database = database;
        Ok(())
    }

    /// The command's document as it was received.
    pub fn body(&self) -> &'a RawDocument {
        self.fields.document()
    }

    /// The number of bytes of the received documents.
    pub fn bytes(&self) -> usize {
        self.message.map_or(self.body().as_bytes().len(), OpMsg::bytes)
    }

    /// Whether it came as OP_QUERY.
    pub fn is_legacy(&self) -> bool {
        self.message.is_none()
    }

    /// The namespace, as `database.collection`.
    pub fn namespace(&self) -> Result<String> {
        parse::namespace(self.database, self.target)
    }

    /// The `database.collection` that an administrative command gives in full.
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

    /// The documents of a field that may come in a document sequence.
    pub fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        parse::documents_of_command(self.message, self.fields, name)
    }

    /// The documents of the document sequence, with the name of their field.
    pub fn sequence(&self) -> Option<(&'static str, Vec<&'a RawDocument>)> {
        let sequence = self.message?.sequences().next()?;
        let name = ["documents", "updates", "deletes"].into_iter().find(|name| *name == sequence.name())?;
        Some((name, sequence.documents().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_has_a_name_of_at_most_63_bytes_without_separators() {
        for good in ["a", "admin", "a-b", &"x".repeat(63)] {
            assert!(check_database_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a.b", "a b", "a/b", "a\\b", "a$b", "a\"b", "a\0b", &"x".repeat(64)] {
            assert_eq!(check_database_name(bad).unwrap_err().code(), Code::InvalidNamespace, "{bad:?}");
        }
    }
}
