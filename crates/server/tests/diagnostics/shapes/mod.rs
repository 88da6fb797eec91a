//! Our replies beside those of a real mongod 4.0.3: the same fields, nesting and types, but for a list of differences, each with
//! its reason. A difference that is not listed fails, and so does a listed one that is gone.

mod allowed;
mod compare;
mod replies;
