//! Connections: listening, one thread for each client, frames in and out.

mod connection;
mod listener;
mod stream;

pub(crate) use listener::{Listener, bind};
