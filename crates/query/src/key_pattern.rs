//! The key pattern of an index: its fields, and how it orders or hashes them.
//!
//! Text, geo and wildcard indexes are refused by name; everything else that MongoDB refuses is refused in its words.
use crate::{Code, Failure, Result};
use bson::{Bson, Document, RawBsonRef, RawDocument};

/// The kind of one field of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// 1 in the pattern: smallest first.
    Ascending,
    /// -1 in the pattern: largest first.
    Descending,
    /// By the hash of its value.
    Hashed,
}

/// One field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    pub path: String,
    /// The kind of the field.
    pub kind: FieldKind,
}

/// The fields of an index, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// At least one, at most 32.
    pub fields: Vec<KeyField>,
}

/// The most fields that an index or a sort may have.
pub(crate) const MAX_FIELDS: usize = 32;

impl KeyPattern {
    /// Reads `{a: 1, b: -1, c: "hashed"}`; text, 2d, 2dsphere and wildcard patterns are refused by name (67).
    pub fn parse(pattern: &RawDocument) -> Result<KeyPattern> {
        let mut fields: Vec<KeyField> = Vec::new();
        for field in pattern {
            let (path, value) = field.map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
            let path = path.as_str();
            let kind = parse_kind(path, value)?;
            check_path(path)?;
            if fields.iter().any(|field| field.path == path) {
                return Err(Failure::new(
                    Code::BadValue,
                    format!("The field '{path}' appears multiple times in the index key pattern"),
                ));
            }
            fields.push(KeyField { path: path.to_owned(), kind });
        }
        check_fields(&fields)?;
        Ok(KeyPattern { fields })
    }

    /// The pattern as MongoDB shows it: 1, -1 and "hashed".
    pub fn to_document(&self) -> Document {
        let value = |kind| match kind {
            FieldKind::Ascending => Bson::Int32(1),
            FieldKind::Descending => Bson::Int32(-1),
            FieldKind::Hashed => Bson::String("hashed".to_owned()),
        };
        self.fields.iter().map(|field| (field.path.clone(), value(field.kind))).collect()
    }

    /// For each field, whether its bytes are inverted, as [`crate::decode`] needs it.
    pub fn descending(&self) -> Vec<bool> {
        self.fields.iter().map(|field| field.kind == FieldKind::Descending).collect()
    }

    /// Whether it is the pattern of the index that every collection has.
    pub fn is_id(&self) -> bool {
        matches!(&self.fields[..], [KeyField { path, kind: FieldKind::Ascending }] if path == "_id")
    }
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(Code::CannotCreateIndex, message.into())
}

fn parse_kind(path: &str, value: RawBsonRef<'_>) -> Result<FieldKind> {
    let number = match value {
        RawBsonRef::Int32(value) => f64::from(value),
        RawBsonRef::Int64(value) => value as f64,
        RawBsonRef::Double(value) => value,
        RawBsonRef::Decimal128(value) => value.to_string().parse().unwrap_or(f64::NAN),
        RawBsonRef::String("hashed") => return Ok(FieldKind::Hashed),
        RawBsonRef::String(
            name @ ("text" | "2d" | "2dsphere" | "2dsphere_bucket" | "geoHaystack" | "wildcard"),
        ) => {
            return Err(refused(format!(
                "Index type '{name}' is not supported by this server (field '{path}')"
            )));
        }
        RawBsonRef::String(name) => return Err(refused(format!("Unknown index plugin '{name}'"))),
        other => {
            return Err(refused(format!(
                "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are allowed.",
                type_name(other)
            )));
        }
    };
    if number.is_nan() {
        Err(refused("Values in the index key pattern cannot be NaN."))
    } else if number == 0.0 {
        Err(refused("Values in the index key pattern cannot be 0."))
    } else if number > 0.0 {
        Ok(FieldKind::Ascending)
    } else {
        Ok(FieldKind::Descending)
    }
}

/// MongoDB's names of the types that an invalid pattern may have.
fn type_name(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::Document(_) => "object",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::Null => "null",
        RawBsonRef::ObjectId(_) => "objectId",
        RawBsonRef::DateTime(_) => "date",
        RawBsonRef::Timestamp(_) => "timestamp",
        RawBsonRef::Binary(_) => "binData",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::Symbol(_) => "symbol",
        RawBsonRef::DbPointer(_) => "dbPointer",
        RawBsonRef::JavaScriptCode(_) => "javascript",
        RawBsonRef::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        RawBsonRef::MinKey => "minKey",
        RawBsonRef::MaxKey => "maxKey",
        RawBsonRef::String(_) => "string",
        RawBsonRef::Double(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Decimal128(_) => {
            "number"
        }
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(refused("Index keys cannot be an empty field."));
    }
    if path == "$**" || path.ends_with(".$**") {
        return Err(refused(format!("Wildcard indexes are not supported by this server (field '{path}')")));
    }
    if path == "_fts" {
        return Err(refused("Index key contains an illegal field name: '_fts'"));
    }
    for (place, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return Err(refused("Index keys cannot contain an empty field."));
        }
        let of_reference = place > 0 && matches!(part, "$db" | "$id" | "$ref");
        if part.starts_with('$') && !of_reference {
            return Err(refused("Index key contains an illegal field name: field name starts with '$'."));
        }
    }
    Ok(())
}

fn check_fields(fields: &[KeyField]) -> Result<()> {
    if fields.is_empty() {
        return Err(refused("Index keys cannot be empty."));
    }
    if fields.len() > MAX_FIELDS {
        return Err(Failure::new(Code(13103), "too many compound keys"));
    }
    let hashed = fields.iter().filter(|field| field.kind == FieldKind::Hashed).count();
    if hashed > 1 {
        return Err(Failure::new(
            Code(31303),
            format!("A maximum of one index field is allowed to be hashed but found {hashed} for 'key'"),
        ));
    }
    if let [KeyField { path, kind: FieldKind::Descending }] = fields
        && path == "_id"
    {
        return Err(Failure::new(
            Code::BadValue,
            "The field 'key' for an _id index must be {_id: 1}, but got {_id: -1}",
        ));
    }
    Ok(())
}
