//! Reads the arguments of single keywords: limits, names, types. Refuses those of the wrong type.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::parse::wrong;
use crate::filter::types::{TypeSet, name_of};
use crate::filter::{malformed, numbers};
use crate::{Code, Failure, Result};

/// The fields of a document, read whole.
pub(super) fn fields_of(document: &RawDocument) -> Result<Vec<(&str, RawBsonRef<'_>)>> {
    document
        .iter_elements()
        .map(|element| {
            let element = element.map_err(malformed)?;
            Ok((element.key().as_str(), element.value().map_err(malformed)?))
        })
        .collect()
}

/// A document.
pub(super) fn object<'a>(name: &str, argument: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    argument.as_document().ok_or_else(|| wrong(name, "be an object"))
}

/// A boolean.
pub(super) fn flag(name: &str, argument: RawBsonRef<'_>) -> Result<bool> {
    argument.as_bool().ok_or_else(|| wrong(name, "be a boolean"))
}

/// A number.
pub(super) fn number(name: &str, argument: RawBsonRef<'_>) -> Result<RawBson> {
    match numbers::is_number(argument) {
        true => Ok(argument.into()),
        false => Err(wrong(name, "be a number")),
    }
}

/// A whole number that is not negative.
pub(super) fn limit(name: &str, argument: RawBsonRef<'_>) -> Result<u64> {
    numbers::exact(argument).and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
        Failure::new(
            Code::FailedToParse,
            format!("$jsonSchema keyword '{name}' must be a non-negative integer"),
        )
    })
}

/// A list of documents that is not empty.
pub(super) fn list_of_documents<'a>(name: &str, argument: RawBsonRef<'a>) -> Result<Vec<&'a RawDocument>> {
    let RawBsonRef::Array(items) = argument else {
        return Err(wrong(name, "be an array"));
    };
    let documents: Vec<&RawDocument> = items
        .into_iter()
        .map(|item| {
            let item = item.map_err(malformed)?;
            item.as_document().ok_or_else(|| wrong(name, "be an array of objects"))
        })
        .collect::<Result<_>>()?;
    if documents.is_empty() && name != "items" {
        return Err(Failure::new(
            Code::FailedToParse,
            format!("$jsonSchema keyword '{name}' must be a non-empty array"),
        ));
    }
    Ok(documents)
}

/// A list of different names that is not empty.
pub(super) fn names(name: &str, argument: RawBsonRef<'_>) -> Result<Vec<String>> {
    let RawBsonRef::Array(items) = argument else {
        return Err(wrong(name, "be an array"));
    };
    let mut found: Vec<String> = Vec::new();
    for item in items {
        let item = item.map_err(malformed)?;
        let Some(field) = item.as_str() else {
            let kind = name_of(item);
            return Err(wrong(name, &format!("be an array of strings, but found an element of type {kind}")));
        };
        if found.iter().any(|other| other == field) {
            return Err(Failure::new(
                Code::FailedToParse,
                format!("$jsonSchema keyword '{name}' array cannot contain duplicate values"),
            ));
        }
        found.push(field.to_owned());
    }
    if found.is_empty() {
        return Err(Failure::new(
            Code::FailedToParse,
            format!("$jsonSchema keyword '{name}' cannot be an empty array"),
        ));
    }
    Ok(found)
}

/// `bsonType`: names of BSON types, one or a list.
pub(super) fn bson_types(argument: RawBsonRef<'_>) -> Result<TypeSet> {
    type_names("bsonType", argument, |set, name| set.add_name(name))
}

/// `type`: names of JSON's types, one or a list.
pub(super) fn json_types(argument: RawBsonRef<'_>) -> Result<TypeSet> {
    type_names("type", argument, |set, name| match name {
        "boolean" => set.add_name("bool"),
        "array" | "number" | "object" | "string" | "null" => set.add_name(name),
        _ => false,
    })
}

fn type_names(
    keyword: &str,
    argument: RawBsonRef<'_>,
    add: impl Fn(&mut TypeSet, &str) -> bool,
) -> Result<TypeSet> {
    let names = match argument {
        RawBsonRef::String(name) => vec![name.to_owned()],
        RawBsonRef::Array(_) => names(keyword, argument)?,
        _ => return Err(wrong(keyword, "be either a string or an array of strings")),
    };
    let mut set = TypeSet::default();
    for name in names {
        if keyword == "type" && name == "integer" {
            return Err(Failure::new(
                Code::FailedToParse,
                "$jsonSchema type 'integer' is not currently supported.",
            ));
        }
        if !add(&mut set, &name) {
            return Err(Failure::new(Code::BadValue, format!("Unknown type name alias: {name}")));
        }
    }
    Ok(set)
}
