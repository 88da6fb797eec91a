//! `arrayFilters`: which elements `$[identifier]` means.
use super::array::matches_alone;
use super::parse::Leaf;
use super::path::Part;
use super::text::document_text;
use crate::raw::{Elements, kind, malformed};
use crate::{Code, Failure, Filter, Result, Variables};
use bson::{Document, RawBsonRef, RawDocument};

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

    /// Whether an element is one of those that the identifier means.
    pub(super) fn matches(&self, identifier: &str, element: RawBsonRef<'_>) -> Result<bool> {
        self.get(identifier).map_or(Ok(false), |filter| matches_alone(filter, identifier, element))
    }

    /// Fails if a filter occurs in no path.
    pub(super) fn check_all_used(&self, leaves: &[Leaf], update: &RawDocument) -> Result<()> {
        for (identifier, _) in &self.filters {
            let used = leaves
                .iter()
                .filter(|leaf| leaf.dynamic)
                .any(|leaf| leaf.path.split('.').any(|part| Part::of(part) == Part::Filtered(identifier)));
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

/// Finds the one name that all paths of a filter begin with.
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
