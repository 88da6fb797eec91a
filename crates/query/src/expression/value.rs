//! The value of an expression during its evaluation: nothing, bytes of a document, or a new value.
//!
//! Values stay raw as long as they are unchanged, so that a path needs no decoding. New values are limited in size
//! and depth, so that no pipeline can use up the memory or the stack.

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::spec::ElementType;
use bson::{Bson, Document, RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::{Code, Failure, Result, order};

/// How deep documents may nest, as BSON from outside may (mongodb/mongo:src/mongo/bson/bson_depth.h).
pub(crate) const MAX_DEPTH: usize = 200;

/// The most bytes of one value during the evaluation of an expression: MongoDB's limit of a buffer.
pub(crate) const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// A value, which may be missing.
#[derive(Clone, Debug)]
pub(crate) enum Value<'e> {
    /// A missing field, or `$$REMOVE`.
    Missing,
    /// Part of a document.
    Raw(RawBsonRef<'e>),
    /// A constant of the expression or a variable.
    Ref(&'e Bson),
    /// A value that an operator made.
    Own(Bson),
}

impl<'e> Value<'e> {
    pub(crate) const NULL: Value<'static> = Value::Own(Bson::Null);

    /// A value that may be missing.
    pub(crate) fn from_option(value: Option<Bson>) -> Value<'static> {
        value.map_or(Value::Missing, Value::Own)
    }

    /// The same value, borrowed.
    pub(crate) fn borrow(&self) -> Value<'_> {
        match self {
            Value::Missing => Value::Missing,
            Value::Raw(raw) => Value::Raw(*raw),
            Value::Ref(bson) => Value::Ref(bson),
            Value::Own(bson) => Value::Ref(bson),
        }
    }

    /// The value as a reference into bytes; `None` if it is missing, or a document or array without bytes.
    pub(crate) fn as_raw(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Value::Missing => None,
            Value::Raw(raw) => Some(*raw),
            Value::Ref(bson) => scalar(bson),
            Value::Own(bson) => scalar(bson),
        }
    }

    /// The value decoded; `None` if it is missing.
    pub(crate) fn decoded(&self) -> Result<Option<Cow<'_, Bson>>> {
        Ok(match self {
            Value::Missing => None,
            Value::Raw(raw) => Some(Cow::Owned(decode(*raw)?)),
            Value::Ref(bson) => Some(Cow::Borrowed(*bson)),
            Value::Own(bson) => Some(Cow::Borrowed(bson)),
        })
    }

    /// The value decoded, owned.
    pub(crate) fn into_bson(self) -> Result<Option<Bson>> {
        Ok(match self {
            Value::Missing => None,
            Value::Raw(raw) => Some(decode(raw)?),
            Value::Ref(bson) => Some(bson.clone()),
            Value::Own(bson) => Some(bson),
        })
    }

    /// The value without references to the document or to variables.
    pub(crate) fn detach(self) -> Result<Value<'static>> {
        Ok(Value::from_option(self.into_bson()?))
    }

    /// Missing, null or undefined.
    pub(crate) fn is_nullish(&self) -> bool {
        match self {
            Value::Missing => true,
            Value::Raw(raw) => matches!(raw, RawBsonRef::Null | RawBsonRef::Undefined),
            Value::Ref(bson) => matches!(bson, Bson::Null | Bson::Undefined),
            Value::Own(bson) => matches!(bson, Bson::Null | Bson::Undefined),
        }
    }

    /// Whether `$and`, `$cond` and similar operators take it for true.
    pub(crate) fn is_true(&self) -> bool {
        match self.as_raw() {
            Some(RawBsonRef::Boolean(value)) => value,
            Some(RawBsonRef::Int32(value)) => value != 0,
            Some(RawBsonRef::Int64(value)) => value != 0,
            Some(RawBsonRef::Double(value)) => value != 0.0,
            Some(RawBsonRef::Decimal128(value)) => !crate::Decimal::unpack(value).is_zero(),
            Some(RawBsonRef::Null | RawBsonRef::Undefined) => false,
            Some(_) => true,
            None => !matches!(self, Value::Missing),
        }
    }

    /// The name of its type as `$type` and messages spell it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Missing => "missing",
            Value::Raw(raw) => type_name(raw.element_type()),
            Value::Ref(bson) => type_name(bson.element_type()),
            Value::Own(bson) => type_name(bson.element_type()),
        }
    }

    /// The text of a string or symbol.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self.as_raw() {
            Some(RawBsonRef::String(text) | RawBsonRef::Symbol(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it is an array.
    pub(crate) fn is_array(&self) -> bool {
        matches!(
            self,
            Value::Raw(RawBsonRef::Array(_)) | Value::Ref(Bson::Array(_)) | Value::Own(Bson::Array(_))
        )
    }

    /// The elements of an array; `None` for another type.
    pub(crate) fn items(&self) -> Result<Option<Vec<Value<'_>>>> {
        Ok(match self {
            Value::Raw(RawBsonRef::Array(array)) => Some(raw_items(array)?),
            Value::Ref(Bson::Array(array)) => Some(array.iter().map(Value::Ref).collect()),
            Value::Own(Bson::Array(array)) => Some(array.iter().map(Value::Ref).collect()),
            _ => None,
        })
    }

    /// The elements of an array, decoded; `None` for another type.
    pub(crate) fn into_array(self) -> Result<Option<Vec<Bson>>> {
        Ok(if self.is_array() {
            match self.into_bson()? {
                Some(Bson::Array(array)) => Some(array),
                _ => None,
            }
        } else {
            None
        })
    }

    /// The order that `$cmp`, `$sort` and `$min` use; a missing value comes before everything but MinKey.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Ordering {
        match (self.as_raw(), other.as_raw()) {
            (Some(left), Some(right)) => order::compare(left, right),
            (Some(left), None) => match other.as_bson() {
                Some(right) => order::compare_mixed(left, right),
                None => beside_missing(left.element_type()).reverse(),
            },
            (None, Some(right)) => match self.as_bson() {
                Some(left) => order::compare_mixed(right, left).reverse(),
                None => beside_missing(right.element_type()),
            },
            (None, None) => match (self.as_bson(), other.as_bson()) {
                (Some(left), Some(right)) => order::compare_owned(left, right),
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
            },
        }
    }

    fn as_bson(&self) -> Option<&Bson> {
        match self {
            Value::Ref(bson) => Some(bson),
            Value::Own(bson) => Some(bson),
            _ => None,
        }
    }
}

