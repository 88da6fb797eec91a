//! A thin, blocking connection to a MongoDB server, for tests, benchmarks, launcher and load generator.
//!
//! It connects, shakes hands, logs in and sends commands. It keeps no pool, retries nothing and hides no error: a program that
//! measures a server must see the server's behaviour. The list of servers is read once, and again when the caller asks
//! ([`Deployment`]); no thread monitors them in between.

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
mod managed_service;
mod name_service;
mod options;
mod seed_list;
mod target;
pub mod tls;
mod transport;

pub use address::Address;
pub use connection::{CommandDocument, Connection, ConnectionParts, Interrupter};
pub use cursor::RemoteCursor;
pub use deployment::{Deployment, DeploymentKind, DeploymentServer, ReadMode, ReadPreference, Role};
pub use error::Error;
pub use fathom_wire::{Code, Failure};
pub use host_addresses::{LOOK_UP_TIMEOUT, host_addresses};
pub use managed_service::ManagedService;
pub use name_service::NameService;
pub use seed_list::SeedList;
pub use target::{AddressList, Credential, Target};
pub use transport::Transport;

/// The result of every function of a connection.
pub type Result<T, E = Error> = std::result::Result<T, E>;
