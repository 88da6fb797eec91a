//! `$sort`. A `$limit` behind it, also behind a `$skip`, bounds what is held.

use bson::RawBsonRef;

use super::Rows;
use super::memory::STAGE_BYTES_MAX;
use super::options::{object, refused};
use super::parse::Limits;
use super::plan::leading_limit;
use super::stages::Stage;
use crate::{Result, Sort, Sorter};

/// A sort, with how many rows are wanted of it.
#[derive(Clone, Debug)]
pub(super) struct SortStage {
    pub(super) sort: Sort,
    pub(super) limit: Option<usize>,
}

/// `$sort: {path: 1 or -1}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 15973, "the $sort key specification must be an object")?;
    match Sort::parse(document)? {
        Some(sort) => Ok(vec![Stage::Sort(SortStage { sort, limit: None })]),
        None => refused(15976, "$sort stage must have at least one sort key"),
    }
}

/// Lets each sort know of the limit behind it.
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
        let mut sorter = Sorter::new(self.sort, self.limit, STAGE_BYTES_MAX);
        for row in rows {
            sorter.push(row?)?;
        }
        Ok(Box::new(sorter.finish().into_iter().map(Ok)))
    }
}
