//! One loop: waits for its connections and runs what they ask, one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fathom_service::event_loop::{BELL, EventLoop, Load, Meter, excess};
use fathom_service::{Answered, Received, Unattended};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::{Stage, give_thread};
use crate::instance::Instance;

/// Events taken from the kernel at once.
const EVENTS: usize = 128;
/// Messages of one connection answered at once; who sends more without waiting for replies gets a thread.
const MOST_AT_ONCE: u32 = 16;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stay,
    Thread,
    End,
}

/// Runs one of the loops until the server stops.
pub(super) fn run(instance: &Arc<Instance>, place: usize) {
    let executor = &instance.executor;
    let loops = executor.loops.all();
    let (Some(own), Some(stage)) = (loops.get(place), executor.stages.get(place)) else { return };
    let _ending = own.ending();
    let before = place.checked_sub(1).and_then(|before| loops.get(before)).map(EventLoop::load);
    stage.progress.begin();
    let mut running = Running { instance, own, stage, before, meter: Meter::new() };
    running.run();
    let left = stage.members.dissolve(own.epoll());
    // Of a server that stops they end here. Otherwise the kernel has refused to wait, which threads do not ask of it.
    if !instance.is_stopping() {
        left.into_iter().for_each(|one| give_thread(*one));
    }
}

struct Running<'l> {
    instance: &'l Arc<Instance>,
    own: &'l EventLoop<Instance>,
    stage: &'l Stage,
    /// Of the loop before this one, which has its connections once both have little to do.
    before: Option<&'l Load>,
    meter: Meter,
}

impl Running<'_> {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.instance.is_stopping() && self.wait(&mut events) {
            for event in &events {
                match event.data.u64() {
                    BELL => self.welcome(),
                    number => self.attend_to(number),
                }
            }
            if let Some(percent) = self.meter.measure(self.own.load()) {
                let excess = excess(percent, self.before.map(Load::percent), self.stage.members.count());
                // The first loop with room takes them from there.
                self.stage
                    .members
                    .give_up(self.own.epoll(), excess)
                    .into_iter()
                    .for_each(|one| give_thread(*one));
            }
        }
    }

    /// Waits for events; false if the kernel refuses. Only a wait that may put the thread to sleep is counted as one, so that the
    /// watch can tell the sleeps of operations from those between them.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> bool {
        events.clear();
        for patience in [Some(&NOW), None] {
            if patience.is_none() {
                self.stage.progress.rest();
            }
            match epoll::wait(self.own.epoll(), spare_capacity(events), patience) {
                Ok(0) => {}
                Ok(_) | Err(Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn welcome(&self) {
        for mut connection in self.own.arrivals() {
            connection.peer_mut().enter_loop();
            match self.stage.members.join(self.own.epoll(), Box::new(connection)) {
                // What it sent meanwhile is told by an event.
                Ok(_) => {}
                Err(connection) => give_thread(*connection),
            }
        }
    }

    /// Answers what a connection has sent.
    fn attend_to(&self, number: u64) {
        let (stage, epoll) = (self.stage, self.own.epoll());
        let Some(mut connection) = stage.members.take(number) else { return };
        connection.wake();
        stage.progress.turn();
        self.instance.executor.bell.wake();
        // As with a thread of its own, a fault in an operation ends its connection and no other.
        let next = catch_unwind(AssertUnwindSafe(|| self.answer(&mut connection)));
        stage.progress.turn();
        match next.unwrap_or(Next::End) {
            Next::Stay => {
                if let Some(connection) = stage.members.put_back(number, connection) {
                    give_thread(*connection);
                }
            }
            Next::Thread => {
                stage.members.forget(epoll, number);
                give_thread(*connection);
            }
            Next::End => stage.members.forget(epoll, number),
        }
    }

    fn answer(&self, connection: &mut Unattended<Instance>) -> Next {
        for _ in 0..MOST_AT_ONCE {
            let length = match connection.receive() {
                Received::Frame(length) => length,
                Received::Part => return Next::Stay,
                Received::End => return Next::End,
            };
            match connection.answer(length) {
                Answered::Whole => self.instance.executor.executed.add(1),
                Answered::NotWhole => return Next::Thread,
                Answered::End => return Next::End,
            }
            if !connection.peer().is_brief() {
                return Next::Thread;
            }
        }
        Next::Thread
    }
}
