//! One running router: everything that its connections and threads share, and an operation, which is one of its clients' at work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fathom_service::event_loop::{EventLoop, EventLoops};
use fathom_service::log::Log;
use fathom_service::{Service, Unattended};
use parking_lot::{Condvar, Mutex};

use crate::catalog::Catalog;
use crate::client::{Client, Clients};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::counters::Counters;
use crate::cursors::CursorTable;
use crate::request::CommandRegistry;

/// What the balancer does of itself.
#[derive(Debug, Default)]
pub(crate) struct BalancerState {
    pub(crate) in_round: AtomicBool,
    pub(crate) rounds: AtomicU64,
}

/// What a router is made of.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) config: Config,
    /// The commands that clients may ask for.
    pub(crate) commands: &'static CommandRegistry,
    pub(crate) log: Arc<Log>,
    pub(crate) cluster: Cluster,
    pub(crate) catalog: Catalog,
    pub(crate) cursors: CursorTable,
    pub(crate) clients: Clients,
    pub(crate) counters: Counters,
    pub(crate) balancer: BalancerState,
    pub(crate) relay: Relay<Instance>,
    pub(crate) started: Instant,
    /// The port that it really listens on.
    pub(crate) port: OnceLock<u16>,
    stopping: AtomicBool,
    bell: (Mutex<()>, Condvar),
}

impl Instance {
    /// A router with these commands.
    pub(crate) fn new(config: Config, log: Arc<Log>, commands: &'static CommandRegistry) -> Arc<Instance> {
        Arc::new(Instance {
            cluster: Cluster::new(config.config_db.clone()),
            catalog: Catalog::default(),
            cursors: CursorTable::default(),
            clients: Clients::default(),
            counters: Counters::new(commands.all().len()),
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

    /// What the router calls itself: `host:port`.
    pub(crate) fn name(&self) -> String {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{node}:{}", self.port.get().copied().unwrap_or(self.config.port))
    }
}

/// One command at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    pub(crate) client: &'a Arc<Client>,
}

/// After how many queries of one shard, one after the other, a connection is taken over. Giving it back costs a thread.
const RUN: u32 = 16;

/// The loops, as those see them who hand connections over.
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
    /// How many loops there are.
    pub(crate) fn loops(&self) -> usize {
        self.loops.all().len()
    }

    /// The loops.
    pub(crate) fn all(&self) -> &[EventLoop<S>] {
        self.loops.all()
    }

    /// Whether a client's connection is to be taken over; where all loops are busy it keeps its thread.
    pub(crate) fn wants(&self, client: &Client) -> bool {
        client.one_shard_queries() >= RUN && self.loops.have_room()
    }

    /// Takes a connection over.
    pub(crate) fn take(&self, connection: Unattended<S>) {
        self.loops.take(connection);
    }

    /// Wakes all loops.
    pub(crate) fn ring(&self) {
        self.loops.ring();
    }
}
