//! What of a collection may change while it is open, its validator (`validator`, `validationLevel`, `validationAction`) included, and the lock
//! around it.
//!
//! Operations hold it shared, changes of the schema alone. The lock is fair, so that a stream of operations cannot keep a
//! change out for ever; only a thread that holds some collection already gets past a change that waits, because the change
//! may be waiting for that very thread.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocument, doc};
use fathom_query::{Code, Failure, Filter};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{CollectionOptions, Index, LockWaits};
use crate::Result;
use crate::log::Log;

/// How long a wait goes on before somebody looks whether it should end.
const PATIENCE: Duration = Duration::from_millis(50);

thread_local! {
    /// How many collections this thread holds shared.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What may change while a collection is open; operations hold it shared, changes of the schema hold it alone.
#[derive(Debug)]
pub(crate) struct State {
    /// `_id` first, then in the order they were made.
    pub(crate) indexes: Vec<Arc<Index>>,
    /// What it was created with, as `collMod` left it.
    pub(crate) options: CollectionOptions,
    /// The filter that documents must pass, from `options.validator`.
    pub(crate) validator: Option<Arc<super::Validator>>,
    /// Whether it was dropped or renamed since the caller looked it up.
    pub(crate) gone: bool,
}

impl State {
    /// The `_id` index; a view has none.
    pub(crate) fn id_index(&self) -> Option<&Arc<Index>> {
        self.indexes.first().filter(|index| index.spec().is_id())
    }

    /// An index by its name.
    pub(crate) fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.name() == name)
    }
}

/// The lock around a state; waits for it are counted.
#[derive(Debug)]
pub(crate) struct StateLock {
    state: RwLock<State>,
    waits: Arc<LockWaits>,
}

/// A state that is held shared.
#[derive(Debug)]
pub(crate) struct SharedState<'l>(RwLockReadGuard<'l, State>);

impl<'l> SharedState<'l> {
    fn new(guard: RwLockReadGuard<'l, State>) -> SharedState<'l> {
        HELD.with(|held| held.set(held.get() + 1));
        SharedState(guard)
    }
}

impl Deref for SharedState<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Drop for SharedState<'_> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get().saturating_sub(1)));
    }
}

impl StateLock {
    pub(crate) fn new(state: State, waits: Arc<LockWaits>) -> StateLock {
        StateLock { state: RwLock::new(state), waits }
    }

    /// The state, shared with other operations.
    pub(crate) fn shared(&self) -> SharedState<'_> {
        let recursive = HELD.with(Cell::get) > 0;
        SharedState::new(self.try_shared(recursive).unwrap_or_else(|| {
            self.waits.time(|| if recursive { self.state.read_recursive() } else { self.state.read() })
        }))
    }

    /// As [`StateLock::shared`], for a caller that may have to give up: `check` is asked now and then.
    pub(crate) fn shared_unless(&self, check: &dyn Fn() -> Result<()>) -> Result<SharedState<'_>> {
        let recursive = HELD.with(Cell::get) > 0;
        if let Some(guard) = self.try_shared(recursive) {
            return Ok(SharedState::new(guard));
        }
        let soon = || match recursive {
            true => self.state.try_read_recursive_for(PATIENCE),
            false => self.state.try_read_for(PATIENCE),
        };
        self.waits.time(|| wait_unless(check, soon)).map(SharedState::new)
    }

    fn try_shared(&self, recursive: bool) -> Option<RwLockReadGuard<'_, State>> {
        if recursive { self.state.try_read_recursive() } else { self.state.try_read() }
    }

    /// The state, alone.
    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, State> {
        self.state.try_write().unwrap_or_else(|| self.waits.time(|| self.state.write()))
    }

    /// The state, alone, if it can be had at once.
    pub(crate) fn try_exclusive(&self) -> Option<RwLockWriteGuard<'_, State>> {
        self.state.try_write_for(PATIENCE)
    }

    /// As [`StateLock::exclusive`], for a caller that may have to give up: `check` is asked now and then.
    pub(crate) fn exclusive_unless(
        &self,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<RwLockWriteGuard<'_, State>> {
        match self.state.try_write() {
            Some(guard) => Ok(guard),
            None => self.waits.time(|| wait_unless(check, || self.try_exclusive())),
        }
    }
}

/// Tries until a lock is had, or until `check` says to give up.
fn wait_unless<G>(check: &dyn Fn() -> Result<()>, soon: impl Fn() -> Option<G>) -> Result<G> {
    loop {
        match soon() {
            Some(guard) => return Ok(guard),
            None => check()?,
        }
    }
}

/// A validator that is in force.
#[derive(Debug)]
pub(crate) struct Validator {
    filter: Filter,
    /// `moderate`: a document that was invalid before may stay so.
    moderate: bool,
    /// `warn`: say it in the log and take the document.
    warn: bool,
}

impl Validator {
    /// The validator that a collection's options ask for; none if none.
    pub(crate) fn of(options: &Document) -> Result<Option<Validator>> {
        let level = options.get_str("validationLevel").unwrap_or("strict");
        if !matches!(level, "off" | "strict" | "moderate") {
            return Err(Failure::new(Code::BadValue, format!("invalid validation level: {level}")));
        }
        let action = options.get_str("validationAction").unwrap_or("error");
        if !matches!(action, "error" | "warn") {
            return Err(Failure::new(Code::BadValue, format!("invalid validation action: {action}")));
        }
        let Some(filter) = options.get_document("validator").ok().filter(|filter| !filter.is_empty()) else {
            return Ok(None);
        };
        let filter = crate::parse::filter_of(filter)?;
        Ok((level != "off").then_some(Validator {
            filter,
            moderate: level == "moderate",
            warn: action == "warn",
        }))
    }

    /// Refuses a document that does not pass (121), or says so in the log and takes it; `before` is what an update changes. The client is
    /// named by its number.
    pub(crate) fn check(
        &self,
        (log, client): (&Log, u64),
        namespace: &str,
        document: &RawDocument,
        before: Option<&RawDocument>,
    ) -> Result<()> {
        if self.filter.matches(document)?.is_some() {
            return Ok(());
        }
        if self.moderate
            && let Some(before) = before
            && self.filter.matches(before)?.is_none()
        {
            return Ok(());
        }
        if self.warn {
            let id = crate::parse::field(document, "_id").map(crate::parse::owned_value).transpose()?;
            let attributes = doc! { "namespace": namespace, "_id": id };
            let context = format!("conn{client}");
            log.warning("STORAGE", 20294, &context, "Document would fail validation", attributes);
            return Ok(());
        }
        Err(Failure::new(Code::DocumentValidationFailure, "Document failed validation"))
    }
}

/// Puts the level and the action that `create` and `collMod` name into a collection's options, and checks the validator that
/// is among them.
pub(crate) fn set_validation(body: &RawDocument, options: &mut Document) -> Result<()> {
    for name in ["validationLevel", "validationAction"] {
        if let Some(value) = crate::parse::string(body, name)? {
            options.insert(name, value);
        }
    }
    Validator::of(options)?;
    Ok(())
}
