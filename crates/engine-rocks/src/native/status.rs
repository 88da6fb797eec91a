//! The failures that RocksDB's C interface reports, and the kind of error of each.
//!
//! The interface gives only a text, `<code>: <subcode>: <what>`; the words for the codes have been the same since its first
//! version. An unknown text counts as an input/output error, to be cautious.

#![expect(unsafe_code, reason = "the texts are C strings that the library allocated")]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::ptr;

use fathom_errors::Kind;

use crate::sys;

/// A failure in RocksDB's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RocksStatus(String);

impl RocksStatus {
    /// The failure for a text that cannot be passed to C.
    pub(crate) fn zero_byte() -> Self {
        RocksStatus("Invalid argument: there is a zero byte in the text".to_owned())
    }

    /// The kind of error of this failure.
    pub(crate) fn kind(&self) -> Kind {
        let text = self.0.as_str();
        let is = |code: &str| text.starts_with(code);
        if text.contains("/LOCK:") {
            // Another process, or this one, has the database open.
            Kind::Busy
        } else if text.contains("No space left on device") || text.contains("NoSpace") {
            Kind::NoSpace
        } else if text.contains("Permission denied") {
            Kind::Permission
        } else if text.contains("Read-only file system") {
            Kind::ReadOnly
        } else if is("Corruption") {
            Kind::Corruption
        } else if is("Invalid argument") && text.contains("not linked with the binary") {
            Kind::Unsupported
        } else if is("Invalid argument") {
            Kind::Usage
        } else if is("Not implemented") {
            Kind::Unsupported
        } else if is("Resource busy") {
            Kind::Busy
        } else if is("Shutdown in progress") {
            Kind::Stopped
        } else {
            Kind::Io
        }
    }
}

impl fmt::Display for RocksStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RocksStatus {}

/// Makes a call that reports errors through a pointer, as all fallible calls of the interface do.
pub(crate) fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, RocksStatus> {
    let mut error = ptr::null_mut();
    let value = call(&raw mut error);
    // SAFETY: the call left null or a C string from the library's allocator, which has no other owner.
    match unsafe { owned_text(error) } {
        None => Ok(value),
        Some(text) => Err(RocksStatus(text)),
    }
}

/// Takes over a text that the library allocated; `None` for null.
///
/// # Safety
/// `text` is null or a C string that the library allocated and that no other code frees or uses.
pub(crate) unsafe fn owned_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and by the contract a C string that lives until it is freed below.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: by the contract the library's allocator allocated it and no other code frees it.
    unsafe { sys::rocksdb_free(text.cast::<c_void>()) };
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_kinds() {
        let kind = |text: &str| RocksStatus(text.to_owned()).kind();
        assert_eq!(
            kind("IO error: No space left on device: While appending to file: /d/1.log"),
            Kind::NoSpace
        );
        assert_eq!(
            kind("IO error: While lock file: /d/db/LOCK: Resource temporarily unavailable"),
            Kind::Busy
        );
        assert_eq!(kind("IO error: While fsync: /d/db/1.log: Input/output error"), Kind::Io);
        assert_eq!(kind("Corruption: block checksum mismatch"), Kind::Corruption);
        assert_eq!(kind("Invalid argument: Could not find option: x"), Kind::Usage);
        let absent = "Invalid argument: Compression type LZ4 is not linked with the binary.";
        assert_eq!(kind(absent), Kind::Unsupported);
        assert_eq!(kind("something new"), Kind::Io);
    }
}
