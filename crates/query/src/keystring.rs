//! Index keys as strings of bytes whose `memcmp` order is the order of the values.
use crate::Result;
use bson::{Bson, RawBsonRef};

/// A finished key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyString {
    /// The bytes that order it, without a record id.
    pub bytes: Vec<u8>,
    /// What the order forgets (int or double, -0, decimal exponent); empty when nothing is forgotten.
    pub type_bits: Vec<u8>,
}

/// Where a key stands beside all entries that begin with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Before every entry with these leading values.
    Before,
    /// Exactly an entry of these values.
    Exact,
    /// After every entry with these leading values.
    After,
}

/// Builds one key, value by value.
#[derive(Clone, Debug, Default)]
pub struct KeyBuilder {
    key: KeyString,
}

impl KeyBuilder {
    /// An empty key.
    pub fn new() -> Self {
        KeyBuilder::default()
    }

    /// Appends the next field's value, inverted when the field descends.
    pub fn append(&mut self, _value: RawBsonRef<'_>, _descending: bool) {}

    /// Ends the key.
    pub fn finish(self, _bound: Bound) -> KeyString {
        self.key
    }
}

/// The record id as the suffix of a standard index's key: order-preserving, 2 to 9 bytes, readable from either end.
pub fn record_id_of(_id: i64, _out: &mut Vec<u8>) {}

/// Splits an entry of a standard index into its key and its record id; none if it is not one.
pub fn split_record_id(_entry: &[u8]) -> Option<(&[u8], i64)> {
    None
}

/// The values of a key; `descending` has one flag for each field.
pub fn decode(_bytes: &[u8], _type_bits: &[u8], _descending: &[bool]) -> Result<Vec<Bson>> {
    Ok(Vec::new())
}
