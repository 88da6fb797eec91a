//! Finds the kind of message in a frame, and parses OP_QUERY and OP_REPLY, which only the first handshake of older drivers still uses.
//!
//! A query on `<db>.$cmd` is a command; a query on a collection is parsed as well, so that the receiver can refuse it by
//! name. The other legacy messages have no reply; they are not supported here and are refused by name.

use crate::header::{Header, OpCode};
use crate::op_msg::{Documents, OpMsg};
use crate::reader::Reader;
use crate::{Code, Failure};
use bson::RawDocument;

/// A message over the bytes of its frame.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A command, or the reply to one.
    Msg(OpMsg<'a>),
    /// A command of an older driver's first handshake.
    Query(OpQuery<'a>),
    /// The reply to that.
    Reply(OpReply<'a>),
}

impl<'a> Message<'a> {
    /// Reads a whole, uncompressed frame ([`crate::Codec::decompress`] comes before).
    ///
    /// After an error the connection should be closed, as mongod does: a peer that cannot frame a message cannot be
    /// answered reliably either.
    pub fn parse(frame: &'a [u8]) -> Result<Message<'a>, Failure> {
        match Header::from_frame(frame)?.op_code {
            OpCode::MSG => OpMsg::parse(frame).map(Message::Msg),
            OpCode::QUERY => OpQuery::parse(frame).map(Message::Query),
            OpCode::REPLY => OpReply::parse(frame).map(Message::Reply),
            OpCode::COMPRESSED => {
                Err(Failure::new(Code::ProtocolError, "OP_COMPRESSED must not hold another OP_COMPRESSED"))
            }
            other => Err(refusal(other)),
        }
    }
}

/// The refusal of `op_code`: one of the legacy operations, or an unknown one.
#[cold]
fn refusal(op_code: OpCode) -> Failure {
    match op_code.name() {
        // The wording of mongod 5.1, which no longer accepts them either; these messages have no reply that could carry a code.
        Some(name) => {
            let what = format!("{name} is no longer supported. The client driver may require an upgrade");
            Failure::new(Code::ProtocolError, what)
        }
        None => {
            Failure::new(Code::ProtocolError, format!("the message has the unknown opcode {}", op_code.0))
        }
    }
}

/// An OP_QUERY over the bytes that it came in; its documents are validated.
#[derive(Clone, Copy, Debug)]
pub struct OpQuery<'a> {
    /// Query flags: bit 2 means that a secondary may answer, bit 6 that all results are streamed.
    pub flags: u32,
    /// Database and collection, with a dot between; `<db>.$cmd` for a command.
    pub full_collection_name: &'a str,
    /// The number of results to skip.
    pub number_to_skip: i32,
    /// The number of results wanted; a command asks for 1 or -1.
    pub number_to_return: i32,
    /// The query, or the command.
    pub query: &'a RawDocument,
    /// The projection, if there is one.
    pub fields: Option<&'a RawDocument>,
}

impl<'a> OpQuery<'a> {
    /// Reads a whole frame whose header says OP_QUERY.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(frame);
        reader.take(Header::BYTES)?;
        let flags = reader.u32()?;
        let full_collection_name = reader.cstring()?;
        let number_to_skip = reader.i32()?;
        let number_to_return = reader.i32()?;
        let query = reader.document()?;
        let fields = if reader.is_empty() { None } else { Some(reader.document()?) };
        if !reader.is_empty() {
            return Err(Failure::new(
                Code::ProtocolError,
                "there are bytes after the documents of an OP_QUERY",
            ));
        }
        Ok(OpQuery { flags, full_collection_name, number_to_skip, number_to_return, query, fields })
    }

    /// The database of a command; `None` if this is a query on a collection.
    pub fn command_database(&self) -> Option<&'a str> {
        self.full_collection_name.strip_suffix(".$cmd")
    }

    /// The command itself: drivers wrap it as `{$query: ..., $readPreference: ...}` when it may go to a secondary.
    pub fn command(&self) -> &'a RawDocument {
        let unwrapped = ["$query", "query"].into_iter().find_map(|name| {
            let first = self.query.iter_elements().next()?.ok()?;
            if first.key().as_str() != name {
                return None;
            }
            first.value().ok()?.as_document()
        });
        unwrapped.unwrap_or(self.query)
    }
}

/// An OP_REPLY over the bytes that it came in; its documents are validated.
#[derive(Clone, Debug)]
pub struct OpReply<'a> {
    /// Reply flags: bit 0 means that the cursor was not found, bit 1 that the only document describes a failure.
    pub flags: u32,
    /// The cursor for further results; 0 without one.
    pub cursor_id: i64,
    /// The position of the first document in the whole result.
    pub starting_from: i32,
    documents: Documents<'a>,
}

impl<'a> OpReply<'a> {
    /// Reads a whole frame whose header says OP_REPLY.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(frame);
        reader.take(Header::BYTES)?;
        let (flags, cursor_id, starting_from) = (reader.u32()?, reader.i64()?, reader.i32()?);
        let claimed = reader.i32()?;
        let documents = Documents::validate(reader.rest())?;
        if usize::try_from(claimed) != Ok(documents.len()) {
            let what = format!("OP_REPLY says {claimed} documents and holds {}", documents.len());
            return Err(Failure::new(Code::ProtocolError, what));
        }
        Ok(OpReply { flags, cursor_id, starting_from, documents })
    }

    /// The documents in their order.
    pub fn documents(&self) -> Documents<'a> {
        self.documents.clone()
    }
}
