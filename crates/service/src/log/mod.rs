//! The server's log in mongod's form since 4.4: one JSON document a line, with severity, component, id and attributes.
//!
//! The last lines stay in memory for `getLog`, which shows them in the form of the claimed version. If the log cannot be written, the server does not crash; failures are
//! counted and reported in the next line that can be written.

mod levels;
mod line;
mod shell_text;
mod sink;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Document, doc};
use fathom_errors::Error;
use parking_lot::Mutex;

use crate::Result as Answer;
use levels::LogLevels;
use line::LogText;
use sink::LogSink;

pub use levels::MAX_LEVEL;
pub use line::time_text;
pub use sink::LogRotate;

/// The maximum number of lines that `getLog` returns.
const MAX_KEPT_LINES: usize = 1024;

/// The destination and the level of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The log file; `None` means standard output.
    pub path: Option<PathBuf>,
    /// Whether an old log file is kept and appended to.
    pub append: bool,
    /// The effect of log rotation on the file.
    pub rotate: LogRotate,
    /// Whether lines about opened and closed connections are left out.
    pub quiet: bool,
    /// 0 to 5; debug messages up to this level are logged.
    pub verbosity: u8,
    /// Whether `getLog` shows lines as mongod did before 4.4, which are no JSON. The log itself stays JSON.
    pub shows_text: bool,
}

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSeverity {
    Fatal,
    Error,
    Warning,
    Info,
}

impl LogSeverity {
    fn letter(self) -> &'static str {
        match self {
            LogSeverity::Fatal => "F",
            LogSeverity::Error => "E",
            LogSeverity::Warning => "W",
            LogSeverity::Info => "I",
        }
    }
}

#[derive(Debug)]
struct LogState {
    sink: LogSink,
    recent: VecDeque<String>,
    startup_warnings: Vec<String>,
    total: u64,
    lost: u64,
}

/// Lines about opened and closed connections, which `quiet` leaves out.
static OF_CONNECTIONS: [i32; 3] = [22943, 22944, 51800];

/// The log of a server.
#[derive(Debug)]
pub struct Log {
    state: Mutex<LogState>,
    levels: LogLevels,
    quiet: AtomicBool,
    shows_text: bool,
    rotate: LogRotate,
}

impl Log {
    /// Opens a log to a file, or to standard output.
    pub fn open(options: &LogOptions) -> Result<Log, Error> {
        let sink = match options.path.as_deref() {
            None => LogSink::Output,
            Some(path) => LogSink::file(path, options.append)?,
        };
        Ok(Log::to(sink, options))
    }

    /// A log that only `getLog` shows.
    pub fn quiet(options: &LogOptions) -> Log {
        Log::to(LogSink::Quiet, options)
    }

    fn to(sink: LogSink, options: &LogOptions) -> Log {
        let recent = VecDeque::with_capacity(MAX_KEPT_LINES);
        let state = LogState { sink, recent, startup_warnings: Vec::new(), total: 0, lost: 0 };
        Log {
            state: Mutex::new(state),
            levels: LogLevels::new(options.verbosity),
            quiet: AtomicBool::new(options.quiet),
            shows_text: options.shows_text,
            rotate: options.rotate,
        }
    }

    pub fn write(
        &self,
        severity: LogSeverity,
        component: &str,
        id: i32,
        context: &str,
        message: &str,
        attributes: Document,
    ) {
        let letter = severity.letter();
        let line = LogText { severity: letter, component, id, context, message, attributes: &attributes };
        self.put(line, false);
    }

    fn put(&self, line: LogText<'_>, of_start: bool) {
        if self.is_quiet() && OF_CONNECTIONS.contains(&line.id) {
            return;
        }
        let text = line.text();
        let shown = if self.shows_text { shell_text::shell_text(&line) } else { text.clone() };
        let mut state = self.state.lock();
        state.total += 1;
        if state.recent.len() == MAX_KEPT_LINES {
            state.recent.pop_front();
        }
        state.emit(&text);
        if of_start {
            state.startup_warnings.push(shown.clone());
        }
        state.recent.push_back(shown);
    }

    /// Whether debug messages of this level are logged for a component.
    pub fn shows(&self, component: &str, level: i8) -> bool {
        self.levels.level(component) >= level
    }

    /// Logs a debug message if the component's level allows it; the attributes are computed only then.
    pub fn debug(
        &self,
        level: i8,
        component: &str,
        id: i32,
        context: &str,
        message: &str,
        attributes: impl FnOnce() -> Document,
    ) {
        if self.shows(component, level) {
            let severity = format!("D{level}");
            let attributes = attributes();
            let line =
                LogText { severity: &severity, component, id, context, message, attributes: &attributes };
            self.put(line, false);
        }
    }

    /// The levels in the form of `logComponentVerbosity`.
    pub fn verbosity(&self) -> Document {
        self.levels.document()
    }

    /// Changes all levels that `settings` names, or none.
    pub fn set_verbosity(&self, settings: &Document) -> Answer<()> {
        self.levels.change(settings)
    }

    /// The default level, `logLevel`.
    pub fn level(&self) -> i8 {
        self.levels.default_level()
    }

    /// Whether lines about opened and closed connections are left out.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Logs an informational message.
    pub fn info(&self, component: &str, id: i32, context: &str, message: &str, attributes: Document) {
        self.write(LogSeverity::Info, component, id, context, message, attributes);
    }

    /// Logs a warning message.
    pub fn warning(&self, component: &str, id: i32, context: &str, message: &str, attributes: Document) {
        self.write(LogSeverity::Warning, component, id, context, message, attributes);
    }

    /// A warning about how the server was started, which `getLog: "startupWarnings"` repeats.
    pub fn startup_warning(&self, component: &str, id: i32, message: &str) {
        let attributes = doc! { "tags": ["startupWarnings"] };
        let (severity, context) = (LogSeverity::Warning.letter(), "initandlisten");
        self.put(LogText { severity, component, id, context, message, attributes: &attributes }, true);
    }

    /// The last lines, and the total number of lines.
    pub fn recent(&self) -> (Vec<String>, u64) {
        let state = self.state.lock();
        (state.recent.iter().cloned().collect(), state.total)
    }

    /// The warnings of the start.
    pub fn startup_warnings(&self) -> Vec<String> {
        self.state.lock().startup_warnings.clone()
    }

    /// Begins a new file, as `systemLog.logRotate` sets it; on failure the old one is continued.
    pub fn rotate(&self) -> Result<(), Error> {
        self.state.lock().sink.rotate(self.rotate)
    }
}

impl LogState {
    /// Writes a line; reports lost lines first.
    fn emit(&mut self, line: &str) {
        if self.lost > 0 {
            let attributes = doc! { "lines": i64::try_from(self.lost).unwrap_or(i64::MAX) };
            let (component, message) = ("CONTROL", "Lines of the log could not be written");
            let note = LogText {
                severity: "W",
                component,
                id: 4_615_612,
                context: "log",
                message,
                attributes: &attributes,
            };
            if self.sink.write(&note.text()).is_err() {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if self.sink.write(line).is_err() {
            self.lost += 1;
        }
    }
}
