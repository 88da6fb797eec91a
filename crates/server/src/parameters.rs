//! The current values of the parameters of `setParameter`. `server_parameters` has the rules for reading and changing them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::config::{Config, version};

/// The default number of concurrent readers and of writers in the engine, as in mongod up to 6.0.
const DEFAULT_TICKETS: i64 = 128;

#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) sync_delay_ms: AtomicU64,
    pub(crate) journal_commit_interval_ms: AtomicU64,
    pub(crate) cursor_timeout_ms: AtomicU64,
    pub(crate) cursor_monitor_secs: AtomicU64,
    pub(crate) read_tickets: AtomicI64,
    pub(crate) write_tickets: AtomicI64,
    pub(crate) ttl_monitor_enabled: AtomicBool,
    pub(crate) ttl_monitor_sleep_secs: AtomicU64,
    pub(crate) diagnostic_data_enabled: AtomicBool,
    pub(crate) diagnostic_data_period_ms: AtomicU64,
    pub(crate) diagnostic_data_directory_mb: AtomicU64,
    pub(crate) diagnostic_data_file_mb: AtomicU64,
    pub(crate) no_table_scan: AtomicBool,
    pub(crate) test_commands: AtomicBool,
    pub(crate) replication_writers: AtomicU64,
    pub(crate) scram_iterations: AtomicU64,
    pub(crate) scram_sha256_iterations: AtomicU64,
    /// The configuration string last given to the engine at run time.
    pub(crate) engine_settings: Mutex<String>,
    /// The size of RocksDB's cache, in GB.
    pub(crate) rocksdb_cache_gb: Mutex<f64>,
    pub(crate) max_wire_version: i32,
}

impl Parameters {
    /// The initial values, before `--setParameter`.
    pub(crate) fn new(config: &Config) -> Parameters {
        Parameters {
            sync_delay_ms: AtomicU64::new(milliseconds(config.storage.sync_period_seconds)),
            journal_commit_interval_ms: AtomicU64::new(config.storage.journal_commit_interval_ms),
            cursor_timeout_ms: AtomicU64::new(600_000),
            cursor_monitor_secs: AtomicU64::new(4),
            read_tickets: AtomicI64::new(DEFAULT_TICKETS),
            write_tickets: AtomicI64::new(DEFAULT_TICKETS),
            ttl_monitor_enabled: AtomicBool::new(true),
            ttl_monitor_sleep_secs: AtomicU64::new(60),
            diagnostic_data_enabled: AtomicBool::new(config.storage.diagnostic_data),
            diagnostic_data_period_ms: AtomicU64::new(1000),
            diagnostic_data_directory_mb: AtomicU64::new(250),
            diagnostic_data_file_mb: AtomicU64::new(10),
            no_table_scan: AtomicBool::new(false),
            test_commands: AtomicBool::new(false),
            replication_writers: AtomicU64::new(16),
            scram_iterations: AtomicU64::new(10_000),
            scram_sha256_iterations: AtomicU64::new(15_000),
            engine_settings: Mutex::default(),
            rocksdb_cache_gb: Mutex::new(crate::engines::rocksdb_cache_gb(&config.storage)),
            max_wire_version: version::max_wire_version(&config.claimed_version),
        }
    }

    /// Milliseconds between two syncs of the journal.
    pub(crate) fn journal_commit_interval_ms(&self) -> u64 {
        self.journal_commit_interval_ms.load(Ordering::Relaxed)
    }

    /// Seconds between two checkpoints; 0 disables them.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a day fit")]
    pub(crate) fn sync_delay_seconds(&self) -> f64 {
        self.sync_delay_ms.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Milliseconds after which an unused cursor is closed.
    pub(crate) fn cursor_timeout_ms(&self) -> u64 {
        self.cursor_timeout_ms.load(Ordering::Relaxed)
    }

    /// Seconds between two searches for unused cursors.
    pub(crate) fn cursor_monitor_secs(&self) -> u64 {
        self.cursor_monitor_secs.load(Ordering::Relaxed)
    }

    /// The number of concurrent readers in the engine.
    pub(crate) fn read_tickets(&self) -> i64 {
        self.read_tickets.load(Ordering::Relaxed)
    }

    /// The number of concurrent writers in the engine.
    pub(crate) fn write_tickets(&self) -> i64 {
        self.write_tickets.load(Ordering::Relaxed)
    }

    /// Whether the configuration sets fewer tickets than the default.
    pub(crate) fn tickets_are_scarce(&self) -> bool {
        self.read_tickets().min(self.write_tickets()) < DEFAULT_TICKETS
    }

    /// The number of threads that apply other members' entries (`replWriterThreadCount`).
    pub(crate) fn replication_writers(&self) -> usize {
        usize::try_from(self.replication_writers.load(Ordering::Relaxed)).unwrap_or(1)
    }

    /// The highest wire version of the claimed version.
    pub(crate) fn max_wire_version(&self) -> i32 {
        self.max_wire_version
    }

    /// The iterations of new SCRAM-SHA-1 credentials (`scramIterationCount`).
    pub(crate) fn scram_iterations(&self) -> u64 {
        self.scram_iterations.load(Ordering::Relaxed)
    }

    /// The iterations of new SCRAM-SHA-256 credentials (`scramSHA256IterationCount`).
    pub(crate) fn scram_sha256_iterations(&self) -> u64 {
        self.scram_sha256_iterations.load(Ordering::Relaxed)
    }

    /// Whether documents of TTL indexes are removed.
    pub(crate) fn ttl_monitor_enabled(&self) -> bool {
        self.ttl_monitor_enabled.load(Ordering::Relaxed)
    }

    /// Seconds between two rounds of the TTL monitor. A change wakes it.
    pub(crate) fn ttl_monitor_sleep_secs(&self) -> u64 {
        self.ttl_monitor_sleep_secs.load(Ordering::Relaxed)
    }

    /// Whether queries that would scan a whole collection are refused.
    pub(crate) fn no_table_scan(&self) -> bool {
        self.no_table_scan.load(Ordering::Relaxed)
    }

    /// Whether commands for tests (`configureFailPoint`) are available; decided at the start.
    pub(crate) fn test_commands(&self) -> bool {
        self.test_commands.load(Ordering::Relaxed)
    }
}

/// Seconds as whole milliseconds; a value other than 0 becomes at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the value is in bounds"
)]
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).ceil() as u64
}
