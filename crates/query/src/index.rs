//! Which keys a document has in an index.
//!
//! Two arrays in parallel are refused, and arrays under hashed fields. Keys have no limit of length, as since MongoDB 4.2.
use crate::hash::hash64;
use crate::paths::{self, Found};
use crate::{Bound, Code, Failure, FieldKind, KeyBuilder, KeyPattern, KeyString, Result};
use bson::{RawBsonRef, RawDocument};

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
    pattern: KeyPattern,
    sparse: bool,
    hashed: bool,
    id: bool,
}

impl KeyExtractor {
    /// For a pattern; a sparse index has no key for a document that has none of the fields.
    pub fn new(pattern: KeyPattern, sparse: bool) -> Self {
        let hashed = pattern.fields.iter().any(|field| field.kind == FieldKind::Hashed);
        KeyExtractor { sparse, hashed, id: pattern.is_id(), pattern }
    }

    /// The pattern.
    pub fn pattern(&self) -> &KeyPattern {
        &self.pattern
    }

    /// The keys of `document`, in place of those that `keys` had, whose memory is used again. Two arrays in parallel paths are
    /// refused (171); an array under a hashed field too (16766).
    pub fn extract(&self, document: &RawDocument, keys: &mut IndexKeys) -> Result<()> {
        keys.multikey = false;
        let mut key = keys.keys.pop().unwrap_or_default();
        keys.keys.clear();
        let mut builder = KeyBuilder::reuse(std::mem::take(&mut key));
        let mut missing = 0;
        for field in &self.pattern.fields {
            let found = paths::find(document, &field.path)?;
            let value = match found {
                None => {
                    missing += 1;
                    RawBsonRef::Null
                }
                Some(Found { value: RawBsonRef::Array(_), rest, .. }) if self.hashed => {
                    return Err(hashed_array(&field.path, rest));
                }
                // The _id is never gone into; a document whose _id is an array is refused before it comes here.
                Some(Found { value: RawBsonRef::Array(_), .. }) if !self.id => {
                    return self.extract_through_arrays(document, keys);
                }
                Some(found) => found.value,
            };
            append(&mut builder, value, field.kind);
        }
        if !(self.sparse && missing == self.pattern.fields.len()) {
            builder.check()?;
            keys.keys.push(builder.finish(Bound::Exact));
        }
        Ok(())
    }

    fn extract_through_arrays(&self, document: &RawDocument, keys: &mut IndexKeys) -> Result<()> {
        let fields = &self.pattern.fields;
        let found = &mut keys.keys;
        let mut take = |values: &[RawBsonRef<'_>], missing: bool| {
            if self.sparse && missing {
                return Ok(());
            }
            let mut builder = KeyBuilder::new();
            for (value, field) in values.iter().zip(fields) {
                append(&mut builder, *value, field.kind);
            }
            builder.check()?;
            found.push(builder.finish(Bound::Exact));
            Ok(())
        };
        keys.multikey = paths::tuples(document, fields.iter().map(|field| field.path.as_str()), &mut take)?;
        keys.keys.sort_unstable();
        // Numbers of two types that are equal make one key.
        keys.keys.dedup_by(|later, earlier| later.bytes == earlier.bytes);
        Ok(())
    }
}

fn append(builder: &mut KeyBuilder, value: RawBsonRef<'_>, kind: FieldKind) {
    match kind {
        FieldKind::Ascending => builder.append(value, false),
        FieldKind::Descending => builder.append(value, true),
        FieldKind::Hashed => builder.append(RawBsonRef::Int64(hash64(value)), false),
    }
}

fn hashed_array(path: &str, rest: &str) -> Failure {
    let walked = path.strip_suffix(rest).unwrap_or(path);
    Failure::new(
        Code(16766),
        format!(
            "Error: hashed indexes do not currently support array values. Found array at path: {}",
            walked.strip_suffix('.').unwrap_or(walked)
        ),
    )
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
