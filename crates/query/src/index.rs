//! Which keys a document has in an index.
use crate::{KeyString, Result};
use bson::RawDocument;

/// How one field of an index is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
    /// By the hash of its value.
    Hashed,
}

/// One field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// The dotted path.
    pub path: String,
    /// How it is kept.
    pub kind: FieldKind,
}

/// The fields of an index, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// At least one, at most 32.
    pub fields: Vec<KeyField>,
}

impl KeyPattern {
    /// Reads `{a: 1, b: -1, c: "hashed"}`; text, 2d, 2dsphere and wildcard patterns are refused by name (67).
    pub fn parse(_pattern: &RawDocument) -> Result<KeyPattern> {
        Ok(KeyPattern { fields: Vec::new() })
    }
}

/// The keys of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    /// Sorted, each once.
    pub keys: Vec<KeyString>,
    /// Whether a path crossed an array, so that the index is multikey from now on.
    pub multikey: bool,
}

/// Takes keys out of documents for one index.
#[derive(Clone, Debug)]
pub struct KeyExtractor {
    #[allow(dead_code, reason = "skeleton")]
    pattern: KeyPattern,
}

impl KeyExtractor {
    /// For a pattern; a sparse index has no key for a document that has none of the fields.
    pub fn new(pattern: KeyPattern, _sparse: bool) -> Self {
        KeyExtractor { pattern }
    }

    /// The keys of `document`. Two arrays in parallel paths are refused (171); an array under a hashed field too (16766).
    pub fn extract(&self, _document: &RawDocument, _keys: &mut IndexKeys) -> Result<()> {
        Ok(())
    }
}
