//! MongoDB's messages as frames, and the errors that travel in them.
//!
//! Frames only: bytes to messages and back, for the server, the client and the load generator alike. It opens no socket and
//! knows no command. Every length that a peer sends is checked before memory is taken for it.

mod code;
mod failure;

pub use code::Code;
pub use failure::Failure;
