//! Reads fields of a command's body, with MongoDB's error messages for wrong types.

mod fields;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Code, Failure, Filter, Variables};
use fathom_wire::OpMsg;
use fathom_wire::limits::MAX_WRITE_BATCH;

use crate::Result;
pub use fields::{Fields, IndexedDocument, malformed};

/// MongoDB's name of a value's type, as its messages use it.
pub fn type_name(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::Double(_) => "double",
        RawBsonRef::String(_) => "string",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Document(_) => "object",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::Null => "null",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::JavaScriptCode(_) => "javascript",
        RawBsonRef::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        RawBsonRef::Int32(_) => "int",
        RawBsonRef::Int64(_) => "long",
        RawBsonRef::Timestamp(_) => "timestamp",
        RawBsonRef::Binary(_) => "binData",
        RawBsonRef::ObjectId(_) => "objectId",
        RawBsonRef::DateTime(_) => "date",
        RawBsonRef::Symbol(_) => "symbol",
        RawBsonRef::Decimal128(_) => "decimal",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::MaxKey => "maxKey",
        RawBsonRef::MinKey => "minKey",
        RawBsonRef::DbPointer(_) => "dbPointer",
    }
}

/// The failure for a field of the wrong type.
pub fn wrong_type(name: &str, value: RawBsonRef<'_>, expected: &str) -> Failure {
    Failure::new(
        Code::TypeMismatch,
        format!("BSON field '{name}' is the wrong type '{}', expected type '{expected}'", type_name(value)),
    )
}

/// A field of a document or of an indexed body.
pub fn field<'d>(fields: impl Fields<'d>, name: &str) -> Option<RawBsonRef<'d>> {
    fields.named(name)
}

/// A whole number of any type, as an integer.
pub fn integer_of(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of a whole number")]
        RawBsonRef::Double(value) if value.fract() == 0.0 => Some(value as i64),
        RawBsonRef::Decimal128(value) => {
            value.to_string().parse::<f64>().ok().and_then(|value| integer_of(RawBsonRef::Double(value)))
        }
        _ => None,
    }
}

/// Whether a value counts as true, as mongod reads booleans that may be numbers.
pub fn truth_of(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        RawBsonRef::Double(value) => value != 0.0,
        other => integer_of(other) != Some(0),
    }
}

/// An optional integer field; null counts as absent.
pub fn integer<'d>(document: impl Fields<'d>, name: &str) -> Result<Option<i64>> {
    match field(document, name) {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(value) => match integer_of(value) {
            Some(value) => Ok(Some(value)),
            None => Err(wrong_type(name, value, "long")),
        },
    }
}

/// An optional integer field that must not be negative.
pub fn natural<'d>(document: impl Fields<'d>, name: &str) -> Result<Option<u64>> {
    let Some(value) = integer(document, name)? else { return Ok(None) };
    let refused = || {
        Failure::new(
            Code::BadValue,
            format!("BSON field '{name}' value must be >= 0, actual value '{value}'"),
        )
    };
    Ok(Some(u64::try_from(value).map_err(|_| refused())?))
}

/// An optional boolean field; absent is false.
pub fn boolean<'d>(document: impl Fields<'d>, name: &str) -> Result<bool> {
    match field(document, name) {
        None => Ok(false),
        Some(
            value @ (RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Null),
        ) => Ok(truth_of(value)),
        Some(value) => Err(wrong_type(name, value, "bool")),
    }
}

/// An optional string field.
pub fn string<'d>(document: impl Fields<'d>, name: &str) -> Result<Option<&'d str>> {
    match field(document, name) {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(RawBsonRef::String(text)) => Ok(Some(text)),
        Some(value) => Err(wrong_type(name, value, "string")),
    }
}

/// A string field that must exist.
pub fn required_string<'d>(document: impl Fields<'d>, name: &str) -> Result<&'d str> {
    string(document, name)?.ok_or_else(|| missing(name))
}

/// The failure for a missing required field.
pub fn missing(name: &str) -> Failure {
    Failure::new(Code(40414), format!("BSON field '{name}' is missing but a required field"))
}

/// The failure for an unknown field; `path` leads to it (`update.updates`).
pub fn unknown_field(path: &str, name: &str) -> Failure {
    Failure::new(Code(40415), format!("BSON field '{path}.{name}' is an unknown field."))
}

