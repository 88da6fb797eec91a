//! The WiredTiger engine: MongoDB's storage library, with the settings and tables of mongod 4.0.
//!
//! The settings are mongod's, in its order (`options`, `creation`); if the linked version of the library has renamed one, the
//! new name is used. A session keeps its cursors between operations, because opening one costs more than a look-up. After a
//! write or sync that failed the engine stops (`fault`): continuing could lose acknowledged writes.
//!
//! It refuses input that it cannot store: a key of the wrong kind, an empty key, a directory that another engine filled.
//!
//! Unsafe code is in the thin wrappers of WiredTiger's three handles (`connection`, `cursor_handle`), in the
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
pub use events::{EventMessage, EventSeverity, MessageReceiver};
pub use options::{Options, default_cache_bytes};
