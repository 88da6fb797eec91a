//! Names of databases and collections, and the rules by which some are refused.

use fathom_query::{Code, Failure};
use fathom_service::check_database_name;

use crate::Result;

/// The maximum length of `database.collection` in bytes, since 4.4.
const MAX_BYTES: usize = 255;

/// Refuses a full name that a new collection may not have.
pub(crate) fn check(namespace: &str) -> Result<()> {
    let invalid = |why: &str| {
        Err(Failure::new(Code::InvalidNamespace, format!("Invalid namespace specified '{namespace}'{why}")))
    };
    let Some((database, collection)) = namespace.split_once('.') else { return invalid("") };
    check_database_name(database)?;
    if collection.is_empty() {
        return invalid(": the collection name cannot be empty");
    }
    if collection.starts_with('.') || collection.ends_with('.') || collection.contains('\0') {
        return invalid("");
    }
    if collection.contains('$') && namespace != "local.oplog.$main" {
        return invalid(": the collection name cannot contain '$'");
    }
    if namespace.len() > MAX_BYTES {
        return invalid(": it is longer than 255 bytes");
    }
    Ok(())
}

/// Whether clients may not write to the collection themselves.
pub(crate) fn is_internal(namespace: &str) -> bool {
    let collection = namespace.split_once('.').map_or("", |(_, collection)| collection);
    collection.starts_with("system.")
        && !matches!(collection, "system.js" | "system.profile" | "system.views")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_refused_and_common_ones_are_not() {
        for good in ["a.b", "ycsb.usertable", "a.b.c", "admin.system.users", "a.system.profile"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["a", "a.", ".b", "a b.c", "a.$b", "a.b.", "a/b.c", "a..b", "a.b\0c"] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check(&format!("a.{}", "x".repeat(254))).is_err());
    }
}
