//! The stages that turn each row into one other document: `$project` and `$unset`, `$addFields` (also called
//! `$set`), `$replaceRoot` and `$replaceWith`. An update by a pipeline consists of them.
//!
//! In `$addFields` a dotted name and an object without operators apply to subdocuments, and to every document of an array.
//! `$unset` is a projection that excludes fields.

use std::collections::BTreeSet;

use bson::{Bson, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use super::context::{Rows, StageContext, sized};
use super::parse::{StageLimits, kind, members, object, refused};
use super::stages::Stage;
use crate::expression::path::split;
use crate::expression::show::show;
use crate::expression::value::{MAX_DEPTH, Value, append, malformed, too_deep};
use crate::{Code, Dialect, Expression, Failure, FilterMatch, Projection, Result, Variables};

/// `$project` or `$unset`: a projection.
#[derive(Clone, Debug)]
pub(super) struct Project {
    projection: Projection,
}

pub(super) fn parse_project(
    name: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let document = object(value, 15969, "$project specification must be an object")?;
    of_document(name, document, limits)
}

fn of_document(name: &str, document: &RawDocument, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    match Projection::parse(document, Dialect::Aggregate, limits.variables)? {
        Some(projection) => Ok(vec![Stage::Project(Project { projection })]),
        None => {
            let message = format!(
                "Invalid {name} :: caused by :: projection specification must have at least one field"
            );
            refused(51272, message)
        }
    }
}

/// `$unset: "path"` or an array of paths.
pub(super) fn parse_unset(
    name: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let mut document = RawDocumentBuf::new();
    let mut leave_out = |value: RawBsonRef<'_>| {
        let Some(path) = value.as_str() else {
            let message = format!(
                "$unset specification must be a string or an array containing only string values, found {}",
                kind(value)
            );
            return refused(31120, message);
        };
        if path.starts_with('$') {
            return refused(16410, "FieldPath field names may not start with '$'.");
        }
        let key: &bson::raw::CStr = path.try_into().map_err(malformed)?;
        document.append(key, 0_i32);
        Ok(())
    };
    match value {
        RawBsonRef::String(_) => leave_out(value)?,
        RawBsonRef::Array(paths) => {
            for path in paths {
                leave_out(path.map_err(malformed)?)?;
            }
        }
        _ => return refused(31002, "$unset specification must be a string or an array"),
    }
    if document.is_empty() {
        return Err(Failure::new(
            Code(31119),
            "$unset specification must be a string or an array with at least one field",
        ));
    }
    of_document(name, &document, limits)
}

impl Project {
    fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        self.projection.apply(document, FilterMatch::default(), variables).and_then(sized)
    }

    /// The paths that it includes, if it only includes.
    pub(super) fn included_paths(&self) -> Option<Vec<&str>> {
        self.projection.included_paths()
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}

/// `$addFields`: the fields to compute.
#[derive(Clone, Debug)]
pub(super) struct AddFields {
    members: Vec<(String, ShapeField)>,
}

#[derive(Clone, Debug)]
enum ShapeField {
    Computed(Expression),
    Nested(Vec<(String, ShapeField)>),
}

