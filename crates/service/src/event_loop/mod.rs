//! Event loops: threads that each wait for many connections at once. This is the part that all services share.
//!
//! A thread per connection sleeps and wakes for each message, which costs more than a brief message itself. The service decides how
//! a loop handles received messages; this module assigns connections to loops, wakes the loops, and measures their load.

mod load;

use std::num::NonZero;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;

use crate::{IdleConnection, Service};
pub use load::{LoopLoad, Meter, excess};

/// The maximum number of loops; each can use a whole processor.
const MAX_LOOPS: usize = 8;
/// The bell's identifier among a loop's events.
pub const BELL: u64 = u64::MAX;

/// The loops of a service, as seen by threads that hand connections over.
#[derive(Debug)]
pub struct EventLoops<S: Service> {
    loops: Vec<EventLoop<S>>,
}

/// One loop, as seen by other threads.
#[derive(Debug)]
pub struct EventLoop<S: Service> {
    epoll: OwnedFd,
    bell: OwnedFd,
    load: LoopLoad,
    /// Connections that it has not served yet; `None` once it has ended, for any reason.
    arrived: Mutex<Option<Vec<IdleConnection<S>>>>,
}

impl<S: Service> EventLoop<S> {
    fn new() -> rustix::io::Result<EventLoop<S>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(EventLoop { epoll, bell, load: LoopLoad::new(), arrived: Mutex::new(Some(Vec::new())) })
    }

    /// Its epoll instance, which already contains the bell as [`BELL`].
    pub fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// The load of the loop.
    pub fn load(&self) -> &LoopLoad {
        &self.load
    }

    /// Whether it takes more connections.
    fn has_room(&self) -> bool {
        self.load.has_room() && self.arrived.lock().is_some()
    }

    /// Wakes the event loop.
    pub fn ring(&self) {
        // A full bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// The connections that have arrived since the last call. This silences the bell.
    pub fn arrivals(&self) -> Vec<IdleConnection<S>> {
        let mut rung = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut rung);
        self.arrived.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The guard of the loop's thread while it runs.
    pub fn ending(&self) -> LoopEndGuard<'_, S> {
        LoopEndGuard(self)
    }
}

/// Makes sure that a loop that has ended, even by a panic, gets no more connections; unseen ones are closed.
#[derive(Debug)]
pub struct LoopEndGuard<'l, S: Service>(&'l EventLoop<S>);

impl<S: Service> Drop for LoopEndGuard<'_, S> {
    fn drop(&mut self) {
        // Dropped without the lock, since a connection that ends takes other locks.
        let arrived = self.0.arrived.lock().take();
        drop(arrived);
    }
}

impl<S: Service> EventLoops<S> {
    /// Makes as many loops as there are processors, up to a maximum; fewer if the kernel has no more descriptors.
    pub fn new() -> EventLoops<S> {
        let wanted = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_LOOPS);
        EventLoops { loops: (0..wanted).map_while(|_| EventLoop::new().ok()).collect() }
    }

    /// Makes no loops, so that every connection keeps its thread.
    pub fn none() -> EventLoops<S> {
        EventLoops { loops: Vec::new() }
    }

    /// All loops, in the order in which they are filled.
    pub fn all(&self) -> &[EventLoop<S>] {
        &self.loops
    }

    /// Whether any loop takes more connections.
    pub fn have_room(&self) -> bool {
        self.with_room().is_some()
    }

    /// The first loop with room, so that few loops are awake.
    fn with_room(&self) -> Option<&EventLoop<S>> {
        self.loops.iter().find(|one| one.has_room())
    }

    /// Gives a connection to the first loop with room; otherwise it gets its thread back.
    pub fn take(&self, connection: IdleConnection<S>) {
        let Some(one) = self.with_room() else { return connection.attend() };
        match one.arrived.lock().as_mut() {
            Some(arrived) => arrived.push(connection),
            None => return connection.attend(),
        }
        one.ring();
    }

    /// Wakes every event loop.
    pub fn ring(&self) {
        self.loops.iter().for_each(EventLoop::ring);
    }
}

impl<S: Service> Default for EventLoops<S> {
    fn default() -> Self {
        EventLoops::new()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::log::Log;
    use crate::{Answer, NetworkCounters, RequestMessage, Result};

    /// A service without clients.
    #[derive(Debug)]
    struct IdleService;

    impl Service for IdleService {
        type Peer = ();

        fn log(&self) -> &Log {
            unreachable!("nobody connects")
        }

        fn traffic(&self) -> &NetworkCounters {
            unreachable!("nobody connects")
        }

        fn is_stopping(&self) -> bool {
            false
        }

        fn welcome(&self, _: &str, _: &Arc<TcpStream>) -> (u64, ()) {
            (0, ())
        }

        fn turn_away(&self) {}

        fn answer(self: &Arc<Self>, (): &mut (), _: &RequestMessage<'_>, _: &mut Vec<u8>) -> Result<Answer> {
            Ok(Answer::Close)
        }

        fn is_over(&self, (): &()) -> bool {
            true
        }

        fn leave(&self, _: u64) {}
    }

    #[test]
    fn the_first_loop_with_room_takes_connections_until_all_are_busy() {
        let loops = EventLoops { loops: (0..3).map(|_| EventLoop::<IdleService>::new().unwrap()).collect() };
        let place = || {
            let found = loops.with_room()?;
            loops.loops.iter().position(|one| std::ptr::eq(one, found))
        };
        // A time to come never gets stale.
        let note = |place: usize, percent: u64| {
            loops.loops[place].load.note_at(Instant::now() + Duration::from_secs(3600), percent);
        };
        assert_eq!(place(), Some(0));
        note(0, 80);
        assert_eq!(place(), Some(1));
        drop(loops.loops[1].ending());
        assert_eq!(place(), Some(2));
        note(2, 99);
        assert!(place().is_none() && !loops.have_room());
        note(0, 20);
        assert_eq!(place(), Some(0));
        assert!(!EventLoops::<IdleService>::none().have_room());
    }
}
