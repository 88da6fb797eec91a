//! `$project`, and `$unset`, which is a projection that leaves fields out.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::Rows;
use super::context::Context;
use super::memory::sized;
use super::options::{kind, object, refused};
use super::parse::Limits;
use super::stages::Stage;
use crate::expression::value::malformed;
use crate::{Code, Dialect, Failure, Matched, Projection, Result, Variables};

/// A projection.
#[derive(Clone, Debug)]
pub(super) struct Project {
    projection: Projection,
}

/// `$project: {...}`.
pub(super) fn parse(name: &'static str, value: RawBsonRef<'_>, limits: &Limits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 15969, "$project specification must be an object")?;
    of_document(name, document, limits)
}

fn of_document(name: &str, document: &RawDocument, limits: &Limits<'_>) -> Result<Vec<Stage>> {
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
    limits: &Limits<'_>,
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
    /// The projected document.
    pub(super) fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        self.projection.apply(document, Matched::default(), variables).and_then(sized)
    }

    /// The paths that it keeps, if it only keeps.
    pub(super) fn included_paths(&self) -> Option<Vec<&str>> {
        self.projection.included_paths()
    }

    pub(super) fn run(self, rows: Rows, context: &Context) -> Rows {
        let variables = context.variables.clone();
        Box::new(rows.map(move |row| self.apply(&row?, &variables)))
    }
}
