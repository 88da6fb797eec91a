//! WiredTiger's errors and messages, passed to a log instead of standard error.
//!
//! WiredTiger calls back on the thread that it is on, which may be its own. Errors that end all work (a full or failing disk,
//! a panic) are remembered with their first cause, because the call that then fails only reports "panic". The last error of
//! each thread is kept too: it names the setting that was not understood, which the returned code does not.

#![expect(unsafe_code, reason = "the callbacks are called from C with pointers")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fathom_engine_wt_sys as sys;
use parking_lot::Mutex;

// Codes of a disk that is full or fails.
pub(crate) const EIO: c_int = 5;
pub(crate) const EFBIG: c_int = 27;
pub(crate) const ENOSPC: c_int = 28;
pub(crate) const EROFS: c_int = 30;
pub(crate) const EDQUOT: c_int = 122;

/// The most messages that are kept for a log that is set later.
const MAX_WAITING_MESSAGES: usize = 200;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSeverity {
    Information,
    /// An operation failed, or the engine has stopped.
    Error,
}

/// One message of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMessage {
    /// How grave it is.
    pub severity: EventSeverity,
    /// WiredTiger's or the operating system's code; 0 for information.
    pub code: i32,
    /// The text as WiredTiger wrote it, with its own prefix of time and thread.
    pub text: String,
}

/// The receiver of messages. It is called on WiredTiger's threads and must not call the engine.
pub type MessageReceiver = Arc<dyn Fn(EventMessage) + Send + Sync>;

/// The first failure that ends all work: its code and text.
#[derive(Clone, Debug)]
pub(crate) struct FatalError {
    /// The operating system's or WiredTiger's code.
    pub(crate) code: c_int,
    /// The operation that failed.
    pub(crate) text: String,
}

/// The receiver of WiredTiger's callbacks; the library keeps a pointer to it as long as the connection lives.
#[repr(C)]
pub(crate) struct EventHandler {
    /// The first field, so that the pointer that WiredTiger passes back is also the pointer to the whole structure.
    handler: sys::WT_EVENT_HANDLER,
    sink: Mutex<MessageSink>,
    grave: Mutex<Option<FatalError>>,
}

#[derive(Default)]
struct MessageSink {
    log: Option<MessageReceiver>,
    waiting: Vec<EventMessage>,
}

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("grave", &self.grave).finish_non_exhaustive()
    }
}

// SAFETY: the handler is a table of function pointers that never changes; the rest is behind mutexes.
unsafe impl Send for EventHandler {}
// SAFETY: as for Send.
unsafe impl Sync for EventHandler {}

impl EventHandler {
    /// A receiver at a fixed address that lives as long as the process: WiredTiger's threads may call back while a
    /// failed connection is closing. It costs a few hundred bytes for each opening.
    pub(crate) fn forever() -> &'static EventHandler {
        // SAFETY: all fields of the handler are optional function pointers, and zero means none.
        let mut handler: sys::WT_EVENT_HANDLER = unsafe { std::mem::zeroed() };
        handler.handle_error = Some(on_error);
        handler.handle_message = Some(on_message);
        Box::leak(Box::new(EventHandler { handler, sink: Mutex::default(), grave: Mutex::default() }))
    }

    /// The pointer that WiredTiger takes.
    pub(crate) fn as_handler(&'static self) -> *mut sys::WT_EVENT_HANDLER {
        (&raw const *self).cast::<sys::WT_EVENT_HANDLER>().cast_mut()
    }

    /// Sends messages to a log from now on, beginning with those that came before it; `None` drops them.
    pub(crate) fn set_log(&self, log: Option<MessageReceiver>) {
        let waiting = {
            let mut sink = self.sink.lock();
            sink.log.clone_from(&log);
            std::mem::take(&mut sink.waiting)
        };
        if let Some(log) = log {
            waiting.into_iter().for_each(|message| log(message));
        }
    }

    /// The first failure that ends all work, if there was one.
    pub(crate) fn grave(&self) -> Option<FatalError> {
        self.grave.lock().clone()
    }

    fn take(&self, message: EventMessage) {
        if message.severity == EventSeverity::Error {
            let text = plain(&message.text).to_owned();
            if ends_all_work(message.code, &text) {
                self.grave.lock().get_or_insert(FatalError { code: message.code, text: text.clone() });
            }
            LAST.with_borrow_mut(|last| {
                last.get_or_insert(text);
            });
        }
        let log = {
            let mut sink = self.sink.lock();
            match &sink.log {
                Some(log) => Arc::clone(log),
                None => {
                    if sink.waiting.len() < MAX_WAITING_MESSAGES {
                        sink.waiting.push(message);
                    }
                    return;
                }
            }
        };
        log(message);
    }
}

