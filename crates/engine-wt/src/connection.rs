//! The connection, which is one open database, and its sessions, which carry out transactions and operations on whole
//! tables: thin wrappers of WT_CONNECTION and WT_SESSION.
//!
//! `pool` and `engine` decide which calls are made and when. WiredTiger allows all methods of a connection from any
//! thread, except that nothing may run while or after it is closed. It allows a session on any thread, but on one at a
//! time; `core` ensures that with a lock. The codes are WiredTiger's; 0 is success.

#![expect(unsafe_code, reason = "calls into WiredTiger through its function pointers")]

use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::ptr::{self, NonNull};

use fathom_engine::{Error, Result};
use fathom_engine_wt_sys as sys;

use crate::cursor_handle::{CursorHandle, call};
use crate::events::EventHandler;

#[derive(Debug)]
pub(crate) struct ConnectionHandle(NonNull<sys::WT_CONNECTION>);

// SAFETY: all threads may use WiredTiger's connection at the same time.
unsafe impl Send for ConnectionHandle {}
// SAFETY: as for Send.
unsafe impl Sync for ConnectionHandle {}

/// A string for WiredTiger, which ends at a zero byte and so cannot hold one.
///
/// # Errors
/// `Kind::Usage` if there is a zero byte in it.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::usage(format!("'{}' holds a zero byte", text.escape_debug())))
}

/// The library's version: major, minor, patch.
pub(crate) fn version() -> (u32, u32, u32) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three pointers are valid during the call; the returned string is static.
    unsafe { sys::wiredtiger_version(&mut major, &mut minor, &mut patch) };
    (major as u32, minor as u32, patch as u32)
}

impl ConnectionHandle {
    /// Opens or creates a database. `Err` is WiredTiger's code.
    pub(crate) fn open(
        home: &Path,
        events: &'static EventHandler,
        settings: &CStr,
    ) -> Result<ConnectionHandle, c_int> {
        use std::os::unix::ffi::OsStrExt;
        let home = CString::new(home.as_os_str().as_bytes()).map_err(|_| 22)?;
        let mut connection = ptr::null_mut();
        // SAFETY: the strings live through the call, the handler for ever, and the result is only read after success.
        let code = unsafe {
            sys::wiredtiger_open(home.as_ptr(), events.as_handler(), settings.as_ptr(), &mut connection)
        };
        match NonNull::new(connection) {
            Some(connection) if code == 0 => Ok(ConnectionHandle(connection)),
            _ => Err(if code == 0 { sys::WT_ERROR } else { code }),
        }
    }

    /// A new session with snapshot isolation.
    pub(crate) fn open_session(&self) -> Result<SessionHandle, c_int> {
        let mut session = ptr::null_mut();
        // SAFETY: the connection is open: `close` consumes what the pool guards. No handler of its own is passed.
        let code = unsafe {
            call!(
                self.0.as_ptr(),
                open_session,
                ptr::null_mut(),
                c"isolation=snapshot".as_ptr(),
                &mut session
            )
        };
        match NonNull::new(session) {
            // SAFETY: WiredTiger made it just now, and it has no other owner.
            Some(session) if code == 0 => Ok(unsafe { SessionHandle::new(session) }),
            _ => Err(if code == 0 { sys::WT_ERROR } else { code }),
        }
    }

    /// Changes settings at run time.
    pub(crate) fn reconfigure(&self, settings: &CStr) -> c_int {
        // SAFETY: the connection is open, and the string lives through the call.
        unsafe { call!(self.0.as_ptr(), reconfigure, settings.as_ptr()) }
    }

    /// Makes a last checkpoint and frees everything, sessions and cursors included, whatever it returns.
    ///
    /// # Safety
    /// Nothing may use the connection, a session or a cursor of it during the call or afterwards.
    pub(crate) unsafe fn close(&self) -> c_int {
        // SAFETY: the caller promises that this is the last use.
        unsafe { call!(self.0.as_ptr(), close, ptr::null()) }
    }
}

/// A session that is open as long as its connection is.
#[derive(Debug)]
pub(crate) struct SessionHandle(NonNull<sys::WT_SESSION>);

// SAFETY: a session is not bound to the thread that opened it; `core` ensures that one thread uses it at a time.
unsafe impl Send for SessionHandle {}

fn optional(text: Option<&CStr>) -> *const std::ffi::c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

impl SessionHandle {
    /// # Safety
    /// The session must be open, and no other code may use or close it.
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

    /// Resets all cursors and releases the snapshot that positioned cursors hold.
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
            // SAFETY: WiredTiger made it just now, and it has no other owner.
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

    /// Removes a range between two cursors whose keys are set; a missing one means the table's end.
    pub(crate) fn truncate(&self, from: Option<&mut CursorHandle>, to: Option<&mut CursorHandle>) -> c_int {
        let from = from.map_or(ptr::null_mut(), |cursor| cursor.raw());
        let to = to.map_or(ptr::null_mut(), |cursor| cursor.raw());
        // SAFETY: the session is open, and the cursors are of this session and open. Where a range is given by cursors there
        // is no address.
        unsafe { call!(self.raw(), truncate, ptr::null(), from, to, ptr::null()) }
    }
}
