//! OP_MSG, the message of all commands: flags, one body, and optional sequences of documents.
//!
//! The rules are those of mongodb/mongo:src/mongo/rpc/op_msg.cpp. A checksum is verified, as mongod does from 4.2 on (4.0
//! skipped it): a client that sends one expects that, and a corrupted write is worse than a refused one.

use bson::RawDocument;

use crate::header::Header;
use crate::reader::{Reader, document_length};
use crate::{Code, Failure};

/// The bits of an OP_MSG's flags.
pub mod flag {
    /// A CRC-32C of all preceding bytes ends the message.
    pub const CHECKSUM_PRESENT: u32 = 1;
    /// On a request: no reply is wanted. On a reply: another one follows without a request.
    pub const MORE_TO_COME: u32 = 1 << 1;
    /// The client accepts several replies to this request.
    pub const EXHAUST_ALLOWED: u32 = 1 << 16;
    /// The bits that a receiver must understand or refuse.
    pub(super) const REQUIRED: u32 = 0xffff;
}

const CHECKSUM_BYTES: usize = 4;

/// An OP_MSG over the bytes that it came in; all its documents are validated.
#[derive(Clone, Debug)]
pub struct OpMsg<'a> {
    /// Which [`flag`] bits are set.
    pub flags: u32,
    /// The command or the reply.
    pub body: &'a RawDocument,
    sequences: [Option<Sequence<'a>>; 2],
}

/// Documents outside the body, which form the field `name` of the command.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    name: &'a str,
    documents: &'a [u8],
    count: usize,
}

impl<'a> OpMsg<'a> {
    /// Bytes of its documents.
    pub fn bytes(&self) -> usize {
        self.body.as_bytes().len() + self.sequences().map(|one| one.documents.len()).sum::<usize>()
    }

    /// Reads a whole frame whose header says OP_MSG.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(frame);
        reader.take(Header::BYTES)?;
        let flags = reader.u32()?;
        check_flags(flags)?;
        let mut sections = reader.rest();
        if flags & flag::CHECKSUM_PRESENT != 0 {
            sections = check_checksum(frame, sections)?;
        }
        let mut reader = Reader::new(sections);
        let mut body = None;
        let mut sequences: [Option<Sequence<'a>>; 2] = [None; 2];
        while !reader.is_empty() {
            match reader.u8()? {
                0 if body.is_some() => {
                    return Err(Failure::new(Code(40430), "Multiple body sections in message"));
                }
                0 => body = Some(reader.document()?),
                1 => add_sequence(&mut sequences, &mut reader)?,
                kind => return Err(Failure::new(Code(40432), format!("Unknown section kind {kind}"))),
            }
        }
        let body = body.ok_or_else(|| Failure::new(Code(40587), "OP_MSG messages must have a body"))?;
        let message = OpMsg { flags, body, sequences };
        message.sequences().try_for_each(|sequence| refuse_in_body(body, sequence.name))?;
        Ok(message)
    }

    /// The sequences, two at most, in the order they came.
    pub fn sequences(&self) -> impl Iterator<Item = &Sequence<'a>> {
        self.sequences.iter().flatten()
    }

    /// The sequence with this name.
    pub fn sequence(&self, name: &str) -> Option<&Sequence<'a>> {
        self.sequences().find(|sequence| sequence.name == name)
    }

    /// Whether the sender of a request wants no reply, or the sender of a reply sends another one.
    pub fn more_to_come(&self) -> bool {
        self.flags & flag::MORE_TO_COME != 0
    }

    /// Whether the client accepts several replies.
    pub fn exhaust_allowed(&self) -> bool {
        self.flags & flag::EXHAUST_ALLOWED != 0
    }
}

impl<'a> Sequence<'a> {
    /// The field of the command that these documents form.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// How many documents there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The documents in their order.
    pub fn documents(&self) -> Documents<'a> {
        Documents { rest: self.documents, left: self.count }
    }
}

/// The validated documents of a sequence, or of an OP_REPLY.
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Documents<'a> {
    /// Validates documents that follow each other without gaps.
    pub(crate) fn validate(bytes: &'a [u8]) -> Result<Documents<'a>, Failure> {
        let mut reader = Reader::new(bytes);
        let mut left = 0;
        while !reader.is_empty() {
            reader.document()?;
            left += 1;
        }
        Ok(Documents { rest: bytes, left })
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a RawDocument;

    fn next(&mut self) -> Option<&'a RawDocument> {
        let (document, rest) = self.rest.split_at_checked(document_length(self.rest).ok()?)?;
        self.rest = rest;
        self.left = self.left.saturating_sub(1);
        RawDocument::from_bytes(document).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Documents<'_> {}

fn check_flags(flags: u32) -> Result<(), Failure> {
    let known = flag::CHECKSUM_PRESENT | flag::MORE_TO_COME;
    if flags & flag::REQUIRED & !known == 0 {
        return Ok(());
    }
    let what = format!("Message contains illegal flags value: Ob{flags:032b}");
    Err(Failure::new(Code::IllegalOpMsgFlag, what))
}

/// The sections without the checksum that follows them, if the checksum is correct.
fn check_checksum<'a>(frame: &[u8], sections: &'a [u8]) -> Result<&'a [u8], Failure> {
    let (sections, _) = sections
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| Failure::new(Code::Overflow, "the message ends before its checksum"))?;
    match frame.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((covered, sum)) if crc32c::crc32c(covered) == u32::from_le_bytes(*sum) => Ok(sections),
        _ => Err(Failure::new(Code::ChecksumMismatch, "OP_MSG checksum does not match contents")),
    }
}

fn add_sequence<'a>(
    sequences: &mut [Option<Sequence<'a>>; 2],
    reader: &mut Reader<'a>,
) -> Result<(), Failure> {
    let size = usize::try_from(reader.i32()?).ok().and_then(|size| size.checked_sub(4));
    let size = size.ok_or_else(|| {
        Failure::new(Code::Overflow, "a document sequence is shorter than the length that begins it")
    })?;
    let mut section = Reader::new(reader.take(size)?);
    let name = section.cstring()?;
    if sequences.iter().flatten().any(|sequence| sequence.name == name) {
        return Err(Failure::new(Code(40431), format!("Duplicate document sequence: {name}")));
    }
    let place = sequences.iter_mut().find(|place| place.is_none()).ok_or_else(|| {
        Failure::new(Code::TooManyDocumentSequences, "Too many document sequences in OP_MSG")
    })?;
    let documents = section.rest();
    *place = Some(Sequence { name, documents, count: Documents::validate(documents)?.left });
    Ok(())
}

fn refuse_in_body(body: &RawDocument, name: &str) -> Result<(), Failure> {
    match body.get(name) {
        Ok(None) => Ok(()),
        _ => {
            let what = format!("Duplicate field between body and document sequence {name}");
            Err(Failure::new(Code(40433), what))
        }
    }
}
