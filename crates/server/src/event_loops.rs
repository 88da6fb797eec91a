//! Who runs operations: a thread for each connection, or, while they are brief, event loops for many (mongod's
//! `net.serviceExecutor`, which had `synchronous` and `adaptive` from 3.6 to 4.2).
//!
//! What an operation on cached data costs is to a good part the thread that is put to sleep and woken for it. A connection whose
//! operations are brief is therefore taken over by a loop, which runs them one after the other. That must not change what a
//! device sees: reads of several clients at once stay several reads at once. So connections are taken over only while the process reads
//! next to nothing from its devices; a loop whose operations wait for anything gives all its connections threads, and for a
//! while none is taken over (`watch`); and what is known to wait, or takes long, is never run by a loop (`dispatch::is_brief`).
//!
//! Three signs tell the watch that operations wait: the process reads from its devices, as it does when data are not in memory; an operation does not end while its thread
//! sleeps; a loop's thread goes to sleep more often than for want of work. Then all connections get threads of their own; so they do where
//! tickets are fewer than usual, since who made them fewer wants to see operations wait for them. While the loops rest and
//! nobody asks for them, the watch rests too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bson::doc;
use fathom_errors::Error;
use fathom_host::View;
use fathom_host::process::ProcessIo;
use fathom_host::sched::ThreadStatus;
use fathom_service::event_loop::{BELL, EventLoop, Load, Meter, excess};
use fathom_service::{Answered, Received, Unattended, spawn_thread};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::executor::{Executor, Stage};
use crate::instance::Instance;

/// Starts the threads.
pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<JoinHandle<()>>, Error> {
    let loops = instance.executor.stages.len();
    let mut threads = Vec::new();
    for place in 0..loops {
        threads.push(spawn_thread("EventLoop", instance, move |instance| run_loop(instance, place))?);
    }
    if loops > 0 {
        threads.push(spawn_thread("EventLoopWatch", instance, watch)?);
    }
    Ok(threads)
}

/// Between two looks. An operation that sleeps is found after one to two of them.
const TICK: Duration = Duration::from_millis(10);
/// Looks between two counts of sleeps and of what was read.
const COUNT_TICKS: u32 = 10;
/// Sleeps that operations may have between two counts: locks are waited for now and then.
const SLEEPS: u64 = 10;
/// Bytes that the process may read from devices between two counts: less than ten pages of 16 KB.
const READ_BYTES: u64 = 128 << 10;
/// Looks after which an operation is too long although it does not sleep.
const LONG_TICKS: u32 = 3;
/// Looks without work after which the watch rests.
const IDLE_TICKS: u32 = 20;

/// What was seen of a loop.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    step: u64,
    /// Looks at which it stood at the same operation.
    stood: u32,
    /// Its thread's sleeps that were not for want of work.
    sleeps: Option<u64>,
}

impl Seen {
    /// Whether a loop has done anything since it was last looked at, or does.
    fn works(&self, stage: &Stage<Instance>) -> bool {
        let step = stage.progress.step();
        step != self.step || step % 2 == 1
    }

    /// Looks at a loop. Whether its operations wait.
    fn look(&mut self, stage: &Stage<Instance>, counts: bool) -> bool {
        let progress = &stage.progress;
        let step = progress.step();
        let works = step % 2 == 1;
        self.stood = if works && step == self.step { self.stood + 1 } else { 0 };
        self.step = step;
        if self.stood == 0 && !counts {
            return false;
        }
        let rests = progress.rests();
        let Some(status) = progress.thread().and_then(ThreadStatus::read) else { return false };
        let stands =
            self.stood > 0 && (status.state != 'R' || self.stood >= LONG_TICKS) && progress.step() == step;
        stands || (counts && self.count(status.voluntary_switches.saturating_sub(rests)))
    }

    /// Whether operations slept often since the last count.
    fn count(&mut self, sleeps: u64) -> bool {
        let before = self.sleeps.replace(sleeps);
        before.is_some_and(|before| sleeps.saturating_sub(before) > SLEEPS)
    }
}

/// What the process reads from its devices.
#[derive(Debug, Default)]
struct Reads(Option<u64>);

