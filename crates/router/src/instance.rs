//! One running router: the state that its connections and threads share, and one operation, a command of one of its clients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fathom_service::event_loop::{EventLoop, EventLoops};
use fathom_service::log::Log;
use fathom_service::{IdleConnection, Service};
use parking_lot::{Condvar, Mutex};

use crate::catalog::RoutingCatalog;
use crate::client::{Client, Clients};
use crate::cluster::ClusterMembers;
use crate::config::Config;
use crate::counters::RouterCounters;
use crate::cursors::CursorTable;
use crate::request::CommandRegistry;

/// The balancer's own counts.
#[derive(Debug, Default)]
pub(crate) struct BalancerState {
    pub(crate) in_round: AtomicBool,
    pub(crate) rounds: AtomicU64,
}

/// The parts of a router.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) config: Config,
    /// The commands that the router accepts.
    pub(crate) commands: &'static CommandRegistry,
    pub(crate) log: Arc<Log>,
    pub(crate) cluster: ClusterMembers,
    pub(crate) catalog: RoutingCatalog,
    pub(crate) cursors: CursorTable,
    pub(crate) clients: Clients,
    pub(crate) counters: RouterCounters,
    pub(crate) balancer: BalancerState,
    pub(crate) relay: Relay<Instance>,
    pub(crate) started: Instant,
    /// The port that it actually listens on.
    pub(crate) port: OnceLock<u16>,
    stopping: AtomicBool,
    bell: (Mutex<()>, Condvar),
}

impl Instance {
    /// A router with these commands.
    pub(crate) fn new(config: Config, log: Arc<Log>, commands: &'static CommandRegistry) -> Arc<Instance> {
        Arc::new(Instance {
            cluster: ClusterMembers::new(config.config_db.clone()),
            catalog: RoutingCatalog::default(),
            cursors: CursorTable::default(),
            clients: Clients::default(),
            counters: RouterCounters::new(commands.all().len()),
            commands,
            balancer: BalancerState::default(),
            relay: Relay::default(),
            started: Instant::now(),
            port: OnceLock::new(),
            stopping: AtomicBool::new(false),
            bell: (Mutex::new(()), Condvar::new()),
            log,
            config,
        })
    }

    /// Whether it is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks everything to stop.
    pub(crate) fn stop(&self) {
        let _held = self.bell.0.lock();
        self.stopping.store(true, Ordering::Release);
        self.bell.1.notify_all();
        self.relay.ring();
    }

    /// Rests for a while, or until the router stops.
    pub(crate) fn rest(&self, pause: Duration) {
        let mut held = self.bell.0.lock();
        if !self.is_stopping() {
            self.bell.1.wait_for(&mut held, pause);
        }
    }

    /// The router's name for itself: `host:port`.
    pub(crate) fn name(&self) -> String {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{node}:{}", self.port.get().copied().unwrap_or(self.config.port))
    }
}

/// A command that is being executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouterOperation<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    pub(crate) client: &'a Arc<Client>,
}

/// The number of consecutive queries of one shard after which a loop takes over a connection. Giving it back costs a thread.
const MIN_CONSECUTIVE_QUERIES: u32 = 16;

/// The loops, as seen by the threads that hand connections over.
#[derive(Debug)]
pub(crate) struct Relay<S: Service> {
    loops: EventLoops<S>,
}

impl<S: Service> Default for Relay<S> {
    fn default() -> Self {
        Relay { loops: EventLoops::default() }
    }
}

impl<S: Service> Relay<S> {
    /// The number of event loops.
    pub(crate) fn loops(&self) -> usize {
        self.loops.all().len()
    }

    pub(crate) fn all(&self) -> &[EventLoop<S>] {
        self.loops.all()
    }

    /// Whether a loop should take over a client's connection; if all loops are busy, the connection keeps its thread.
    pub(crate) fn wants(&self, client: &Client) -> bool {
        client.one_shard_queries() >= MIN_CONSECUTIVE_QUERIES && self.loops.have_room()
    }

    /// Hands a connection to a loop.
    pub(crate) fn take(&self, connection: IdleConnection<S>) {
        self.loops.take(connection);
    }

    /// Wakes every event loop.
    pub(crate) fn ring(&self) {
        self.loops.ring();
    }
}
