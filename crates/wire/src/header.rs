//! The header of every message, sixteen bytes: its length, its request ids and its opcode.

use crate::limits::MAX_MESSAGE_BYTES;
use crate::{Code, Failure};

/// The opcode, which gives the format of a message (mongodb/mongo:src/mongo/rpc/message.h).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpCode(pub i32);

macro_rules! op_codes {
    ($($constant:ident = $number:literal $name:literal),* $(,)?) => {
        impl OpCode {
            $(pub const $constant: OpCode = OpCode($number);)*

            /// The protocol's name for it, if it has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

op_codes! {
    REPLY = 1 "OP_REPLY",
    UPDATE = 2001 "OP_UPDATE",
    INSERT = 2002 "OP_INSERT",
    QUERY = 2004 "OP_QUERY",
    GET_MORE = 2005 "OP_GET_MORE",
    DELETE = 2006 "OP_DELETE",
    KILL_CURSORS = 2007 "OP_KILL_CURSORS",
    COMPRESSED = 2012 "OP_COMPRESSED",
    MSG = 2013 "OP_MSG",
}

impl std::fmt::Debug for OpCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "opcode {}", self.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message, this header included.
    pub length_bytes: usize,
    /// The sender's number of this message.
    pub request_id: i32,
    /// The `request_id` of the message that this one answers; 0 in a request.
    pub response_to: i32,
    /// The opcode, which gives the format of the rest.
    pub op_code: OpCode,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 16;

    /// Reads a header. A length below 16 or above [`MAX_MESSAGE_BYTES`] is refused: the following bytes cannot be trusted then,
    /// and the connection must be closed.
    pub fn parse(bytes: &[u8; Header::BYTES]) -> Result<Header, Failure> {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *bytes;
        let claimed = i32::from_le_bytes([a0, a1, a2, a3]);
        let length_bytes = usize::try_from(claimed)
            .ok()
            .filter(|length| (Header::BYTES..=MAX_MESSAGE_BYTES).contains(length))
            .ok_or_else(|| invalid_length(claimed))?;
        Ok(Header {
            length_bytes,
            request_id: i32::from_le_bytes([b0, b1, b2, b3]),
            response_to: i32::from_le_bytes([c0, c1, c2, c3]),
            op_code: OpCode(i32::from_le_bytes([d0, d1, d2, d3])),
        })
    }

    /// Reads the header of a whole message, whose length must be that of `frame`.
    pub fn from_frame(frame: &[u8]) -> Result<Header, Failure> {
        let Some(bytes) = frame.first_chunk::<{ Header::BYTES }>() else {
            return Err(Failure::new(Code::ProtocolError, "the message is shorter than a header"));
        };
        let header = Header::parse(bytes)?;
        if header.length_bytes == frame.len() {
            return Ok(header);
        }
        let what =
            format!("the message has {} bytes and its header says {}", frame.len(), header.length_bytes);
        Err(Failure::new(Code::ProtocolError, what))
    }

    pub fn to_bytes(self) -> [u8; Header::BYTES] {
        let mut bytes = [0; Header::BYTES];
        let length = i32::try_from(self.length_bytes).unwrap_or(i32::MAX);
        let fields = [length, self.request_id, self.response_to, self.op_code.0];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

#[cold]
fn invalid_length(claimed: i32) -> Failure {
    let what =
        format!("message length {claimed} is invalid. Min: {} Max: {MAX_MESSAGE_BYTES}", Header::BYTES);
    Failure::new(Code::ProtocolError, what)
}
