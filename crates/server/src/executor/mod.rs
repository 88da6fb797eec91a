//! Who runs operations: a thread for each connection, or, while they are brief, event loops for many (mongod's
//! `net.serviceExecutor`, which had `synchronous` and `adaptive` from 3.6 to 4.2).
//!
//! What an operation on cached data costs is to a good part the thread that is put to sleep and woken for it. A connection whose
//! operations are brief is therefore taken over by a loop, which runs them one after the other. That must not change what a
//! device sees: reads of several clients at once stay several reads at once. So connections are taken over only while the process reads
//! next to nothing from its devices; a loop whose operations wait for anything gives all its connections threads, and for a
//! while none is taken over (`watch`); and what is known to wait, or takes long, is never run by a loop (`brief`).

mod brief;
mod gate;
mod members;
mod progress;
mod running;
mod watch;

use std::sync::Arc;
use std::thread::JoinHandle;

use fathom_errors::{Error, Kind};
use fathom_service::event_loop::EventLoops;
use fathom_service::{Counter, Unattended};

use crate::config::ServiceExecutor;
use crate::instance::Instance;
pub(crate) use brief::{is_brief, was_brief};
pub(crate) use gate::Asked;
use gate::Gate;
use members::Members;
use progress::Progress;
use watch::WatchBell;

/// How many brief operations one after the other make a connection one for a loop. Giving it back costs a thread.
pub(crate) const RUN: u32 = 16;

/// The loops, and whether connections may come to them.
#[derive(Debug)]
pub(crate) struct Executor {
    loops: EventLoops<Instance>,
    /// What each loop has and does, in the same order.
    stages: Vec<Stage>,
    gate: Gate,
    bell: WatchBell,
    /// Operations that loops ran.
    pub(crate) executed: Counter,
    /// How often a loop gave its connections up because they waited.
    pub(crate) dissolved: Counter,
}

/// One loop, as the watch sees it.
#[derive(Debug, Default)]
struct Stage {
    members: Members,
    progress: Progress,
}

impl Executor {
    pub(crate) fn new(kind: ServiceExecutor) -> Executor {
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

    /// Starts the threads.
    pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<JoinHandle<()>>, Error> {
        let loops = instance.executor.stages.len();
        let mut threads = Vec::new();
        for place in 0..loops {
            threads.push(spawn("EventLoop", instance, move |instance| running::run(instance, place))?);
        }
        if loops > 0 {
            threads.push(spawn("EventLoopWatch", instance, watch::watch)?);
        }
        Ok(threads)
    }

    /// Whether a connection is to be taken over after so many brief operations.
    pub(crate) fn wants(&self, brief_run: u32, asked: &Asked) -> bool {
        brief_run >= RUN
            && !self.stages.is_empty()
            && self.gate.lets_in(asked, || self.bell.wake())
            && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<Instance>) {
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

    /// Gives all connections of loops threads of their own, and has none taken over for a while. How many there were.
    fn dissolve(&self) -> usize {
        self.gate.rest();
        let mut count = 0;
        for (one, stage) in self.loops.all().iter().zip(&self.stages) {
            // One of them may be at work: the loop gives that one its thread.
            let before = count;
            count += stage.members.count();
            let resting = stage.members.dissolve(one.epoll()).into_iter().map(|one| *one);
            let arrived = one.arrivals();
            count += arrived.len();
            resting.chain(arrived).for_each(give_thread);
            self.dissolved.add(u64::from(count > before));
        }
        count
    }
}

/// Gives a connection a thread of its own again.
fn give_thread(mut connection: Unattended<Instance>) {
    connection.peer_mut().leave_loop();
    connection.attend();
}

fn spawn(
    name: &str,
    instance: &Arc<Instance>,
    run: impl FnOnce(&Arc<Instance>) + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let instance = Arc::clone(instance);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&instance))
        .map_err(|error| Error::new(Kind::Io, format!("cannot start the thread {name}")).because(error))
}
