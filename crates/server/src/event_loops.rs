//! Runs operations on event loops for many connections while they are brief, and otherwise on a thread for each
//! connection (mongod's `net.serviceExecutor`, which had `synchronous` and `adaptive` from 3.6 to 4.2).
//!
//! Much of the cost of an operation on cached data is putting its thread to sleep and waking it. A loop therefore takes over
//! connections whose operations are brief and runs these one after the other. That must not change the I/O of a device: concurrent
//! reads of several clients must stay concurrent. So connections are taken over only while the process reads next to nothing from its
//! devices; a loop whose operations wait gives all its connections threads, and none is taken over for a while (`watch`); and
//! operations known to wait or to take long are never run by a loop (`dispatch::is_brief`).
//!
//! The watch recognises waiting operations by three signs: the process reads from its devices, as it does when data is not in memory; an operation
//! does not end while its thread sleeps; a loop's thread sleeps more often than for lack of work. Then all connections get threads of their own. They
//! also do if tickets are fewer than usual, since a user who reduced them wants to see operations wait for them. While the loops are idle and no
//! connection asks for them, the watch sleeps too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bson::doc;
use fathom_errors::Error;
use fathom_host::View;
use fathom_host::process::ProcessIo;
use fathom_host::sched::ThreadStatus;
use fathom_service::event_loop::{BELL, EventLoop, LoopLoad, Meter, excess};
use fathom_service::{AnswerOutcome, BufferState, IdleConnection, spawn_thread};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::executor::{Executor, WatchedLoop};
use crate::instance::Instance;

pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<JoinHandle<()>>, Error> {
    let loops = instance.executor.stages.len();
    let mut threads = Vec::new();
    for place in 0..loops {
        let run = move |instance: &Arc<Instance>| run_loop(instance, place, Some(Meter::new()));
        threads.push(spawn_thread("EventLoop", instance, run)?);
    }
    if loops > 0 {
        threads.push(spawn_thread("EventLoopWatch", instance, watch)?);
    }
    Ok(threads)
}

/// The interval between two checks. An operation that sleeps is found after one to two of them.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The number of checks between two counts of sleeps and of bytes read.
const COUNT_TICKS: u32 = 10;
/// The sleeps that operations may have between two counts: they wait for locks occasionally.
const MAX_SLEEPS: u64 = 10;
/// The bytes that the process may read from devices between two counts: less than ten pages of 16 KB.
const MAX_READ_BYTES: u64 = 128 << 10;
/// The number of checks after which an operation counts as too long although it does not sleep.
const MIN_LONG_TICKS: u32 = 3;
/// The number of checks without work after which the watch sleeps.
const MAX_IDLE_TICKS: u32 = 20;

/// The observations of a loop.
#[derive(Clone, Copy, Debug, Default)]
struct LoopSample {
    step: u64,
    /// The number of consecutive checks that found it at the same operation.
    stood: u32,
    /// The sleeps of its thread other than for lack of work.
    sleeps: Option<u64>,
}

impl LoopSample {
    /// Whether the loop has worked since the last check, or is working.
    fn works(&self, stage: &WatchedLoop<Instance>) -> bool {
        let step = stage.progress.step();
        step != self.step || step % 2 == 1
    }

    /// Checks a loop; returns whether its operations wait.
    fn look(&mut self, stage: &WatchedLoop<Instance>, counts: bool) -> bool {
        let progress = &stage.progress;
        self.look_at(progress.step(), counts, || {
            let rests = progress.rests();
            let status = progress.thread().and_then(ThreadStatus::read)?;
            Some((status, rests, progress.step()))
        })
    }

    /// The same for a loop at this step. `read` reads the status of its thread, its waits for events, and its step after that.
    fn look_at(
        &mut self,
        step: u64,
        counts: bool,
        read: impl FnOnce() -> Option<(ThreadStatus, u64, u64)>,
    ) -> bool {
        let works = step % 2 == 1;
        self.stood = if works && step == self.step { self.stood + 1 } else { 0 };
        self.step = step;
        if self.stood == 0 && !counts {
            return false;
        }
        let Some((status, rests, after)) = read() else { return false };
        let stands = self.stood > 0 && (status.state != 'R' || self.stood >= MIN_LONG_TICKS) && after == step;
        stands || (counts && self.count(status.voluntary_switches.saturating_sub(rests)))
    }

