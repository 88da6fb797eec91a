//! The WiredTiger engine: the storage library of MongoDB, opened and filled as mongod 4.0 does it.
//!
//! The settings are mongod's, in its order (`options`, `creation`); where the linked version of the library has renamed one, the new
//! name is used. A session keeps its cursors between operations, because opening one costs more than a look-up. After a
//! write or sync that failed the engine stops (`fault`): going on would lose what was promised.
//!
//! It refuses what it cannot keep: a key of the wrong kind, an empty key, a directory that another engine filled.
//!
//! Unsafe code stands in the thin wrappers of WiredTiger's three handles (`connection`, `cursor_handle`), in the
//! callbacks (`events`) and where a lock outlives a function (`core`, `cursor`); everything else is safe.

mod connection;
mod core;
mod creation;
mod cursor;
mod cursor_handle;
mod engine;
mod events;
mod fault;
mod names;
mod operations;
mod options;
mod pack;
mod pool;
mod session;
mod statistics;

pub use engine::WiredTiger;
pub use events::{Log, Message, Severity};
pub use options::{Options, default_cache_bytes};
