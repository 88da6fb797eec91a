//! Table: the parameters of `setParameter` and `getParameter`, and what a change does.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fathom_errors::Error;

use crate::config::Config;

/// The values now.
#[derive(Debug)]
pub(crate) struct Parameters {
    sync_delay_ms: AtomicU64,
    journal_commit_interval_ms: AtomicU64,
    cursor_timeout_ms: AtomicU64,
    read_tickets: AtomicI64,
    write_tickets: AtomicI64,
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
        9
    }
}
