//! A command that a client sent, with its arguments.

use bson::{RawBsonRef, RawDocument};
use fathom_wire::OpMsg;

use crate::Result;
use crate::command::Command;
use crate::parse::Listed;
use crate::read_concern::ReadConcern;
use crate::sessions::SessionId;
use crate::write_concern::WriteConcern;

/// The reply being written.
pub(crate) type Reply<'a> = fathom_wire::DocumentWriter<'a>;

/// The label that a fail point puts on a failure to have the connection closed instead of answered.
pub(crate) const CLOSE_CONNECTION: &str = "FathomCloseConnection";

/// A command with its arguments.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) command: &'static Command,
    /// The first field's value: mostly the collection.
    pub(crate) target: RawBsonRef<'a>,
    pub(crate) database: &'a str,
    /// The body's fields.
    pub(crate) fields: &'a Listed<'a>,
    pub(crate) message: Option<&'a OpMsg<'a>>,
    pub(crate) write_concern: WriteConcern,
    pub(crate) max_time_ms: u64,
    pub(crate) read_concern: ReadConcern,
    /// The id in `lsid`.
    pub(crate) session: Option<SessionId>,
    /// `txnNumber`: a write that the driver may send again.
    pub(crate) transaction: Option<i64>,
    /// Whether it came by OP_QUERY, as old handshakes do.
    pub(crate) legacy: bool,
}

impl<'a> Request<'a> {
    /// The command as it came.
    pub(crate) fn body(&self) -> &'a RawDocument {
        self.fields.document()
    }

    /// `database.collection`.
    pub(crate) fn namespace(&self) -> Result<String> {
        crate::parse::namespace(self.database, self.target)
    }

    /// Bytes of the documents that it came as.
    pub(crate) fn bytes(&self) -> usize {
        self.message.map_or(self.body().as_bytes().len(), OpMsg::bytes)
    }

    /// A field of the body.
    pub(crate) fn field(&self, name: &str) -> Option<RawBsonRef<'a>> {
        crate::parse::field(self.fields, name)
    }

    /// The documents of a field that may come beside the body.
    pub(crate) fn documents(&self, name: &str) -> Result<Vec<&'a RawDocument>> {
        crate::parse::documents_of_command(self.message, self.fields, name)
    }
}
