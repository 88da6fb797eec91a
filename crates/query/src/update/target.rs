//! Resolves the paths of an update to places in one document: fills in positions, finds the elements that the array filter of
//! `$[identifier]` selects, and splits renames into a set and a removal.

use super::array::matches_alone;
use super::modify::{UpdateSite, ValueChange, replace_unless_same};
use super::operator::{Operator, PathUpdate, UpdateMoment};
use super::path::{self, PathPart, index_of};
use super::text::{document_text, element_text, id_text};
use crate::raw::{Element, Elements, Value, find, kind, malformed, write_index};
use crate::{Code, Failure, Filter, Result, Variables};
use bson::{Document, RawBsonRef, RawDocument};
use std::borrow::Cow;

/// One place that the update writes.
#[derive(Debug)]
pub(super) struct UpdateTarget<'u> {
    /// The path, which has only names and indexes.
    pub(super) path: Cow<'u, str>,
    pub(super) action: TargetAction<'u>,
}

/// The action on a target.
#[derive(Debug)]
pub(super) enum TargetAction<'u> {
    Operator(&'u Operator),
    /// Stores the value that a rename moves here.
    Put(Value),
    /// Removes the value that a rename moves away.
    Take,
}

impl TargetAction<'_> {
    pub(super) fn modify(&self, existing: &Element<'_>, site: UpdateSite<'_>) -> Result<ValueChange<'_>> {
        match self {
            TargetAction::Operator(operator) => operator.modify(existing, site),
            TargetAction::Put(value) => Ok(replace_unless_same(existing, value)),
            TargetAction::Take => Ok(ValueChange::Remove),
        }
    }

    pub(super) fn initial(&self, moment: &UpdateMoment<'_>) -> Result<Option<(u8, Cow<'_, [u8]>)>> {
        match self {
            TargetAction::Operator(operator) => operator.initial(moment),
            TargetAction::Put(value) => Ok(Some((value.kind(), Cow::Borrowed(value.bytes())))),
            TargetAction::Take => Ok(None),
        }
    }

    pub(super) fn tolerates_blocked_path(&self) -> bool {
        match self {
            TargetAction::Operator(operator) => operator.tolerates_blocked_path(),
            TargetAction::Put(_) => false,
            TargetAction::Take => true,
        }
    }
}

/// The targets of the leaves in one document, in the order of their paths.
pub(super) fn targets<'u>(
    leaves: &'u [PathUpdate],
    filters: &ArrayFilters,
    before: &RawDocument,
    moment: &UpdateMoment<'_>,
) -> Result<Vec<UpdateTarget<'u>>> {
    let mut targets = Vec::with_capacity(leaves.len());
    let mut moved = false;
    for leaf in leaves {
        if leaf.inserting_only && !moment.inserting {
            continue;
        }
        match &leaf.operator {
            Operator::RenamedAway => {}
            Operator::RenameFrom(from) => {
                moved = true;
                rename(from, &leaf.path, before.as_bytes(), &mut targets)?;
            }
            operator if leaf.dynamic => {
                moved = true;
                let mut expansion = Expansion { filters, moment, operator, targets: &mut targets };
                let parts: Vec<PathPart<'_>> = leaf.path.split('.').map(PathPart::from_text).collect();
                let root = Some((kind::DOCUMENT, before.as_bytes()));
                expansion.expand(&parts, root, &mut String::with_capacity(leaf.path.len()), "")?;
            }
            operator => targets.push(UpdateTarget {
                path: Cow::Borrowed(leaf.path.as_str()),
                action: TargetAction::Operator(operator),
            }),
        }
    }
    if moved {
        targets.sort_by(|left, right| path::order(&left.path, &right.path));
        for pair in targets.windows(2) {
            let [left, right] = pair else { continue };
            if path::leads_to(&left.path, &right.path) {
                let message = format!("Update created a conflict at '{}'", left.path);
                return Err(Failure::new(Code::ConflictingUpdateOperators, message));
            }
        }
    }
    Ok(targets)
}

struct Expansion<'e, 'u> {
    filters: &'e ArrayFilters,
    moment: &'e UpdateMoment<'e>,
    operator: &'u Operator,
    targets: &'e mut Vec<UpdateTarget<'u>>,
}