impl Reads {
    /// Whether it has read next to nothing since the last count; none at the first. Where the kernel does not say, the other signs
    /// have to do.
    fn are_few(&mut self) -> Option<bool> {
        let now = ProcessIo::read(&View::live(), std::process::id()).map_or(0, |io| io.read_bytes);
        let before = self.0.replace(now)?;
        Some(now.saturating_sub(before) <= READ_BYTES)
    }
}

/// Watches until the server stops.
fn watch(instance: &Arc<Instance>) {
    let mut watch = Watch::new(instance);
    while !instance.is_stopping() {
        std::thread::sleep(TICK);
        if let Some(why) = watch.look() {
            let connections = dissolve(&instance.executor);
            if connections > 0 {
                let count = i64::try_from(connections).unwrap_or(i64::MAX);
                let attributes = || doc! { "why": why, "connections": count };
                let what = "Event loops give their connections threads";
                instance.log.debug(1, "NETWORK", 4_615_640, "EventLoopWatch", what, attributes);
            }
        }
        if watch.idle > IDLE_TICKS {
            watch.rest(|| instance.is_stopping());
        }
    }
}

struct Watch<'i> {
    instance: &'i Instance,
    seen: Vec<Seen>,
    reads: Reads,
    ticks: u32,
    /// Looks at which nothing was going on, up to now.
    idle: u32,
}

impl Watch<'_> {
    fn new(instance: &Instance) -> Watch<'_> {
        let seen = vec![Seen::default(); instance.executor.stages.len()];
        Watch { instance, seen, reads: Reads::default(), ticks: 0, idle: 0 }
    }

    /// Looks at everything, and opens the gate if it may be. Says why the loops are to be dissolved, if they are.
    fn look(&mut self) -> Option<&'static str> {
        self.ticks += 1;
        let counts = self.ticks.is_multiple_of(COUNT_TICKS);
        let executor = &self.instance.executor;
        let (mut waits, mut works) = (false, executor.gate.is_asked());
        for (seen, stage) in self.seen.iter_mut().zip(&executor.stages) {
            works |= seen.works(stage);
            waits |= seen.look(stage, counts);
        }
        self.idle = if works { 0 } else { self.idle + 1 };
        let few_reads = if counts { self.reads.are_few() } else { None };
        match few_reads {
            _ if waits => return Some("operations wait"),
            Some(false) => return Some("devices are read"),
            Some(true) if self.instance.parameters.tickets_are_scarce() => return Some("tickets are scarce"),
            Some(true) if executor.gate.was_asked_by_many() => executor.gate.open(),
            _ => {}
        }
        None
    }

    /// Sleeps until there is something to watch. What was counted before says nothing after it, so the gate is shut.
    fn rest(&mut self, is_over: impl Fn() -> bool) {
        let executor = &self.instance.executor;
        executor.gate.shut();
        let works = || {
            let mut loops = self.seen.iter().zip(&executor.stages);
            executor.gate.is_asked() || loops.any(|(seen, stage)| seen.works(stage))
        };
        executor.bell.sleep(|| is_over() || works());
        *self = Watch::new(self.instance);
    }
}

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
fn run_loop(instance: &Arc<Instance>, place: usize) {
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
    stage: &'l Stage<Instance>,
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

/// Gives all connections of loops threads of their own, and has none taken over for a while. How many there were.
fn dissolve(executor: &Executor<Instance>) -> usize {
    executor.gate.rest();
    let mut count = 0;
    for (one, stage) in executor.loops.all().iter().zip(&executor.stages) {
        // One of them may be at work: the loop gives that one its thread.
        let before = count;
        count += stage.members.count();
        let resting = stage.members.dissolve(one.epoll()).into_iter().map(|one| *one);
        let arrived = one.arrivals();
        count += arrived.len();
        resting.chain(arrived).for_each(give_thread);
        executor.dissolved.add(u64::from(count > before));
    }
    count
}

/// Gives a connection a thread of its own again.
fn give_thread(mut connection: Unattended<Instance>) {
    connection.peer_mut().leave_loop();
    connection.attend();
}
