//! Tasks on the source tree that users of Fathom do not need: its rules, and the slow tier of its tests.
//!
//! Every change builds this package before it is checked, so it depends on no other package of the tree. Nothing in the product may
//! import it.

pub mod proof;
pub mod quarantine;
pub mod quick;
pub mod tasks;
pub mod tidy;
