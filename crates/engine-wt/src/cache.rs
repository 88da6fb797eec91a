//! The cursors that a session keeps between operations: opening one costs more than a look-up.
//!
//! Kept in the order of use, the newest last, because an operation touches the same two or three tables again and again. A
//! handful more or less does not matter for order, so the newest few stay where they are. The oldest is closed when there are
//! too many, as mongod does with its hundred.

use std::ffi::c_int;

use crate::cursor_handle::CursorHandle;

/// How many cursors a session keeps.
const KEPT_MAX: usize = 100;
/// So many of the newest are not moved when used again.
const NEWEST: usize = 8;
/// A buffer larger than this is not kept with its cursor.
const BUFFER_MAX_BYTES: usize = 64 * 1024;

/// A cursor of a table, with the buffers of whoever last walked with it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) handle: CursorHandle,
    /// A buffer for the key under the cursor.
    pub(crate) key: Vec<u8>,
    /// A buffer for the value under the cursor.
    pub(crate) value: Vec<u8>,
    slot: u64,
    strict: bool,
}

/// The cursors of one session that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    kept: Vec<Kept>,
    /// The engine's count of removals of tables when the cursors were last all closed.
    pub(crate) generation: u64,
}

impl Kept {
    pub(crate) fn new(handle: CursorHandle, slot: u64, strict: bool) -> Self {
        Kept { handle, key: Vec::new(), value: Vec::new(), slot, strict }
    }
}

impl Cache {
    /// The place of a table's cursor, if there is one; `strict` ones respect what is there (`overwrite=false`).
    #[inline]
    pub(crate) fn place(&mut self, slot: u64, strict: bool) -> Option<usize> {
        let at = self.kept.iter().rposition(|one| one.slot == slot && one.strict == strict)?;
        if self.kept.len() - at <= NEWEST {
            return Some(at);
        }
        let one = self.kept.remove(at);
        self.kept.push(one);
        Some(self.kept.len() - 1)
    }

    /// The cursor at a place that [`Cache::place`] or [`Cache::put`] gave.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Kept> {
        self.kept.get_mut(place)
    }

    /// Has a table's strict cursor let go of the key on which a look-up left it.
    #[inline]
    pub(crate) fn let_go(&mut self, slot: u64) {
        if let Some(one) = self.kept.iter_mut().rfind(|one| one.slot == slot && one.strict) {
            one.handle.reset();
        }
    }

    /// Takes a table's cursor out, for somebody who keeps a position of its own.
    pub(crate) fn take(&mut self, slot: u64, strict: bool) -> Option<Kept> {
        let at = self.place(slot, strict)?;
        let mut one = self.kept.remove(at);
        one.handle.reset();
        Some(one)
    }

    /// Puts a cursor in or back; gives its place.
    pub(crate) fn put(&mut self, mut one: Kept) -> usize {
        one.handle.reset();
        for buffer in [&mut one.key, &mut one.value] {
            if buffer.capacity() > BUFFER_MAX_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.kept.len() >= KEPT_MAX {
            drop_quietly(self.kept.remove(0).handle.close());
        }
        self.kept.push(one);
        self.kept.len() - 1
    }

    /// Closes the cursors of one table.
    pub(crate) fn close_table(&mut self, slot: u64) {
        for one in self.kept.extract_if(.., |one| one.slot == slot) {
            drop_quietly(one.handle.close());
        }
    }

    /// Closes all.
    pub(crate) fn close_all(&mut self) {
        for one in self.kept.drain(..) {
            drop_quietly(one.handle.close());
        }
    }
}

/// Closing a cursor that has no position cannot lose anything; what is wrong shows at the next operation.
fn drop_quietly(_code: c_int) {}
