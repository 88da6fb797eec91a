//! Documents as bytes: walked, cut and put together without decoding what is not looked at.
//!
//! The BSON library's views hide where an element lies; updates and projections copy elements whole, so they walk the
//! bytes themselves. Every length is checked against the bytes that there are.
mod builder;
mod elements;
mod value;

pub(crate) use builder::{Builder, close, write_index};
pub(crate) use elements::{Element, Elements, find, kind};
pub(crate) use value::Value;

use crate::{Code, Failure};

/// What a document that is nested beyond all that is stored is answered with.
pub(crate) fn too_deep() -> Failure {
    Failure::new(Code::Overflow, "Document exceeds maximum nesting depth of 200")
}

/// What a document that is not one is answered with.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(Code::InvalidBSON, format!("Malformed BSON: {what}"))
}
