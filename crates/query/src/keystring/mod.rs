//! Index keys as strings of bytes whose `memcmp` order is the order of the values: MongoDB's KeyString, version 1.
//!
//! Each value is a byte of its class and bytes that keep the order within it, all inverted if the field descends; one more byte
//! ends a key (mongodb/mongo:src/mongo/db/storage/key_string.cpp). So indexes have the same sizes as MongoDB's.
//! Collations are not encoded.
mod class;
mod decode;
mod encode;
mod record_id;
mod rounding;
mod type_bits;

use crate::order::flat;
use crate::{Code, Failure, Result};
use bson::raw::RawBson;
use bson::{Bson, RawBsonRef};
use encode::{KeyFault, Writer};
use type_bits::TypeBits;

pub use decode::decode;
pub use record_id::{leading_record_id, record_id_of, split_record_id};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyString {
    /// The bytes that order it, without a record id.
    pub bytes: Vec<u8>,
    /// The information that the order does not keep (int or double, -0, decimal exponent); empty if there is none.
    pub type_bits: Vec<u8>,
}

/// The position of a key relative to all entries that begin with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Before every entry with these leading values.
    Before,
    /// Exactly an entry of these values.
    Exact,
    /// After every entry with these leading values.
    After,
}

/// The bytes into which most keys of one field fit, with the end of the key and a record id.
const USUAL_BYTES: usize = 48;

/// Builds one key, value by value.
#[derive(Clone, Debug, Default)]
pub struct KeyBuilder {
    bytes: Vec<u8>,
    type_bits: TypeBits,
    fault: Option<KeyFault>,
}

impl KeyBuilder {
    /// An empty key, with room for a usual one.
    pub fn new() -> Self {
        KeyBuilder { bytes: Vec::with_capacity(USUAL_BYTES), ..KeyBuilder::default() }
    }

    /// An empty key that reuses the memory of another one.
    pub fn reuse(mut key: KeyString) -> Self {
        key.bytes.clear();
        KeyBuilder { bytes: key.bytes, type_bits: TypeBits::reuse(key.type_bits), fault: None }
    }

    /// Appends the next field's value, inverted when the field descends.
    pub fn append(&mut self, value: RawBsonRef<'_>, descending: bool) {
        let mut writer = Writer::new(&mut self.bytes, &mut self.type_bits, &mut self.fault, descending);
        writer.value(value, 0);
    }

    /// As [`append`](Self::append), for an owned value.
    pub fn append_owned(&mut self, value: &Bson, descending: bool) {
        match value {
            Bson::Array(_) | Bson::Document(_) | Bson::JavaScriptCodeWithScope(_) | Bson::DbPointer(_) => {
                match RawBson::try_from(value.clone()) {
                    Ok(raw) => self.append(raw.as_raw_bson_ref(), descending),
                    Err(_) => self.fault = Some(KeyFault::Malformed),
                }
            }
            value => self.append(flat(value), descending),
        }
    }

    /// Fails if a value has no key: malformed values (22) and values that are nested too deep (15). Values that the
    /// server has checked on arrival always pass.
    pub fn check(&self) -> Result<()> {
        match self.fault {
            None => Ok(()),
            Some(KeyFault::Malformed) => {
                Err(Failure::new(Code::InvalidBSON, "a value to be indexed is not valid BSON"))
            }
            Some(KeyFault::TooDeep) => Err(Failure::new(
                Code::Overflow,
                "a value to be indexed exceeds the maximum nested object depth: 200",
            )),
        }
    }

    /// Appends the end, with the bound that sorts the key before or after others.
    pub fn finish(mut self, bound: Bound) -> KeyString {
        self.bytes.push(match bound {
            Bound::Before => class::LESS,
            Bound::Exact => class::END,
            Bound::After => class::GREATER,
        });
        KeyString { bytes: self.bytes, type_bits: self.type_bits.finish() }
    }
}

#[cfg(test)]
mod tests;
