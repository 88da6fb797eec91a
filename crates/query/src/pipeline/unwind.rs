//! The stage `$unwind`: makes a row for each element of an array.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};

use super::context::{Rows, sized};
use super::document::{at, with};
use super::parse::{StageLimits, kind, members, refused};
use super::stages::Stage;
use crate::Result;
use crate::expression::path::split;
use crate::expression::value::{Value, malformed};

/// The arguments of `$unwind`.
#[derive(Clone, Debug)]
pub(super) struct Unwind {
    path: Vec<String>,
    index: Option<Vec<String>>,
    preserve: bool,
}

/// `$unwind: "$path"` or `{path, includeArrayIndex, preserveNullAndEmptyArrays}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let (path, index, preserve) = match value {
        RawBsonRef::String(_) => (Some(value), None, None),
        RawBsonRef::Document(document) => {
            let names = ["path", "includeArrayIndex", "preserveNullAndEmptyArrays"];
            let [path, index, preserve] =
                members(document, names, (28811, "unrecognized option to $unwind stage"))?;
            (path, index, preserve)
        }
        other => {
            let message = format!(
                "expected either a string or an object as specification for $unwind stage, got {}",
                kind(other)
            );
            return refused(15981, message);
        }
    };
    let path = match path {
        None => return refused(28812, "no path specified to $unwind stage"),
        Some(RawBsonRef::String(path)) => path,
        Some(other) => {
            return refused(
                28808,
                format!("expected a string as the path for $unwind stage, got {}", kind(other)),
            );
        }
    };
    let Some(path) = path.strip_prefix('$') else {
        return refused(28818, format!("path option to $unwind stage should be prefixed with a '$': {path}"));
    };
    let index = match index {
        None => None,
        Some(RawBsonRef::String(index)) if index.starts_with('$') => {
            let message = format!(
                "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {index}"
            );
            return refused(28822, message);
        }
        Some(RawBsonRef::String(index)) if !index.is_empty() => Some(split(index)?),
        Some(other) => {
            let message = format!(
                "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {}",
                kind(other)
            );
            return refused(28810, message);
        }
    };
    let preserve = match preserve {
        None => false,
        Some(RawBsonRef::Boolean(preserve)) => preserve,
        Some(other) => {
            let message = format!(
                "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
                kind(other)
            );
            return refused(28809, message);
        }
    };
    Ok(vec![Stage::Unwind(Unwind { path: split(path)?, index, preserve })])
}

/// A row whose array is being walked through.
struct UnwindCursor {
    row: RawDocumentBuf,
    items: std::vec::IntoIter<RawBson>,
    next: i64,
}

impl Unwind {
    /// The top-level fields of the path and of the index.
    pub(super) fn roots(&self) -> (Option<&str>, Option<&str>) {
        (
            self.path.first().map(String::as_str),
            self.index.as_ref().and_then(|index| index.first()).map(String::as_str),
        )
    }

    pub(super) fn run(self, mut rows: Rows) -> Rows {
        let mut open: Option<UnwindCursor> = None;
        Box::new(std::iter::from_fn(move || {
            loop {
                if let Some(current) = &mut open {
                    if let Some(item) = current.items.next() {
                        let index = current.next;
                        current.next += 1;
                        return Some(self.element(&current.row, item.as_raw_bson_ref(), index));
                    }
                    open = None;
                }
                let row = match rows.next()? {
                    Ok(row) => row,
                    failed => return Some(failed),
                };
                match self.open(row) {
                    Ok(UnwoundRow::Array(array)) => open = Some(array),
                    Ok(UnwoundRow::Row(row)) => return Some(Ok(row)),
                    Ok(UnwoundRow::Nothing) => {}
                    Err(failure) => return Some(Err(failure)),
                }
            }
        }))
    }

    /// The row of one element.
    fn element(&self, row: &RawDocumentBuf, item: RawBsonRef<'_>, index: i64) -> Result<RawDocumentBuf> {
        let row = with(row, &self.path, &Value::Raw(item))?;
        self.indexed(row, Bson::Int64(index)).and_then(sized)
    }

    fn indexed(&self, row: RawDocumentBuf, index: Bson) -> Result<RawDocumentBuf> {
        match &self.index {
            Some(path) => with(&row, path, &Value::Own(index)),
            None => Ok(row),
        }
    }

    fn open(&self, row: RawDocumentBuf) -> Result<UnwoundRow> {
        let emptied = match at(&row, &self.path)? {
            Some(RawBsonRef::Array(array)) => {
                let mut items = Vec::new();
                for item in array {
                    items.push(RawBson::from(item.map_err(malformed)?));
                }
                if !items.is_empty() {
                    return Ok(UnwoundRow::Array(UnwindCursor { row, items: items.into_iter(), next: 0 }));
                }
                Some(with(&row, &self.path, &Value::Missing)?)
            }
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => None,
            // A value that is not an array counts as its only element.
            Some(_) => return self.indexed(row, Bson::Null).map(UnwoundRow::Row),
        };
        if !self.preserve {
            return Ok(UnwoundRow::Nothing);
        }
        self.indexed(emptied.unwrap_or(row), Bson::Null).map(UnwoundRow::Row)
    }
}

/// The outcome of `$unwind` for a row.
enum UnwoundRow {
    Array(UnwindCursor),
    Row(RawDocumentBuf),
    Nothing,
}
