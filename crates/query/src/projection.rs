//! Projections: which fields come back.
use crate::{Matched, Result, Variables};
use bson::{RawDocument, RawDocumentBuf};

/// Whose rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `find`: also `$slice`, `$elemMatch` and the positional `path.$`.
    Find,
    /// `$project` of a pipeline.
    Aggregate,
}

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {}

impl Projection {
    /// Parses a projection document; an empty one keeps everything (none).
    pub fn parse(
        _projection: &RawDocument,
        _dialect: Dialect,
        _variables: &Variables,
    ) -> Result<Option<Projection>> {
        Ok(None)
    }

    /// Whether it needs to know where the filter matched in an array.
    pub fn is_positional(&self) -> bool {
        false
    }

    /// The top-level and dotted fields that it needs, when it is a plain inclusion without computed fields: lets a covered
    /// plan skip the record.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        None
    }

    /// The projected document.
    pub fn apply(
        &self,
        document: &RawDocument,
        _matched: Matched,
        _variables: &Variables,
    ) -> Result<RawDocumentBuf> {
        Ok(document.to_owned())
    }
}
