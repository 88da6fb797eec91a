//! Drives a workload: loops on their threads, connections made and made anew, a second's measurements handed out as they come.
//!
//! What is measured begins after the warm-up. A run ends when its operations are done, its time is over, somebody stops it, or
//! nothing has moved for too long; whatever the reason, what was measured until then comes back.

mod arrivals;
mod collector;
mod connector;
mod event_loop;
mod link;
#[cfg(feature = "official-driver")]
mod official;
mod plan;
mod recorder;
#[cfg(not(feature = "official-driver"))]
mod without_official;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;

use fathom_client::Parts;
use fathom_errors::{Error, Kind};
use fathom_stats::Seeded;

pub use arrivals::Arrivals;
pub use collector::{End, Ended, Interval, Observer};
#[cfg(feature = "official-driver")]
pub use official::{check_official_driver, run_by_driver};
pub use plan::Plan;
pub use recorder::Point;
pub use recorder::{Failures, FailuresByKind};
#[cfg(not(feature = "official-driver"))]
pub use without_official::{check_official_driver, run_by_driver};

use self::collector::Collector;
use self::connector::{Mailbox, Opener, connect_all, reconnect};
use self::event_loop::{EventLoop, Surroundings};
use self::plan::Shared;
use self::recorder::Gauge;
use crate::source::Source;

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
