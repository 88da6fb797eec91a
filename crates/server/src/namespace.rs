//! Names of databases and collections, and which of them are refused.

use fathom_query::{Code, Failure};

use crate::Result;

/// The longest `database.collection`, in bytes, since 4.4.
const LONGEST_BYTES: usize = 255;

/// Refuses a full name that no new collection may have.
pub(crate) fn check(namespace: &str) -> Result<()> {
    let invalid = |why: &str| {
        Err(Failure::new(Code::InvalidNamespace, format!("Invalid namespace specified '{namespace}'{why}")))
    };
    let Some((database, collection)) = namespace.split_once('.') else { return invalid("") };
    check_database(database)?;
    if collection.is_empty() {
        return invalid(": the collection name cannot be empty");
    }
    if collection.starts_with('.') || collection.ends_with('.') || collection.contains('\0') {
        return invalid("");
    }
    if collection.contains('$') && namespace != "local.oplog.$main" {
        return invalid(": the collection name cannot contain '$'");
    }
    if namespace.len() > LONGEST_BYTES {
        return invalid(": it is longer than 255 bytes");
    }
    Ok(())
}

/// Refuses a name that no database may have.
pub(crate) fn check_database(database: &str) -> Result<()> {
    let forbidden = |byte: &u8| matches!(byte, b'/' | b'\\' | b'.' | b' ' | b'"' | b'$' | 0);
    if database.is_empty() || database.len() >= 64 || database.as_bytes().iter().any(forbidden) {
        return Err(Failure::new(Code::InvalidNamespace, format!("Invalid database name: '{database}'")));
    }
    Ok(())
}

/// Whether clients may not write here by themselves.
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
        assert!(check_database(&"x".repeat(64)).is_err());
    }
}
