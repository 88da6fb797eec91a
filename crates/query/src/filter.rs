//! Filters: which documents a query means.
use crate::{Result, Variables};
use bson::{Bson, RawDocument};

/// A parsed filter.
#[derive(Clone, Debug)]
pub struct Filter {}

/// That a document matched, and where in an array the positional operator `$` points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// The index within the array that the filter went through, if it went through one.
    pub position: Option<usize>,
}

impl Filter {
    /// Parses a filter document.
    pub fn parse(_filter: &RawDocument, _variables: &Variables) -> Result<Filter> {
        Ok(Filter {})
    }

    /// Whether every document matches.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// The value of `_id` when the filter is exactly `{_id: <scalar>}` (or `{_id: {$eq: <scalar>}}`): the fast path.
    pub fn only_id(&self) -> Option<&Bson> {
        None
    }

    /// Whether `document` matches, and where. Fails where an `$expr` fails.
    pub fn matches(&self, _document: &RawDocument) -> Result<Option<Matched>> {
        Ok(None)
    }

    /// The dotted paths that the filter holds to one value by equality (top level, `$and`, `$eq`, single `$in`), in order: what an upsert begins with.
    pub fn equalities(&self) -> Vec<(String, Bson)> {
        Vec::new()
    }
}
