//! Parses a schema document. Refuses unknown keywords and arguments of the wrong type (limits, names, types) in MongoDB's words.

use bson::{Document, RawBson, RawBsonRef, RawDocument};

use super::{AdditionalFields, Dependency, Schema};
use crate::filter::numbers;
use crate::filter::pattern::RegexPattern;
use crate::filter::tree::check_depth;
use crate::filter::types::{TypeSet, name_of};
use crate::raw::unreadable;
use crate::{Code, Failure, Result};

/// Keywords of JSON Schema that MongoDB refuses by name.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

impl Schema {
    /// Reads the argument of `$jsonSchema`.
    pub(crate) fn parse(schema: &RawDocument) -> Result<Schema> {
        let mut parsed = Schema::read(schema, 0)?;
        parsed.source = Document::try_from(schema).map_err(unreadable)?;
        Ok(parsed)
    }

    fn read(document: &RawDocument, depth: usize) -> Result<Schema> {
        check_depth(depth)?;
        let mut schema = Schema::default();
        for (name, argument) in fields_of(document)? {
            schema.keyword(name, argument, depth)?;
        }
        schema.check()?;
        Ok(schema)
    }

    fn keyword(&mut self, name: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<()> {
        match name {
            "type" | "bsonType" if self.types.is_some() => {
                return Err(Failure::new(
                    Code::FailedToParse,
                    "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
                ));
            }
            "type" => self.types = Some(json_types(argument)?),
            "bsonType" => self.types = Some(bson_types(argument)?),
            "enum" => self.allowed = Some(allowed(argument)?),
            "title" | "description" => {
                if !matches!(argument, RawBsonRef::String(_)) {
                    return Err(wrong(name, "be of type string"));
                }
            }
            "allOf" => self.all_of = schemas(name, argument, depth)?,
            "anyOf" => self.any_of = Some(schemas(name, argument, depth)?),
            "oneOf" => self.one_of = Some(schemas(name, argument, depth)?),
            "not" => self.not = Some(Box::new(Schema::read(object(name, argument)?, depth + 1)?)),
            _ if UNSUPPORTED.contains(&name) => {
                return Err(Failure::new(
                    Code::FailedToParse,
                    format!("$jsonSchema keyword '{name}' is not currently supported"),
                ));
            }
            _ => {
                let known = self.scalar_keyword(name, argument)?
                    || self.array_keyword(name, argument, depth)?
                    || self.object_keyword(name, argument, depth)?;
                if !known {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        format!("Unknown $jsonSchema keyword: {name}"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn scalar_keyword(&mut self, name: &str, argument: RawBsonRef<'_>) -> Result<bool> {
        match name {
            "minimum" => self.numbers.minimum = Some(number(name, argument)?),
            "maximum" => self.numbers.maximum = Some(number(name, argument)?),
            "exclusiveMinimum" => self.numbers.exclusive_minimum = flag(name, argument)?,
            "exclusiveMaximum" => self.numbers.exclusive_maximum = flag(name, argument)?,
            "multipleOf" => {
                let divisor = number(name, argument)?;
                let zero = RawBsonRef::Int32(0);
                if crate::compare(divisor.as_raw_bson_ref(), zero).is_le() {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        "$jsonSchema keyword 'multipleOf' must have a positive value",
                    ));
                }
                self.numbers.multiple_of = Some(divisor);
            }
            "minLength" => self.strings.min_length = Some(limit(name, argument)?),
            "maxLength" => self.strings.max_length = Some(limit(name, argument)?),
            "pattern" => match argument {
                RawBsonRef::String(source) => self.strings.pattern = Some(RegexPattern::new(source, "")?),
                _ => return Err(wrong(name, "be a string")),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn array_keyword(&mut self, name: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<bool> {
        match name {
            "minItems" => self.arrays.min_items = Some(limit(name, argument)?),
            "maxItems" => self.arrays.max_items = Some(limit(name, argument)?),
            "uniqueItems" => self.arrays.unique_items = flag(name, argument)?,
            "items" => match argument {
                RawBsonRef::Array(_) => self.arrays.places = Some(schemas(name, argument, depth)?),
                one => {
                    let schema = Schema::read(object(name, one)?, depth + 1)?;
                    self.arrays.every = Some(Box::new(schema));
                }
            },
            "additionalItems" => self.arrays.others = others(name, argument, depth)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn object_keyword(&mut self, name: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<bool> {
        match name {
            "required" => self.objects.required = names(name, argument)?,
            "minProperties" => self.objects.min_properties = Some(limit(name, argument)?),
            "maxProperties" => self.objects.max_properties = Some(limit(name, argument)?),
            "properties" => {
                for (field, inner) in fields_of(object(name, argument)?)? {
                    let schema = Schema::read(object(field, inner)?, depth + 1)?;
                    self.objects.properties.push((field.to_owned(), schema));
                }
            }
            "patternProperties" => {
                for (source, inner) in fields_of(object(name, argument)?)? {
                    let schema = Schema::read(object(source, inner)?, depth + 1)?;
                    self.objects.pattern_properties.push((RegexPattern::new(source, "")?, schema));
                }
            }
            "additionalProperties" => self.objects.others = others(name, argument, depth)?,
            "dependencies" => {
                for (field, inner) in fields_of(object(name, argument)?)? {
                    let dependency = match inner {
                        RawBsonRef::Array(_) => Dependency::Fields(names(field, inner)?),
                        inner => Dependency::Fit(Box::new(Schema::read(object(field, inner)?, depth + 1)?)),
                    };
                    self.objects.dependencies.push((field.to_owned(), dependency));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses keywords that have no meaning without another.
    fn check(&self) -> Result<()> {
        let missing = match &self.numbers {
            numbers if numbers.exclusive_minimum && numbers.minimum.is_none() => "minimum",
            numbers if numbers.exclusive_maximum && numbers.maximum.is_none() => "maximum",
            _ => return Ok(()),
        };
        Err(Failure::new(
            Code::FailedToParse,
            format!("$jsonSchema keyword '{missing}' must be present if its exclusive counterpart is"),
        ))
    }
}

fn schemas(name: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<Vec<Schema>> {
    let documents = list_of_documents(name, argument)?;
    documents.into_iter().map(|document| Schema::read(document, depth + 1)).collect()
}

fn others(name: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<AdditionalFields> {
    match argument {
        RawBsonRef::Boolean(true) => Ok(AdditionalFields::Free),
        RawBsonRef::Boolean(false) => Ok(AdditionalFields::Forbidden),
        RawBsonRef::Document(schema) => Ok(AdditionalFields::Fit(Box::new(Schema::read(schema, depth + 1)?))),
        _ => Err(wrong(name, "be an object or a boolean")),
    }
}

fn allowed(argument: RawBsonRef<'_>) -> Result<Vec<bson::RawBson>> {
    let RawBsonRef::Array(items) = argument else {
        return Err(wrong("enum", "be an array"));
    };
    let values: Vec<bson::RawBson> =
        items.into_iter().map(|item| Ok(item.map_err(unreadable)?.into())).collect::<Result<_>>()?;
    if values.is_empty() {
        return Err(Failure::new(Code::FailedToParse, "$jsonSchema keyword 'enum' cannot be an empty array"));
    }
    Ok(values)
}

/// The failure for a keyword's invalid argument.
fn wrong(name: &str, must: &str) -> Failure {
    Failure::new(Code::TypeMismatch, format!("$jsonSchema keyword '{name}' must {must}"))
}

/// The fields of a document; a malformed one is refused.
fn fields_of(document: &RawDocument) -> Result<Vec<(&str, RawBsonRef<'_>)>> {
    document
        .iter_elements()
        .map(|element| {
            let element = element.map_err(unreadable)?;
            Ok((element.key().as_str(), element.value().map_err(unreadable)?))
        })
        .collect()
}

fn object<'a>(name: &str, argument: RawBsonRef<'a>) -> Result<&'a RawDocument> {
    argument.as_document().ok_or_else(|| wrong(name, "be an object"))
}

fn flag(name: &str, argument: RawBsonRef<'_>) -> Result<bool> {
    argument.as_bool().ok_or_else(|| wrong(name, "be a boolean"))
}

fn number(name: &str, argument: RawBsonRef<'_>) -> Result<RawBson> {
    match numbers::is_number(argument) {
        true => Ok(argument.into()),
        false => Err(wrong(name, "be a number")),
    }
}

/// A whole number that is not negative.
fn limit(name: &str, argument: RawBsonRef<'_>) -> Result<u64> {
    numbers::exact(argument).and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
        Failure::new(
            Code::FailedToParse,
            format!("$jsonSchema keyword '{name}' must be a non-negative integer"),
        )
    })
}

/// A list of documents that is not empty.
fn list_of_documents<'a>(name: &str, argument: RawBsonRef<'a>) -> Result<Vec<&'a RawDocument>> {
    let RawBsonRef::Array(items) = argument else {
        return Err(wrong(name, "be an array"));
    };
    let documents: Vec<&RawDocument> = items
        .into_iter()
        .map(|item| {
            let item = item.map_err(unreadable)?;
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
fn names(name: &str, argument: RawBsonRef<'_>) -> Result<Vec<String>> {
    let RawBsonRef::Array(items) = argument else {
        return Err(wrong(name, "be an array"));
    };
    let mut found: Vec<String> = Vec::new();
    for item in items {
        let item = item.map_err(unreadable)?;
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
fn bson_types(argument: RawBsonRef<'_>) -> Result<TypeSet> {
    type_names("bsonType", argument, |set, name| set.add_name(name))
}

/// `type`: names of JSON's types, one or a list.
fn json_types(argument: RawBsonRef<'_>) -> Result<TypeSet> {
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