/// Compares "missing" with a value: it has the class of undefined, below null.
fn beside_missing(other: ElementType) -> Ordering {
    match other {
        ElementType::MinKey => Ordering::Greater,
        ElementType::Undefined => Ordering::Equal,
        _ => Ordering::Less,
    }
}

impl From<Bson> for Value<'_> {
    fn from(value: Bson) -> Self {
        Value::Own(value)
    }
}

fn raw_items(array: &RawArray) -> Result<Vec<Value<'_>>> {
    array.into_iter().map(|item| item.map(Value::Raw).map_err(malformed)).collect()
}

/// The failure for bytes that are not BSON.
pub(crate) fn malformed(error: bson::error::Error) -> Failure {
    Failure::new(Code::InvalidBSON, format!("invalid BSON: {error}"))
}

/// The failure for documents that nest too deep.
pub(crate) fn too_deep() -> Failure {
    Failure::new(Code::Overflow, format!("BSONObj exceeds maximum nested object depth: {MAX_DEPTH}"))
}

/// A value that can be referred to without bytes of its own; `None` for documents, arrays and the like.
pub(crate) fn scalar(value: &Bson) -> Option<RawBsonRef<'_>> {
    match value {
        Bson::Null => Some(RawBsonRef::Null),
        other => match order::flat(other) {
            RawBsonRef::Null => None,
            raw => Some(raw),
        },
    }
}

/// Decodes a value; refuses one that nests too deep.
pub(crate) fn decode(value: RawBsonRef<'_>) -> Result<Bson> {
    decode_at(value, 0)
}

/// Decodes a document; refuses one that nests too deep.
pub(crate) fn decode_document(document: &RawDocument) -> Result<Document> {
    decode_fields(document, 0)
}

fn decode_at(value: RawBsonRef<'_>, depth: usize) -> Result<Bson> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        RawBsonRef::Document(document) => decode_fields(document, depth).map(Bson::Document),
        RawBsonRef::Array(array) => {
            let mut items = Vec::new();
            for item in array {
                items.push(decode_at(item.map_err(malformed)?, depth + 1)?);
            }
            Ok(Bson::Array(items))
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let scope = decode_fields(code.scope, depth)?;
            Ok(Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                code: code.code.to_owned(),
                scope,
            }))
        }
        other => Bson::try_from(other).map_err(malformed),
    }
}

