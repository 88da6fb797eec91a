//! Key bytes back into values, as covered queries and `validate` need them.
//!
//! Anything may come in here: bytes that no key has are refused, however they are broken. A document that names a field twice
//! comes back with it once.
use super::type_bits::TypeBitsReader;
use super::{class, malformed};
use crate::order::MAX_DEPTH;
use crate::{Code, Failure, Result};
use bson::oid::ObjectId;
use bson::raw::RawDocument;
use bson::{Binary, Bson, DateTime, Document, JavaScriptCodeWithScope, Regex, Timestamp};

/// The values of a key, which ends in the end byte; `descending` has one flag for each field.
pub fn decode(bytes: &[u8], type_bits: &[u8], descending: &[bool]) -> Result<Vec<Bson>> {
    let mut reader = Reader { rest: bytes, type_bits: TypeBitsReader::new(type_bits)?, mask: 0 };
    let mut values = Vec::with_capacity(descending.len());
    for descending in descending {
        reader.mask = if *descending { 0xff } else { 0 };
        let class = reader.byte()?;
        values.push(reader.value(class, 0)?);
    }
    match reader.rest {
        [class::END] => Ok(values),
        _ => Err(malformed("no end byte where the last field ends")),
    }
}

/// Reads one key.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    pub(super) type_bits: TypeBitsReader<'a>,
    /// 0xff while bytes are inverted.
    pub(super) mask: u8,
}

impl Reader<'_> {
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first ^ self.mask)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first.map(|byte| byte ^ self.mask))
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let (first, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| malformed("a key ends within a value"))?;
        self.rest = rest;
        Ok(first.iter().map(|byte| byte ^ self.mask).collect())
    }

    /// Eight bytes, the highest first.
    pub(super) fn long(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Up to the next NUL, which is not part of it.
    fn until_nul(&mut self) -> Result<Vec<u8>> {
        let nul = class::NUL ^ self.mask;
        let length = self.rest.iter().position(|byte| *byte == nul);
        let text = self.bytes(length.ok_or_else(|| malformed("a text without end"))?)?;
        self.byte()?;
        Ok(text)
    }

    /// A text, within which NULs are escaped.
    fn text(&mut self) -> Result<String> {
        let mut text = self.until_nul()?;
        while self.rest.first() == Some(&(class::ESCAPE ^ self.mask)) {
            self.byte()?;
            text.push(class::NUL);
            text.append(&mut self.until_nul()?);
        }
        utf8(text)
    }

    fn c_string(&mut self) -> Result<bson::raw::CString> {
        bson::raw::CString::try_from(utf8(self.until_nul()?)?)
            .map_err(|_| malformed("a text with a NUL in it"))
    }

    fn value(&mut self, class: u8, depth: u32) -> Result<Bson> {
        Ok(match class {
            class::MIN_KEY => Bson::MinKey,
            class::UNDEFINED => Bson::Undefined,
            class::NULL => Bson::Null,
            class::NAN..=class::POSITIVE_LARGE => self.number(class)?,
            class::TEXT => {
                let symbol = self.type_bits.is_symbol()?;
                let text = self.text()?;
                if symbol { Bson::Symbol(text) } else { Bson::String(text) }
            }
            class::OBJECT => Bson::Document(self.fields(depth + 1)?),
            class::ARRAY => Bson::Array(self.elements(depth + 1)?),
            class::BINARY => Bson::Binary(self.binary()?),
            class::OBJECT_ID => Bson::ObjectId(ObjectId::from_bytes(self.array()?)),
            class::FALSE => Bson::Boolean(false),
            class::TRUE => Bson::Boolean(true),
            class::DATE => Bson::DateTime(DateTime::from_millis(self.long()? as i64 ^ i64::MIN)),
            class::TIMESTAMP => {
                let value = self.long()?;
                Bson::Timestamp(Timestamp { time: (value >> 32) as u32, increment: value as u32 })
            }
            class::REGEX => {
                Bson::RegularExpression(Regex { pattern: self.c_string()?, options: self.c_string()? })
            }
            class::DB_POINTER => self.db_pointer()?,
            class::CODE => Bson::JavaScriptCode(self.text()?),
            class::CODE_WITH_SCOPE => {
                let code = self.text()?;
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code,
                    scope: self.fields(depth + 1)?,
                })
            }
            class::MAX_KEY => Bson::MaxKey,
            _ => return Err(malformed("a byte that begins no value")),
        })
    }

    fn fields(&mut self, depth: u32) -> Result<Document> {
        check_depth(depth)?;
        let mut document = Document::new();
        while self.byte()? != class::NUL {
            let name = utf8(self.until_nul()?)?;
            let class = self.byte()?;
            document.insert(name, self.value(class, depth)?);
        }
        Ok(document)
    }

    fn elements(&mut self, depth: u32) -> Result<Vec<Bson>> {
        check_depth(depth)?;
        let mut values = Vec::new();
        loop {
            match self.byte()? {
                class::NUL => return Ok(values),
                class => values.push(self.value(class, depth)?),
            }
        }
    }

    fn binary(&mut self) -> Result<Binary> {
        let length = match self.byte()? {
            0xff => u32::from_be_bytes(self.array()?) as usize,
            length => usize::from(length),
        };
        let subtype = self.byte()?.into();
        Ok(Binary { subtype, bytes: self.bytes(length)? })
    }

    /// The library makes this type only out of a document.
    fn db_pointer(&mut self) -> Result<Bson> {
        let length = u32::from_be_bytes(self.array()?) as usize;
        let namespace = self.bytes(length)?;
        let id: [u8; 12] = self.array()?;
        let broken = || malformed("a DBPointer of no valid namespace");
        let text_bytes = u32::try_from(length + 1).map_err(|_| broken())?.to_le_bytes();
        let document_bytes = u32::try_from(length + 25).map_err(|_| broken())?.to_le_bytes();
        let document =
            [&document_bytes[..], &[0x0c, b'p', 0], &text_bytes, &namespace, &[0], &id, &[0]].concat();
        let value = RawDocument::from_bytes(&document).and_then(|document| document.get("p"));
        Bson::try_from(value.map_err(|_| broken())?.ok_or_else(broken)?).map_err(|_| broken())
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| malformed("a text that is not UTF-8"))
}

fn check_depth(depth: u32) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Failure::new(
            Code::Overflow,
            "KeyString encoding exceeded maximum allowable BSON nesting depth",
        ));
    }
    Ok(())
}
