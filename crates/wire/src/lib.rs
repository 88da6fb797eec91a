//! MongoDB's messages as frames, and the errors that they carry.
//!
//! The crate only converts bytes to messages and back, for the server, the client and the load generator alike. It opens no
//! socket and knows no command. Every length that a peer sends is checked before memory is allocated for it.

mod code;
mod compression;
mod document_writer;
mod failure;
mod header;
pub mod limits;
mod message;
mod message_writer;
mod op_msg;
mod reader;
pub mod scram;
mod validate;

pub use code::Code;
pub use compression::{Codec, Compressor, never_compressed};
pub use document_writer::{ArrayMark, ArrayWriter, DocumentWriter};
pub use failure::Failure;
pub use header::{Header, OpCode};
pub use message::{Message, OpQuery, OpReply};
pub use message_writer::{OpMsgWriter, OpReplyWriter, SequenceWriter, write_query_command};
pub use op_msg::{Documents, OpMsg, Sequence, flag};
pub use validate::validate_document;
