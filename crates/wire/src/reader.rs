//! A cursor over bytes from a peer; every step is checked, and none copies.
//!
//! It knows the three elements of message bodies (little-endian integers, NUL-terminated names, documents) and refuses
//! to step past the end.

use bson::RawDocument;

use crate::limits::MAX_COMMAND_DOCUMENT_BYTES;
use crate::{Code, Failure, validate_document};

/// The bytes that are left to read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(ended)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(ended)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Failure> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Failure> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Failure> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Failure> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A name up to its NUL, which is consumed.
    pub(crate) fn cstring(&mut self) -> Result<&'a str, Failure> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or_else(ended)?;
        let name = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(name)
            .map_err(|_| Failure::new(Code::InvalidBSON, "a name in the message is not UTF-8"))
    }

    /// One whole document, validated.
    pub(crate) fn document(&mut self) -> Result<&'a RawDocument, Failure> {
        let length = document_length(self.rest)?;
        validate_document(self.take(length)?)
    }
}

/// The length that the document at the start of `bytes` claims, checked against the limits of a document.
pub(crate) fn document_length(bytes: &[u8]) -> Result<usize, Failure> {
    let claimed = bytes.first_chunk::<4>().map(|length| i32::from_le_bytes(*length)).ok_or_else(ended)?;
    match usize::try_from(claimed) {
        Ok(length) if length > MAX_COMMAND_DOCUMENT_BYTES => {
            let most = MAX_COMMAND_DOCUMENT_BYTES;
            let what = format!(
                "BSONObj size: {length} (0x{length:X}) is invalid. Size must be between 0 and {most}(16MB)"
            );
            Err(Failure::new(Code::BSONObjectTooLarge, what))
        }
        Ok(length) if length >= 5 => Ok(length),
        _ => Err(Failure::new(Code::InvalidBSON, "BSON data has to be at least 5 bytes")),
    }
}

/// mongod's error for a message that ends before its parts do.
fn ended() -> Failure {
    Failure::new(Code::Overflow, "attempt to read past the end of the message")
}
