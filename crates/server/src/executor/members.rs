//! The connections of a loop, which the loop takes one at a time and the watch may take away, all at once.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;

use fathom_service::Unattended;
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::instance::Instance;

/// Boxed, since it is large and goes to and fro with each message.
type Connection = Box<Unattended<Instance>>;

/// They have numbers, which events carry and which are never used again.
#[derive(Debug, Default)]
pub(super) struct Members(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    all: HashMap<u64, Member>,
    last: u64,
}

#[derive(Debug)]
struct Member {
    socket: Arc<TcpStream>,
    /// None while the loop works for it.
    connection: Option<Connection>,
}

impl Members {
    /// Takes a connection in and has its events told; gives it back if the kernel does not take it.
    pub(super) fn join(&self, epoll: &OwnedFd, connection: Connection) -> Result<u64, Connection> {
        let mut table = self.0.lock();
        let number = table.last + 1;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(epoll, &*connection, epoll::EventData::new_u64(number), flags).is_err() {
            return Err(connection);
        }
        table.last = number;
        let socket = connection.socket();
        table.all.insert(number, Member { socket, connection: Some(connection) });
        Ok(number)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Takes one to work for it; none if it has left.
    pub(super) fn take(&self, number: u64) -> Option<Connection> {
        self.0.lock().all.get_mut(&number)?.connection.take()
    }

    /// Puts it back; if all have left meanwhile, it is the caller's.
    pub(super) fn put_back(&self, number: u64, connection: Connection) -> Option<Connection> {
        match self.0.lock().all.get_mut(&number) {
            Some(member) => {
                member.connection = Some(connection);
                None
            }
            None => Some(connection),
        }
    }

    /// Forgets one that the caller has, and its events.
    pub(super) fn forget(&self, epoll: &OwnedFd, number: u64) {
        if let Some(member) = self.0.lock().all.remove(&number) {
            // The kernel forgets what is closed by itself.
            let _ = epoll::delete(epoll, &member.socket);
        }
    }

    /// Gives some up, as many as `most`.
    pub(super) fn give_up(&self, epoll: &OwnedFd, most: usize) -> Vec<Connection> {
        let mut table = self.0.lock();
        let numbers: Vec<u64> = table.all.keys().copied().take(most).collect();
        let leaving = numbers.iter().filter_map(|number| table.all.remove(number)).collect();
        drop(table);
        without_events(epoll, leaving)
    }

    /// Gives all up; the one that the loop works for is told by [`Members::put_back`].
    pub(super) fn dissolve(&self, epoll: &OwnedFd) -> Vec<Connection> {
        let leaving = self.0.lock().all.drain().map(|(_, member)| member).collect();
        without_events(epoll, leaving)
    }
}

fn without_events(epoll: &OwnedFd, leaving: Vec<Member>) -> Vec<Connection> {
    let leave = |member: Member| {
        let _ = epoll::delete(epoll, &member.socket);
        member.connection
    };
    leaving.into_iter().filter_map(leave).collect()
}
