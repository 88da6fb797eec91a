//! One thin, blocking connection to a MongoDB, for tests, benches, launcher and load generator.
//!
//! It connects, shakes hands, proves who it is and sends commands. It keeps no pool, retries nothing and hides no error: who
//! measures a server must see what it does. Which servers there are is asked once, and again when the caller wants to know
//! ([`Deployment`]); nothing watches them in between.

mod address;
mod connection;
mod connection_string;
pub mod connection_text;
mod cursor;
mod deployment;
mod discovery;
mod error;
mod handshake;
mod host_addresses;
mod name_service;
mod options;
mod seed_list;
mod target;
pub mod tls;
mod transport;

pub use address::Address;
pub use connection::{Command, Connection, Interrupter, Parts};
pub use cursor::Cursor;
pub use deployment::{Deployment, DeploymentKind, Member, ReadMode, ReadPreference, Role};
pub use error::Error;
pub use fathom_wire::{Code, Failure};
pub use host_addresses::{LOOK_UP_TIMEOUT, host_addresses};
pub use name_service::NameService;
pub use seed_list::SeedList;
pub use target::{AddressList, Credential, Target};
pub use transport::Transport;

/// What every function of a connection returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
