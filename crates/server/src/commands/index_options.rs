//! Checks whether an index may be created: the options of `createIndexes`, with MongoDB's error messages; the filter of a partial index (equality,
//! ranges, `$exists: true`, `$type`, and `$and` of them at the top); and whether the index exists already or conflicts with an existing one (85,
//! 86), as MongoDB 4.4 reports it.
//!
//! Collations other than the simple one, hidden indexes and the options of text, geo and wildcard indexes are refused by name.
//! `background` is stored but has no effect, as since 4.2; versions 1 and 2 store the same keys here.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_query::{Code, Failure, FieldKind, Filter, KeyPattern, Variables, compare_owned};

use super::definition::{engine_options, number};
use super::refuse_collation;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::storage::{CollectionState, IndexSpec};

/// The fields that an index on `_id` may have.
const FIELDS_OF_ID: &[&str] = &["key", "name", "v", "ns", "collation"];

fn cannot(what: impl Into<String>) -> Failure {
    Failure::new(Code::CannotCreateIndex, what.into())
}

/// The treatment of unknown options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownOptions {
    Refused,
    Ignored,
}

/// Checks one document of `indexes`; returns what the catalog stores, in mongod's order: `v`, `key`, `name`, the rest.
pub(super) fn check(
    op: &OperationContext<'_>,
    given: &RawDocument,
    unknown: UnknownOptions,
) -> Result<IndexSpec> {
    let Some(key) = parse::document(given, "key")? else {
        return Err(required("key"));
    };
    let pattern = KeyPattern::parse(key)?;
    let Some(name) = parse::string(given, "name")? else { return Err(required("name")) };
    check_name(name, &pattern, key)?;
    let mut spec = Document::new();
    spec.insert("v", version(given)?);
    spec.insert("key", parse::owned(key)?);
    spec.insert("name", if pattern.is_id() { "_id_" } else { name });
    for element in given {
        let (field, value) = element.map_err(|error| parse::malformed(&error))?;
        let field = field.as_str();
        let known = option(op, given, &pattern, field, value, &mut spec)?;
        if !known && unknown == UnknownOptions::Ignored {
            continue;
        }
        if pattern.is_id() && !FIELDS_OF_ID.contains(&field) {
            let what = format!(
                "The field '{field}' is not valid for an _id index specification. Specification: {}",
                parse::owned(given)?
            );
            return Err(Failure::new(Code::InvalidIndexSpecificationOption, what));
        }
        if !known {
            let what = format!(
                "The field '{field}' is not valid for an index specification. Specification: {}",
                parse::owned(given)?
            );
            return Err(Failure::new(Code::InvalidIndexSpecificationOption, what));
        }
    }
    if spec.contains_key("partialFilterExpression") && crate::storage::is_true(&spec, "sparse") {
        return Err(cannot("cannot mix \"partialFilterExpression\" and \"sparse\" options"));
    }
    let hashed = pattern.fields.iter().any(|field| field.kind == FieldKind::Hashed);
    if hashed && crate::storage::is_true(&spec, "unique") {
        return Err(Failure::new(
            Code(16764),
            "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
        ));
    }
    Ok(IndexSpec::new(spec))
}

fn required(field: &str) -> Failure {
    Failure::new(
        Code::FailedToParse,
        format!("The '{field}' field is a required property of an index specification"),
    )
}

fn check_name(name: &str, pattern: &KeyPattern, key: &RawDocument) -> Result<()> {
    if name.is_empty() {
        return Err(cannot("index name cannot be empty"));
    }
    if name == "*" {
        return Err(Failure::new(Code::BadValue, "The index name '*' is not valid."));
    }
    if name.contains('\0') {
        return Err(cannot("index names cannot contain NUL characters"));
    }
    if name == "_id_" && !pattern.is_id() {
        let what = format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found key: {}",
            parse::owned(key)?
        );
        return Err(Failure::new(Code::BadValue, what));
    }
    Ok(())
}

