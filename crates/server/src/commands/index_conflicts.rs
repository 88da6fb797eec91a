//! Whether an index that is asked for stands already, or clashes with one that does (85, 86), as MongoDB 4.4 tells it.

use bson::{Bson, Document};
use fathom_query::{Code, Failure, compare_owned};

use crate::Result;
use crate::storage::{IndexSpec, State};

/// The most indexes of a collection.
const MOST_INDEXES: usize = 64;

/// True if the very index is there already; a failure if another one is in its way.
pub(super) fn stands_already(state: &State, spec: &IndexSpec) -> Result<bool> {
    let asked = spec.document();
    for index in &state.indexes {
        let existing = index.document();
        let same_name = index.name() == spec.name();
        let same_key = same_key(&existing, asked);
        let same_options = same_options(&existing, asked);
        match (same_name, same_key) {
            (true, true) if same_options => return Ok(true),
            (true, true) => {
                let what = format!(
                    "An equivalent index already exists with the same name but different options. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (true, false) => {
                let what = format!(
                    "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexKeySpecsConflict, what));
            }
            (false, true) if same_options => {
                let what = format!("Index already exists with a different name: {}", index.name());
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (false, true) => {
                let what = format!(
                    "An equivalent index already exists with a different name and options. Requested index: {asked}, existing index: {existing}"
                );
                return Err(Failure::new(Code::IndexOptionsConflict, what));
            }
            (false, false) => {}
        }
    }
    Ok(false)
}

/// Refuses one index too many.
pub(super) fn check_number(namespace: &str, before: usize, new: &[IndexSpec]) -> Result<()> {
    match new.last() {
        Some(last) if before + new.len() > MOST_INDEXES => Err(Failure::new(
            Code::CannotCreateIndex,
            format!("add index fails, too many indexes for {namespace} key:{}", last.key()),
        )),
        _ => Ok(()),
    }
}

/// Whether two specifications have the same key; 1 and 1.0 are the same.
pub(super) fn same_key(one: &Document, other: &Document) -> bool {
    match (one.get("key"), other.get("key")) {
        (Some(one), Some(other)) => compare_owned(one, other).is_eq(),
        _ => false,
    }
}

/// Whether two specifications say the same beside key, name, version and what has no effect.
fn same_options(one: &Document, other: &Document) -> bool {
    let options = |spec: &Document| -> Document {
        let mut kept: Vec<(String, Bson)> = spec
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "v" | "key" | "name" | "background"))
            .map(|(name, value)| match name.as_str() {
                // Any number that is not zero means true.
                "unique" | "sparse" => (name.clone(), Bson::Boolean(crate::storage::is_true(spec, name))),
                _ => (name.clone(), value.clone()),
            })
            .collect();
        kept.sort_by(|left, right| left.0.cmp(&right.0));
        kept.into_iter().collect()
    };
    compare_owned(&Bson::Document(options(one)), &Bson::Document(options(other))).is_eq()
}
