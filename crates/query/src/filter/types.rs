//! The argument of `$type`: numbers and names of BSON types. Unknown ones are refused in MongoDB's words.

use bson::RawBsonRef;
use bson::spec::ElementType;

use super::{numbers, show};
use crate::raw::unreadable;
use crate::{Code, Failure, Result};

/// A set of BSON types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeSet {
    /// One bit for each row of [`TYPES`].
    bits: u32,
    /// Whether the alias "number" is among them, so that explain can say so.
    pub(crate) number: bool,
}

/// Each type with MongoDB's number and name for it.
const TYPES: [(ElementType, i64, &str); 21] = [
    (ElementType::MinKey, -1, "minKey"),
    (ElementType::Double, 1, "double"),
    (ElementType::String, 2, "string"),
    (ElementType::EmbeddedDocument, 3, "object"),
    (ElementType::Array, 4, "array"),
    (ElementType::Binary, 5, "binData"),
    (ElementType::Undefined, 6, "undefined"),
    (ElementType::ObjectId, 7, "objectId"),
    (ElementType::Boolean, 8, "bool"),
    (ElementType::DateTime, 9, "date"),
    (ElementType::Null, 10, "null"),
    (ElementType::RegularExpression, 11, "regex"),
    (ElementType::DbPointer, 12, "dbPointer"),
    (ElementType::JavaScriptCode, 13, "javascript"),
    (ElementType::Symbol, 14, "symbol"),
    (ElementType::JavaScriptCodeWithScope, 15, "javascriptWithScope"),
    (ElementType::Int32, 16, "int"),
    (ElementType::Timestamp, 17, "timestamp"),
    (ElementType::Int64, 18, "long"),
    (ElementType::Decimal128, 19, "decimal"),
    (ElementType::MaxKey, 127, "maxKey"),
];

/// The types that "number" means.
const NUMBERS: [ElementType; 4] =
    [ElementType::Double, ElementType::Int32, ElementType::Int64, ElementType::Decimal128];

/// MongoDB's name of a value's type.
pub(crate) fn name_of(value: RawBsonRef<'_>) -> &'static str {
    let kind = value.element_type();
    TYPES.iter().find(|(other, ..)| *other == kind).map_or("missing", |(.., name)| name)
}

impl TypeSet {
    /// Parses a name, a number, or an array of them.
    pub(crate) fn parse(argument: RawBsonRef<'_>) -> Result<TypeSet> {
        let mut set = TypeSet::default();
        match argument {
            RawBsonRef::Array(items) => {
                for item in items {
                    set.add(item.map_err(unreadable)?)?;
                }
            }
            one => set.add(one)?,
        }
        if set.bits == 0 {
            return Err(Failure::new(Code::FailedToParse, "$type must match at least one type"));
        }
        Ok(set)
    }

    /// Adds the type of an alias; returns whether it exists.
    pub(crate) fn add_name(&mut self, name: &str) -> bool {
        if name == "number" {
            self.number = true;
            for kind in NUMBERS {
                self.bits |= bit(kind);
            }
            return true;
        }
        let found = TYPES.iter().find(|(.., other)| *other == name);
        if let Some((kind, ..)) = found {
            self.bits |= bit(*kind);
        }
        found.is_some()
    }

    fn add(&mut self, item: RawBsonRef<'_>) -> Result<()> {
        if let RawBsonRef::String(name) = item {
            return match self.add_name(name) {
                true => Ok(()),
                false => Err(Failure::new(Code::BadValue, format!("Unknown type name alias: {name}"))),
            };
        }
        if !numbers::is_number(item) {
            return Err(Failure::new(Code::TypeMismatch, "type must be represented as a number or a string"));
        }
        let code = numbers::exact(item);
        if code == Some(0) {
            return Err(Failure::new(
                Code::BadValue,
                "Invalid numerical type code: 0. Instead use {$exists:false}.",
            ));
        }
        match TYPES.iter().find(|(_, number, _)| Some(*number) == code) {
            Some((kind, ..)) => {
                self.bits |= bit(*kind);
                Ok(())
            }
            None => Err(Failure::new(
                Code::BadValue,
                format!("Invalid numerical type code: {}", show::value(item)),
            )),
        }
    }

    /// Whether a value's type is in the set.
    pub(crate) fn has(self, value: RawBsonRef<'_>) -> bool {
        self.has_type(value.element_type())
    }

    /// Whether a type is in the set.
    pub(crate) fn has_type(self, kind: ElementType) -> bool {
        self.bits & bit(kind) != 0
    }

    /// Whether every type of this set is in the other.
    pub(crate) fn is_within(self, other: TypeSet) -> bool {
        self.bits & !other.bits == 0
    }

    /// The types in it.
    pub(crate) fn kinds(self) -> impl Iterator<Item = ElementType> {
        TYPES.iter().map(|(kind, ..)| *kind).filter(move |kind| self.has_type(*kind))
    }

    /// Their numbers, as explain lists them.
    pub(crate) fn codes(self) -> impl Iterator<Item = i64> {
        TYPES
            .iter()
            .filter(move |(kind, ..)| self.has_type(*kind) && !(self.number && NUMBERS.contains(kind)))
            .map(|(_, number, _)| *number)
    }
}

fn bit(kind: ElementType) -> u32 {
    TYPES.iter().position(|(other, ..)| *other == kind).map_or(0, |place| 1 << place)
}
