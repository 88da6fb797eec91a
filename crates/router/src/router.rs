//! Starts and stops a router, and serves its connections.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_client::{LOOK_UP_TIMEOUT, host_addresses};
use fathom_errors::{Error, Kind};
use fathom_service::log::{Log, LogSeverity};
use fathom_service::{
    Answer, ConnectionLimits, IdleConnection, Listener, NetworkCounters, RequestMessage, Service, bind,
    spawn_thread,
};

use crate::Result;
use crate::balancer;
use crate::client::Client;
use crate::commands;
use crate::config::Config;
use crate::dispatch;
use crate::instance::Instance;
use crate::relay;
use crate::upkeep;

impl Service for Instance {
    type Peer = Arc<Client>;

    fn log(&self) -> &Log {
        &self.log
    }

    fn traffic(&self) -> &NetworkCounters {
        &self.counters.traffic
    }

    fn is_stopping(&self) -> bool {
        Instance::is_stopping(self)
    }

    fn welcome(&self, remote: &str, _socket: &Arc<TcpStream>) -> (u64, Arc<Client>) {
        let client = self.clients.add(remote);
        (client.id, client)
    }

    fn turn_away(&self) {
        self.clients.reject();
    }

    fn answer(
        self: &Arc<Self>,
        peer: &mut Arc<Client>,
        incoming: &RequestMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer> {
        Ok(dispatch::run(self, peer, incoming, out))
    }

    fn is_over(&self, _: &Arc<Client>) -> bool {
        false
    }

    fn leave(&self, id: u64) {
        self.clients.remove(id);
    }

    fn is_wanted(&self, client: &Arc<Client>) -> bool {
        self.relay.wants(client) && !self.is_stopping()
    }

    fn take_over(self: &Arc<Self>, connection: IdleConnection<Self>) {
        self.relay.take(connection);
    }
}

/// The time that the config servers have to answer at the start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);

/// A router that is running.
#[derive(Debug)]
pub struct Router {
    instance: Arc<Instance>,
    listener: Listener,
    threads: Vec<JoinHandle<()>>,
}

impl Router {
    /// Starts a router; clients may connect when it returns. Waits a minute for config servers that do not answer yet.
    pub fn start(config: Config) -> Result<Router, Error> {
        Router::start_unless(config, &|| false)
    }

    /// As [`Router::start`]; the wait for the config servers ends when `asked` returns true.
    pub fn start_unless(config: Config, asked: &dyn Fn() -> bool) -> Result<Router, Error> {
        let log = Arc::new(Log::open(&config.log)?);
        Router::open(config, &log, asked).inspect_err(|error| {
            let attributes = doc! { "error": error.to_string() };
            log.write(
                LogSeverity::Error,
                "CONTROL",
                20557,
                "mongosMain",
                "The router cannot start",
                attributes,
            );
        })
    }

    /// As [`Router::start`], with a log that only `getLog` shows: for a router inside another program.
    pub fn start_quiet(config: Config) -> Result<Router, Error> {
        let log = Arc::new(Log::quiet(&config.log));
        Router::open(config, &log, &|| false)
    }

    fn open(config: Config, log: &Arc<Log>, asked: &dyn Fn() -> bool) -> Result<Router, Error> {
        let addresses_of = |host: &str| host_addresses(host, 0, LOOK_UP_TIMEOUT);
        let listeners = bind(&config.bind_ip, config.port, addresses_of)?;
        log_start(log, &config);
        let limits = ConnectionLimits { max_connections: config.max_connections, may_be_plain: true };
        let balances = config.balancer;
        let instance = Instance::new(config, Arc::clone(log), commands::registry());
        if let Some(address) = listeners.first().and_then(|listener| listener.local_addr().ok()) {
            let _ = instance.port.set(address.port());
        }
        wait_for_config(&instance, asked)?;
        let mut threads = vec![spawn_thread("upkeep", &instance, upkeep::run)?];
        if balances {
            threads.push(spawn_thread("balancer", &instance, balancer::run)?);
        }
        for place in 0..instance.relay.loops() {
            threads.push(spawn_thread("relay", &instance, move |instance| relay::run(instance, place))?);
        }
        let listener = Listener::start(&instance, listeners, limits, None)?;
        let port = doc! { "port": i32::from(instance.port.get().copied().unwrap_or(0)) };
        log.info("NETWORK", 23016, "listener", "Waiting for connections", port);
        Ok(Router { instance, listener, threads })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.instance.port.get().copied().unwrap_or(0)
    }

    /// Whether a client's `shutdown` asked it to stop.
    pub fn is_stopping(&self) -> bool {
        self.instance.is_stopping()
    }

    /// Stops the router: it takes no new work and closes its connections.
    pub fn stop(self) {
        let Router { instance, listener, threads } = self;
        instance.log.info("CONTROL", 23138, "mongosMain", "Shutting down", doc! {});
        instance.stop();
        listener.stop();
        for thread in threads {
            // A thread that panicked needs no further handling.
            let _ = thread.join();
        }
        instance.log.info("CONTROL", 20565, "mongosMain", "Now exiting", doc! {});
    }

    /// Begins a new log file; a failure is logged.
    pub fn rotate_log(&self) {
        if let Err(error) = self.instance.log.rotate() {
            let attributes = doc! { "error": error.to_string() };
            self.instance.log.warning("CONTROL", 23168, "signals", "Log rotation failed", attributes);
        }
    }

    /// Waits for a request to stop: `asked` is called several times a second.
    pub fn wait(&self, asked: &dyn Fn(Duration) -> bool) {
        while !self.is_stopping() && !asked(Duration::from_millis(100)) {}
    }
}

fn wait_for_config(instance: &Instance, asked: &dyn Fn() -> bool) -> Result<(), Error> {
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let Err(failure) = upkeep::begin(instance) else { return Ok(()) };
        if asked() || Instant::now() >= until {
            let what = format!("the config servers {} cannot be used", instance.config.config_db);
            let error = Error::new(Kind::NotFound, what).because(failure);
            return Err(error.advise("check --configdb, and that they run"));
        }
        std::thread::sleep(PAUSE);
    }
}

fn log_start(log: &Log, config: &Config) {
    let attributes = doc! {
        "pid": i64::from(std::process::id()),
        "port": i32::from(config.port),
        "configdb": config.config_db.to_string(),
        "fathomVersion": env!("CARGO_PKG_VERSION"),
        "claimedVersion": &config.claimed_version,
    };
    log.info("CONTROL", 4_615_611, "mongosMain", "fathom route starting", attributes);
    let options: bson::Document = config.parsed.clone().into_iter().collect();
    let attributes = doc! { "options": options };
    log.info("CONTROL", 21951, "mongosMain", "Options set by command line", attributes);
}
