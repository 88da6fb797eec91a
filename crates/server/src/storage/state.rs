//! The parts of a collection that may change while it is open, including its validator (`validator`, `validationLevel`, `validationAction`),
//! and the lock around them.
//!
//! Operations hold the lock shared, schema changes exclusively. The lock is fair, so that a stream of operations cannot
//! delay a change forever. Only a thread that already holds a collection may pass a waiting change, because the change may
//! be waiting for that very thread.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocument, doc};
use fathom_query::{Code, Failure, Filter};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{CollectionOptions, HeldLock, Index, LockKind, LockWaits};
use crate::Result;
use crate::log::Log;

/// The length of a wait before a check whether it should end.
const WAIT_TIMEOUT: Duration = Duration::from_millis(50);

thread_local! {
    /// The number of collections that this thread holds shared.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The parts of a collection that may change while it is open. Operations lock them shared, changes of the schema exclusively.
#[derive(Debug)]
pub(crate) struct CollectionState {
    /// The `_id` index first, the others in order of creation.
    pub(crate) indexes: Vec<Arc<Index>>,
    /// The options that it was created with, including changes by `collMod`.
    pub(crate) options: CollectionOptions,
    /// The filter that documents must pass, from `options.validator`.
    pub(crate) validator: Option<Arc<super::Validator>>,
    /// Whether it was dropped or renamed since the caller looked it up.
    pub(crate) gone: bool,
}

impl CollectionState {
    /// The `_id` index; a view has none.
    pub(crate) fn id_index(&self) -> Option<&Arc<Index>> {
        self.indexes.first().filter(|index| index.spec().is_id())
    }

    /// An index by its name.
    pub(crate) fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.name() == name)
    }
}

/// The lock around a state; it counts the waits.
#[derive(Debug)]
pub(crate) struct StateLock {
    state: RwLock<CollectionState>,
    waits: Arc<LockWaits>,
}

/// A state locked shared, and the record of that for an operation.
#[derive(Debug)]
pub(crate) struct SharedState<'l>(RwLockReadGuard<'l, CollectionState>, Option<HeldLock<'l>>);

impl<'l> SharedState<'l> {
    fn new(guard: RwLockReadGuard<'l, CollectionState>) -> SharedState<'l> {
        HELD.with(|held| held.set(held.get() + 1));
        SharedState(guard, None)
    }

    /// The same for an operation, whose locks others see.
    pub(crate) fn held_as(mut self, held: HeldLock<'l>) -> SharedState<'l> {
        self.1 = Some(held);
        self
    }
}

/// A state locked exclusively by an operation, whose locks others see.
#[derive(Debug)]
pub(crate) struct ExclusiveState<'l> {
    guard: RwLockWriteGuard<'l, CollectionState>,
    _held: HeldLock<'l>,
}

impl<'l> ExclusiveState<'l> {
    pub(crate) fn new(
        guard: RwLockWriteGuard<'l, CollectionState>,
        held: HeldLock<'l>,
    ) -> ExclusiveState<'l> {
        ExclusiveState { guard, _held: held }
    }
}

impl Deref for ExclusiveState<'_> {
    type Target = CollectionState;

    fn deref(&self) -> &CollectionState {
        &self.guard
    }
}

impl DerefMut for ExclusiveState<'_> {
    fn deref_mut(&mut self) -> &mut CollectionState {
        &mut self.guard
    }
}

impl Deref for SharedState<'_> {
    type Target = CollectionState;

    fn deref(&self) -> &CollectionState {
        &self.0
    }
}

impl Drop for SharedState<'_> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get().saturating_sub(1)));
    }
}

impl StateLock {
    pub(crate) fn new(state: CollectionState, waits: Arc<LockWaits>) -> StateLock {
        StateLock { state: RwLock::new(state), waits }
    }

    /// The state, shared with other operations.
    pub(crate) fn shared(&self) -> SharedState<'_> {
        let recursive = HELD.with(Cell::get) > 0;
        SharedState::new(self.try_shared(recursive).unwrap_or_else(|| {
            let wait = || if recursive { self.state.read_recursive() } else { self.state.read() };
            self.waits.time(LockKind::CollectionRead, wait)
        }))
    }

    /// The state, shared with other operations, if that is possible at once.
    pub(crate) fn shared_now(&self) -> Option<SharedState<'_>> {
        self.try_shared(HELD.with(Cell::get) > 0).map(SharedState::new)
    }

    /// Waits until the state can be shared, for an operation that locks it as `kind` and may have to give up: `check` is called
    /// periodically.
    pub(crate) fn shared_unless(
        &self,
        kind: LockKind,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<SharedState<'_>> {
        let recursive = HELD.with(Cell::get) > 0;
        let soon = || match recursive {
            true => self.state.try_read_recursive_for(WAIT_TIMEOUT),
            false => self.state.try_read_for(WAIT_TIMEOUT),
        };
        self.waits.time(kind, || wait_unless(check, soon)).map(SharedState::new)
    }

    fn try_shared(&self, recursive: bool) -> Option<RwLockReadGuard<'_, CollectionState>> {
        if recursive { self.state.try_read_recursive() } else { self.state.try_read() }
    }

    /// Locks the state against every other reader and writer.
    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, CollectionState> {
        let wait = || self.waits.time(LockKind::CollectionExclusive, || self.state.write());
        self.state.try_write().unwrap_or_else(wait)
    }

    /// Locks the state exclusively if that is possible at once.
    pub(crate) fn try_exclusive(&self) -> Option<RwLockWriteGuard<'_, CollectionState>> {
        self.state.try_write_for(WAIT_TIMEOUT)
    }

    /// As [`StateLock::exclusive`], if that is possible at once.
    pub(crate) fn exclusive_now(&self) -> Option<RwLockWriteGuard<'_, CollectionState>> {
        self.state.try_write()
    }

    /// Waits for the state as [`StateLock::exclusive`] does, for a caller that may have to give up: `check` is called periodically.
    pub(crate) fn exclusive_unless(
        &self,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<RwLockWriteGuard<'_, CollectionState>> {
        self.waits.time(LockKind::CollectionExclusive, || wait_unless(check, || self.try_exclusive()))
    }
}

/// Tries until the lock is acquired, or until `check` fails.
fn wait_unless<G>(check: &dyn Fn() -> Result<()>, soon: impl Fn() -> Option<G>) -> Result<G> {
    loop {
        match soon() {
            Some(guard) => return Ok(guard),
            None => check()?,
        }
    }
}

/// A validator in force, with its level and action.
#[derive(Debug)]
pub(crate) struct Validator {
    filter: Filter,
    /// `moderate`: a document that was invalid before may remain so.
    moderate: bool,
    /// `warn`: the failure is logged and the document accepted.
    warn: bool,
}

impl Validator {
    /// The validator in a collection's options, or `None` if they have none.
    pub(crate) fn from_options(options: &Document) -> Result<Option<Validator>> {
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

    /// Refuses a document that fails validation (121), or logs the failure and accepts it; `before` is the document that an update
    /// changes. The log gives the client's number.
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

/// Adds the level and the action that `create` and `collMod` set to a collection's options, and checks the validator among
/// them.
pub(crate) fn set_validation(body: &RawDocument, options: &mut Document) -> Result<()> {
    for name in ["validationLevel", "validationAction"] {
        if let Some(value) = crate::parse::string(body, name)? {
            options.insert(name, value);
        }
    }
    Validator::from_options(options)?;
    Ok(())
}
