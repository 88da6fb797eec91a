//! A loop's connections to shards: taken from those that are idle, and given back when the loop has fewer clients than they are.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_client::{Connection, ReadPreference};
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::backend::Backend;

/// One of them.
#[derive(Debug)]
pub(super) struct ShardConnection {
    pub(super) backend: Arc<Backend>,
    pub(super) connection: Connection,
    /// The client whose query is under way.
    pub(super) client: Option<u64>,
}

/// All of a loop, by the number that events carry.
#[derive(Debug)]
pub(super) struct ShardConnections<'l> {
    epoll: &'l OwnedFd,
    all: HashMap<u64, ShardConnection>,
    idle: Vec<u64>,
}

impl<'l> ShardConnections<'l> {
    pub(super) fn new(epoll: &'l OwnedFd) -> ShardConnections<'l> {
        ShardConnections { epoll, all: HashMap::new(), idle: Vec::new() }
    }

    /// A connection for a client's query: an idle one of the loop's own, or else of the shard's, under the number `number`; none if
    /// one would have to be made.
    pub(super) fn take(
        &mut self,
        (backend, preference): (&Arc<Backend>, &ReadPreference),
        client: u64,
        number: u64,
    ) -> Option<u64> {
        let wanted = backend.known_member(preference)?;
        let fits = |number: &&u64| {
            self.all
                .get(number)
                .is_some_and(|one| Arc::ptr_eq(&one.backend, backend) && *one.connection.address() == wanted)
        };
        if let Some(place) = self.idle.iter().rposition(|number| fits(&number)) {
            let number = self.idle.swap_remove(place);
            self.all.get_mut(&number)?.client = Some(client);
            return Some(number);
        }
        let mut connection = backend.idle_connection(&wanted)?;
        let data = epoll::EventData::new_u64(number);
        let ready = connection.set_nonblocking(true).is_ok()
            && epoll::add(self.epoll, &connection, data, epoll::EventFlags::IN | epoll::EventFlags::ET)
                .is_ok();
        if !ready {
            backend.discard(&connection);
            return None;
        }
        self.all.insert(
            number,
            ShardConnection { backend: Arc::clone(backend), connection, client: Some(client) },
        );
        Some(number)
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut ShardConnection> {
        self.all.get_mut(&number)
    }

    /// Its query is answered.
    pub(super) fn rest(&mut self, number: u64) {
        if let Some(one) = self.all.get_mut(&number) {
            one.client = None;
            self.idle.push(number);
        }
    }

    /// Lets go of one that failed.
    pub(super) fn discard(&mut self, number: u64) {
        self.idle.retain(|idle| *idle != number);
        if let Some(ShardConnection { backend, connection, .. }) = self.all.remove(&number) {
            let _ = epoll::delete(self.epoll, &connection);
            backend.discard(&connection);
        }
    }

    /// Gives idle ones back until no more than `most` are left.
    pub(super) fn give_back(&mut self, most: usize) {
        while self.idle.len() > most {
            let Some(number) = self.idle.pop() else { return };
            let Some(ShardConnection { backend, mut connection, .. }) = self.all.remove(&number) else {
                continue;
            };
            let _ = epoll::delete(self.epoll, &connection);
            match connection.set_nonblocking(false) {
                Ok(()) => backend.give_back(connection),
                Err(_) => backend.discard(&connection),
            }
        }
    }
}
