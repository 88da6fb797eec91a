//! The state that all sessions share: the connection, whether it continues, the tables by name, and the idle sessions.
//!
//! WiredTiger sessions are expensive to create and are kept until the end; there are never more than were in use at once.
//! Closing frees them all, so it is refused while one is in use. The safety of the wrappers depends on this.

#![expect(unsafe_code, reason = "closing a connection is only allowed when nothing uses it")]

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_engine::{Error, KeyKind, Kind, Result, Table};
use parking_lot::Mutex;

use crate::connection::ConnectionHandle;
use crate::core::PooledSession;
use crate::events::{self, EventHandler};
use crate::fault::EngineFault;
use crate::options::Options;

/// Numbers of tables are never used twice in a process, so that a table of one engine is never taken for another's.
static NEXT_SLOT: AtomicU64 = AtomicU64::new(1);

/// The shared state of an engine.
#[derive(Debug)]
pub(crate) struct EngineState {
    pub(crate) options: Options,
    pub(crate) connection: ConnectionHandle,
    pub(crate) fault: EngineFault,
    pub(crate) events: &'static EventHandler,
    /// Counts removals of tables; a session that sees it changed closes its idle cursors.
    pub(crate) generation: AtomicU64,
    pool: Mutex<Pool>,
    tables: Mutex<HashMap<String, Table>>,
}

#[derive(Debug, Default)]
struct Pool {
    /// Every session of the library that was made.
    all: Vec<Arc<PooledSession>>,
    idle: Vec<Arc<PooledSession>>,
    /// How many are in use.
    used: usize,
    closed: bool,
}

impl EngineState {
    pub(crate) fn new(
        options: Options,
        connection: ConnectionHandle,
        events: &'static EventHandler,
        fault: EngineFault,
    ) -> Self {
        EngineState {
            options,
            connection,
            fault,
            events,
            generation: AtomicU64::new(0),
            pool: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// A WiredTiger session for use, an idle or a new one, until it is given back.
    pub(crate) fn lend(&self) -> Result<Arc<PooledSession>> {
        self.fault.check()?;
        let mut pool = self.pool.lock();
        if pool.closed {
            return Err(Error::new(Kind::Stopped, "the storage engine was closed"));
        }
        let core = match pool.idle.pop() {
            Some(core) => core,
            None => {
                events::forget_last();
                let session =
                    self.connection.open_session().map_err(|code| self.error(code, "open a session", ""))?;
                let core = Arc::new(PooledSession::new(session));
                pool.all.push(Arc::clone(&core));
                core
            }
        };
        pool.used += 1;
        Ok(core)
    }

    /// Takes a session back.
    pub(crate) fn give_back(&self, core: Arc<PooledSession>) {
        let mut pool = self.pool.lock();
        pool.idle.push(core);
        pool.used = pool.used.saturating_sub(1);
    }

    /// Closes the idle cursors of a table in all sessions that are not within an operation or a transaction; the others close
    /// theirs at their next operation.
    pub(crate) fn shed(&self, slot: u64) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        for core in &self.pool.lock().all {
            if let Some(mut entered) = core.try_enter() {
                entered.cache().close_table(slot);
            }
        }
    }

    /// A table by its name, registered if it was not yet.
    pub(crate) fn register(&self, ident: &str, keys: KeyKind) -> Table {
        let mut tables = self.tables.lock();
        let new = || Table::new(ident, keys, NEXT_SLOT.fetch_add(1, Ordering::Relaxed));
        tables.entry(ident.to_owned()).or_insert_with(new).clone()
    }

    /// A table that was opened before.
    pub(crate) fn known(&self, ident: &str) -> Option<Table> {
        self.tables.lock().get(ident).cloned()
    }

    /// Forgets a table that was dropped.
    pub(crate) fn forget(&self, ident: &str) {
        self.tables.lock().remove(ident);
    }

    /// An error with WiredTiger's message for it.
    pub(crate) fn error(&self, code: c_int, action: &str, object: &str) -> Error {
        self.fault.error(code, action, object, true)
    }

    /// Closes the connection with a last checkpoint; after a failure it stays open until the process ends.
    pub(crate) fn close(&self) -> Result<()> {
        let mut pool = self.pool.lock();
        if pool.closed {
            return Err(Error::new(Kind::Stopped, "the storage engine was closed"));
        }
        if pool.used > 0 {
            let what = format!("cannot close the storage engine: {} of its sessions are in use", pool.used);
            return Err(Error::new(Kind::Busy, what));
        }
        let healthy = self.fault.check();
        pool.closed = true;
        pool.idle.clear();
        pool.all.clear();
        events::forget_last();
        // After a panic no transaction can end any more, and WiredTiger's close would wait for all of them for ever.
        let outcome = healthy.and_then(|()| {
            // SAFETY: no session is in use, so no cursor either, and `closed` lets none be made: a session in use holds
            // it as used, and the whole is only reached through `lend`.
            match unsafe { self.connection.close() } {
                0 => Ok(()),
                code => {
                    Err(self.error(code, "close the database in", &self.options.dir.display().to_string()))
                }
            }
        });
        self.fault.close();
        self.events.set_log(None);
        outcome
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        // Sessions hold the whole, so none is left. An error was logged by the library; there is no caller to return it to.
        let _ = self.close();
    }
}