pub(super) fn parse_add_fields(
    name: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
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
    members: &mut Vec<(String, ShapeField)>,
    path: &mut Vec<String>,
    document: &RawDocument,
    limits: &StageLimits<'_>,
) -> Result<()> {
    for element in document.iter() {
        let (key, value) = element.map_err(malformed)?;
        let before = path.len();
        path.extend(split(key.as_str())?);
        if path.len() > MAX_DEPTH {
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

fn insert(members: &mut Vec<(String, ShapeField)>, path: &[String], expression: Expression) -> Result<()> {
    let collision = || refused(31250, format!("Path collision at {}", path.join(".")));
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    let found = members.iter_mut().find(|(name, _)| name == first);
    match (found, rest.is_empty()) {
        (Some(_), true) | (Some((_, ShapeField::Computed(_))), false) => collision(),
        (Some((_, ShapeField::Nested(nested))), false) => insert(nested, rest, expression),
        (None, true) => {
            members.push((first.clone(), ShapeField::Computed(expression)));
            Ok(())
        }
        (None, false) => {
            let mut nested = Vec::new();
            insert(&mut nested, rest, expression)?;
            members.push((first.clone(), ShapeField::Nested(nested)));
            Ok(())
        }
    }
}

impl AddFields {
    /// The document with the fields.
    fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        add(&self.members, document, document, variables).and_then(sized)
    }

    /// Collects the top-level fields that it reads or walks through; false if it may read any.
    pub(super) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        fn inner(members: &[(String, ShapeField)], fields: &mut BTreeSet<String>) -> bool {
            members.iter().all(|(_, member)| match member {
                ShapeField::Computed(expression) => expression.collect_fields(fields),
                ShapeField::Nested(nested) => inner(nested, fields),
            })
        }
        fields.extend(self.members.iter().map(|(name, _)| name.clone()));
        inner(&self.members, fields)
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}

/// `document` with the members, whose values are computed from `root`.
fn add(
    members: &[(String, ShapeField)],
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
    member: &ShapeField,
    old: Option<RawBsonRef<'_>>,
    root: &RawDocument,
    variables: &Variables,
) -> Result<()> {
    match member {
        ShapeField::Computed(expression) => append(result, name, &expression.value(root, variables)?),
        ShapeField::Nested(members) => match old {
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
    members: &[(String, ShapeField)],
    array: &bson::RawArray,
    root: &RawDocument,
    variables: &Variables,
    depth: usize,
) -> Result<RawArrayBuf> {
    if depth > MAX_DEPTH {
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

/// `$replaceRoot` or `$replaceWith`: the expression.
#[derive(Clone, Debug)]
pub(super) struct ReplaceRoot {
    expression: Expression,
}

/// The stage `$replaceRoot: {newRoot: expression}`.
pub(super) fn parse_replace_root(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let document = object(value, 40229, "expected an object as specification for $replaceRoot stage")?;
    let unknown = (40230, "unrecognized option to $replaceRoot stage, only valid option is 'newRoot'");
    let [Some(root)] = members(document, ["newRoot"], unknown)? else {
        return refused(40231, "no newRoot specified for the $replaceRoot stage");
    };
    of_expression(root, limits)
}

/// The stage `$replaceWith: expression`.
pub(super) fn parse_replace_with(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    of_expression(value, limits)
}

fn of_expression(value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let expression = Expression::parse_with(value, limits.variables)?;
    Ok(vec![Stage::ReplaceRoot(ReplaceRoot { expression })])
}

impl ReplaceRoot {
    fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        let root = match self.expression.value(document, variables)? {
            Value::Raw(RawBsonRef::Document(root)) => root.to_owned(),
            Value::Ref(Bson::Document(root)) => RawDocumentBuf::try_from(root).map_err(malformed)?,
            Value::Own(Bson::Document(root)) => RawDocumentBuf::try_from(&root).map_err(malformed)?,
            other => {
                let message = format!(
                    "'newRoot' expression must evaluate to an object, but resulting value was: {}. Type of resulting value: \
                     '{}'. Input document: {}",
                    show(&other),
                    other.type_name(),
                    show(&Value::Raw(RawBsonRef::Document(document)))
                );
                return refused(40228, message);
            }
        };
        sized(root)
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}

/// Applies stages that were parsed for an update to a document.
pub(super) fn transform(
    stages: &[Stage],
    document: &RawDocument,
    variables: &Variables,
) -> Result<RawDocumentBuf> {
    let mut current = document.to_owned();
    for stage in stages {
        current = match stage {
            Stage::Project(stage) => stage.apply(&current, variables)?,
            Stage::AddFields(stage) => stage.apply(&current, variables)?,
            Stage::ReplaceRoot(stage) => stage.apply(&current, variables)?,
            _ => {
                return Err(Failure::new(
                    Code::InvalidOptions,
                    "the stage is not allowed to be used within an update",
                ));
            }
        };
    }
    Ok(current)
}
