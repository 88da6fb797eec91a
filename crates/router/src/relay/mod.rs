//! Queries that one shard answers, without a thread for each client: a few loops pass them on and their replies back.
//!
//! A thread that waits for its client, then for a shard, sleeps and is woken twice for each query, which costs more than
//! all that is done to the query itself (docs/journal). A connection that has sent nothing else for a while is therefore taken over
//! by a loop. It goes back to a thread of its own at the first message that is anything else or does not succeed: the loop never
//! answers with a failure, repeats nothing and waits for nobody but its sockets, so that what a client sees is decided in one place.

mod load;
mod query;
mod session;
mod shards;

use std::num::NonZero;
use std::sync::Arc;

use fathom_service::Unattended;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;

use crate::client::Client;
use crate::instance::Instance;
use load::Load;

/// After how many queries of one shard, one after the other, a connection is taken over. Giving it back costs a thread.
const RUN: u32 = 16;
/// Loops at most; each does as much as a processor.
const MOST_LOOPS: usize = 8;
/// What the bell is called among the sockets.
const BELL: u64 = u64::MAX;

/// The loops, as those see them who hand connections over.
#[derive(Debug)]
pub(crate) struct Relay {
    loops: Vec<Loop>,
}

/// One loop, from outside.
#[derive(Debug)]
struct Loop {
    epoll: OwnedFd,
    bell: OwnedFd,
    load: Load,
    /// Connections that it has not looked at yet; none once it has ended, for whatever reason.
    arrived: Mutex<Option<Vec<Unattended<Instance>>>>,
}

impl Loop {
    fn new() -> rustix::io::Result<Loop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(Loop { epoll, bell, load: Load::new(), arrived: Mutex::new(Some(Vec::new())) })
    }

    /// Whether it takes more connections.
    fn has_room(&self) -> bool {
        self.load.has_room() && self.arrived.lock().is_some()
    }

    fn ring(&self) {
        // A bell that is full rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Relay {
    /// As many loops as there are processors, within reason; none where the kernel has no more descriptors.
    pub(crate) fn new() -> Relay {
        let wanted = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_LOOPS);
        Relay { loops: (0..wanted).map_while(|_| Loop::new().ok()).collect() }
    }

    /// How many loops there are.
    pub(crate) fn loops(&self) -> usize {
        self.loops.len()
    }

    /// Whether a client's connection is to be taken over; where all loops are busy it keeps its thread.
    pub(crate) fn wants(&self, client: &Client) -> bool {
        client.one_shard_queries() >= RUN && self.with_room().is_some()
    }

    /// The first loop that is not busy, so that few are awake.
    fn with_room(&self) -> Option<&Loop> {
        self.loops.iter().find(|one| one.has_room())
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<Instance>) {
        let Some(one) = self.with_room() else { return connection.attend() };
        match one.arrived.lock().as_mut() {
            Some(arrived) => arrived.push(connection),
            None => return connection.attend(),
        }
        one.ring();
    }

    /// Wakes all loops.
    pub(crate) fn ring(&self) {
        self.loops.iter().for_each(Loop::ring);
    }
}

/// Runs one of the loops until the router stops.
pub(crate) fn run(instance: &Arc<Instance>, place: usize) {
    let loops = &instance.relay.loops;
    if let Some(one) = loops.get(place) {
        let _ending = Ending(one);
        let before = place.checked_sub(1).and_then(|before| loops.get(before));
        session::Sessions::new(instance, one, before.map(|before| &before.load)).run();
    }
}

/// Sees to it that a loop that has ended, by a panic too, gets no more connections; those that it has not looked at are closed.
struct Ending<'l>(&'l Loop);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // Dropped without the lock, since a connection that ends takes others.
        let arrived = self.0.arrived.lock().take();
        drop(arrived);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loop_with_room_takes_connections_until_all_are_busy() {
        let relay = Relay { loops: (0..3).map(|_| Loop::new().unwrap()).collect() };
        let place = || {
            let found = relay.with_room()?;
            relay.loops.iter().position(|one| std::ptr::eq(one, found))
        };
        assert_eq!(place(), Some(0));
        relay.loops[0].load.note(80);
        assert_eq!(place(), Some(1));
        drop(Ending(&relay.loops[1]));
        assert_eq!(place(), Some(2));
        relay.loops[2].load.note(99);
        assert_eq!(place(), None);
        relay.loops[0].load.note(20);
        assert_eq!(place(), Some(0));
    }
}
