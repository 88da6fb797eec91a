//! Documents as tables hold them.

use bson::RawDocument;
use fathom_query::{Code, Failure};

use crate::Result;

/// Bytes that a table holds as a document.
pub(crate) fn document_of(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes)
        .map_err(|error| Failure::new(Code::InvalidBSON, format!("a record is not a BSON document: {error}")))
}