impl Expansion<'_, '_> {
    /// Continues from `current`, the type and bytes that `path` has led to, if it exists; `name` is its own name.
    fn expand(
        &mut self,
        parts: &[PathPart<'_>],
        current: Option<(u8, &[u8])>,
        path: &mut String,
        name: &str,
    ) -> Result<()> {
        let Some((part, rest)) = parts.split_first() else {
            self.targets.push(UpdateTarget {
                path: Cow::Owned(path.clone()),
                action: TargetAction::Operator(self.operator),
            });
            return Ok(());
        };
        match part {
            PathPart::Name(part) => self.descend(part, rest, current, path),
            PathPart::Matched => {
                let Some(position) = self.moment.matched.position else {
                    let message = "The positional operator did not find the match needed from the query.";
                    return Err(Failure::new(Code::BadValue, message));
                };
                self.descend(&position.to_string(), rest, current, path)
            }
            PathPart::Every => self.spread(None, rest, current, path, name),
            PathPart::Filtered(identifier) => self.spread(Some(identifier), rest, current, path, name),
        }
    }

    fn descend(
        &mut self,
        part: &str,
        rest: &[PathPart<'_>],
        current: Option<(u8, &[u8])>,
        path: &mut String,
    ) -> Result<()> {
        let child = match current {
            Some((kind::DOCUMENT, bytes)) => find(bytes, part.as_bytes())?,
            Some((kind::ARRAY, bytes)) => match index_of(part) {
                Some(index) => Elements::new(bytes)?.nth(index).transpose()?,
                None => None,
            },
            _ => None,
        };
        let length = path.len();
        extend(path, part);
        self.expand(rest, child.map(|child| (child.kind, child.value)), path, part)?;
        path.truncate(length);
        Ok(())
    }

    fn spread(
        &mut self,
        identifier: Option<&str>,
        rest: &[PathPart<'_>],
        current: Option<(u8, &[u8])>,
        path: &mut String,
        name: &str,
    ) -> Result<()> {
        let bad_value = |message: String| Err(Failure::new(Code::BadValue, message));
        let Some((found, array)) = current else {
            return bad_value(format!(
                "The path '{path}' must exist in the document in order to apply array updates."
            ));
        };
        if found != kind::ARRAY {
            let text = super::text::named_text(name, &Value::new(found, array)?)?;
            return bad_value(format!("Cannot apply array updates to non-array element {text}"));
        }
        let views = RawDocument::from_bytes(array).map_err(|_| malformed("an array's length is wrong"))?;
        for (index, (element, view)) in Elements::new(array)?.zip(views.iter()).enumerate() {
            let element = element?;
            if let Some(identifier) = identifier {
                let (_, view) = view.map_err(|_| malformed("an array's element is not well formed"))?;
                if !self.filters.matches(identifier, view)? {
                    continue;
                }
            }
            let mut digits = Vec::with_capacity(8);
            write_index(index, &mut digits);
            let part = String::from_utf8_lossy(&digits);
            let length = path.len();
            extend(path, &part);
            self.expand(rest, Some((element.kind, element.value)), path, &part)?;
            path.truncate(length);
        }
        Ok(())
    }
}

fn extend(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(part);
}

fn rename<'u>(from: &'u str, to: &'u str, root: &[u8], targets: &mut Vec<UpdateTarget<'u>>) -> Result<()> {
    let Some(value) = source(from, root)? else { return Ok(()) };
    check_destination(to, root)?;
    targets.push(UpdateTarget { path: Cow::Borrowed(to), action: TargetAction::Put(value) });
    targets.push(UpdateTarget { path: Cow::Borrowed(from), action: TargetAction::Take });
    Ok(())
}

fn through_array<T>(what: &str, path: &str, root: &[u8], array: &str) -> Result<T> {
    let message = format!(
        "The {what} field cannot be an array element, '{path}' in doc with {} has an array field called '{array}'",
        id_text(root)?
    );
    Err(Failure::new(Code::BadValue, message))
}

/// The value at the source path of a rename; `None` if there is none.
fn source(path: &str, root: &[u8]) -> Result<Option<Value>> {
    let mut parts = path.split('.').peekable();
    let mut document = root;
    while let Some(part) = parts.next() {
        let Some(element) = find(document, part.as_bytes())? else { return Ok(None) };
        let Some(next) = parts.peek() else { return Value::from_element(&element).map(Some) };
        match element.kind {
            kind::DOCUMENT => document = element.value,
            kind::ARRAY if index_of(next).is_some() => {
                return through_array("source", path, root, part);
            }
            _ => {
                let text = element_text(&element)?;
                let message =
                    format!("cannot use the part ({part} of {path}) to traverse the element ({{{text}}})");
                return Err(Failure::new(Code::PathNotViable, message));
            }
        }
    }
    Ok(None)
}

fn check_destination(path: &str, root: &[u8]) -> Result<()> {
    let mut parts = path.split('.').peekable();
    let mut document = root;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            break;
        }
        match find(document, part.as_bytes())? {
            Some(element) if element.kind == kind::ARRAY => {
                return through_array("destination", path, root, part);
            }
            Some(element) if element.kind == kind::DOCUMENT => document = element.value,
            _ => break,
        }
    }
    Ok(())
}

