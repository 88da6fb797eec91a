//! Connections that event loops have in the place of threads: which loop has which, and whether more may come. A loop takes its connections one at
//! a time, and the watch may take them away, all at once. The loops themselves run
//! in `event_loops`; what they run are the connections of a service, of which nothing is known here.

mod gate;
mod progress;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;

use fathom_service::event_loop::EventLoops;
use fathom_service::{Counter, Service, Unattended};
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::config::ServiceExecutor;

pub(crate) use gate::{Asked, Gate};
pub(crate) use progress::{Progress, WatchBell};

/// How many brief operations one after the other make a connection one for a loop. Giving it back costs a thread.
pub(crate) const RUN: u32 = 16;

/// The loops, and whether connections may come to them.
#[derive(Debug)]
pub(crate) struct Executor<S: Service> {
    pub(crate) loops: EventLoops<S>,
    /// What each loop has and does, in the same order.
    pub(crate) stages: Vec<Stage<S>>,
    pub(crate) gate: Gate,
    pub(crate) bell: WatchBell,
    /// Operations that loops ran.
    pub(crate) executed: Counter,
    /// How often a loop gave its connections up because they waited.
    pub(crate) dissolved: Counter,
}

/// One loop, as the watch sees it.
#[derive(Debug)]
pub(crate) struct Stage<S: Service> {
    pub(crate) members: Members<S>,
    pub(crate) progress: Progress,
}

impl<S: Service> Default for Stage<S> {
    fn default() -> Stage<S> {
        Stage { members: Members::default(), progress: Progress::default() }
    }
}

impl<S: Service> Executor<S> {
    /// As the server is started.
    pub(crate) fn new(kind: ServiceExecutor) -> Executor<S> {
        let loops = match kind {
            ServiceExecutor::Adaptive => EventLoops::new(),
            ServiceExecutor::Synchronous => EventLoops::none(),
        };
        Executor {
            stages: loops.all().iter().map(|_| Stage::default()).collect(),
            loops,
            gate: Gate::default(),
            bell: WatchBell::default(),
            executed: Counter::default(),
            dissolved: Counter::default(),
        }
    }

    /// Whether a connection is to be taken over after so many brief operations.
    pub(crate) fn wants(&self, brief_run: u32, asked: &Asked) -> bool {
        brief_run >= RUN
            && !self.stages.is_empty()
            && self.gate.lets_in(asked, || self.bell.wake())
            && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<S>) {
        self.loops.take(connection);
    }

    /// How many connections loops have.
    pub(crate) fn connections(&self) -> usize {
        self.stages.iter().map(|stage| stage.members.count()).sum()
    }

    /// How many loops have some.
    pub(crate) fn busy_loops(&self) -> usize {
        self.stages.iter().filter(|stage| stage.members.count() > 0).count()
    }

    /// Wakes all its threads.
    pub(crate) fn ring(&self) {
        self.loops.ring();
        self.bell.ring();
    }
}

/// Boxed, since it is large and goes to and fro with each message.
type Connection<S> = Box<Unattended<S>>;

/// They have numbers, which events carry and which are never used again.
#[derive(Debug)]
pub(crate) struct Members<S: Service>(Mutex<Table<S>>);

#[derive(Debug)]
struct Table<S: Service> {
    all: HashMap<u64, Member<S>>,
    last: u64,
}

#[derive(Debug)]
struct Member<S: Service> {
    socket: Arc<TcpStream>,
    /// None while the loop works for it.
    connection: Option<Connection<S>>,
}

impl<S: Service> Default for Members<S> {
    fn default() -> Members<S> {
        Members(Mutex::new(Table { all: HashMap::new(), last: 0 }))
    }
}

impl<S: Service> Members<S> {
    /// Takes a connection in and has its events told; gives it back if the kernel does not take it.
    pub(crate) fn join(&self, epoll: &OwnedFd, connection: Connection<S>) -> Result<u64, Connection<S>> {
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
    pub(crate) fn count(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Takes one to work for it; none if it has left.
    pub(crate) fn take(&self, number: u64) -> Option<Connection<S>> {
        self.0.lock().all.get_mut(&number)?.connection.take()
    }

    /// Puts it back; if all have left meanwhile, it is the caller's.
    pub(crate) fn put_back(&self, number: u64, connection: Connection<S>) -> Option<Connection<S>> {
        match self.0.lock().all.get_mut(&number) {
            Some(member) => {
                member.connection = Some(connection);
                None
            }
            None => Some(connection),
        }
    }

    /// Forgets one that the caller has, and its events.
    pub(crate) fn forget(&self, epoll: &OwnedFd, number: u64) {
        if let Some(member) = self.0.lock().all.remove(&number) {
            // The kernel forgets what is closed by itself.
            let _ = epoll::delete(epoll, &member.socket);
        }
    }

    /// Gives some up, as many as `most`.
    pub(crate) fn give_up(&self, epoll: &OwnedFd, most: usize) -> Vec<Connection<S>> {
        let mut table = self.0.lock();
        let numbers: Vec<u64> = table.all.keys().copied().take(most).collect();
        let leaving = numbers.iter().filter_map(|number| table.all.remove(number)).collect();
        drop(table);
        without_events(epoll, leaving)
    }

    /// Gives all up; the one that the loop works for is told by [`Members::put_back`].
    pub(crate) fn dissolve(&self, epoll: &OwnedFd) -> Vec<Connection<S>> {
        let leaving = self.0.lock().all.drain().map(|(_, member)| member).collect();
        without_events(epoll, leaving)
    }
}

fn without_events<S: Service>(epoll: &OwnedFd, leaving: Vec<Member<S>>) -> Vec<Connection<S>> {
    let leave = |member: Member<S>| {
        let _ = epoll::delete(epoll, &member.socket);
        member.connection
    };
    leaving.into_iter().filter_map(leave).collect()
}
