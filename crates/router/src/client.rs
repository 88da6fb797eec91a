//! Who is connected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bson::Document;
use parking_lot::Mutex;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// `connectionId`, from 1.
    pub(crate) id: u64,
    /// The peer's address.
    pub(crate) remote: String,
    /// What it said of itself in its first hello.
    metadata: Mutex<Option<Document>>,
    /// How many commands one after the other were queries that one shard answered, up to now.
    one_shard_queries: AtomicU32,
}

impl Client {
    /// A query was answered by one shard.
    pub(crate) fn count_one_shard_query(&self) {
        self.one_shard_queries.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such queries came one after the other, up to now.
    pub(crate) fn one_shard_queries(&self) -> u32 {
        self.one_shard_queries.load(Ordering::Relaxed)
    }

    /// Something else came.
    pub(crate) fn end_one_shard_queries(&self) {
        self.one_shard_queries.store(0, Ordering::Relaxed);
    }

    /// What it says of itself; false if it had said something before.
    pub(crate) fn set_metadata(&self, metadata: Document) -> bool {
        let mut held = self.metadata.lock();
        let first = held.is_none();
        if first {
            *held = Some(metadata);
        }
        first
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    created: AtomicU64,
    rejected: AtomicU64,
}

impl Clients {
    /// Adds a connection.
    pub(crate) fn add(&self, remote: &str) -> Arc<Client> {
        let id = self.created.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            remote: remote.to_owned(),
            metadata: Mutex::default(),
            one_shard_queries: AtomicU32::new(0),
        });
        self.open.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Removes one that is closed.
    pub(crate) fn remove(&self, id: u64) {
        self.open.lock().remove(&id);
    }

    /// Counts one that was turned away.
    pub(crate) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are open, were created, were turned away.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        (self.open.lock().len(), self.created.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }
}
