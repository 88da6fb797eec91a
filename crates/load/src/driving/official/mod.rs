//! Runs the same workload through the official Rust driver, to show the cost of a driver.
//!
//! A source's message is translated into the call that a program would make: reads, inserts, updates and
//! removals use the driver's typed collections, the rest its raw commands (`command.rs`). So an operation has
//! the costs of each user of the driver: choosing a server, a pool's connection, an implicit session, documents
//! assembled and parsed, a runtime's tasks. A task represents a connection, with a source of its own, on as many threads as
//! the event loops would use; the same collector gets the same measurements.
//!
//! Processor time is that of the process without the two threads of ours that only collect and pace; the driver's own helpers
//! (monitors, look-ups of names) are part of its cost.
//!
//! Refuses several operations under way on one connection and unacknowledged writes (`w=0`): the driver has neither.
//! Its pool fills while the run begins, so that the first operations also wait for connections; a warm-up excludes that.

mod command;
mod execution;
mod pacer;
mod worker;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bson::{RawDocumentBuf, doc, rawdoc};
use fathom_client::connection_text::with_escaped_login;
use fathom_errors::{Error, Kind};
use fathom_stats::SeededRandom;
use mongodb::Client;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use tokio::runtime::{Builder, Runtime};

use self::command::CommandDefaults;
use self::execution::Execution;
use self::pacer::{Pacer, TaskLane, TaskPace};
use self::worker::{DriverTask, TaskEndGuard};
use super::collector::Collector;
use super::plan::{LoopsState, thread_cpu_ns};
use super::{DrivingPlan, LoadResult, Observer, SecondMeasurements, raise_file_limit};
use crate::binding::Binding;
use crate::source::Source;

/// The time limit for the driver to close its connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether [`run_by_driver`] can run: in this build it can.
///
/// # Errors
/// None; a build without the driver refuses here.
pub fn check_official_driver() -> Result<(), Error> {
    Ok(())
}

/// [`super::run`] through the official driver, which reads the connection string `url` itself; the options of reads and writes
/// are the binding's. `source` makes the source of each connection, by its number.
///
/// # Errors
/// If the driver does not support the request, cannot parse the connection string, or is refused; later errors
/// are counted.
pub fn run_by_driver<S>(
    plan: &DrivingPlan,
    url: &str,
    binding: &Binding,
    source: impl Fn(usize) -> S,
    observer: &mut dyn Observer,
) -> Result<LoadResult, Error>
where
    S: Source + 'static,
{
    refuse(plan, binding)?;
    let connections = plan.connections.max(1);
    let loops = plan.loops.clamp(1, connections);
    raise_file_limit(connections);
    let runtime =
        Builder::new_multi_thread().worker_threads(loops).thread_name("driver").enable_all().build();
    let runtime = runtime
        .map_err(|error| Error::new(Kind::Unsupported, "cannot start the driver's runtime").because(error))?;
    let client = runtime.block_on(connect(url, binding, connections))?;
    let lanes: Vec<Arc<TaskLane>> = (0..loops).map(|_| Arc::default()).collect();
    let shared = LoopsState::new(plan);
    let sources: Vec<S> = (0..connections).map(source).collect();
    let (words, heard) = mpsc::channel();
    let mut collector = Collector::new(&shared, plan, heard);
    for (lane, source) in lanes.iter().zip(&sources) {
        collector.add(&lane.gauge, source);
    }
    let schedule = plan.arrivals.schedule(1.0, 0.0, SeededRandom::from_seed(plan.seed).split(1 << 32));
    let pace = schedule.clone().map(|schedule| Arc::new(TaskPace::new(schedule)));
    let running = Arc::new(AtomicUsize::new(connections));
    let collecting_ns = Arc::new(AtomicU64::new(thread_cpu_ns()));
    let pacer = Pacer {
        shared: Arc::clone(&shared),
        lanes: lanes.clone(),
        words,
        schedule,
        pace: pace.clone(),
        running: Arc::clone(&running),
        collecting_ns: Arc::clone(&collecting_ns),
    };
    let ended = thread::scope(|scope| {
        let pacer = thread::Builder::new().name("pacer".to_owned()).spawn_scoped(scope, || pacer.run());
        let pacer =
            pacer.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
        let usual = Arc::new(CommandDefaults::new(binding));
        for (number, source) in sources.into_iter().enumerate() {
            let Some(lane) = lanes.get(number % loops) else { continue };
            let worker = DriverTask {
                shared: Arc::clone(&shared),
                lane: Arc::clone(lane),
                pace: pace.clone(),
                source,
                usual: Arc::clone(&usual),
                execution: Execution::new(client.database(&binding.database)),
                frame: Vec::new(),
                reply: Vec::new(),
                leaving: TaskEndGuard::new(&shared, &running, pacer.thread()),
            };
            runtime.spawn(worker.run());
        }
        Ok::<_, Error>(collector.collect(&mut CostObserver { observer, collecting_ns }))
    })?;
    say_goodbye(runtime, client);
    Ok(ended)
}

fn refuse(plan: &DrivingPlan, binding: &Binding) -> Result<(), Error> {
    let cannot = |what: &str, advice: &str| {
        let what = format!("the official driver {what}");
        Err(Error::new(Kind::Usage, what).advise(advice))
    };
    if plan.depth > 1 {
        return cannot("has one operation under way on a connection", "leave pipelinedepth at 1");
    }
    if !binding.acknowledged {
        return cannot("refuses writes that nothing answers (w=0)", "use w=1, or --driver own");
    }
    Ok(())
}

