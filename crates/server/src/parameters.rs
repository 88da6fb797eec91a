//! Table: the parameters of `setParameter` and `getParameter`, and what a change does.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use fathom_errors::Error;

use crate::config::{Config, version};

/// The values now.
#[derive(Debug)]
pub(crate) struct Parameters {
    sync_delay_ms: AtomicU64,
    journal_commit_interval_ms: AtomicU64,
    cursor_timeout_ms: AtomicU64,
    read_tickets: AtomicI64,
    write_tickets: AtomicI64,
    ttl_monitor_enabled: AtomicBool,
    ttl_monitor_sleep_secs: AtomicU64,
    no_table_scan: AtomicBool,
    test_commands: bool,
    max_wire_version: i32,
}

impl Parameters {
    /// The values that a server starts with.
    pub(crate) fn new(config: &Config) -> Result<Parameters, Error> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked when it was parsed"
        )]
        let sync_delay_ms = (config.storage.sync_period_seconds * 1000.0) as u64;
        Ok(Parameters {
            sync_delay_ms: AtomicU64::new(sync_delay_ms),
            journal_commit_interval_ms: AtomicU64::new(config.storage.journal_commit_interval_ms),
            cursor_timeout_ms: AtomicU64::new(600_000),
            read_tickets: AtomicI64::new(128),
            write_tickets: AtomicI64::new(128),
            ttl_monitor_enabled: AtomicBool::new(true),
            ttl_monitor_sleep_secs: AtomicU64::new(60),
            no_table_scan: AtomicBool::new(false),
            test_commands: matches!(
                config.set_parameters.get("enableTestCommands").map(String::as_str),
                Some("1" | "true")
            ),
            max_wire_version: version::max_wire_version(&config.claimed_version),
        })
    }

    /// Milliseconds between two syncs of the journal.
    pub(crate) fn journal_commit_interval_ms(&self) -> u64 {
        self.journal_commit_interval_ms.load(Ordering::Relaxed)
    }

    /// Seconds between two checkpoints; 0: none.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a day fit")]
    pub(crate) fn sync_delay_seconds(&self) -> f64 {
        self.sync_delay_ms.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Milliseconds after which a cursor that nobody asked for goes.
    pub(crate) fn cursor_timeout_ms(&self) -> u64 {
        self.cursor_timeout_ms.load(Ordering::Relaxed)
    }

    /// Readers in the engine at once.
    pub(crate) fn read_tickets(&self) -> i64 {
        self.read_tickets.load(Ordering::Relaxed)
    }

    /// Writers in the engine at once.
    pub(crate) fn write_tickets(&self) -> i64 {
        self.write_tickets.load(Ordering::Relaxed)
    }

    /// The highest wire version that goes with the claimed version.
    pub(crate) fn max_wire_version(&self) -> i32 {
        self.max_wire_version
    }

    /// Whether documents of TTL indexes are removed.
    pub(crate) fn ttl_monitor_enabled(&self) -> bool {
        self.ttl_monitor_enabled.load(Ordering::Relaxed)
    }

    /// Seconds between two rounds of the TTL monitor; a change rings the bell.
    pub(crate) fn ttl_monitor_sleep_secs(&self) -> u64 {
        self.ttl_monitor_sleep_secs.load(Ordering::Relaxed)
    }

    /// Whether queries that would scan a whole collection are refused.
    pub(crate) fn no_table_scan(&self) -> bool {
        self.no_table_scan.load(Ordering::Relaxed)
    }

    /// Whether commands for tests (`configureFailPoint`) are there; decided at the start.
    pub(crate) fn test_commands(&self) -> bool {
        self.test_commands
    }
}
