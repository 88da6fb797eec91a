//! Compares our replies with those of a real mongod 4.0.3: fields, nesting and types must be equal, except for a list of differences,
//! each with its reason. An unlisted difference fails, and so does a listed one that no longer exists.

mod allowed;
mod compare;
mod replies;

pub(crate) use replies::shape_differences;
