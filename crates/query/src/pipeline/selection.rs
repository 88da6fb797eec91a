//! The stages that choose and order rows without changing them: `$match`, `$sort`, `$limit`, `$skip`, `$sample`.
//!
//! A `$limit` after a `$sort`, also after a `$skip`, bounds the rows that the sort holds. The filter parser refuses `$where`,
//! `$text` and `$near`.

use bson::{Document, RawBsonRef, RawDocumentBuf};

use super::context::{MAX_STAGE_BYTES, Rows, StageContext, StageMemory};
use super::parse::{StageLimits, kind, members, object, refused, whole};
use super::plan::leading_limit;
use super::stages::Stage;
use crate::expression::value::decode_document;
use crate::{Code, Failure, Filter, Result, Sort, Sorter};

/// A filter, with the document that it was parsed from.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) document: Document,
    filter: Filter,
}

pub(super) fn parse_match(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = value else {
        let message = format!("the match filter must be an expression in an object, got {}", kind(value));
        return Err(Failure::new(Code(15959), message));
    };
    let filter = Filter::parse(document, limits.variables)?;
    Ok(vec![Stage::Match(Match { document: decode_document(document)?, filter })])
}

impl Match {
    pub(super) fn run(self, rows: Rows) -> Rows {
        Box::new(rows.filter_map(move |row| match row {
            Ok(row) => match self.filter.matches(&row) {
                Ok(Some(_)) => Some(Ok(row)),
                Ok(None) => None,
                Err(failure) => Some(Err(failure)),
            },
            failed => Some(failed),
        }))
    }
}

/// A sort, with the number of rows that are wanted.
#[derive(Clone, Debug)]
pub(super) struct SortStage {
    pub(super) sort: Sort,
    pub(super) limit: Option<usize>,
}

/// `$sort: {path: 1 or -1}`.
pub(super) fn parse_sort(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 15973, "the $sort key specification must be an object")?;
    match Sort::parse(document)? {
        Some(sort) => Ok(vec![Stage::Sort(SortStage { sort, limit: None })]),
        None => refused(15976, "$sort stage must have at least one sort key"),
    }
}

/// Tells each sort the limit after it.
pub(super) fn fold_limits(stages: &mut [Stage]) {
    for index in 0..stages.len() {
        let limit =
            stages.get(index + 1..).and_then(leading_limit).and_then(|limit| usize::try_from(limit).ok());
        if let Some(Stage::Sort(stage)) = stages.get_mut(index) {
            stage.limit = limit;
        }
    }
}

impl SortStage {
    pub(super) fn run(self, rows: Rows) -> Result<Rows> {
        let mut sorter = Sorter::new(self.sort, self.limit, MAX_STAGE_BYTES);
        for row in rows {
            sorter.push(row?)?;
        }
        Ok(Box::new(sorter.finish().into_iter().map(Ok)))
    }
}

/// `$limit: n`, at least 1.
pub(super) fn parse_limit(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    if !is_number(value) {
        return refused(15957, "the limit must be specified as a number");
    }
    match whole(value).and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0) {
        Some(limit) => Ok(vec![Stage::Limit(limit)]),
        None => refused(15958, "the limit must be positive"),
    }
}

/// `$skip: n`, at least 0.
pub(super) fn parse_skip(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    if !is_number(value) {
        return refused(15972, format!("Argument to $skip must be a number not a {}", kind(value)));
    }
    match whole(value).and_then(|skip| u64::try_from(skip).ok()) {
        Some(0) => Ok(Vec::new()),
        Some(skip) => Ok(vec![Stage::Skip(skip)]),
        None => refused(15956, "Argument to $skip cannot be negative"),
    }
}

fn is_number(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)
    )
}

pub(super) fn limit(rows: Rows, limit: u64) -> Rows {
    Box::new(rows.take(usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// The rows after the first `skip`. A failure among the skipped rows is returned.
pub(super) fn skip(rows: Rows, skip: u64) -> Rows {
    let mut left = skip;
    Box::new(rows.filter(move |row| {
        if left == 0 || row.is_err() {
            return true;
        }
        left -= 1;
        false
    }))
}

/// The stage `$sample: {size: n}`.
pub(super) fn parse_sample(
    _: &'static str,
    value: RawBsonRef<'_>,
    _: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let document = object(value, 28745, "the $sample stage specification must be an object")?;
    let [size] = members(document, ["size"], (28748, "unrecognized option to $sample"))?;
    let Some(size) = size else { return refused(28749, "$sample stage must specify a size") };
    let Some(whole) = whole(size) else { return refused(28746, "size argument to $sample must be a number") };
    match usize::try_from(whole) {
        Ok(size) => Ok(vec![Stage::Sample(size)]),
        Err(_) => refused(28747, "size argument to $sample must not be negative"),
    }
}

pub(super) fn sample(size: usize, rows: Rows, context: &StageContext) -> Result<Rows> {
    let host = &context.host;
    let below = |count: usize| ((host.random() * count as f64) as usize).min(count.saturating_sub(1));
    let mut memory = StageMemory::new("$sample");
    let mut chosen: Vec<RawDocumentBuf> = Vec::new();
    for (seen, row) in rows.enumerate() {
        let row = row?;
        if chosen.len() < size {
            memory.take(row.as_bytes().len())?;
            chosen.push(row);
        } else if let Some(place) = chosen.get_mut(below(seen + 1)) {
            memory.take(row.as_bytes().len().saturating_sub(place.as_bytes().len()))?;
            *place = row;
        }
    }
    // The order within the reservoir is not random yet.
    for place in (1..chosen.len()).rev() {
        chosen.swap(place, below(place + 1));
    }
    Ok(Box::new(chosen.into_iter().map(Ok)))
}
