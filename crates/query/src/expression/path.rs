//! Field paths: `$a.b`, `$$name.a.b`.
//!
//! A path traverses arrays as in aggregations: it takes the field of each document in the array, and skips
//! everything else. Numbers are names, never indexes.

use bson::{Bson, Document, RawBsonRef, RawDocument};

use super::environment::EvaluationScope;
use super::value::{Value, decode, malformed};
use crate::{Code, Failure, Result};

/// The beginning of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathBase {
    /// The document itself (`$$ROOT`).
    Root,
    /// A variable that an operator binds.
    Slot {
        /// The number of frames outwards.
        up: usize,
        /// Its place in the frame.
        index: usize,
    },
    /// A variable of the command's `let`.
    Named(String),
    Now,
    Remove,
}

/// A path with its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) base: PathBase,
    /// The names after it.
    pub(crate) fields: Vec<String>,
}

impl Path {
    /// The value at the path.
    pub(crate) fn evaluate<'e>(&'e self, environment: &EvaluationScope<'e>) -> Result<Value<'e>> {
        let start = match &self.base {
            PathBase::Root => return of_document(environment.root, &self.fields),
            PathBase::Slot { up, index } => environment.slot(*up, *index),
            PathBase::Named(name) => match environment.variables.get(name) {
                Some(value) => Value::Ref(value),
                None => return Err(undefined(name)),
            },
            PathBase::Now => Value::Own(Bson::DateTime(environment.variables.now)),
            PathBase::Remove => Value::Missing,
        };
        match start {
            start if self.fields.is_empty() => Ok(start),
            Value::Raw(raw) => of_raw(raw, &self.fields),
            Value::Ref(value) => of_bson(value, &self.fields),
            Value::Own(value) => of_bson(&value, &self.fields)?.detach(),
            Value::Missing => Ok(Value::Missing),
        }
    }
}

/// A variable that is not bound.
pub(crate) fn undefined(name: &str) -> Failure {
    Failure::new(Code(17276), format!("Use of undefined variable: {name}"))
}

/// The value at `fields` in a document.
pub(crate) fn of_document<'e>(document: &'e RawDocument, fields: &[String]) -> Result<Value<'e>> {
    let Some((first, rest)) = fields.split_first() else {
        return Ok(Value::Raw(RawBsonRef::Document(document)));
    };
    let Some(value) = document.get(first).map_err(malformed)? else {
        return Ok(Value::Missing);
    };
    if rest.is_empty() { Ok(Value::Raw(value)) } else { of_raw(value, rest) }
}

fn of_raw<'e>(value: RawBsonRef<'e>, fields: &[String]) -> Result<Value<'e>> {
    match value {
        RawBsonRef::Document(document) => of_document(document, fields),
        RawBsonRef::Array(array) => {
            let mut found = Vec::new();
            for item in array {
                let RawBsonRef::Document(document) = item.map_err(malformed)? else { continue };
                match of_document(document, fields)? {
                    Value::Missing => {}
                    Value::Raw(raw) => found.push(decode(raw)?),
                    other => found.extend(other.into_bson()?),
                }
            }
            Ok(Value::Own(Bson::Array(found)))
        }
        _ => Ok(Value::Missing),
    }
}

fn of_bson<'e>(value: &'e Bson, fields: &[String]) -> Result<Value<'e>> {
    match value {
        Bson::Document(document) => of_fields(document, fields),
        Bson::Array(items) => {
            let mut found = Vec::new();
            for item in items {
                let Bson::Document(document) = item else { continue };
                found.extend(of_fields(document, fields)?.into_bson()?);
            }
            Ok(Value::Own(Bson::Array(found)))
        }
        _ => Ok(Value::Missing),
    }
}

fn of_fields<'e>(document: &'e Document, fields: &[String]) -> Result<Value<'e>> {
    let Some((first, rest)) = fields.split_first() else { return Ok(Value::Missing) };
    match document.get(first) {
        None => Ok(Value::Missing),
        Some(value) if rest.is_empty() => Ok(Value::Ref(value)),
        Some(value) => of_bson(value, rest),
    }
}

/// Splits a dotted path into its names, refusing what MongoDB refuses.
pub(crate) fn split(path: &str) -> Result<Vec<String>> {
    if path.is_empty() {
        return Err(Failure::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Failure::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    if names.len() > super::value::MAX_DEPTH {
        return Err(Failure::new(
            Code::Overflow,
            format!("FieldPath is too long: it has more than {} parts", super::value::MAX_DEPTH),
        ));
    }
    for name in &names {
        if name.is_empty() {
            return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
        }
        if name.starts_with('$') {
            return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
        }
        if name.contains('\0') {
            return Err(Failure::new(Code(16411), "FieldPath field names may not contain '\\0'."));
        }
    }
    Ok(names)
}
