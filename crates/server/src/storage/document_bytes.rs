//! Conversion of the bytes that tables store into documents.

use bson::RawDocument;
use fathom_query::{Code, Failure};

use crate::Result;

/// The document that bytes of a table hold.
pub(crate) fn document_of(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes)
        .map_err(|error| Failure::new(Code::InvalidBSON, format!("a record is not a BSON document: {error}")))
}
