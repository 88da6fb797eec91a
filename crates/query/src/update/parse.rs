//! Parses a document of update operators into leaves: one for each path, in the order in which they are applied.
use super::operator::{Operator, PathUpdate, unknown_modifier};
use super::path::{self, PathPart};
use super::storage;
use super::target::ArrayFilters;
use super::text::type_name;
use crate::raw::{Element, Elements, kind};
use crate::{Code, Failure, Result, Variables};
use bson::RawDocument;

/// Parses a document whose first field begins with a dollar. Returns the leaves in the order of their paths.
pub(super) fn operators(
    update: &RawDocument,
    filters: &ArrayFilters,
    variables: &Variables,
) -> Result<Vec<PathUpdate>> {
    let mut leaves = Vec::new();
    for modifier in Elements::new(update.as_bytes())? {
        let modifier = modifier?;
        let name = modifier.name_text()?;
        check_modifier(name, &modifier)?;
        for field in Elements::new(modifier.value)? {
            push_leaf(name, &field?, filters, variables, &mut leaves)?;
        }
    }
    filters.check_all_used(&leaves, update)?;
    // Few updates have more than one path; those with one cannot conflict and are in order.
    if leaves.len() > 1 {
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        let path_of = |place: usize| leaves.get(place).map_or("", |leaf| leaf.path.as_str());
        order.sort_by(|left, right| path::order(path_of(*left), path_of(*right)));
        let sorted: Vec<(&str, usize)> = order.iter().map(|place| (path_of(*place), *place)).collect();
        path::check_conflicts(&sorted)?;
        leaves.sort_by(|left, right| path::order(&left.path, &right.path));
    }
    Ok(leaves)
}

fn check_modifier(name: &str, modifier: &Element<'_>) -> Result<()> {
    let failed = |message: String| Err(Failure::new(Code::FailedToParse, message));
    let known = matches!(
        name,
        "$set"
            | "$unset"
            | "$inc"
            | "$mul"
            | "$min"
            | "$max"
            | "$rename"
            | "$setOnInsert"
            | "$currentDate"
            | "$bit"
            | "$push"
            | "$addToSet"
            | "$pull"
            | "$pullAll"
            | "$pop"
    );
    if !known {
        return Err(unknown_modifier(name));
    }
    if modifier.kind != kind::DOCUMENT {
        let text = super::text::element_text(modifier)?;
        return failed(format!(
            "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{text}}}",
            type_name(modifier.kind)
        ));
    }
    if Elements::new(modifier.value)?.next().is_none() {
        return failed(format!(
            "'{name}' is empty. You must specify a field like so: {{{name}: {{<field>: ...}}}}"
        ));
    }
    Ok(())
}

fn push_leaf(
    name: &str,
    field: &Element<'_>,
    filters: &ArrayFilters,
    variables: &Variables,
    leaves: &mut Vec<PathUpdate>,
) -> Result<()> {
    let path = field.name_text()?;
    path::check(path, !matches!(name, "$unset" | "$pull" | "$pullAll" | "$pop" | "$rename"))?;
    let dynamic = path::is_dynamic(path);
    let operator = Operator::parse(name, field, variables)?;
    check_identifiers(path, filters)?;
    let depth = path.split('.').count() + usize::from(operator.stores_elements());
    for value in operator.stored_values() {
        storage::check_value(value.kind(), value.bytes(), path, depth)?;
    }
    if let (Operator::RenameFrom(from), Some(to)) = (&operator, field.text()?) {
        path::check(to, true)?;
        let from = PathUpdate {
            path: from.clone(),
            operator: Operator::RenamedAway,
            inserting_only: false,
            dynamic: false,
        };
        leaves.push(from);
        leaves.push(PathUpdate { path: to.to_string(), operator, inserting_only: false, dynamic: false });
        return Ok(());
    }
    leaves.push(PathUpdate {
        path: path.to_string(),
        operator,
        inserting_only: name == "$setOnInsert",
        dynamic,
    });
    Ok(())
}

fn check_identifiers(path: &str, filters: &ArrayFilters) -> Result<()> {
    if !path.contains('$') {
        return Ok(());
    }
    for part in path.split('.') {
        if let PathPart::Filtered(identifier) = PathPart::from_text(part)
            && filters.get(identifier).is_none()
        {
            let message = format!("No array filter found for identifier '{identifier}' in path '{path}'");
            return Err(Failure::new(Code::BadValue, message));
        }
    }
    Ok(())
}
