//! Drives a workload: loops on their threads, connections made and made anew, a second's measurements handed out as they come.
//!
//! What is measured begins after the warm-up. A run ends when its operations are done, its time is over, somebody stops it, or
//! nothing has moved for too long; whatever the reason, what was measured until then comes back.

mod arrivals;
mod budget;
mod clock;
mod collector;
mod connector;
mod event_loop;
mod failures;
mod link;
#[cfg(feature = "official-driver")]
mod official;
mod recorder;
#[cfg(not(feature = "official-driver"))]
mod without_official;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fathom_client::Parts;
use fathom_errors::{Error, Kind};
use fathom_stats::{Histogram, Seeded};

pub use arrivals::Arrivals;
pub use failures::{Failures, FailuresByKind};
#[cfg(feature = "official-driver")]
pub use official::{check_official_driver, run_by_driver};
pub use recorder::Point;
#[cfg(not(feature = "official-driver"))]
pub use without_official::{check_official_driver, run_by_driver};

use self::collector::Collector;
use self::connector::{Mailbox, Opener, connect_all, reconnect};
use self::event_loop::{EventLoop, Gauge, Shared, Surroundings};
use crate::measurements::Measured;
use crate::source::Source;

/// How a workload is driven.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections over all loops.
    pub connections: usize,
    /// Event loops, one thread each; no more than connections.
    pub loops: usize,
    /// Operations under way on each connection.
    pub depth: usize,
    /// How many operations to do; without an end if none.
    pub operations: Option<u64>,
    /// How long, after the warm-up; without an end if none.
    pub time: Option<Duration>,
    /// How long what is done at the start is not measured.
    pub warmup: Duration,
    /// When operations are due.
    pub arrivals: Arrivals,
    /// How long a reply may take before the operation counts as lost.
    pub deadline: Option<Duration>,
    /// How long nothing may end before the run is given up.
    pub no_progress: Option<Duration>,
    /// The most records of an operation: the size of a batch.
    pub batch: u64,
    /// What the schedules are drawn from.
    pub seed: u64,
    /// Whether each latency is handed out by itself, beside the histograms.
    pub points: bool,
}

/// What was measured in one second, over all loops.
#[derive(Debug)]
pub struct Interval<'a> {
    /// Which second, counted from when measuring began; negative while it warms up.
    pub second: i64,
    /// By kind of operation; those that did not occur are left out.
    pub metrics: &'a [(String, Measured)],
    /// Each latency by itself, where the plan wants them; [`Point::metric`] is a place in [`Interval::names`].
    pub points: &'a [Point],
    /// The names of all kinds of operations.
    pub names: &'a [String],
    /// Operations that ended in it, and all that ended before; 0 while it warms up.
    pub operations: u64,
    /// All since measuring began.
    pub total_operations: u64,
    /// How much later than due operations were sent; empty in a closed loop.
    pub lag: &'a Histogram,
    /// Processor time of the loops, as a share of what their threads can have, 0 to 1.
    pub cpu_share: f64,
    /// Operations under way, on average.
    pub in_flight: f64,
    /// Connections that there are to be.
    pub connections: usize,
    /// BSON bytes of inserted documents and of updates that were sent.
    pub user_bytes: u64,
}

/// Who is told of a run's seconds.
pub trait Observer {
    /// A second is over. Called about a second later at most, in order.
    fn second(&mut self, interval: &Interval<'_>);

    /// Whether the run shall stop now.
    fn stop_asked(&mut self) -> bool;
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All operations are done.
    Done,
    /// Its time is over.
    TimeOver,
    /// Somebody stopped it.
    Stopped,
    /// Nothing ended for so long.
    NoProgress(Duration),
    /// It cannot go on.
    GaveUp(String),
}

/// What a run came to.
#[derive(Debug)]
pub struct Ended {
    /// By kind of operation; those that did not occur are left out.
    pub metrics: Vec<(String, Measured)>,
    /// Operations that ended, and documents of batches.
    pub operations: u64,
    /// How long was measured.
    pub elapsed: Duration,
    /// How much later than due operations were sent; empty in a closed loop.
    pub lag: Histogram,
    /// Processor time of the loops' threads while measured.
    pub cpu: Duration,
    /// How many loops there were.
    pub loops: usize,
    /// Operations under way, on average.
    pub in_flight: f64,
    /// What went wrong, by kind.
    pub failures: FailuresByKind,
    /// Connections that were made anew.
    pub reconnects: u64,
    /// Operations that were under way when the run ended and are not counted.
    pub abandoned: u64,
    /// Why it ended.
    pub end: End,
}

/// Connects, works and measures. `opener` makes the connection of a number; several threads call it at once, and the run does
/// not wait at its end for a call that still blocks. `source` makes the source of each loop, by its number.
///
/// # Errors
/// If the first connections cannot be made, or the system has no room for the loops; what goes wrong later is counted.
pub fn run<S: Source>(
    plan: &Plan,
    opener: impl Fn(usize) -> Result<Parts, Error> + Send + Sync + 'static,
    source: impl Fn(usize) -> S,
    observer: &mut dyn Observer,
) -> Result<Ended, Error> {
    raise_file_limit(plan.connections);
    let opener: Arc<Opener> = Arc::new(opener);
    let connections = connect_all(&*opener, plan.connections)?;
    let shared = Shared::new(plan);
    let loops = plan.loops.clamp(1, plan.connections.max(1));
    let (words, heard) = mpsc::channel();
    let (wishes, wished) = mpsc::channel();
    let mut collector = Collector::new(&shared, plan, heard);
    let mut built = Vec::new();
    for (number, (first_connection, connections)) in shares(connections, loops).into_iter().enumerate() {
        let share = connections.len() as f64 / plan.connections.max(1) as f64;
        let phase = number as f64 / loops as f64;
        let gauge = Arc::new(Gauge::default());
        let source = source(number);
        collector.add(&gauge, source.metrics());
        let place = Surroundings {
            shared: Arc::clone(&shared),
            words: words.clone(),
            wishes: wishes.clone(),
            mailbox: Arc::new(Mailbox::new()?),
            gauge,
            schedule: plan.arrivals.schedule(
                share,
                phase,
                Seeded::from_seed(plan.seed).split(1 << 32 | number as u64),
            ),
            first_connection,
        };
        built.push(EventLoop::new(place, source, connections)?);
    }
    drop(words);
    thread::scope(|scope| {
        let stop = &shared.stop;
        scope.spawn(move || reconnect(&opener, &wishes, &wished, stop));
        for (number, one) in built.into_iter().enumerate() {
            let named = thread::Builder::new().name(format!("loop{number}"));
            let spawned = named.spawn_scoped(scope, move || one.run());
            spawned.map_err(|error| {
                // Those that run already would be waited for.
                stop.store(true, Ordering::Relaxed);
                Error::new(Kind::Unsupported, "cannot start a thread").because(error)
            })?;
        }
        Ok(collector.collect(observer))
    })
}

/// The connections of each loop, with the number of the first.
fn shares(connections: Vec<Parts>, loops: usize) -> Vec<(usize, Vec<Parts>)> {
    let count = connections.len();
    let mut rest = connections.into_iter();
    let mut first = 0;
    let share = |number: usize| {
        let end = count * (number + 1) / loops;
        let mine: Vec<Parts> = rest.by_ref().take(end - first).collect();
        let began = first;
        first = end;
        (began, mine)
    };
    (0..loops).map(share).collect()
}

/// A connection is an open file, and the usual limit is 1024 of them.
fn raise_file_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + 256;
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
        // Where it may not be raised, the connections themselves say what they lack.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}
