//! Stages that group rows into buckets: `$bucket` by ranges of an expression, `$bucketAuto` into buckets of about equal size.
//!
//! `$bucket` is a `$group` by a `$switch`, sorted by the buckets' lower ends. `granularity` of `$bucketAuto` (series of preferred
//! numbers) is refused by name.

use bson::{Bson, RawBsonRef, RawDocumentBuf, doc};

use super::context::{Rows, StageContext, StageMemory, sized};
use super::group::{Field, Group, accumulators, append_all, push_all};
use super::parse::{StageLimits, kind, members, object, refused, whole};
use super::selection::SortStage;
use super::stages::Stage;
use crate::expression::show::show_bson;
use crate::expression::value::{Value, append, decode, malformed, measure};
use crate::{Code, Expression, Failure, Result, Sort, canonical_type, order};

/// `$bucket: {groupBy, boundaries, default, output}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
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

/// Refuses a `groupBy` that is neither a path nor an object.
fn check_group_by(name: &str, by: RawBsonRef<'_>, code: i32) -> Result<()> {
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
fn output_fields(
    name: &str,
    code: i32,
    output: Option<RawBsonRef<'_>>,
    limits: &StageLimits<'_>,
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

fn constant(value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Bson> {
    let expression = Expression::parse_with(value, limits.variables)?;
    let mut fields = std::collections::BTreeSet::new();
    if !expression.collect_fields(&mut fields) || !fields.is_empty() {
        return refused(40191, "The $bucket 'boundaries' and 'default' fields must be constant values");
    }
    Ok(expression.without_document(limits.variables)?.unwrap_or(Bson::Null))
}

fn constants(value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Bson>> {
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

/// `$bucketAuto`: the buckets wanted.
#[derive(Clone, Debug)]
pub(super) struct BucketAuto {
    by: Expression,
    buckets: usize,
    fields: Vec<Field>,
}

/// `$bucketAuto: {groupBy, buckets, output}`.
pub(super) fn parse_auto(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let document = object(value, 40240, "The argument to $bucketAuto must be an object")?;
    let names = ["groupBy", "buckets", "output", "granularity"];
    let [by, buckets, output, granularity] =
        members(document, names, (40245, "Unrecognized option to $bucketAuto"))?;
    if granularity.is_some() {
        return refused(
            Code::CommandNotSupported.0,
            "the 'granularity' of $bucketAuto is not in this server",
        );
    }
    let (Some(by), Some(buckets)) = (by, buckets) else {
        return refused(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.");
    };
    check_group_by("$bucketAuto", by, 40239)?;
    let buckets = match whole(buckets).map(i32::try_from) {
        Some(Ok(buckets)) if buckets > 0 => usize::try_from(buckets).unwrap_or(1),
        Some(Ok(buckets)) => {
            let message =
                format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {buckets}.");
            return refused(40243, message);
        }
        Some(Err(_)) => {
            return refused(
                40242,
                "The $bucketAuto 'buckets' field must be representable as a 32-bit integer.",
            );
        }
        None => {
            let message = format!(
                "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
                kind(buckets)
            );
            return refused(40241, message);
        }
    };
    let by = Expression::parse_with(by, limits.variables)?;
    let fields = output_fields("$bucketAuto", 40244, output, limits)?;
    Ok(vec![Stage::BucketAuto(BucketAuto { by, buckets, fields })])
}

impl BucketAuto {
    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        let mut memory = StageMemory::new("$bucketAuto");
        let mut sorted: Vec<(Bson, RawDocumentBuf)> = Vec::new();
        for row in rows {
            let row = row?;
            let key = self.by.evaluate(&row, &context.variables)?.unwrap_or(Bson::Null);
            memory.take(row.as_bytes().len() + measure(&key)?)?;
            sorted.push((key, row));
        }
        sorted.sort_by(|(left, _), (right, _)| order::compare_owned(left, right));
        let size = ((sorted.len() as f64 / self.buckets as f64).round() as usize).max(1);
        let names: Vec<String> = self.fields.iter().map(|field| field.name.clone()).collect();
        let mut result = Vec::new();
        let mut rows = sorted.into_iter().peekable();
        while let Some((low, first)) = rows.next() {
            let mut held = accumulators(&self.fields);
            memory.take(push_all(&self.fields, &mut held, &first, &context.variables)?)?;
            let mut high = low.clone();
            let mut taken = 1;
            let last_bucket = result.len() + 1 == self.buckets;
            // Equal keys stay together, and the last bucket takes the remaining rows.
            while let Some((key, row)) = rows
                .next_if(|(key, _)| last_bucket || taken < size || order::compare_owned(key, &high).is_eq())
            {
                memory.take(push_all(&self.fields, &mut held, &row, &context.variables)?)?;
                high = key;
                taken += 1;
            }
            let high = rows.peek().map_or(high, |(next, _)| next.clone());
            let mut document = RawDocumentBuf::new();
            append(&mut document, "_id", &Value::Own(Bson::Document(doc! { "min": low, "max": high })))?;
            append_all(&mut document, &names, held)?;
            result.push(sized(document)?);
        }
        Ok(Box::new(result.into_iter().map(Ok)))
    }
}
