//! Document operators: `$mergeObjects`, `$objectToArray`, `$arrayToObject`, `$bsonSize`.

use bson::{Bson, Document, RawBsonRef, doc};

use super::show::show_bson;
use super::value::{Value, malformed, type_name};
use crate::{Code, Failure, Result};

/// `$mergeObjects`: later fields win, null is ignored.
pub(super) fn merge<'e>(_: &'static str, values: Vec<Value<'e>>) -> Result<Value<'e>> {
    let mut merged = Document::new();
    for value in values {
        merge_into(&mut merged, value)?;
    }
    Ok(Value::Own(Bson::Document(merged)))
}

/// Adds the fields of a value to a document; refuses a value that is neither a document nor null (40400).
pub(super) fn merge_into(merged: &mut Document, value: Value<'_>) -> Result<()> {
    if value.is_nullish() {
        return Ok(());
    }
    match value.into_bson()? {
        Some(Bson::Document(fields)) => {
            merged.extend(fields);
            Ok(())
        }
        other => {
            let other = other.unwrap_or(Bson::Null);
            let found = type_name(other.element_type());
            let message = format!(
                "$mergeObjects requires object inputs, but input {} is of type {found}",
                show_bson(&other)
            );
            Err(Failure::new(Code(40400), message))
        }
    }
}

/// `$objectToArray`: `[{k, v}, ...]`.
pub(super) fn object_to_array<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let found = value.type_name();
    let Some(Bson::Document(fields)) = value.into_bson()? else {
        let message = format!("$objectToArray requires a document input, found: {found}");
        return Err(Failure::new(Code(40390), message));
    };
    let pairs = fields.into_iter().map(|(name, value)| Bson::Document(doc! { "k": name, "v": value }));
    Ok(Value::Own(Bson::Array(pairs.collect())))
}

/// `$arrayToObject`: from `[{k, v}, ...]` or `[[k, v], ...]`.
pub(super) fn array_to_object<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let found = value.type_name();
    let Some(items) = value.into_array()? else {
        let message = format!("$arrayToObject requires an array input, found: {found}");
        return Err(Failure::new(Code(40386), message));
    };
    let mut object = Document::new();
    let of_pairs = matches!(items.first(), Some(Bson::Array(_)));
    for item in items {
        let found = type_name(item.element_type());
        let (key, value) = match item {
            Bson::Array(pair) if of_pairs => pair_of_array(pair)?,
            Bson::Document(pair) if !of_pairs => pair_of_document(pair)?,
            _ if of_pairs => return Err(mixed(40391, "Array", found)),
            Bson::Array(_) => return Err(mixed(40396, "Object", found)),
            _ if object.is_empty() => {
                let message = format!("Unrecognised input type format for $arrayToObject: {found}");
                return Err(Failure::new(Code(40398), message));
            }
            _ => return Err(mixed(40396, "Object", found)),
        };
        if key.contains('\0') {
            return Err(Failure::new(Code(4940400), "Key field cannot contain an embedded null byte"));
        }
        object.insert(key, value);
    }
    Ok(Value::Own(Bson::Document(object)))
}

fn mixed(code: i32, first: &str, found: &str) -> Failure {
    let message = format!(
        "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. {first} was \
         detected, now found: {found}"
    );
    Failure::new(Code(code), message)
}

fn pair_of_array(pair: Vec<Bson>) -> Result<(String, Bson)> {
    let length = pair.len();
    let Ok([key, value]) = <[Bson; 2]>::try_from(pair) else {
        let message =
            format!("$arrayToObject requires an array of size 2 arrays,found array of size: {length}");
        return Err(Failure::new(Code(40397), message));
    };
    match key {
        Bson::String(key) => Ok((key, value)),
        other => {
            let found = type_name(other.element_type());
            let message = format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: {found}"
            );
            Err(Failure::new(Code(40395), message))
        }
    }
}

fn pair_of_document(mut pair: Document) -> Result<(String, Bson)> {
    if pair.len() != 2 {
        let message = format!(
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{}",
            pair.len()
        );
        return Err(Failure::new(Code(40392), message));
    }
    let (Some(key), Some(value)) = (pair.remove("k"), pair.remove("v")) else {
        let message = "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys";
        return Err(Failure::new(Code(40393), message));
    };
    match key {
        Bson::String(key) => Ok((key, value)),
        other => {
            let found = type_name(other.element_type());
            let message = format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. \
                 PathValue type: {found}"
            );
            Err(Failure::new(Code(40394), message))
        }
    }
}

/// `$bsonSize`: the bytes of a document.
pub(super) fn bson_size<'e>(_: &'static str, value: Value<'e>) -> Result<Value<'e>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let bytes = match &value {
        Value::Raw(RawBsonRef::Document(document)) => Some(document.as_bytes().len()),
        Value::Ref(Bson::Document(fields)) => Some(encoded_bytes(fields)?),
        Value::Own(Bson::Document(fields)) => Some(encoded_bytes(fields)?),
        _ => None,
    };
    match bytes {
        Some(bytes) => Ok(Value::Own(Bson::Int32(i32::try_from(bytes).unwrap_or(i32::MAX)))),
        None => {
            let message = format!("$bsonSize requires a document input, found: {}", value.type_name());
            Err(Failure::new(Code(31393), message))
        }
    }
}

fn encoded_bytes(fields: &Document) -> Result<usize> {
    Ok(bson::RawDocumentBuf::try_from(fields).map_err(malformed)?.as_bytes().len())
}