/// Refuses a document that has other fields than the `known` ones.
pub fn only_fields(document: &RawDocument, known: &[&str], path: &str) -> Result<()> {
    for element in document {
        let (name, _) = element.map_err(|error| malformed(&error))?;
        if !known.contains(&name.as_str()) {
            return Err(unknown_field(path, name.as_str()));
        }
    }
    Ok(())
}

/// An optional document field.
pub fn document<'d>(document: impl Fields<'d>, name: &str) -> Result<Option<&'d RawDocument>> {
    match field(document, name) {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(RawBsonRef::Document(inner)) => Ok(Some(inner)),
        Some(value) => Err(wrong_type(name, value, "object")),
    }
}

/// The documents of an optional array field.
pub fn documents<'d>(document: impl Fields<'d>, name: &str) -> Result<Option<Vec<&'d RawDocument>>> {
    let items = match field(document, name) {
        None | Some(RawBsonRef::Null) => return Ok(None),
        Some(RawBsonRef::Array(items)) => items,
        Some(value) => return Err(wrong_type(name, value, "array")),
    };
    let mut documents = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        match item.map_err(|error| malformed(&error))? {
            RawBsonRef::Document(inner) => documents.push(inner),
            other => return Err(wrong_type(&format!("{name}.{place}"), other, "object")),
        }
    }
    Ok(Some(documents))
}

/// The documents of a required field, from the command's body or a document sequence of its message.
pub fn documents_of_command<'d>(
    message: Option<&'d OpMsg<'d>>,
    body: impl Fields<'d>,
    name: &str,
) -> Result<Vec<&'d RawDocument>> {
    let Some(sequence) = message.and_then(|message| message.sequence(name)) else {
        return documents(body, name)?.ok_or_else(|| missing(name));
    };
    // A message can hold millions of empty documents: they are counted before they are listed.
    if sequence.count() > MAX_WRITE_BATCH {
        let what = format!(
            "Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.",
            sequence.count()
        );
        return Err(Failure::new(Code::InvalidLength, what));
    }
    Ok(sequence.documents().collect())
}

/// An empty document with any lifetime.
pub fn empty() -> &'static RawDocument {
    static EMPTY: std::sync::LazyLock<RawDocumentBuf> = std::sync::LazyLock::new(RawDocumentBuf::new);
    &EMPTY
}

/// A document as bytes.
pub fn bytes_of(document: &Document) -> Result<Vec<u8>> {
    document
        .to_vec()
        .map_err(|error| Failure::new(Code::BadValue, format!("a document cannot be encoded: {error}")))
}

/// A document as raw BSON.
pub fn raw_of(document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document)
        .map_err(|error| Failure::new(Code::BadValue, format!("a document cannot be encoded: {error}")))
}

/// Raw BSON as a document.
pub fn owned(document: &RawDocument) -> Result<Document> {
    Document::try_from(document).map_err(|error| malformed(&error))
}

/// The collection that a command's first field names.
pub fn collection_name<'a>(database: &str, target: RawBsonRef<'a>) -> Result<&'a str> {
    match target {
        RawBsonRef::String("") => {
            Err(Failure::new(Code::InvalidNamespace, format!("Invalid namespace specified '{database}.'")))
        }
        RawBsonRef::String(name) => Ok(name),
        other => Err(Failure::new(
            Code::InvalidNamespace,
            format!("collection name has invalid type {}", type_name(other)),
        )),
    }
}

/// `database.collection`, where the collection is what a command's first field names.
pub fn namespace(database: &str, target: RawBsonRef<'_>) -> Result<String> {
    let collection = collection_name(database, target)?;
    let mut namespace = String::with_capacity(database.len() + 1 + collection.len());
    namespace.push_str(database);
    namespace.push('.');
    namespace.push_str(collection);
    Ok(namespace)
}

/// A raw value as an owned one.
pub fn owned_value(value: RawBsonRef<'_>) -> Result<Bson> {
    Bson::try_from(value).map_err(|error| malformed(&error))
}

/// Parses a filter that the catalog stores (of a partial index, a validator).
pub fn filter_of(filter: &Document) -> Result<Filter> {
    Filter::parse(&raw_of(filter)?, &Variables::at(bson::DateTime::now()))
}
