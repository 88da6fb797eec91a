//! The stage `$count`, and counting without reading documents.

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};

use super::context::Rows;
use super::parse::{StageLimits, refused};
use super::stages::Stage;
use crate::Result;
use crate::expression::number::Number;
use crate::expression::value::{Value, append};

/// The stage `$count: "field"`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let Some(field) = value.as_str() else {
        return refused(40156, "the count field must be a non-empty string");
    };
    if field.is_empty() {
        return refused(40157, "the count field must be a non-empty string");
    }
    if field.starts_with('$') {
        return refused(40158, "the count field cannot be a $-prefixed path");
    }
    if field.contains('\0') {
        return refused(40159, "the count field cannot contain a null byte");
    }
    if field.contains('.') {
        return refused(40160, "the count field cannot contain '.'");
    }
    Ok(vec![Stage::Count(field.to_owned())])
}

/// One row with the count, or none if there is nothing to count.
pub(super) fn run(field: &str, rows: Rows) -> Result<Rows> {
    let mut count = 0;
    for row in rows {
        row?;
        count += 1;
    }
    Ok(Box::new(made(None, &[(field.to_owned(), 1)], count)?.map(Ok).into_iter()))
}

/// A count that needs no document, only the number of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct CountForm {
    /// The number of rows that are skipped first.
    pub skip: u64,
    /// The most rows that are counted.
    pub limit: Option<u64>,
    /// The group's `_id`; `None` for `$count`.
    id: Option<Bson>,
    /// The fields, each with the number that a row adds to it.
    sums: Vec<(String, i64)>,
}

impl CountForm {
    /// The stages that it replaces, for explain.
    pub fn to_documents(&self) -> Vec<Document> {
        let number = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let mut stages = Vec::new();
        if self.skip > 0 {
            stages.push(doc! { "$skip": number(self.skip) });
        }
        if let Some(limit) = self.limit {
            stages.push(doc! { "$limit": number(limit) });
        }
        let mut group = doc! { "_id": self.id.clone().unwrap_or(Bson::Null) };
        group.extend(self.sums.iter().map(|(name, each)| (name.clone(), doc! { "$sum": each }.into())));
        stages.push(doc! { "$group": group });
        stages
    }

    /// The result document for `rows` rows before `skip` and `limit`; `None` for no rows.
    pub fn document(&self, rows: u64) -> Result<Option<RawDocumentBuf>> {
        let rows = rows.saturating_sub(self.skip);
        let rows = self.limit.map_or(rows, |limit| rows.min(limit));
        made(self.id.as_ref(), &self.sums, i64::try_from(rows).unwrap_or(i64::MAX))
    }
}

fn made(id: Option<&Bson>, sums: &[(String, i64)], rows: i64) -> Result<Option<RawDocumentBuf>> {
    if rows == 0 {
        return Ok(None);
    }
    let mut document = RawDocumentBuf::new();
    if let Some(id) = id {
        append(&mut document, "_id", &Value::Ref(id))?;
    }
    for (field, each) in sums {
        append(&mut document, field, &Value::Own(Number::integer(rows.saturating_mul(*each)).bson()))?;
    }
    Ok(Some(document))
}

/// Removes the stages of a count from the beginning.
pub(super) fn take(stages: &mut Vec<Stage>) -> Option<CountForm> {
    let mut rest = stages.iter();
    let mut next = rest.next()?;
    let (mut skip, mut limit, mut taken) = (0, None, 1);
    if let Stage::Skip(rows) = next {
        skip = *rows;
        next = rest.next()?;
        taken += 1;
    }
    if let Stage::Limit(rows) = next {
        limit = Some(*rows);
        next = rest.next()?;
        taken += 1;
    }
    let form = match next {
        Stage::Count(field) => CountForm { skip, limit, id: None, sums: vec![(field.clone(), 1)] },
        Stage::Group(group) => {
            let (id, sums) = group.counts_only()?;
            CountForm { skip, limit, id: Some(id), sums }
        }
        _ => return None,
    };
    stages.drain(..taken);
    Some(form)
}
