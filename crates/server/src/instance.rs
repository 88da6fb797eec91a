//! One running server: the state that its connections and background threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bson::doc;
use fathom_engine::Engine;
use fathom_errors::{Error, Kind};
use fathom_query::{Code, Failure};
use parking_lot::Mutex;

use crate::client::Clients;
use crate::config::{ClusterRole, Config};
use crate::cursors::CursorTable;
use crate::executor::Executor;
use crate::fail_points::FailPoints;
use crate::log::{Log, LogSeverity};
use crate::parameters::Parameters;
use crate::replica_set::ReplicaSetState;
use crate::request::CommandRegistry;
use crate::sessions::Sessions;
use crate::sharding_state::Sharding;
use crate::stats::{Profiler, ServerCounters};
use crate::storage::background_waker::{BackgroundWaker, CheckpointFigures};
use crate::storage::{Catalog, Collection, DataDirectory, JournalFlusher, SetTables, Tickets};
use crate::users::Users;
use crate::write_gate::WriteGate;

/// The parts of a server.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) config: Config,
    /// The commands that clients may run.
    pub(crate) commands: &'static CommandRegistry,
    /// An id that distinguishes this server from any other while it runs.
    pub(crate) id: bson::oid::ObjectId,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) catalog: Catalog,
    pub(crate) journal: JournalFlusher,
    pub(crate) read_tickets: Tickets,
    pub(crate) write_tickets: Tickets,
    pub(crate) write_gate: WriteGate,
    pub(crate) cursors: CursorTable,
    pub(crate) clients: Clients,
    pub(crate) executor: Executor<Instance>,
    pub(crate) parameters: Parameters,
    pub(crate) counters: ServerCounters,
    pub(crate) profiler: Profiler,
    pub(crate) fail_points: FailPoints,
    pub(crate) users: Users,
    pub(crate) sessions: Sessions,
    pub(crate) sharding: Sharding,
    /// The replica set that it belongs to.
    pub(crate) set: Option<Arc<ReplicaSetState>>,
    pub(crate) log: Arc<Log>,
    pub(crate) bell: BackgroundWaker,
    pub(crate) started: Instant,
    /// The port on which it actually listens.
    pub(crate) port: std::sync::OnceLock<u16>,
    pub(crate) directory: Option<Mutex<DataDirectory>>,
    /// A reference to itself, for work that begins without a connection.
    itself: Weak<Instance>,
    oplog_bytes: std::sync::OnceLock<u64>,
    stopping: AtomicBool,
    /// Held while a checkpoint runs: one at a time.
    pub(crate) checkpointing: Mutex<()>,
    /// Held from reading to writing the record of the data's validity, which checkpoints and rollbacks both change.
    pub(crate) validity: Mutex<()>,
    pub(crate) checkpoints: Mutex<CheckpointFigures>,
    /// The error that forced the server to stop.
    fatal: Mutex<Option<Error>>,
}