    /// Whether operations slept often since the last count.
    fn count(&mut self, sleeps: u64) -> bool {
        let before = self.sleeps.replace(sleeps);
        before.is_some_and(|before| sleeps.saturating_sub(before) > MAX_SLEEPS)
    }
}

/// The process's reads from its devices.
#[derive(Debug, Default)]
struct Reads(Option<u64>);

impl Reads {
    /// Whether the process has read next to nothing since the last count; `None` at the first. If the kernel does not report it,
    /// only the other signs are used.
    fn are_few(&mut self) -> Option<bool> {
        self.are_few_at(ProcessIo::read(&View::live(), std::process::id()).map_or(0, |io| io.read_bytes))
    }

    /// The same for a process that has read this many bytes so far.
    fn are_few_at(&mut self, now: u64) -> Option<bool> {
        let before = self.0.replace(now)?;
        Some(now.saturating_sub(before) <= MAX_READ_BYTES)
    }
}

/// Watches until the server stops.
fn watch(instance: &Arc<Instance>) {
    let mut watch = Watch::new(instance);
    while !instance.is_stopping() {
        std::thread::sleep(CHECK_INTERVAL);
        if let Some(why) = watch.look() {
            let connections = dissolve(&instance.executor);
            if connections > 0 {
                let count = i64::try_from(connections).unwrap_or(i64::MAX);
                let attributes = || doc! { "why": why, "connections": count };
                let what = "Event loops give their connections threads";
                instance.log.debug(1, "NETWORK", 4_615_640, "EventLoopWatch", what, attributes);
            }
        }
        if watch.idle > MAX_IDLE_TICKS {
            watch.rest(|| instance.is_stopping());
        }
    }
}

struct Watch<'i> {
    instance: &'i Instance,
    seen: Vec<LoopSample>,
    reads: Reads,
    ticks: u32,
    /// The number of consecutive checks without any work.
    idle: u32,
}

impl Watch<'_> {
    fn new(instance: &Instance) -> Watch<'_> {
        let seen = vec![LoopSample::default(); instance.executor.stages.len()];
        Watch { instance, seen, reads: Reads::default(), ticks: 0, idle: 0 }
    }

    /// Checks all loops, and opens the gate if allowed. Returns the reason for which the loops must be dissolved, if any.
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
        self.decide(waits, few_reads)
    }

    /// Decides on the loops and the gate. `few_reads` is `None` between two counts.
    fn decide(&self, waits: bool, few_reads: Option<bool>) -> Option<&'static str> {
        let gate = &self.instance.executor.gate;
        match few_reads {
            _ if waits => return Some("operations wait"),
            Some(false) => return Some("devices are read"),
            Some(true) if self.instance.parameters.tickets_are_scarce() => return Some("tickets are scarce"),
            Some(true) if gate.was_asked_by_many() => gate.open(),
            _ => {}
        }
        None
    }

    /// Sleeps until work begins. Earlier counts are meaningless afterwards, so the gate is shut.
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

/// The number of events taken from the kernel at once.
const MAX_EVENTS_AT_ONCE: usize = 128;
/// The number of messages of one connection answered at once; a client that sends more without waiting for replies gets a thread.
const MAX_MESSAGES_AT_ONCE: u32 = 16;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The next owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionOwner {
    Stay,
    Thread,
    End,
}

/// Runs one of the loops until the server stops. Without a meter it never gives connections up.
fn run_loop(instance: &Arc<Instance>, place: usize, meter: Option<Meter>) {
    let executor = &instance.executor;
    let loops = executor.loops.all();
    let (Some(own), Some(stage)) = (loops.get(place), executor.stages.get(place)) else { return };
    let _ending = own.ending();
    let before = place.checked_sub(1).and_then(|before| loops.get(before)).map(EventLoop::load);
    stage.progress.begin();
    let mut running = LoopThread { instance, own, stage, before, meter };
    running.run();
    let left = stage.members.dissolve(own.epoll());
    // If the server is stopping, they end here. Otherwise the kernel has refused to wait, which threads do not need.
    if !instance.is_stopping() {
        left.into_iter().for_each(|one| give_thread(*one));
    }
}

