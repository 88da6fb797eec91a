//! `$limit` and `$skip`.

use bson::RawBsonRef;

use super::Rows;
use super::options::{kind, refused, whole};
use super::parse::Limits;
use super::stages::Stage;
use crate::Result;

/// `$limit: n`, at least 1.
pub(super) fn parse_limit(_: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
    if !is_number(value) {
        return refused(15957, "the limit must be specified as a number");
    }
    match whole(value).and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0) {
        Some(limit) => Ok(vec![Stage::Limit(limit)]),
        None => refused(15958, "the limit must be positive"),
    }
}

/// `$skip: n`, at least 0.
pub(super) fn parse_skip(_: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
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

/// The first rows.
pub(super) fn limit(rows: Rows, limit: u64) -> Rows {
    Box::new(rows.take(usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// The rows after the first. A failure among those that are skipped is not skipped.
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
