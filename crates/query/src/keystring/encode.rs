//! Values into key bytes.
//!
//! A text ends in NUL, and a NUL within it is followed by 0xff. Numbers of all types share one class: a byte for sign and
//! length, then the integer part doubled, its lowest bit saying whether a fraction follows. Binary data is preceded by its
//! length, in one byte below 255 and in five from there on.
use super::class;
use super::encode_number::Marker;
use super::type_bits::{NumberType, TypeBits, ZeroType};
use crate::order::{MAX_DEPTH, db_pointer_bytes};
use bson::raw::{RawBinaryRef, RawBsonRef, RawDocument};

/// Bytes to keep room for after a value: the end of the key and a record id.
const TAIL_BYTES: usize = 10;

/// Why a value has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Malformed,
    TooDeep,
}

/// Writes one field.
pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    pub(super) type_bits: &'a mut TypeBits,
    fault: &'a mut Option<Fault>,
    /// 0xff when the field descends.
    mask: u8,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        bytes: &'a mut Vec<u8>,
        type_bits: &'a mut TypeBits,
        fault: &'a mut Option<Fault>,
        descending: bool,
    ) -> Self {
        Writer { bytes, type_bits, fault, mask: if descending { 0xff } else { 0 } }
    }

    pub(super) fn value(&mut self, value: RawBsonRef<'_>, depth: u32) {
        match value {
            RawBsonRef::String(text) => {
                self.type_bits.string();
                self.text(class::TEXT, text);
            }
            RawBsonRef::Int32(value) => self.integer(i64::from(value), NumberType::Int32, ZeroType::Int32),
            RawBsonRef::Int64(value) => self.integer(value, NumberType::Int64, ZeroType::Int64),
            RawBsonRef::ObjectId(id) => {
                self.put(class::OBJECT_ID);
                self.put_all(&id.bytes());
            }
            RawBsonRef::Double(value) => {
                if value == 0.0 && value.is_sign_negative() {
                    self.type_bits.zero(ZeroType::NegativeDouble);
                } else {
                    self.type_bits.number(NumberType::Double);
                }
                self.double(value, Marker::Equal);
            }
            RawBsonRef::Decimal128(value) => self.decimal(value),
            RawBsonRef::DateTime(value) => {
                self.put(class::DATE);
                // With the sign turned round, dates before 1970 come first.
                self.put_all(&(value.timestamp_millis() ^ i64::MIN).to_be_bytes());
            }
            RawBsonRef::Timestamp(value) => {
                self.put(class::TIMESTAMP);
                self.put_all(&(u64::from(value.time) << 32 | u64::from(value.increment)).to_be_bytes());
            }
            RawBsonRef::Boolean(value) => self.put(if value { class::TRUE } else { class::FALSE }),
            RawBsonRef::Binary(value) => self.binary(value),
            RawBsonRef::Document(document) => {
                self.put(class::OBJECT);
                self.fields(document, depth + 1);
            }
            RawBsonRef::Array(array) => {
                self.put(class::ARRAY);
                self.elements(array, depth + 1);
            }
            other => self.rare(other, depth),
        }
    }

    /// Types that are single values, or that hardly anybody indexes.
    fn rare(&mut self, value: RawBsonRef<'_>, depth: u32) {
        match value {
            RawBsonRef::Symbol(text) => {
                self.type_bits.symbol();
                self.text(class::TEXT, text);
            }
            RawBsonRef::RegularExpression(regex) => {
                self.put(class::REGEX);
                self.c_string(regex.pattern.as_str());
                self.c_string(regex.options.as_str());
            }
            RawBsonRef::JavaScriptCode(code) => self.text(class::CODE, code),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                self.text(class::CODE_WITH_SCOPE, code.code);
                self.fields(code.scope, depth + 1);
            }
            RawBsonRef::DbPointer(_) => {
                let bytes = db_pointer_bytes(value);
                self.put(class::DB_POINTER);
                self.put_all(&(bytes.len().saturating_sub(12) as u32).to_be_bytes());
                self.put_all(&bytes);
            }
            single => self.put(class::of(single.element_type())),
        }
    }

    /// One byte.
    pub(super) fn put(&mut self, byte: u8) {
        self.bytes.push(byte ^ self.mask);
    }

    fn put_all(&mut self, bytes: &[u8]) {
        if self.mask == 0 {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.extend(bytes.iter().map(|byte| !byte));
        }
    }

    /// Bytes that grow with the magnitude of a number, so that those of a negative one are inverted.
    pub(super) fn put_magnitude(&mut self, bytes: &[u8], negative: bool) {
        let mask = self.mask;
        self.mask ^= if negative { 0xff } else { 0 };
        self.put_all(bytes);
        self.mask = mask;
    }

    fn text(&mut self, class: u8, text: &str) {
        let bytes = text.as_bytes();
        self.bytes.reserve(bytes.len() + 2 + TAIL_BYTES);
        self.put(class);
        if bytes.contains(&class::NUL) {
            for byte in bytes {
                self.put(*byte);
                if *byte == class::NUL {
                    self.put(class::ESCAPE);
                }
            }
        } else {
            self.put_all(bytes);
        }
        self.put(class::NUL);
    }

    fn c_string(&mut self, text: &str) {
        self.put_all(text.as_bytes());
        self.put(class::NUL);
    }

    fn binary(&mut self, value: RawBinaryRef<'_>) {
        self.put(class::BINARY);
        match u8::try_from(value.bytes.len()) {
            Ok(length @ ..=0xfe) => self.put(length),
            _ => {
                self.put(0xff);
                self.put_all(&(value.bytes.len() as u32).to_be_bytes());
            }
        }
        self.put(value.subtype.into());
        self.put_all(value.bytes);
    }

    fn fields(&mut self, document: &RawDocument, depth: u32) {
        if depth > MAX_DEPTH {
            *self.fault = Some(Fault::TooDeep);
            return;
        }
        for field in document {
            let Ok((name, value)) = field else {
                *self.fault = Some(Fault::Malformed);
                return;
            };
            self.put(class::of(value.element_type()));
            self.c_string(name.as_str());
            self.value(value, depth);
        }
        self.put(class::NUL);
    }

    fn elements(&mut self, array: &bson::RawArray, depth: u32) {
        if depth > MAX_DEPTH {
            *self.fault = Some(Fault::TooDeep);
            return;
        }
        for value in array {
            let Ok(value) = value else {
                *self.fault = Some(Fault::Malformed);
                return;
            };
            self.value(value, depth);
        }
        self.put(class::NUL);
    }
}
