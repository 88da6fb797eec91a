//! A session of the library: transactions, and all that is done to whole tables.
//!
//! A thin wrapper of WT_SESSION. WiredTiger allows a session on any thread, but on one at a time; `core` keeps that with a lock.
//! The codes are WiredTiger's; 0 is success.

#![expect(unsafe_code, reason = "calls into WiredTiger through its function pointers")]

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};

use fathom_engine_wt_sys as sys;

use crate::connection::call;
use crate::cursor_handle::CursorHandle;

/// A session that is open as long as its connection is.
#[derive(Debug)]
pub(crate) struct SessionHandle(NonNull<sys::WT_SESSION>);

// SAFETY: a session is not bound to the thread that opened it; that one thread uses it at a time is kept by `core`.
unsafe impl Send for SessionHandle {}

fn optional(text: Option<&CStr>) -> *const std::ffi::c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

impl SessionHandle {
    /// # Safety
    /// The session must be open, and nobody else may use or close it.
    pub(crate) unsafe fn new(session: NonNull<sys::WT_SESSION>) -> Self {
        SessionHandle(session)
    }

    fn raw(&self) -> *mut sys::WT_SESSION {
        self.0.as_ptr()
    }

    pub(crate) fn begin(&self) -> c_int {
        // SAFETY: the session is open (see `new`); without a string the session's own isolation counts.
        unsafe { call!(self.raw(), begin_transaction, ptr::null()) }
    }

    pub(crate) fn commit(&self, settings: Option<&CStr>) -> c_int {
        // SAFETY: the session is open, and the string lives through the call.
        unsafe { call!(self.raw(), commit_transaction, optional(settings)) }
    }

    pub(crate) fn rollback(&self) -> c_int {
        // SAFETY: the session is open.
        unsafe { call!(self.raw(), rollback_transaction, ptr::null()) }
    }

    /// Takes all cursors off their keys and lets the snapshot go that positioned ones hold.
    pub(crate) fn reset(&self) -> c_int {
        // SAFETY: the session is open.
        unsafe { call!(self.raw(), reset) }
    }

    pub(crate) fn open_cursor(&self, uri: &CStr, settings: Option<&CStr>) -> Result<CursorHandle, c_int> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the session is open, the strings live through the call, and the result is only used after success.
        let code = unsafe {
            call!(self.raw(), open_cursor, uri.as_ptr(), ptr::null_mut(), optional(settings), &mut cursor)
        };
        match NonNull::new(cursor) {
            // SAFETY: WiredTiger made it just now, and gives it to nobody else.
            Some(cursor) if code == 0 => Ok(unsafe { CursorHandle::new(cursor) }),
            _ => Err(if code == 0 { sys::WT_ERROR } else { code }),
        }
    }

    pub(crate) fn create(&self, uri: &CStr, settings: &CStr) -> c_int {
        // SAFETY: the session is open, and the strings live through the call.
        unsafe { call!(self.raw(), create, uri.as_ptr(), settings.as_ptr()) }
    }

    pub(crate) fn drop_table(&self, uri: &CStr, settings: &CStr) -> c_int {
        // SAFETY: as for `create`.
        unsafe { call!(self.raw(), drop, uri.as_ptr(), settings.as_ptr()) }
    }

    pub(crate) fn compact(&self, uri: &CStr, settings: &CStr) -> c_int {
        // SAFETY: as for `create`.
        unsafe { call!(self.raw(), compact, uri.as_ptr(), settings.as_ptr()) }
    }

    pub(crate) fn verify(&self, uri: &CStr) -> c_int {
        // SAFETY: as for `create`.
        unsafe { call!(self.raw(), verify, uri.as_ptr(), ptr::null()) }
    }

    pub(crate) fn checkpoint(&self, settings: &CStr) -> c_int {
        // SAFETY: as for `create`.
        unsafe { call!(self.raw(), checkpoint, settings.as_ptr()) }
    }

    pub(crate) fn log_flush(&self, settings: &CStr) -> c_int {
        // SAFETY: as for `create`.
        unsafe { call!(self.raw(), log_flush, settings.as_ptr()) }
    }

    /// Removes a range between two cursors whose keys are set; a missing one stands for the table's end.
    pub(crate) fn truncate(&self, from: Option<&mut CursorHandle>, to: Option<&mut CursorHandle>) -> c_int {
        let from = from.map_or(ptr::null_mut(), |cursor| cursor.raw());
        let to = to.map_or(ptr::null_mut(), |cursor| cursor.raw());
        // SAFETY: the session is open, and the cursors are of this session and open. Where a range is given by cursors there
        // is no address.
        unsafe { call!(self.raw(), truncate, ptr::null(), from, to, ptr::null()) }
    }
}