/// Forgets this thread's last error; called before an operation whose errors need a message.
pub(crate) fn forget_last() {
    LAST.with_borrow_mut(Option::take);
}

/// This thread's first error since [`forget_last`], without WiredTiger's prefix.
pub(crate) fn take_last() -> Option<String> {
    LAST.with_borrow_mut(Option::take)
}

/// Whether a code means that the disk is full or fails.
pub(crate) fn disk_failed(code: c_int) -> bool {
    matches!(code, EIO | ENOSPC | EDQUOT | EFBIG | EROFS)
}

/// Whether an error means that the disk failed or WiredTiger gave up. WiredTiger's general error also covers
/// harmless cases; of these only damaged pages count.
fn ends_all_work(code: c_int, text: &str) -> bool {
    let damaged =
        code == sys::WT_ERROR && ["checksum", "fatal read error"].iter().any(|word| text.contains(word));
    damaged || code == sys::WT_PANIC || code == sys::WT_TRY_SALVAGE || disk_failed(code)
}

/// WiredTiger's message for a code.
pub(crate) fn describe(code: c_int) -> String {
    // SAFETY: the function takes any number; its string is static, or the C library's for this thread, and read at once.
    let text = unsafe { CStr::from_ptr(sys::wiredtiger_strerror(code)) };
    text.to_string_lossy().into_owned()
}

/// The text after WiredTiger's prefix of time, process, session, category, function and line.
fn plain(text: &str) -> &str {
    let text = match text.rfind("[ERROR]: ") {
        Some(at) => text.get(at + "[ERROR]: ".len()..).unwrap_or(text),
        // Version 3: "[seconds:micros][process:thread], session: text".
        None => match text.split_once("], ") {
            Some((_, rest)) => rest.split_once(": ").map_or(rest, |(_, text)| text),
            None => text,
        },
    };
    // "__function, 1234: text".
    match text.split_once(": ") {
        Some((place, rest)) if place.starts_with("__") && place.contains(", ") => rest,
        _ => text,
    }
}

fn text_of(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: WiredTiger passes a string that ends with a zero byte and stays during the call.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

fn pass_on(handler: *mut sys::WT_EVENT_HANDLER, message: EventMessage) {
    // SAFETY: the handler is the first field of an `EventHandler` that is never freed, and WiredTiger passes back the pointer that
    // `as_handler` gave, which was made from a reference to the whole.
    let events = unsafe { &*handler.cast::<EventHandler>().cast_const() };
    // A panic in the log must not unwind through C. The message is lost, but the engine continues.
    let _ = catch_unwind(AssertUnwindSafe(|| events.take(message)));
}

unsafe extern "C" fn on_error(
    handler: *mut sys::WT_EVENT_HANDLER,
    _session: *mut sys::WT_SESSION,
    code: c_int,
    message: *const c_char,
) -> c_int {
    pass_on(handler, EventMessage { severity: EventSeverity::Error, code, text: text_of(message) });
    0
}

unsafe extern "C" fn on_message(
    handler: *mut sys::WT_EVENT_HANDLER,
    _session: *mut sys::WT_SESSION,
    message: *const c_char,
) -> c_int {
    pass_on(handler, EventMessage { severity: EventSeverity::Information, code: 0, text: text_of(message) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_taken_off() {
        let new = "[1785000000:1][7:0x7f], wiredtiger_open: [WT_VERB_DEFAULT][ERROR]: __config_err, 12: Error parsing 'x'";
        assert_eq!(plain(new), "Error parsing 'x'");
        let old = "[1785000000:1][7:0x7f], wiredtiger_open: unknown configuration key: 'x'";
        assert_eq!(plain(old), "unknown configuration key: 'x'");
        assert_eq!(plain("bare"), "bare");
    }

    #[test]
    fn messages_wait_for_the_log() {
        let events = EventHandler::forever();
        let text = c"early";
        // SAFETY: the handler and the string are alive.
        unsafe { on_message(events.as_handler(), std::ptr::null_mut(), text.as_ptr()) };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&seen);
        events.set_log(Some(Arc::new(move |message: EventMessage| copy.lock().push(message.text))));
        // SAFETY: as above.
        unsafe { on_error(events.as_handler(), std::ptr::null_mut(), 28, c"no room".as_ptr()) };
        assert_eq!(*seen.lock(), ["early", "no room"]);
        assert_eq!(events.grave().unwrap().code, 28);
        assert_eq!(take_last().as_deref(), Some("no room"));
    }
}
