//! One running router: everything that its connections and threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fathom_service::log::Log;
use parking_lot::{Condvar, Mutex};

use crate::balancer_state::BalancerState;
use crate::catalog::Catalog;
use crate::client::Clients;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::counters::Counters;
use crate::cursors::CursorTable;
use crate::relay_loops::Relay;

/// What a router is made of.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) config: Config,
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
    /// A router that counts `commands` different commands.
    pub(crate) fn new(config: Config, log: Arc<Log>, commands: usize) -> Arc<Instance> {
        Arc::new(Instance {
            cluster: Cluster::new(config.config_db.clone()),
            catalog: Catalog::default(),
            cursors: CursorTable::default(),
            clients: Clients::default(),
            counters: Counters::new(commands),
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
