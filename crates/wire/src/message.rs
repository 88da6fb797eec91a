//! Which message a frame holds; what is not spoken here any more is refused by name.

use crate::header::{Header, OpCode};
use crate::legacy::{OpQuery, OpReply};
use crate::op_msg::OpMsg;
use crate::{Code, Failure};

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
    /// After an error the connection is best closed, as mongod does: who cannot frame a message cannot be answered
    /// reliably either.
    pub fn parse(frame: &'a [u8]) -> Result<Message<'a>, Failure> {
        match Header::of_frame(frame)?.op_code {
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

/// Why `op_code` is not read: one of the legacy operations, or none that exists.
#[cold]
fn refusal(op_code: OpCode) -> Failure {
    match op_code.name() {
        // The wording of mongod 5.1, which takes them no longer either; none of them has a reply to carry a code.
        Some(name) => {
            let what = format!("{name} is no longer supported. The client driver may require an upgrade");
            Failure::new(Code::ProtocolError, what)
        }
        None => {
            Failure::new(Code::ProtocolError, format!("the message has the unknown opcode {}", op_code.0))
        }
    }
}
