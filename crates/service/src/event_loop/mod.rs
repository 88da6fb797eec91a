//! Event loops: threads that wait for many connections at once, as far as services have that in common.
//!
//! A thread for each connection sleeps and is woken for each message, which costs more than a brief message itself. What a loop does
//! with what has come is its service's; here is which loop takes a connection, how it hears of it, and how busy each is.

mod load;

use std::num::NonZero;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;

use crate::{Service, Unattended};
pub use load::{Load, Meter, excess};

/// Loops at most; each does as much as a processor.
const MOST_LOOPS: usize = 8;
/// What the bell is called among the events of a loop.
pub const BELL: u64 = u64::MAX;

/// The loops of a service, as those see them who hand connections over.
#[derive(Debug)]
pub struct EventLoops<S: Service> {
    loops: Vec<EventLoop<S>>,
}

/// One loop, from outside.
#[derive(Debug)]
pub struct EventLoop<S: Service> {
    epoll: OwnedFd,
    bell: OwnedFd,
    load: Load,
    /// Connections that it has not looked at yet; none once it has ended, for whatever reason.
    arrived: Mutex<Option<Vec<Unattended<S>>>>,
}

impl<S: Service> EventLoop<S> {
    fn new() -> rustix::io::Result<EventLoop<S>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(EventLoop { epoll, bell, load: Load::new(), arrived: Mutex::new(Some(Vec::new())) })
    }

    /// What it waits with; the bell is in it already, as [`BELL`].
    pub fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// How busy it is.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Whether it takes more connections.
    fn has_room(&self) -> bool {
        self.load.has_room() && self.arrived.lock().is_some()
    }

    /// Wakes it.
    pub fn ring(&self) {
        // A bell that is full rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// The connections that have come since this was last asked. The bell is silent then.
    pub fn arrivals(&self) -> Vec<Unattended<S>> {
        let mut rung = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut rung);
        self.arrived.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What the loop's thread holds while it runs.
    pub fn ending(&self) -> Ending<'_, S> {
        Ending(self)
    }
}

/// Sees to it that a loop that has ended, by a panic too, gets no more connections; those that it has not looked at are closed.
#[derive(Debug)]
pub struct Ending<'l, S: Service>(&'l EventLoop<S>);

impl<S: Service> Drop for Ending<'_, S> {
    fn drop(&mut self) {
        // Dropped without the lock, since a connection that ends takes others.
        let arrived = self.0.arrived.lock().take();
        drop(arrived);
    }
}

impl<S: Service> EventLoops<S> {
    /// As many loops as there are processors, within reason; fewer where the kernel has no more descriptors.
    pub fn new() -> EventLoops<S> {
        let wanted = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_LOOPS);
        EventLoops { loops: (0..wanted).map_while(|_| EventLoop::new().ok()).collect() }
    }

    /// None, so that every connection keeps its thread.
    pub fn none() -> EventLoops<S> {
        EventLoops { loops: Vec::new() }
    }

    /// All of them, the first to be filled first.
    pub fn all(&self) -> &[EventLoop<S>] {
        &self.loops
    }

    /// Whether one takes more connections.
    pub fn have_room(&self) -> bool {
        self.with_room().is_some()
    }

    /// The first loop that is not busy, so that few are awake.
    fn with_room(&self) -> Option<&EventLoop<S>> {
        self.loops.iter().find(|one| one.has_room())
    }

    /// Gives a connection to the first loop with room, or else its thread back.
    pub fn take(&self, connection: Unattended<S>) {
        let Some(one) = self.with_room() else { return connection.attend() };
        match one.arrived.lock().as_mut() {
            Some(arrived) => arrived.push(connection),
            None => return connection.attend(),
        }
        one.ring();
    }

    /// Wakes all.
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

    use super::*;
    use crate::log::Log;
    use crate::{Answer, Incoming, Result, Traffic};

    /// A service that nobody connects to.
    #[derive(Debug)]
    struct Idle;

    impl Service for Idle {
        type Peer = ();

        fn log(&self) -> &Log {
            unreachable!("nobody connects")
        }

        fn traffic(&self) -> &Traffic {
            unreachable!("nobody connects")
        }

        fn is_stopping(&self) -> bool {
            false
        }

        fn welcome(&self, _: &str, _: &Arc<TcpStream>) -> (u64, ()) {
            (0, ())
        }

        fn turn_away(&self) {}

        fn answer(self: &Arc<Self>, (): &mut (), _: &Incoming<'_>, _: &mut Vec<u8>) -> Result<Answer> {
            Ok(Answer::Close)
        }

        fn is_over(&self, (): &()) -> bool {
            true
        }

        fn leave(&self, _: u64) {}
    }

    #[test]
    fn the_first_loop_with_room_takes_connections_until_all_are_busy() {
        let loops = EventLoops { loops: (0..3).map(|_| EventLoop::<Idle>::new().unwrap()).collect() };
        let place = || {
            let found = loops.with_room()?;
            loops.loops.iter().position(|one| std::ptr::eq(one, found))
        };
        assert_eq!(place(), Some(0));
        loops.loops[0].load.note(80);
        assert_eq!(place(), Some(1));
        drop(loops.loops[1].ending());
        assert_eq!(place(), Some(2));
        loops.loops[2].load.note(99);
        assert!(place().is_none() && !loops.have_room());
        loops.loops[0].load.note(20);
        assert_eq!(place(), Some(0));
        assert!(!EventLoops::<Idle>::none().have_room());
    }
}