impl Instance {
    /// Makes a server over an open engine, with these commands; also returns the collections that must be counted again.
    pub(crate) fn new(
        config: Config,
        engine: Arc<dyn Engine>,
        directory: Option<DataDirectory>,
        log: Arc<Log>,
        commands: &'static CommandRegistry,
    ) -> Result<(Arc<Instance>, Vec<Arc<Collection>>), Error> {
        let failed =
            |failure: fathom_wire::Failure| Error::new(Kind::Corruption, failure.message().to_owned());
        let tables = SetTables::new(config.replication.set_name.is_some());
        let (catalog, recount) = Catalog::open(&engine, tables).map_err(failed)?;
        let parameters = Parameters::new(&config);
        let users = Users::open(&config, &engine, &catalog, &log)?;
        let instance =
            Arc::new_cyclic(|itself| Instance {
                itself: Weak::clone(itself),
                id: bson::oid::ObjectId::new(),
                journal: JournalFlusher::new(Arc::clone(&engine)),
                catalog,
                engine,
                read_tickets: Tickets::new(parameters.read_tickets()),
                write_tickets: Tickets::new(parameters.write_tickets()),
                write_gate: WriteGate::default(),
                cursors: CursorTable::default(),
                clients: Clients::default(),
                executor: Executor::new(config.net.service_executor),
                counters: ServerCounters::new(commands.all().len()),
                commands,
                profiler: Profiler::new(&config),
                fail_points: FailPoints::new(&config),
                users,
                sessions: Sessions::default(),
                sharding: Sharding::default(),
                set: config.replication.set_name.as_deref().map(|name| {
                    Arc::new(ReplicaSetState::new(name, config.cluster_role == ClusterRole::Config))
                }),
                parameters,
                log,
                bell: BackgroundWaker::default(),
                started: Instant::now(),
                port: std::sync::OnceLock::new(),
                directory: directory.map(Mutex::new),
                oplog_bytes: std::sync::OnceLock::new(),
                stopping: AtomicBool::new(false),
                checkpointing: Mutex::default(),
                validity: Mutex::default(),
                checkpoints: Mutex::default(),
                fatal: Mutex::default(),
                config,
            });
        Ok((instance, recount))
    }

    /// A reference to itself, while it exists.
    pub(crate) fn itself(&self) -> Option<Arc<Instance>> {
        self.itself.upgrade()
    }

    /// Whether it is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Fails with [`Code::InterruptedAtShutdown`] if the server is stopping; for work that need not be finished first.
    pub(crate) fn check_stopping(&self) -> crate::Result<()> {
        if self.is_stopping() {
            return Err(Failure::new(Code::InterruptedAtShutdown, "interrupted at shutdown"));
        }
        Ok(())
    }

    /// Asks all connections and threads to stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        self.executor.ring();
        self.set.iter().for_each(|set| set.stop_fetching());
    }

    /// Stops the server because its data can no longer be kept safe: confirmed writes are on the disk, and no further ones
    /// are confirmed.
    pub(crate) fn die(&self, what: &str, error: &Error) {
        let mut fatal = self.fatal.lock();
        if fatal.is_none() {
            self.log.write(
                LogSeverity::Fatal,
                "STORAGE",
                23091,
                "initandlisten",
                "Fatal assertion",
                doc! {
                    "what": what,
                    "error": error.to_string(),
                },
            );
            // To the program that started it, a server that stopped is a fault of the environment (exit code 3), not a result.
            let kind = if error.kind().exit_code() == 3 { error.kind() } else { Kind::Stopped };
            *fatal = Some(Error::new(kind, format!("{what}, so the server stopped: {error}")));
        }
        drop(fatal);
        self.stop();
    }

    /// The error that forced the server to stop, if any.
    pub(crate) fn take_fatal(&self) -> Option<Error> {
        self.fatal.lock().take()
    }

    /// The maximum size of the oplog: `--oplogSize`, or 5 % of the disk's free space, at least 990 MB and at most 50 GB.
    pub(crate) fn oplog_bytes(&self) -> i64 {
        const MB: u64 = 1 << 20;
        let free = || {
            let free = rustix::fs::statvfs(&self.config.storage.db_path);
            let free = free.map_or(0, |free| free.f_bavail.saturating_mul(free.f_frsize));
            (free / 20).clamp(990 * MB, 51_200 * MB)
        };
        let bytes = *self.oplog_bytes.get_or_init(|| {
            self.config.replication.oplog_size_mb.map_or_else(free, |mb| mb.saturating_mul(MB))
        });
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    /// The machine's name and our port, as mongod names itself; the default port is left out.
    pub(crate) fn host(&self) -> String {
        const USUAL_PORT: u16 = 27017;
        let name = machine();
        match self.port.get() {
            Some(port) if *port != USUAL_PORT => format!("{name}:{port}"),
            _ => name,
        }
    }

    pub(crate) fn checkpoint_figures(&self) -> CheckpointFigures {
        *self.checkpoints.lock()
    }
}

pub(crate) fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