/// Filters by their identifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayFilters {
    filters: Vec<(String, Filter)>,
}

fn failed<T>(message: String) -> Result<T> {
    Err(Failure::new(Code::FailedToParse, message))
}

impl ArrayFilters {
    pub(super) fn parse(filters: &[&RawDocument], variables: &Variables) -> Result<ArrayFilters> {
        let mut parsed = ArrayFilters::default();
        for filter in filters {
            let mut identifier = None;
            find_identifier(filter.as_bytes(), &mut identifier, 0)?;
            let Some(identifier) = identifier else {
                return failed(
                    "Cannot use an expression without a top-level field name in arrayFilters".to_string(),
                );
            };
            let alphanumeric = identifier.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !alphanumeric || !identifier.starts_with(|first: char| first.is_ascii_lowercase()) {
                let message = format!(
                    "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{identifier}'"
                );
                return Err(Failure::new(Code::BadValue, message));
            }
            if parsed.get(&identifier).is_some() {
                return failed(format!(
                    "Found multiple array filters with the same top-level field name {identifier}"
                ));
            }
            parsed.filters.push((identifier, Filter::parse(filter, variables)?));
        }
        Ok(parsed)
    }

    /// The filter of an identifier.
    pub(super) fn get(&self, identifier: &str) -> Option<&Filter> {
        self.filters.iter().find(|(own, _)| own == identifier).map(|(_, filter)| filter)
    }

    /// Whether the identifier's filter matches an element.
    pub(super) fn matches(&self, identifier: &str, element: RawBsonRef<'_>) -> Result<bool> {
        self.get(identifier).map_or(Ok(false), |filter| matches_alone(filter, identifier, element))
    }

    /// Fails if a filter occurs in no path.
    pub(super) fn check_all_used(&self, leaves: &[PathUpdate], update: &RawDocument) -> Result<()> {
        for (identifier, _) in &self.filters {
            let used = leaves.iter().filter(|leaf| leaf.dynamic).any(|leaf| {
                leaf.path.split('.').any(|part| PathPart::from_text(part) == PathPart::Filtered(identifier))
            });
            if !used {
                let update = Document::try_from(update).map_err(|_| malformed("an update"))?;
                return failed(format!(
                    "The array filter for identifier '{identifier}' was not used in the update {}",
                    document_text(&update)
                ));
            }
        }
        Ok(())
    }
}

/// Finds the single name with which all paths of a filter begin.
fn find_identifier(filter: &[u8], identifier: &mut Option<String>, depth: usize) -> Result<()> {
    if depth > 100 {
        return Err(crate::raw::too_deep());
    }
    for element in Elements::new(filter)? {
        let element = element?;
        let name = element.name_text()?;
        if matches!(name, "$and" | "$or" | "$nor") && element.kind == kind::ARRAY {
            for branch in Elements::new(element.value)? {
                let branch = branch?;
                if branch.kind == kind::DOCUMENT {
                    find_identifier(branch.value, identifier, depth + 1)?;
                }
            }
            continue;
        }
        if matches!(name, "$expr" | "$where" | "$text" | "$jsonSchema") {
            return Err(Failure::new(Code(224), format!("{name} is not allowed in this context")));
        }
        let own = name.split('.').next().unwrap_or_default();
        match identifier {
            Some(other) if other != own => {
                return failed(format!(
                    "Error parsing array filter :: caused by :: Expected a single top-level field name, found '{other}' and '{own}'"
                ));
            }
            Some(_) => {}
            None => *identifier = Some(own.to_string()),
        }
    }
    Ok(())
}
