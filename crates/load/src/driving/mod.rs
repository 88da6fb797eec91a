//! Drives a workload: runs loops on threads, opens and reopens connections, and passes on each second's measurements.
//!
//! The measurement begins after the warm-up. A run ends when its operations are done, its time is over, a stop is requested, or
//! it makes no progress for too long. In all cases it returns what was measured until then.

mod arrivals;
mod collector;
mod connector;
mod event_loop;
mod link;
#[cfg(feature = "official-driver")]
mod official;
mod plan;
mod recorder;
#[cfg(test)]
mod simulation;
#[cfg(not(feature = "official-driver"))]
mod without_official;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;

use fathom_client::ConnectionParts;
use fathom_errors::{Error, Kind};
use fathom_stats::SeededRandom;

pub use arrivals::Arrivals;
pub use collector::{End, LoadResult, Observer, SecondMeasurements};
#[cfg(feature = "official-driver")]
pub use official::{check_official_driver, run_by_driver};
pub use plan::DrivingPlan;
pub use recorder::LatencyPoint;
pub use recorder::{Failures, FailuresByKind};
#[cfg(not(feature = "official-driver"))]
pub use without_official::{check_official_driver, run_by_driver};

use self::collector::Collector;
use self::connector::{ConnectionQueue, Opener, connect_all, reconnect};
use self::event_loop::{ClientLoop, LoopContext};
use self::plan::LoopsState;
use self::recorder::LoopGauge;
use crate::source::Source;

/// Connects, runs the workload and measures. `opener` makes the connection of a number; several threads call it at once, and the
/// run does not wait at its end for a call that still blocks. `source` makes the source of each loop, by its number.
///
/// # Errors
/// If the first connections cannot be made, or the system lacks memory for the loops; later errors are counted.
pub fn run<S: Source>(
    plan: &DrivingPlan,
    opener: impl Fn(usize) -> Result<ConnectionParts, Error> + Send + Sync + 'static,
    source: impl Fn(usize) -> S,
    observer: &mut dyn Observer,
) -> Result<LoadResult, Error> {
    raise_file_limit(plan.connections);
    let opener: Arc<Opener> = Arc::new(opener);
    let connections = connect_all(&*opener, plan.connections)?;
    let shared = LoopsState::new(plan);
    let loops = plan.loops.clamp(1, plan.connections.max(1));
    let (words, heard) = mpsc::channel();
    let (wishes, wished) = mpsc::channel();
    let mut collector = Collector::new(&shared, plan, heard);
    let mut built = Vec::new();
    for (number, (first_connection, connections)) in shares(connections, loops).into_iter().enumerate() {
        let share = connections.len() as f64 / plan.connections.max(1) as f64;
        let phase = number as f64 / loops as f64;
        let gauge = Arc::new(LoopGauge::default());
        let source = source(number);
        collector.add(&gauge, &source);
        let place = LoopContext {
            shared: Arc::clone(&shared),
            words: words.clone(),
            wishes: wishes.clone(),
            mailbox: Arc::new(ConnectionQueue::new()?),
            gauge,
            schedule: plan.arrivals.schedule(
                share,
                phase,
                SeededRandom::from_seed(plan.seed).split(1 << 32 | number as u64),
            ),
            first_connection,
            #[cfg(test)]
            simulated: None,
        };
        built.push(ClientLoop::new(place, source, connections)?);
    }
    drop(words);
    thread::scope(|scope| {
        let stop = &shared.stop;
        scope.spawn(move || reconnect(&opener, &wishes, &wished, stop));
        for (number, one) in built.into_iter().enumerate() {
            let named = thread::Builder::new().name(format!("loop{number}"));
            let spawned = named.spawn_scoped(scope, move || one.run());
            spawned.map_err(|error| {
                // Otherwise the run would wait for the loops that run already.
                stop.store(true, Ordering::Relaxed);
                Error::new(Kind::Unsupported, "cannot start a thread").because(error)
            })?;
        }
        Ok(collector.collect(observer))
    })
}

/// The connections of each loop, with the number of the first.
fn shares(connections: Vec<ConnectionParts>, loops: usize) -> Vec<(usize, Vec<ConnectionParts>)> {
    let count = connections.len();
    let mut rest = connections.into_iter();
    let mut first = 0;
    let share = |number: usize| {
        let end = count * (number + 1) / loops;
        let mine: Vec<ConnectionParts> = rest.by_ref().take(end - first).collect();
        let began = first;
        first = end;
        (began, mine)
    };
    (0..loops).map(share).collect()
}

/// Raises the limit of open files: each connection is one, and the usual limit is 1024.
fn raise_file_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + 256;
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
        // If the limit cannot be raised, the connections report their own errors.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}