struct LoopThread<'l> {
    instance: &'l Arc<Instance>,
    own: &'l EventLoop<Instance>,
    stage: &'l WatchedLoop<Instance>,
    /// The load of the loop before this one, which takes this loop's connections when both have little to do.
    before: Option<&'l LoopLoad>,
    meter: Option<Meter>,
}

impl LoopThread<'_> {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(MAX_EVENTS_AT_ONCE);
        while !self.instance.is_stopping() && self.wait(&mut events) {
            for event in &events {
                match event.data.u64() {
                    BELL => self.welcome(),
                    number => self.attend_to(number),
                }
            }
            let load = self.own.load();
            if let Some(percent) = self.meter.as_mut().and_then(|meter| meter.measure(load)) {
                self.give_up(percent);
            }
        }
    }

    /// Gives up the connections that are too many for a loop that takes this percentage of a processor. The first loop with room takes them
    /// over from their threads.
    fn give_up(&self, percent: u64) {
        let members = &self.stage.members;
        let excess = excess(percent, self.before.map(LoopLoad::percent), members.count());
        members.give_up(self.own.epoll(), excess).into_iter().for_each(|one| give_thread(*one));
    }

    /// Waits for events; false if the kernel refuses. Only a wait that may put the thread to sleep is counted, so that the watch
    /// can tell the sleeps of operations from those between them.
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
                // An event reports messages that the client sent meanwhile.
                Ok(_) => {}
                Err(connection) => give_thread(*connection),
            }
        }
    }

    /// Answers the messages that a connection has sent.
    fn attend_to(&self, number: u64) {
        let (stage, epoll) = (self.stage, self.own.epoll());
        let Some(mut connection) = stage.members.take(number) else { return };
        connection.wake();
        stage.progress.turn();
        self.instance.executor.bell.wake();
        // As on a thread of its own, a panic in an operation ends only its own connection.
        let next = catch_unwind(AssertUnwindSafe(|| self.answer(&mut connection)));
        stage.progress.turn();
        match next.unwrap_or(ConnectionOwner::End) {
            ConnectionOwner::Stay => {
                if let Some(connection) = stage.members.put_back(number, connection) {
                    give_thread(*connection);
                }
            }
            ConnectionOwner::Thread => {
                stage.members.forget(epoll, number);
                give_thread(*connection);
            }
            ConnectionOwner::End => stage.members.forget(epoll, number),
        }
    }

    fn answer(&self, connection: &mut IdleConnection<Instance>) -> ConnectionOwner {
        for _ in 0..MAX_MESSAGES_AT_ONCE {
            let length = match connection.receive() {
                BufferState::Frame(length) => length,
                BufferState::Part => return ConnectionOwner::Stay,
                BufferState::End => return ConnectionOwner::End,
            };
            match connection.answer(length) {
                AnswerOutcome::Whole => self.instance.executor.executed.add(1),
                AnswerOutcome::NotWhole => return ConnectionOwner::Thread,
                AnswerOutcome::End => return ConnectionOwner::End,
            }
            if !connection.peer().is_brief() {
                return ConnectionOwner::Thread;
            }
        }
        ConnectionOwner::Thread
    }
}

/// Gives all connections of loops threads of their own, and takes none over for a while. Returns how many there were.
fn dissolve(executor: &Executor<Instance>) -> usize {
    executor.gate.rest();
    let mut count = 0;
    for (one, stage) in executor.loops.all().iter().zip(&executor.stages) {
        // The loop may be working on one of them, and gives that one its thread itself.
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

/// Returns a connection to a thread of its own.
fn give_thread(mut connection: IdleConnection<Instance>) {
    connection.peer_mut().leave_loop();
    connection.attend();
}

#[cfg(test)]
mod tests;
