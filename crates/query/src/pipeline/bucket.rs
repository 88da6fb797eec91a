//! `$bucket`: rows by ranges of an expression. It is a `$group` by a `$switch`, sorted by the buckets' lower ends.

use bson::{Bson, RawBsonRef, RawDocumentBuf, doc};

use super::group::{Field, Group};
use super::options::{kind, members, object, refused};
use super::parse::Limits;
use super::sort::SortStage;
use super::stages::Stage;
use crate::expression::show::show_bson;
use crate::expression::value::{decode, malformed};
use crate::{Code, Expression, Failure, Result, Sort, canonical_type, order};

/// `$bucket: {groupBy, boundaries, default, output}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 40201, "Argument to $bucket stage must be an object")?;
    let names = ["groupBy", "boundaries", "default", "output"];
    let [by, boundaries, default, output] =
        members(document, names, (40197, "Unrecognized option to $bucket"))?;
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        return refused(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
    };
    check_group_by("$bucket", by, 40202)?;
    let boundaries = constants(boundaries, limits)?;
    check_order(&boundaries)?;
    let default = default.map(|default| constant(default, limits)).transpose()?;
    if let (Some(default), Some(first), Some(last)) = (&default, boundaries.first(), boundaries.last()) {
        let inside =
            order::compare_owned(default, first).is_ge() && order::compare_owned(default, last).is_lt();
        if inside {
            return refused(
                40199,
                "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.",
            );
        }
    }
    let by = decode(by)?;
    let mut branches = Vec::new();
    for (low, high) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        let low = doc! { "$const": low };
        branches.push(doc! {
            "case": { "$and": [{ "$gte": [&by, &low] }, { "$lt": [&by, { "$const": high }] }] },
            "then": low,
        });
    }
    let mut switch = doc! { "branches": branches };
    if let Some(default) = default {
        switch.insert("default", doc! { "$const": default });
    }
    let id = RawDocumentBuf::try_from(&doc! { "$switch": switch }).map_err(malformed)?;
    let id = Expression::parse_with(RawBsonRef::Document(&id), limits.variables)?;
    let fields = output_fields("$bucket", 40196, output, limits)?;
    let sort = SortStage { sort: Sort { fields: vec![("_id".to_owned(), false)] }, limit: None };
    Ok(vec![Stage::Group(Group::new(id, fields)), Stage::Sort(sort)])
}

/// Refuses a `groupBy` that is neither a path nor an expression.
pub(super) fn check_group_by(name: &str, by: RawBsonRef<'_>, code: i32) -> Result<()> {
    let fits = match by {
        RawBsonRef::String(path) => path.starts_with('$'),
        RawBsonRef::Document(_) => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let shown = show_bson(&decode(by)?);
    refused(
        code,
        format!(
            "The {name} 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {shown}."
        ),
    )
}

/// The fields of `output`; a count if there is none.
pub(super) fn output_fields(
    name: &str,
    code: i32,
    output: Option<RawBsonRef<'_>>,
    limits: &Limits<'_>,
) -> Result<Vec<Field>> {
    let Some(output) = output else { return Ok(vec![Field::count(limits)?]) };
    let RawBsonRef::Document(output) = output else {
        return refused(
            code,
            format!("The {name} 'output' field must be an object, but found type: {}.", kind(output)),
        );
    };
    let mut fields = Vec::new();
    for element in output.iter() {
        let (name, value) = element.map_err(malformed)?;
        fields.push(Field::parse(name.as_str(), value, limits)?);
    }
    Ok(fields)
}

fn constant(value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Bson> {
    let expression = Expression::parse_with(value, limits.variables)?;
    let mut fields = std::collections::BTreeSet::new();
    if !expression.collect_fields(&mut fields) || !fields.is_empty() {
        return refused(40191, "The $bucket 'boundaries' and 'default' fields must be constant values");
    }
    Ok(expression.without_document(limits.variables)?.unwrap_or(Bson::Null))
}

fn constants(value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Bson>> {
    let RawBsonRef::Array(array) = value else {
        let message =
            format!("The $bucket 'boundaries' field must be an array, but found type: {}.", kind(value));
        return refused(40200, message);
    };
    let mut constants = Vec::new();
    for item in array {
        constants.push(constant(item.map_err(malformed)?, limits)?);
    }
    if constants.len() < 2 {
        let count = constants.len();
        return refused(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {count} value(s)."
            ),
        );
    }
    Ok(constants)
}

fn check_order(boundaries: &[Bson]) -> Result<()> {
    for (low, high) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        let class = |value: &Bson| {
            let raw = bson::RawBson::try_from(value.clone()).map_err(malformed)?;
            Ok::<i8, Failure>(canonical_type(raw.as_raw_bson_ref()))
        };
        let shown = (show_bson(low), show_bson(high));
        if class(low)? != class(high)? {
            let message = format!(
                "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting values {} and {}.",
                shown.0, shown.1
            );
            return Err(Failure::new(Code(40193), message));
        }
        if order::compare_owned(low, high).is_ge() {
            let message = format!(
                "The 'boundaries' option to $bucket must be sorted, but elements {} and {} are not in ascending order.",
                shown.0, shown.1
            );
            return Err(Failure::new(Code(40194), message));
        }
    }
    Ok(())
}
