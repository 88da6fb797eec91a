//! The connected clients and their counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bson::Document;
use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) struct Client {
    /// The `connectionId` of replies, from 1.
    pub(crate) id: u64,
    pub(crate) remote: String,
    /// The client's metadata from its first hello.
    metadata: Mutex<Option<Document>>,
    /// The current run of consecutive queries that one shard answered.
    one_shard_queries: AtomicU32,
}

impl Client {
    /// Counts a query that one shard answered.
    pub(crate) fn count_one_shard_query(&self) {
        self.one_shard_queries.fetch_add(1, Ordering::Relaxed);
    }

    /// The length of the current run of such queries.
    pub(crate) fn one_shard_queries(&self) -> u32 {
        self.one_shard_queries.load(Ordering::Relaxed)
    }

    /// Ends the run: a command of another kind came.
    pub(crate) fn end_one_shard_queries(&self) {
        self.one_shard_queries.store(0, Ordering::Relaxed);
    }

    /// Sets the client's metadata; returns false if they were already set.
    pub(crate) fn set_metadata(&self, metadata: Document) -> bool {
        let mut held = self.metadata.lock();
        let first = held.is_none();
        if first {
            *held = Some(metadata);
        }
        first
    }
}

#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    created: AtomicU64,
    rejected: AtomicU64,
}

impl Clients {
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

    /// Removes a client whose connection is closed.
    pub(crate) fn remove(&self, id: u64) {
        self.open.lock().remove(&id);
    }

    /// Counts a client that was rejected.
    pub(crate) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of open, created and rejected connections.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        (self.open.lock().len(), self.created.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }
}
