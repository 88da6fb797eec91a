//! `$bucketAuto`: rows in so many buckets of about the same size, by an expression.
//!
//! `granularity` (series of preferred numbers) is refused by name.

use bson::{Bson, RawBsonRef, RawDocumentBuf, doc};

use super::Rows;
use super::bucket::{check_group_by, output_fields};
use super::context::Context;
use super::group::{Field, accumulators, append_all, push_all};
use super::memory::{Memory, sized};
use super::options::{kind, members, object, refused, whole};
use super::parse::Limits;
use super::stages::Stage;
use crate::expression::value::{Value, append, measure};
use crate::{Code, Expression, Result, order};

/// The buckets wanted.
#[derive(Clone, Debug)]
pub(super) struct BucketAuto {
    by: Expression,
    buckets: usize,
    fields: Vec<Field>,
}

/// `$bucketAuto: {groupBy, buckets, output}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
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
    pub(super) fn run(self, rows: Rows, context: &Context) -> Result<Rows> {
        let mut memory = Memory::of("$bucketAuto");
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
            // Equal keys stay together, and the last bucket takes what is left.
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
