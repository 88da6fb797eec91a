//! One shard, or the config servers: chooses the member to ask and keeps a pool of connections to the members.
//!
//! The primary of a set is looked up when it is needed and forgotten when it fails. This module retries nothing: its callers know
//! which commands may be sent twice.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_client::{Address, AddressList, Connection, Deployment, ReadMode, ReadPreference, Target};
use fathom_wire::{Code, Failure};
use parking_lot::Mutex;

use crate::Result;

/// The time to search for a primary, or for a member that fits a read preference, as in mongos.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two looks at a set without a primary.
const PAUSE: Duration = Duration::from_millis(200);
/// The number of idle connections to a server that are kept.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// A shard, or the config servers.
#[derive(Debug)]
pub(crate) struct Backend {
    id: String,
    hosts: AddressList,
    target: Target,
    /// The members of a set, once they are known.
    known: Mutex<Option<Deployment>>,
    idle: Mutex<HashMap<Address, Vec<Connection>>>,
    in_use: AtomicU64,
    opened: AtomicU64,
}

impl Backend {
    pub(crate) fn new(id: &str, hosts: AddressList) -> Backend {
        let target = Target { connect_timeout: CONNECT_TIMEOUT, ..hosts.target() };
        Backend {
            id: id.to_owned(),
            hosts,
            target,
            known: Mutex::default(),
            idle: Mutex::default(),
            in_use: AtomicU64::new(0),
            opened: AtomicU64::new(0),
        }
    }

    /// The shard's name; `config` for the config servers.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The number of shards this counts as: 1, or 0 for the config servers.
    pub(crate) fn shards(&self) -> usize {
        usize::from(self.id != "config")
    }

    pub(crate) fn hosts(&self) -> &AddressList {
        &self.hosts
    }

    /// Whether it is a replica set, which recognizes a write that is sent twice.
    pub(crate) fn is_set(&self) -> bool {
        self.hosts.set.is_some()
    }

    /// A connection to a member that fits the read preference.
    pub(crate) fn lease(&self, preference: &ReadPreference) -> Result<Lease<'_>> {
        let address = self.member(preference)?;
        let idle = self.idle.lock().get_mut(&address).and_then(Vec::pop);
        let connection = match idle {
            Some(connection) => connection,
            None => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                Connection::open(&address, &self.target).map_err(|error| {
                    self.forget(&address);
                    self.unreachable(&error)
                })?
            }
        };
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Ok(Lease { backend: self, connection: Some(connection) })
    }

    /// The member that fits the read preference, if it is already known; does not wait.
    pub(crate) fn known_member(&self, preference: &ReadPreference) -> Option<Address> {
        if let Some(address) = self.only_member() {
            return Some(address.clone());
        }
        let known = self.known.try_lock()?;
        members(known.as_ref()?, preference).ok()?.into_iter().next()
    }

    /// An idle connection to a member, if the pool has one.
    pub(crate) fn idle_connection(&self, address: &Address) -> Option<Connection> {
        let connection = self.idle.lock().get_mut(address).and_then(Vec::pop)?;
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }

    /// Takes back what [`Backend::lease`] or [`Backend::idle_connection`] gave.
    pub(crate) fn give_back(&self, connection: Connection) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        let address = connection.address().clone();
        if connection.is_broken() {
            self.forget(&address);
            return;
        }
        let mut idle = self.idle.lock();
        let idle = idle.entry(address).or_default();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
    }

    /// Closes a connection that failed.
    pub(crate) fn discard(&self, connection: &Connection) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.forget(connection.address());
    }

    /// The single server, if it is no replica set.
    fn only_member(&self) -> Option<&Address> {
        self.hosts.addresses.first().filter(|_| !self.is_set())
    }

    fn member(&self, preference: &ReadPreference) -> Result<Address> {
        if let Some(address) = self.only_member() {
            return Ok(address.clone());
        }
        let until = Instant::now() + SELECTION_TIMEOUT;
        let mut known = self.known.lock();
        loop {
            let deployment = match known.take() {
                Some(deployment) => Ok(deployment),
                None => Deployment::discover(&self.target),
            };
            let error = match deployment {
                Err(error) => error,
                Ok(deployment) => match members(&deployment, preference).map(|it| it.into_iter().next()) {
                    Ok(Some(address)) => {
                        *known = Some(deployment);
                        return Ok(address);
                    }
                    Ok(None) => fathom_errors::Error::new(fathom_errors::Kind::NotFound, "no member"),
                    Err(error) => error,
                },
            };
            if Instant::now() >= until {
                let what = format!(
                    "Could not find host matching read preference {{ mode: \"{}\" }} for {}: {error}",
                    preference.mode.name(),
                    self.hosts
                );
                return Err(Failure::new(Code(133), what));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Forgets what is known of a member that failed.
    fn forget(&self, address: &Address) {
        *self.known.lock() = None;
        self.idle.lock().remove(address);
    }

    /// Looks for the primary again at the next call.
    pub(crate) fn look_again(&self) {
        *self.known.lock() = None;
    }

    /// The client's error for a shard that cannot be reached.
    pub(crate) fn unreachable(&self, error: &fathom_client::Error) -> Failure {
        match error {
            fathom_client::Error::Server(failure) => failure.clone(),
            fathom_client::Error::Network(error) => Failure::new(
                Code::HostUnreachable,
                format!("the shard '{}' does not answer: {error}", self.id),
            ),
        }
    }

    /// Connections in use, idle, and created so far.
    pub(crate) fn connections(&self) -> (u64, u64, u64) {
        let idle = self.idle.lock().values().map(Vec::len).sum::<usize>() as u64;
        (self.in_use.load(Ordering::Relaxed), idle, self.opened.load(Ordering::Relaxed))
    }
}

/// A connection, which is returned to the pool when it is no longer used.
#[derive(Debug)]
pub(crate) struct Lease<'b> {
    backend: &'b Backend,
    connection: Option<Connection>,
}

impl Deref for Lease<'_> {
    type Target = Option<Connection>;

    fn deref(&self) -> &Option<Connection> {
        &self.connection
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Option<Connection> {
        &mut self.connection
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.backend.give_back(connection);
        }
    }
}

/// The members that fit a read preference, the best first.
fn members(deployment: &Deployment, preference: &ReadPreference) -> fathom_errors::Result<Vec<Address>> {
    match preference.mode {
        ReadMode::Primary => deployment.writable(),
        _ => deployment.readable(preference),
    }
}
