//! Translates WiredTiger's error codes, and implements fail stop: after a write or sync that failed, every call is refused.
//!
//! The call that meets the failure reports its kind (`NoSpace`, `Io`, `Corruption`); all later ones report `Stopped` and
//! repeat the cause. The state of the disk is then unknown, so this process cannot repair it; a restart recovers from
//! the journal.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_engine::{Error, Kind, Result};
use fathom_engine_wt_sys as sys;
use parking_lot::Mutex;

use crate::events::{self, EDQUOT, EFBIG, EIO, ENOSPC, EROFS, EventHandler, describe, disk_failed};

const ENOENT: c_int = 2;
const EACCES: c_int = 13;
const EPERM: c_int = 1;
const EBUSY: c_int = 16;
const EEXIST: c_int = 17;
const EINVAL: c_int = 22;
const ENOTSUP: c_int = 95;

/// Whether the engine continues, and the reason if it does not.
#[derive(Debug)]
pub(crate) struct EngineFault {
    stopped: AtomicBool,
    cause: Mutex<String>,
    events: &'static EventHandler,
}

impl EngineFault {
    pub(crate) fn new(events: &'static EventHandler) -> Self {
        EngineFault { stopped: AtomicBool::new(false), cause: Mutex::default(), events }
    }

    /// Fails if the engine has stopped.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(self.refusal()) } else { Ok(()) }
    }

    /// Marks the engine closed by its owner.
    pub(crate) fn close(&self) {
        let mut cause = self.cause.lock();
        if !self.stopped.swap(true, Ordering::Relaxed) {
            "it was closed".clone_into(&mut cause);
        }
    }

    #[cold]
    fn refusal(&self) -> Error {
        Error::new(Kind::Stopped, format!("the storage engine has stopped: {}", self.cause.lock()))
    }

    /// Turns a code into an error of the current operation; a failed disk or a panic stops the engine.
    ///
    /// `words` tells whether this thread's last message belongs to this call.
    #[cold]
    pub(crate) fn error(&self, code: c_int, action: &str, object: &str, words: bool) -> Error {
        let said = if words { events::take_last() } else { None };
        let what =
            if object.is_empty() { format!("cannot {action}") } else { format!("cannot {action} {object}") };
        if code == sys::WT_PANIC || disk_failed(code) {
            return self.stop(code, &what);
        }
        let because = said.unwrap_or_else(|| describe(code));
        match code {
            sys::WT_ROLLBACK => Error::new(Kind::WriteConflict, "another transaction wrote the same key"),
            sys::WT_DUPLICATE_KEY | EEXIST => {
                Error::new(Kind::Duplicate, format!("{what}: it already exists"))
            }
            sys::WT_NOTFOUND | ENOENT => Error::new(Kind::NotFound, format!("{what}: it does not exist")),
            EBUSY => Error::new(Kind::Busy, format!("{what}: it is in use")),
            EINVAL => Error::new(Kind::Usage, format!("{what}: {because}")),
            EACCES | EPERM => Error::new(Kind::Permission, format!("{what}: {because}")),
            ENOTSUP => Error::new(Kind::Unsupported, format!("{what}: {because}")),
            sys::WT_TRY_SALVAGE => Error::new(Kind::Corruption, format!("{what}: {because}")),
            _ => Error::new(Kind::Io, format!("{what}: {because}")),
        }
    }

    /// Stops the engine. The first call sets the cause, later ones are refused.
    fn stop(&self, code: c_int, what: &str) -> Error {
        let mut cause = self.cause.lock();
        if self.stopped.swap(true, Ordering::Relaxed) {
            return Error::new(Kind::Stopped, format!("the storage engine has stopped: {cause}"));
        }
        // A panic follows a failure that only the callback saw.
        let first = self.events.grave();
        let (code, text) = match &first {
            Some(grave) if code == sys::WT_PANIC || grave.code == code => (grave.code, grave.text.as_str()),
            _ => (code, ""),
        };
        let kind = match code {
            ENOSPC | EDQUOT | EFBIG => Kind::NoSpace,
            EROFS => Kind::ReadOnly,
            sys::WT_ERROR | sys::WT_TRY_SALVAGE => Kind::Corruption,
            _ => Kind::Io,
        };
        *cause = if text.is_empty() { describe(code) } else { text.to_owned() };
        let advice = match kind {
            Kind::NoSpace => {
                "free some space and start again; what was acknowledged is recovered from the journal"
            }
            Kind::Corruption => "the files are damaged; restore them from a copy",
            _ => "look after the disk and start again; what was acknowledged is recovered from the journal",
        };
        let words = describe(code);
        let detail = if cause.contains(&words) { cause.clone() } else { format!("{cause} ({words})") };
        Error::new(kind, format!("{what}: {detail}")).advise(advice)
    }

    /// The error of a code at opening, when no engine exists yet that could stop.
    pub(crate) fn opening_error(&self, code: c_int, dir: &str) -> Error {
        let said = events::take_last().or_else(|| self.events.grave().map(|grave| grave.text));
        // A panic within recovery may only mean a full disk: then the files are intact, and no message may advise to delete
        // them.
        let (code, said) = match self.events.grave() {
            Some(grave) if code == sys::WT_PANIC && disk_failed(grave.code) => (grave.code, Some(grave.text)),
            _ => (code, said),
        };
        let because = said.clone().unwrap_or_else(|| describe(code));
        let what = format!("cannot open the WiredTiger database in {dir}");
        match code {
            EBUSY => Error::new(Kind::Busy, format!("{what}: another process has it open"))
                .advise("stop the other process, or take another directory"),
            EINVAL => Error::new(Kind::Usage, format!("{what}: {because}")),
            ENOTSUP => Error::new(Kind::Unsupported, format!("{what}: {because}")),
            EACCES | EPERM => Error::new(Kind::Permission, format!("{what}: {because}")),
            EROFS => Error::new(Kind::ReadOnly, format!("{what}: {because}")),
            ENOSPC | EDQUOT | EFBIG => Error::new(Kind::NoSpace, format!("{what}: {because}"))
                .advise("free some space and start again; nothing is lost"),
            code if code > 0 && code != ENOENT && said.is_none() => {
                Error::new(Kind::Io, format!("{what}: {because}"))
            }
            EIO => Error::new(Kind::Io, format!("{what}: {because}")),
            // Files that are missing, shorter, or do not hold what WiredTiger wrote.
            _ => Error::new(Kind::Corruption, format!("{what}: {because}"))
                .advise("restore the directory from a copy, or start with an empty one"),
        }
    }
}