/// Closes the driver's connections, as far as that is possible at once.
fn say_goodbye(runtime: Runtime, client: Client) {
    // A server that has stopped needs no logout.
    let _ = runtime.block_on(async {
        tokio::time::timeout(CLOSE_TIMEOUT, client.shutdown().immediate(true).into_future()).await
    });
    runtime.shutdown_timeout(CLOSE_TIMEOUT);
}

/// An observer that reports the cost of collecting to the pacer.
struct CostObserver<'a> {
    observer: &'a mut dyn Observer,
    collecting_ns: Arc<AtomicU64>,
}

impl Observer for CostObserver<'_> {
    fn second(&mut self, interval: &SecondMeasurements<'_>) {
        self.observer.second(interval);
    }

    fn stop_asked(&mut self) -> bool {
        // This is called every few milliseconds.
        self.collecting_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        self.observer.stop_asked()
    }
}

/// The time limit for the first answer if the connection string sets none, so that an error comes within 5 s.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// The connections that the pool opens at once, as many as our own client does.
const MAX_CONNECTING: u32 = 16;

/// The driver's options. An error repeats nothing of the connection string except what the driver says is wrong with it.
async fn client_options(url: &str, binding: &Binding, connections: usize) -> Result<ClientOptions, Error> {
    let options = ClientOptions::parse(with_escaped_login(url)).await;
    let mut options = options.map_err(|error| refused("cannot use the connection string", &error))?;
    options.app_name.get_or_insert_with(|| "fathom".to_owned());
    options.max_pool_size = Some(u32::try_from(connections).unwrap_or(u32::MAX));
    options.max_connecting.get_or_insert(MAX_CONNECTING);
    options.server_selection_timeout.get_or_insert(FIRST_ANSWER_TIMEOUT);
    options.connect_timeout =
        Some(options.connect_timeout.map_or(FIRST_ANSWER_TIMEOUT, |time| time.min(FIRST_ANSWER_TIMEOUT)));
    // YCSB's old options for these count if the connection string has none, so the binding's combination of both is used.
    options.write_concern = read::<WriteConcern>(binding.write_concern.as_ref())?;
    options.selection_criteria =
        read::<ReadPreference>(binding.read_preference.as_ref())?.map(SelectionCriteria::ReadPreference);
    let level = binding.read_concern.as_deref().map(|level| rawdoc! { "level": level });
    options.read_concern = read::<ReadConcern>(level.as_ref())?;
    Ok(options)
}

/// Connects. As little of the connection string is repeated as by [`client_options`].
async fn connect(url: &str, binding: &Binding, connections: usize) -> Result<Client, Error> {
    let options = client_options(url, binding, connections).await?;
    let criteria = options.selection_criteria.clone();
    let client =
        Client::with_options(options).map_err(|error| refused("cannot use the connection string", &error))?;
    let ping = client.database("admin");
    let ping = ping.run_command(doc! { "ping": 1 });
    let ping = match criteria {
        Some(criteria) => ping.selection_criteria(criteria),
        None => ping,
    };
    ping.await.map_err(|error| refused("cannot connect", &error))?;
    Ok(client)
}

fn read<T: serde::de::DeserializeOwned>(document: Option<&RawDocumentBuf>) -> Result<Option<T>, Error> {
    let read = document.map(|document| bson::deserialize_from_slice(document.as_bytes())).transpose();
    read.map_err(|error| Error::usage("the official driver does not take these options").because(error))
}

fn refused(what: &str, error: &mongodb::error::Error) -> Error {
    let kind = match &*error.kind {
        ErrorKind::InvalidArgument { .. } | ErrorKind::InvalidTlsConfig { .. } => Kind::Usage,
        ErrorKind::Authentication { .. } => Kind::Permission,
        ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. } => Kind::NotFound,
        _ => Kind::Io,
    };
    // Only the kind is used: the whole error repeats itself, with labels and replies.
    Error::new(kind, format!("the official driver {what}")).because(error.kind.to_string())
}

#[cfg(test)]
mod tests {
    use fathom_client::Target;

    use super::*;
    use crate::properties::Properties;

    /// The time limits for choosing a server and for connecting, in milliseconds.
    fn limits_ms(option: &str) -> [Option<u128>; 2] {
        let url = format!("mongodb://127.0.0.1:1/y?{option}");
        let (binding, _) = Binding::from_properties(&Properties::default()).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let options = runtime.block_on(client_options(&url, &binding, 4)).unwrap();
        [options.server_selection_timeout, options.connect_timeout].map(|time| Some(time?.as_millis()))
    }

    /// The driver itself refuses a login with a `#` or a bracket, which our client takes.
    #[test]
    fn every_login_that_our_client_takes() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (binding, _) = Binding::from_properties(&Properties::default()).unwrap();
        for character in (' '..='~').chain("ß€🙂".chars()) {
            let url = format!("mongodb://u:geh{character}eim@127.0.0.1:1/y?w=1");
            let Ok(ours) = url.parse::<Target>() else { continue };
            let theirs = runtime.block_on(client_options(&url, &binding, 4)).unwrap().credential.unwrap();
            assert_eq!(theirs.password, Some(ours.credential.unwrap().password), "{character}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_given_up_after_four_seconds() {
        assert_eq!(limits_ms(""), [Some(4000), Some(4000)]);
        assert_eq!(limits_ms("connectTimeoutMS=60000"), [Some(4000), Some(4000)]);
        assert_eq!(limits_ms("connectTimeoutMS=2000"), [Some(4000), Some(2000)]);
        assert_eq!(limits_ms("serverSelectionTimeoutMS=9000"), [Some(9000), Some(4000)]);
    }
}
