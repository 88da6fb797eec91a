//! The connection: one open database, shared by all threads.
//!
//! A thin wrapper of WT_CONNECTION; who may call what and when is decided in `pool` and `engine`. WiredTiger allows all its methods
//! from any thread, except that nothing may run while or after it is closed.

#![expect(unsafe_code, reason = "calls into WiredTiger through its function pointers")]

use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::ptr::{self, NonNull};

use fathom_engine::{Error, Result};
use fathom_engine_wt_sys as sys;

use crate::events::Events;
use crate::session_handle::SessionHandle;

/// Calls a method of one of WiredTiger's structures; a method that this version leaves out counts as not supported.
macro_rules! call {
    ($handle:expr, $method:ident $(, $argument:expr)*) => {{
        let handle = $handle;
        match (*handle).$method {
            Some(method) => method(handle $(, $argument)*),
            None => 95,
        }
    }};
}
pub(crate) use call;

/// An open database.
#[derive(Debug)]
pub(crate) struct Connection(NonNull<sys::WT_CONNECTION>);

// SAFETY: WiredTiger's connection may be used by all threads at the same time.
unsafe impl Send for Connection {}
// SAFETY: as for Send.
unsafe impl Sync for Connection {}

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

/// WiredTiger's words for a code.
pub(crate) fn describe(code: c_int) -> String {
    // SAFETY: the function takes any number; its string is static, or the C library's for this thread, and read at once.
    let text = unsafe { CStr::from_ptr(sys::wiredtiger_strerror(code)) };
    text.to_string_lossy().into_owned()
}

impl Connection {
    /// Opens or creates a database. `Err` is WiredTiger's code.
    pub(crate) fn open(home: &Path, events: &'static Events, settings: &CStr) -> Result<Connection, c_int> {
        use std::os::unix::ffi::OsStrExt;
        let home = CString::new(home.as_os_str().as_bytes()).map_err(|_| 22)?;
        let mut connection = ptr::null_mut();
        // SAFETY: the strings live through the call, the handler for ever, and the result is only read after success.
        let code = unsafe {
            sys::wiredtiger_open(home.as_ptr(), events.as_handler(), settings.as_ptr(), &mut connection)
        };
        match NonNull::new(connection) {
            Some(connection) if code == 0 => Ok(Connection(connection)),
            _ => Err(if code == 0 { sys::WT_ERROR } else { code }),
        }
    }

    /// A new session, on snapshots.
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
            // SAFETY: WiredTiger made it just now, and gives it to nobody else.
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
