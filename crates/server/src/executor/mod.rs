//! The connections that event loops serve in place of threads: the assignment of connections to loops, and the gate for new ones. A loop takes its
//! connections one at a time, and the watch may take all of them away at once. The loops themselves run in `event_loops`; this module knows
//! nothing of the service whose connections they are.

mod gate;
mod progress;

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;

use fathom_service::event_loop::EventLoops;
use fathom_service::{Counter, IdleConnection, Service};
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::config::ServiceExecutor;

pub(crate) use gate::{Gate, GateRequest};
pub(crate) use progress::{LoopProgress, WatchBell};

/// The number of consecutive brief operations that makes a connection a candidate for a loop. Giving it back costs a thread.
pub(crate) const MIN_CONSECUTIVE_BRIEF: u32 = 16;

/// The loops, and the gate for new connections.
#[derive(Debug)]
pub(crate) struct Executor<S: Service> {
    pub(crate) loops: EventLoops<S>,
    /// The stage of each loop, in the same order.
    pub(crate) stages: Vec<WatchedLoop<S>>,
    pub(crate) gate: Gate,
    pub(crate) bell: WatchBell,
    /// The number of operations that loops ran.
    pub(crate) executed: Counter,
    /// The number of times a loop gave up its connections because operations waited.
    pub(crate) dissolved: Counter,
}

/// One loop, as the watch sees it.
#[derive(Debug)]
pub(crate) struct WatchedLoop<S: Service> {
    pub(crate) members: Members<S>,
    pub(crate) progress: LoopProgress,
}

impl<S: Service> Default for WatchedLoop<S> {
    fn default() -> WatchedLoop<S> {
        WatchedLoop { members: Members::default(), progress: LoopProgress::default() }
    }
}

impl<S: Service> Executor<S> {
    /// An executor as the server is started.
    pub(crate) fn new(kind: ServiceExecutor) -> Executor<S> {
        let loops = match kind {
            ServiceExecutor::Adaptive => EventLoops::new(),
            ServiceExecutor::Synchronous => EventLoops::none(),
        };
        Executor {
            stages: loops.all().iter().map(|_| WatchedLoop::default()).collect(),
            loops,
            gate: Gate::default(),
            bell: WatchBell::default(),
            executed: Counter::default(),
            dissolved: Counter::default(),
        }
    }

    /// Whether a connection should be taken over after this many brief operations.
    pub(crate) fn wants(&self, brief_run: u32, asked: &GateRequest) -> bool {
        brief_run >= MIN_CONSECUTIVE_BRIEF
            && !self.stages.is_empty()
            && self.gate.lets_in(asked, || self.bell.wake())
            && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: IdleConnection<S>) {
        self.loops.take(connection);
    }

    /// The number of connections that loops have.
    pub(crate) fn connections(&self) -> usize {
        self.stages.iter().map(|stage| stage.members.count()).sum()
    }

    /// The number of loops with connections.
    pub(crate) fn busy_loops(&self) -> usize {
        self.stages.iter().filter(|stage| stage.members.count() > 0).count()
    }

    /// Wakes the threads of all loops.
    pub(crate) fn ring(&self) {
        self.loops.ring();
        self.bell.ring();
    }
}

/// Boxed, since it is large and moves with each message.
type BoxedConnection<S> = Box<IdleConnection<S>>;

/// The connections of a loop. Each has a number, which events carry and which is never reused.
#[derive(Debug)]
pub(crate) struct Members<S: Service>(Mutex<MemberTable<S>>);

#[derive(Debug)]
struct MemberTable<S: Service> {
    all: HashMap<u64, LoopMember<S>>,
    last: u64,
}

#[derive(Debug)]
struct LoopMember<S: Service> {
    socket: Arc<TcpStream>,
    /// `None` while the loop is working on it.
    connection: Option<BoxedConnection<S>>,
}

impl<S: Service> Default for Members<S> {
    fn default() -> Members<S> {
        Members(Mutex::new(MemberTable { all: HashMap::new(), last: 0 }))
    }
}

impl<S: Service> Members<S> {
    /// Adds a connection and registers it for events; gives it back if the kernel refuses.
    pub(crate) fn join(
        &self,
        epoll: &OwnedFd,
        connection: BoxedConnection<S>,
    ) -> Result<u64, BoxedConnection<S>> {
        let mut table = self.0.lock();
        let number = table.last + 1;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(epoll, &*connection, epoll::EventData::new_u64(number), flags).is_err() {
            return Err(connection);
        }
        table.last = number;
        let socket = connection.socket();
        table.all.insert(number, LoopMember { socket, connection: Some(connection) });
        Ok(number)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Takes a connection to work on it, or `None` if it has left.
    pub(crate) fn take(&self, number: u64) -> Option<BoxedConnection<S>> {
        self.0.lock().all.get_mut(&number)?.connection.take()
    }

    /// Puts a connection back; if all have left meanwhile, returns it to the caller.
    pub(crate) fn put_back(&self, number: u64, connection: BoxedConnection<S>) -> Option<BoxedConnection<S>> {
        match self.0.lock().all.get_mut(&number) {
            Some(member) => {
                member.connection = Some(connection);
                None
            }
            None => Some(connection),
        }
    }

    /// Removes a connection that the caller has, and its events.
    pub(crate) fn forget(&self, epoll: &OwnedFd, number: u64) {
        if let Some(member) = self.0.lock().all.remove(&number) {
            // The kernel removes closed sockets by itself.
            let _ = epoll::delete(epoll, &member.socket);
        }
    }

    /// Gives up at most `most` connections.
    pub(crate) fn give_up(&self, epoll: &OwnedFd, most: usize) -> Vec<BoxedConnection<S>> {
        let mut table = self.0.lock();
        let numbers: Vec<u64> = table.all.keys().copied().take(most).collect();
        let leaving = numbers.iter().filter_map(|number| table.all.remove(number)).collect();
        drop(table);
        without_events(epoll, leaving)
    }

    /// Gives up all connections. [`Members::put_back`] reports this for the one that the loop is working on.
    pub(crate) fn dissolve(&self, epoll: &OwnedFd) -> Vec<BoxedConnection<S>> {
        let leaving = self.0.lock().all.drain().map(|(_, member)| member).collect();
        without_events(epoll, leaving)
    }
}

fn without_events<S: Service>(epoll: &OwnedFd, leaving: Vec<LoopMember<S>>) -> Vec<BoxedConnection<S>> {
    let leave = |member: LoopMember<S>| {
        let _ = epoll::delete(epoll, &member.socket);
        member.connection
    };
    leaving.into_iter().filter_map(leave).collect()
}
