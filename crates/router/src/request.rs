//! A command that a client sent, with its arguments.

use bson::{RawBsonRef, RawDocument};
use fathom_client::ReadPreference;
use fathom_service::parse::{self, Listed};
use fathom_wire::{Code, Failure, OpMsg};

use crate::Result;
use crate::sending::Sending;

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

/// A command with its arguments.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The command's name in MongoDB's own spelling.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The first field's value: mostly the collection.
    pub(crate) target: RawBsonRef<'a>,
    pub(crate) database: &'a str,
    /// The body's fields.
    pub(crate) fields: &'a Listed<'a>,
    pub(crate) message: Option<&'a OpMsg<'a>>,
    pub(crate) preference: ReadPreference,
    /// Whether it has a `txnNumber`, by which a set knows a write that comes twice.
    pub(crate) is_numbered: bool,
}

impl<'a> Request<'a> {
    /// The command as it came.
    pub(crate) fn body(&self) -> &'a RawDocument {
        self.fields.document()
    }

    /// `database.collection`.
    pub(crate) fn namespace(&self) -> Result<String> {
        parse::namespace(self.database, self.target)
    }

    /// The `database.collection` that an administrative command names whole.
    pub(crate) fn named_namespace(&self) -> Result<&'a str> {
        match self.target {
            RawBsonRef::String(name)
                if name.split_once('.').is_some_and(|(db, coll)| !db.is_empty() && !coll.is_empty()) =>
            {
                Ok(name)
            }
            _ => {
                let what = format!("{} takes a namespace, such as \"database.collection\"", self.name);
                Err(Failure::new(Code::InvalidNamespace, what))
            }
        }
    }

    /// A field of the body.
    pub(crate) fn field(&self, name: &str) -> Option<RawBsonRef<'a>> {
        parse::field(self.fields, name)
    }

    /// The database, and whether a cursor of this command lives until it is closed.
    pub(crate) fn cursor_terms(&self) -> Result<(&'a str, bool)> {
        Ok((self.database, parse::boolean(self.fields, "noCursorTimeout")?))
    }

    /// The documents of a field that may come beside the body.
    pub(crate) fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        parse::documents_of_command(self.message, self.fields, name)
    }

    /// The documents that came beside the body.
    pub(crate) fn sequence(&self) -> Option<(&'static str, Vec<&'a RawDocument>)> {
        let sequence = self.message?.sequences().next()?;
        let name = ["documents", "updates", "deletes"].into_iter().find(|name| *name == sequence.name())?;
        Some((name, sequence.documents().collect()))
    }

    /// How it is sent to shards.
    pub(crate) fn sending(&self) -> Sending {
        match self.kind {
            Kind::Read => Sending { preference: self.preference.clone(), ..Sending::read() },
            Kind::Write | Kind::Admin => {
                Sending { idempotent: self.is_numbered, numbered: self.is_numbered, ..Sending::write() }
            }
        }
    }
}