fn decode_fields(document: &RawDocument, depth: usize) -> Result<Document> {
    let mut fields = Document::new();
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        fields.insert(name.as_str(), decode_at(value, depth + 1)?);
    }
    Ok(fields)
}

/// The approximate size of a value as BSON; refuses one that nests too deep or is too large.
pub(crate) fn measure(value: &Bson) -> Result<usize> {
    measure_at(value, 0)
}

fn measure_at(value: &Bson, depth: usize) -> Result<usize> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut bytes: usize = 16;
    match value {
        Bson::Array(items) => {
            for item in items {
                bytes = bounded(bytes + measure_at(item, depth + 1)?)?;
            }
        }
        Bson::Document(fields) => {
            for (name, item) in fields {
                bytes = bounded(bytes + name.len() + measure_at(item, depth + 1)?)?;
            }
        }
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => bytes += text.len(),
        Bson::Binary(binary) => bytes += binary.bytes.len(),
        Bson::RegularExpression(regex) => bytes += regex.pattern.as_str().len(),
        Bson::JavaScriptCodeWithScope(code) => {
            bytes += code.code.len();
            for (name, item) in &code.scope {
                bytes = bounded(bytes + name.len() + measure_at(item, depth + 1)?)?;
            }
        }
        _ => {}
    }
    bounded(bytes)
}

/// Refuses a value of too many bytes.
pub(crate) fn bounded(bytes: usize) -> Result<usize> {
    if bytes <= MAX_VALUE_BYTES {
        return Ok(bytes);
    }
    let message = format!("an expression made a value of more than {MAX_VALUE_BYTES} bytes");
    Err(Failure::new(Code::ExceededMemoryLimit, message))
}

/// Appends a field with a value, unless the value is missing.
pub(crate) fn append(document: &mut RawDocumentBuf, name: &str, value: &Value<'_>) -> Result<()> {
    let key: &bson::raw::CStr = name.try_into().map_err(malformed)?;
    match value {
        Value::Missing => {}
        Value::Raw(raw) => document.append(key, *raw),
        Value::Ref(bson) => append_bson(document, key, bson)?,
        Value::Own(bson) => append_bson(document, key, bson)?,
    }
    Ok(())
}

fn append_bson(document: &mut RawDocumentBuf, key: &bson::raw::CStr, value: &Bson) -> Result<()> {
    match scalar(value) {
        Some(raw) => document.append(key, raw),
        None => document.append(key, RawBson::try_from(value.clone()).map_err(malformed)?),
    }
    Ok(())
}

/// The name of a type.
pub(crate) fn type_name(element: bson::spec::ElementType) -> &'static str {
    use bson::spec::ElementType as Type;
    match element {
        Type::Double => "double",
        Type::String => "string",
        Type::EmbeddedDocument => "object",
        Type::Array => "array",
        Type::Binary => "binData",
        Type::Undefined => "undefined",
        Type::ObjectId => "objectId",
        Type::Boolean => "bool",
        Type::DateTime => "date",
        Type::Null => "null",
        Type::RegularExpression => "regex",
        Type::DbPointer => "dbPointer",
        Type::JavaScriptCode => "javascript",
        Type::Symbol => "symbol",
        Type::JavaScriptCodeWithScope => "javascriptWithScope",
        Type::Int32 => "int",
        Type::Timestamp => "timestamp",
        Type::Int64 => "long",
        Type::Decimal128 => "decimal",
        Type::MaxKey => "maxKey",
        Type::MinKey => "minKey",
    }
}

/// An operator of one argument.
pub(super) type UnaryOperator = for<'e> fn(&'static str, Value<'e>) -> Result<Value<'e>>;
/// An operator of two arguments.
pub(super) type BinaryOperator = for<'e> fn(&'static str, Value<'e>, Value<'e>) -> Result<Value<'e>>;
/// An operator of any number of arguments.
pub(super) type VariadicOperator = for<'e> fn(&'static str, Vec<Value<'e>>) -> Result<Value<'e>>;
/// An operator of named arguments; those that were not given are `None`.
pub(super) type NamedOperator = for<'e> fn(&'static str, Vec<Option<Value<'e>>>) -> Result<Value<'e>>;

/// The fields that an operator's object may have, with the codes of refusals.
pub(super) struct OperatorSignature {
    /// The code if the argument is not an object.
    pub(super) not_object: i32,
    /// The code of an unknown member.
    pub(super) unknown: i32,
    /// The members, each with the code for its absence; those without a code are optional.
    pub(super) members: &'static [(&'static str, Option<i32>)],
}