fn version(given: &RawDocument) -> Result<i32> {
    match parse::field(given, "v") {
        None => Ok(2),
        Some(value) => match parse::integer_of(value) {
            Some(1) => Ok(1),
            Some(2) => Ok(2),
            Some(other) => Err(cannot(format!(
                "Invalid index specification {}; cannot create an index with v={other}",
                parse::owned(given)?
            ))),
            None => Err(parse::wrong_type("v", value, "number")),
        },
    }
}

/// Adds one option to the stored document; false if the option is unknown.
fn option(
    op: &OperationContext<'_>,
    given: &RawDocument,
    pattern: &KeyPattern,
    field: &str,
    value: RawBsonRef<'_>,
    spec: &mut Document,
) -> Result<bool> {
    match field {
        // Read already, or obsolete and of no effect.
        "key" | "name" | "v" | "ns" | "dropDups" => {}
        "unique" | "sparse" | "background" => {
            // A false option counts as absent, except for background, which mongod stores as it was given.
            if parse::boolean(given, field)? || field == "background" {
                spec.insert(field, parse::owned_value(value)?);
            }
        }
        "expireAfterSeconds" => {
            spec.insert(field, seconds(given, pattern, value)?);
        }
        "partialFilterExpression" => {
            let RawBsonRef::Document(filter) = value else {
                return Err(parse::wrong_type(field, value, "object"));
            };
            check_filter(filter)?;
            spec.insert(field, parse::owned(filter)?);
        }
        "storageEngine" => {
            let RawBsonRef::Document(engines) = value else {
                return Err(parse::wrong_type(field, value, "object"));
            };
            spec.insert(field, engine_options(op, engines)?);
        }
        "collation" => refuse_collation(Some(value))?,
        "hidden" => {
            if parse::boolean(given, field)? {
                return Err(Failure::new(Code::CommandNotSupported, "this server has no hidden indexes"));
            }
        }
        "weights"
        | "default_language"
        | "language_override"
        | "textIndexVersion"
        | "2dsphereIndexVersion"
        | "bits"
        | "min"
        | "max"
        | "bucketSize"
        | "wildcardProjection"
        | "coarsestIndexedLevel"
        | "finestIndexedLevel" => {
            return Err(cannot(format!(
                "the field '{field}' belongs to text, geo and wildcard indexes, which this server has not"
            )));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `expireAfterSeconds`: a number of seconds in the range of an `int`, for one field that is not hashed.
fn seconds(given: &RawDocument, pattern: &KeyPattern, value: RawBsonRef<'_>) -> Result<Bson> {
    let spec = parse::owned(given)?;
    if pattern.fields.len() != 1 {
        return Err(cannot(format!(
            "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {spec}"
        )));
    }
    let seconds = match value {
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast is what mongod does here")]
        RawBsonRef::Double(value) if !value.is_nan() => value as i64,
        value => parse::integer_of(value).ok_or_else(|| {
            cannot(format!(
                "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'. Index spec: {spec}",
                parse::type_name(value)
            ))
        })?,
    };
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        return Err(cannot(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number: {seconds}. Index spec: {spec}"
        )));
    }
    Ok(number(seconds))
}

/// The filters that a partial index may have: equality, ranges, `$exists: true`, `$type`, and `$and` of them at the top.
///
/// Refuses a filter that a partial index cannot have (67).
pub(super) fn check_filter(filter: &RawDocument) -> Result<()> {
    Filter::parse(filter, &Variables::at(bson::DateTime::now()))?;
    conjunction(filter, true)
}

fn refused_filter(what: &str) -> Result<()> {
    Err(Failure::new(Code::CannotCreateIndex, format!("unsupported expression in partial index: {what}")))
}

fn conjunction(filter: &RawDocument, top: bool) -> Result<()> {
    for element in filter {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        match (name.as_str(), value) {
            ("$and", RawBsonRef::Array(parts)) if top => {
                for part in parts {
                    if let RawBsonRef::Document(part) = part.map_err(|error| parse::malformed(&error))? {
                        conjunction(part, false)?;
                    }
                }
            }
            ("$and", _) => {
                return Err(Failure::new(
                    Code::CannotCreateIndex,
                    "$and only supported in partialFilterExpression at top level",
                ));
            }
            ("$comment", _) => {}
            (name, _) if name.starts_with('$') => refused_filter(name)?,
            (name, RawBsonRef::RegularExpression(_)) => refused_filter(&format!("{name} $regex"))?,
            (name, RawBsonRef::Document(operators)) => predicates(name, operators)?,
            _ => {}
        }
    }
    Ok(())
}

fn predicates(field: &str, operators: &RawDocument) -> Result<()> {
    for element in operators {
        let (operator, value) = element.map_err(|error| parse::malformed(&error))?;
        match operator.as_str() {
            "$eq" if matches!(value, RawBsonRef::RegularExpression(_)) => {
                refused_filter(&format!("{field} $regex"))?
            }
            "$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$type" => {}
            "$exists" if parse::truth_of(value) => {}
            operator if operator.starts_with('$') => refused_filter(&format!("{field} {operator}"))?,
            // A document to compare for equality.
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// The maximum number of indexes of a collection.
const MAX_INDEXES: usize = 64;

/// True if exactly this index exists already; a failure if another index conflicts with it.
pub(super) fn stands_already(state: &CollectionState, spec: &IndexSpec) -> Result<bool> {
    let asked = spec.document();
    for index in &state.indexes {
        let existing = index.document();
        let same_name = index.name() == spec.name();
        let same_key = same_key(&existing, asked);
        let same_options = same_options(&existing, asked);
        match (same_name, same_key) {
            (true, true) if same_options => return Ok(true),
            (true, true) => {
                let what = format!(
                    "An equivalent index already exists with the same name but different options. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (true, false) => {
                let what = format!(
                    "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexKeySpecsConflict, what));
            }
            (false, true) if same_options => {
                let what = format!("Index already exists with a different name: {}", index.name());
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (false, true) => {
                let what = format!(
                    "An equivalent index already exists with a different name and options. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (false, false) => {}
        }
    }
    Ok(false)
}

/// Refuses an index beyond the maximum number.
pub(super) fn check_number(namespace: &str, before: usize, new: &[IndexSpec]) -> Result<()> {
    match new.last() {
        Some(last) if before + new.len() > MAX_INDEXES => Err(Failure::new(
            Code::CannotCreateIndex,
            format!("add index fails, too many indexes for {namespace} key:{}", last.key()),
        )),
        _ => Ok(()),
    }
}

/// Whether two specifications have the same key; 1 and 1.0 are the same.
pub(super) fn same_key(one: &Document, other: &Document) -> bool {
    match (one.get("key"), other.get("key")) {
        (Some(one), Some(other)) => compare_owned(one, other).is_eq(),
        _ => false,
    }
}

/// Whether two specifications are the same apart from key, name, version and options without effect.
fn same_options(one: &Document, other: &Document) -> bool {
    let options = |spec: &Document| -> Document {
        let mut kept: Vec<(String, Bson)> = spec
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "v" | "key" | "name" | "background"))
            .map(|(name, value)| match name.as_str() {
                // Any number that is not zero means true.
                "unique" | "sparse" => (name.clone(), Bson::Boolean(crate::storage::is_true(spec, name))),
                _ => (name.clone(), value.clone()),
            })
            .collect();
        kept.sort_by(|left, right| left.0.cmp(&right.0));
        kept.into_iter().collect()
    };
    compare_owned(&Bson::Document(options(one)), &Bson::Document(options(other))).is_eq()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn and_is_for_the_top_only() {
        let parts = rawdoc! { "$and": [{ "a": { "$gt": 1 } }, { "b": 2 }, { "c": { "$exists": true } }] };
        check_filter(&parts).unwrap();
        for filter in [
            rawdoc! { "$and": [{ "$and": [{ "a": 1 }] }] },
            rawdoc! { "$and": [{ "a": { "$ne": 1 } }] },
            rawdoc! { "$and": [{ "$or": [{ "a": 1 }] }] },
        ] {
            assert_eq!(check_filter(&filter).unwrap_err().code(), Code::CannotCreateIndex, "{filter:?}");
        }
    }
}
