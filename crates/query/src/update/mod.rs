//! Updates: what a document becomes.
use crate::{Filter, Matched, Result, Variables};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};

/// A parsed update: operators, a replacement, or a pipeline.
#[derive(Clone, Debug)]
pub struct Update {}

/// What an update needs to know of the moment.
#[derive(Clone, Copy, Debug)]
pub struct UpdateMoment<'a> {
    /// Where the filter matched (`$`).
    pub matched: Matched,
    /// Whether the document is being inserted by an upsert (`$setOnInsert`).
    pub inserting: bool,
    /// `$$NOW`, `$currentDate` and `let`.
    pub variables: &'a Variables,
    /// What `$currentDate: {$type: "timestamp"}` writes.
    pub timestamp: Timestamp,
}

/// The outcome for one document.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// Nothing changes (`nModified` does not count it).
    Unchanged,
    /// The new document.
    Changed(RawDocumentBuf),
}

impl Update {
    /// Parses `u` of an update command: a document of operators, a replacement document, or a pipeline array.
    pub fn parse(
        _update: RawBsonRef<'_>,
        _array_filters: &[&RawDocument],
        _variables: &Variables,
    ) -> Result<Update> {
        Ok(Update {})
    }

    /// Whether it replaces the whole document (not allowed with `multi`).
    pub fn is_replacement(&self) -> bool {
        false
    }

    /// The dotted paths that it may write; none when it may write anything. Lets the server skip indexes it cannot touch.
    pub fn paths(&self) -> Option<&[String]> {
        None
    }

    /// The document after the update. `_id` may not change (66); the result may not exceed 16 MiB (10334, `BSONObjectTooLarge`).
    pub fn apply(&self, _before: &RawDocument, _moment: &UpdateMoment<'_>) -> Result<Applied> {
        Ok(Applied::Unchanged)
    }

    /// The document that an upsert inserts: the filter's equalities, then the update. `_id` comes first, if there is one; the
    /// caller adds one where there is none.
    pub fn upsert(&self, _filter: &Filter, _moment: &UpdateMoment<'_>) -> Result<RawDocumentBuf> {
        Ok(RawDocumentBuf::new())
    }
}
