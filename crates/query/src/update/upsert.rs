//! What an upsert inserts before the update is applied: the values that its filter asks for.
use super::UpdateMoment;
use super::operator::Operator;
use super::path;
use super::rewrite::Rewrite;
use super::storage::{DEPTH_MAX, check_id, check_value, too_deep};
use super::target::{Action, Target};
use crate::raw::{Value, find};
use crate::{Code, Failure, Filter, Result};
use bson::{Bson, RawDocumentBuf};
use std::borrow::Cow;

/// A document of the filter's equalities, dotted ones nested, in the order of their paths.
pub(super) fn seed(filter: &Filter, moment: &UpdateMoment<'_>) -> Result<RawDocumentBuf> {
    let mut operators: Vec<(String, Operator)> = Vec::new();
    for (path, value) in filter.equalities() {
        check_matched_once(&operators, &path)?;
        let value = Value::from_bson(&value)?;
        if path.split('.').count() > DEPTH_MAX {
            return Err(too_deep());
        }
        check_value(value.kind(), value.bytes(), &path, path.split('.').count())?;
        operators.push((path, Operator::Set(value)));
    }
    operators.sort_by(|(left, _), (right, _)| path::order(left, right));
    let targets: Vec<Target<'_>> = operators
        .iter()
        .map(|(path, operator)| Target { path: Cow::Borrowed(path), action: Action::Operator(operator) })
        .collect();
    let empty = RawDocumentBuf::new();
    let rewrite = Rewrite { root: empty.as_bytes(), moment };
    match rewrite.run(&targets)? {
        Some(bytes) => RawDocumentBuf::from_bytes(bytes).map_err(|_| crate::raw::malformed("a filter")),
        None => Ok(empty),
    }
}

fn check_matched_once(seen: &[(String, Operator)], path: &str) -> Result<()> {
    for (other, _) in seen {
        let message = if other == path {
            format!("cannot infer query fields to set, path '{path}' is matched twice")
        } else if path::leads_to(other, path) || path::leads_to(path, other) {
            format!("cannot infer query fields to set, both paths '{path}' and '{other}' are matched")
        } else {
            continue;
        };
        return Err(Failure::new(Code::NotSingleValueField, message));
    }
    Ok(())
}

/// The `_id` that a filter asks for, which is all that a replacement takes from it.
pub(super) fn id(filter: &Filter) -> Result<Option<Bson>> {
    let mut id = None;
    for (path, value) in filter.equalities() {
        if path == "_id" {
            if id.is_some() {
                let message = "cannot infer query fields to set, path '_id' is matched twice";
                return Err(Failure::new(Code::NotSingleValueField, message));
            }
            id = Some(value);
        } else if path::leads_to("_id", &path) {
            let message =
                format!("field at '_id' must be exactly specified, field at sub-path '{path}'found");
            return Err(Failure::new(Code::NotExactValueField, message));
        }
    }
    Ok(id)
}

/// Checks the `_id` of a document that is about to be inserted.
pub(super) fn check_inserted_id(document: &RawDocumentBuf) -> Result<()> {
    find(document.as_bytes(), b"_id")?.map_or(Ok(()), |id| check_id(&id))
}
