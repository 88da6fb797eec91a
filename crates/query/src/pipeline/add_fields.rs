//! `$addFields`, also called `$set`: computed fields beside those that are there.
//!
//! A dotted name and an object without operators reach into documents, and into every document of an array.

use std::collections::BTreeSet;

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Rows;
use super::context::Context;
use super::memory::sized;
use super::options::{object, refused};
use super::parse::Limits;
use super::stages::Stage;
use crate::expression::path::split;
use crate::expression::value::{DEPTH_MAX, Value, append, malformed, too_deep};
use crate::{Expression, Result, Variables};

/// The fields to compute.
#[derive(Clone, Debug)]
pub(super) struct AddFields {
    members: Vec<(String, Member)>,
}

#[derive(Clone, Debug)]
enum Member {
    Computed(Expression),
    Nested(Vec<(String, Member)>),
}

/// `$addFields: {...}`.
pub(super) fn parse(name: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 40272, &format!("{name} specification stage must be an object"))?;
    let mut members = Vec::new();
    collect(name, &mut members, &mut Vec::new(), document, limits)?;
    if members.is_empty() {
        return refused(
            40177,
            format!("Invalid {name} :: caused by :: specification must have at least one field"),
        );
    }
    Ok(vec![Stage::AddFields(AddFields { members })])
}

/// Reads the fields of an object below `path`.
fn collect(
    name: &str,
    members: &mut Vec<(String, Member)>,
    path: &mut Vec<String>,
    document: &RawDocument,
    limits: &Limits<'_>,
) -> Result<()> {
    for element in document.iter() {
        let (key, value) = element.map_err(malformed)?;
        let before = path.len();
        path.extend(split(key.as_str())?);
        if path.len() > DEPTH_MAX {
            return Err(too_deep());
        }
        match value {
            RawBsonRef::Document(inner) => match inner.iter().next().transpose().map_err(malformed)? {
                None => {
                    let shown = path.join(".");
                    let message = format!(
                        "Invalid {name} :: caused by :: an empty object is not a valid value. Found empty object at path {shown}"
                    );
                    return refused(40180, message);
                }
                Some((first, _)) if first.as_str().starts_with('$') => {
                    insert(members, path, Expression::parse_with(value, limits.variables)?)?;
                }
                Some(_) => collect(name, members, path, inner, limits)?,
            },
            other => insert(members, path, Expression::parse_with(other, limits.variables)?)?,
        }
        path.truncate(before);
    }
    Ok(())
}

fn insert(members: &mut Vec<(String, Member)>, path: &[String], expression: Expression) -> Result<()> {
    let collision = || refused(31250, format!("Path collision at {}", path.join(".")));
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let found = members.iter_mut().find(|(name, _)| name == first);
    match (found, rest.is_empty()) {
        (Some(_), true) | (Some((_, Member::Computed(_))), false) => collision(),
        (Some((_, Member::Nested(nested))), false) => insert(nested, rest, expression),
        (None, true) => {
            members.push((first.clone(), Member::Computed(expression)));
            Ok(())
        }
        (None, false) => {
            let mut nested = Vec::new();
            insert(&mut nested, rest, expression)?;
            members.push((first.clone(), Member::Nested(nested)));
            Ok(())
        }
    }
}

impl AddFields {
    /// The document with the fields.
    pub(super) fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        add(&self.members, document, document, variables).and_then(sized)
    }

    /// Collects the top-level fields that it reads or goes through; false if it may read any.
    pub(super) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        fn inner(members: &[(String, Member)], fields: &mut BTreeSet<String>) -> bool {
            members.iter().all(|(_, member)| match member {
                Member::Computed(expression) => expression.collect_fields(fields),
                Member::Nested(nested) => inner(nested, fields),
            })
        }
        fields.extend(self.members.iter().map(|(name, _)| name.clone()));
        inner(&self.members, fields)
    }

    pub(super) fn run(self, rows: Rows, context: &Context) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}

/// `document` with the members, computed from `root`.
fn add(
    members: &[(String, Member)],
    document: &RawDocument,
    root: &RawDocument,
    variables: &Variables,
) -> Result<RawDocumentBuf> {
    let mut result = RawDocumentBuf::new();
    let mut seen = vec![false; members.len()];
    for element in document.iter() {
        let (name, old) = element.map_err(malformed)?;
        let place = members.iter().position(|(member, _)| member == name.as_str());
        match place.and_then(|place| Some((members.get(place)?, seen.get_mut(place)?))) {
            Some(((_, member), seen)) => {
                *seen = true;
                append_member(&mut result, name.as_str(), member, Some(old), root, variables)?;
            }
            None => result.append(name, old),
        }
    }
    for ((name, member), seen) in members.iter().zip(seen) {
        if !seen {
            append_member(&mut result, name, member, None, root, variables)?;
        }
    }
    Ok(result)
}

fn append_member(
    result: &mut RawDocumentBuf,
    name: &str,
    member: &Member,
    old: Option<RawBsonRef<'_>>,
    root: &RawDocument,
    variables: &Variables,
) -> Result<()> {
    match member {
        Member::Computed(expression) => append(result, name, &expression.value(root, variables)?),
        Member::Nested(members) => match old {
            Some(RawBsonRef::Array(array)) => {
                let array = add_to_items(members, array, root, variables, 0)?;
                append(result, name, &Value::Raw(RawBsonRef::Array(&array)))
            }
            other => {
                let nothing = RawDocumentBuf::new();
                let inner = other.and_then(RawBsonRef::as_document).unwrap_or(&nothing);
                let inner = add(members, inner, root, variables)?;
                append(result, name, &Value::Raw(RawBsonRef::Document(&inner)))
            }
        },
    }
}

fn add_to_items(
    members: &[(String, Member)],
    array: &bson::RawArray,
    root: &RawDocument,
    variables: &Variables,
    depth: usize,
) -> Result<RawArrayBuf> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    let mut items = RawArrayBuf::new();
    let nothing = RawDocumentBuf::new();
    for item in array {
        match item.map_err(malformed)? {
            RawBsonRef::Array(inner) => items.push(add_to_items(members, inner, root, variables, depth + 1)?),
            other => items.push(add(members, other.as_document().unwrap_or(&nothing), root, variables)?),
        }
    }
    Ok(items)
}
