//! Who is connected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
}

impl Client {
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
        let client = Arc::new(Client { id, remote: remote.to_owned(), metadata: Mutex::default() });
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
