//! The server's log in mongod's form since 4.4: one JSON document a line, with severity, component, id and attributes.
//!
//! The last lines stay in memory for `getLog`. A log that cannot be written is not worth a crash; the failure is counted
//! and said in the next line that can be written.

mod levels;
mod line;
mod sink;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Document, doc};
use fathom_errors::Error;
use parking_lot::Mutex;

use crate::Result as Answer;
use levels::Levels;
use line::Line;
use sink::Sink;

pub use levels::LEVEL_MAX;
pub use line::time_text;
pub use sink::LogRotate;

/// Lines that `getLog` gives back at most.
const KEPT_LINES: usize = 1024;

/// Where and how much is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// None is standard output.
    pub path: Option<PathBuf>,
    /// Whether an old log file is kept and added to.
    pub append: bool,
    /// What rotating does to the log file.
    pub rotate: LogRotate,
    /// Connections that come and go are not logged.
    pub quiet: bool,
    /// 0 to 5; debug messages up to this level are logged.
    pub verbosity: u8,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The process ends.
    Fatal,
    /// Something failed.
    Error,
    /// Something may fail.
    Warning,
    /// Something happened.
    Info,
}

impl Severity {
    fn letter(self) -> &'static str {
        match self {
            Severity::Fatal => "F",
            Severity::Error => "E",
            Severity::Warning => "W",
            Severity::Info => "I",
        }
    }
}

#[derive(Debug)]
struct State {
    sink: Sink,
    recent: VecDeque<String>,
    startup_warnings: Vec<String>,
    total: u64,
    lost: u64,
}

/// Lines about connections that come and go, which `quiet` leaves out.
static OF_CONNECTIONS: [i32; 3] = [22943, 22944, 51800];

/// The log of a server.
#[derive(Debug)]
pub struct Log {
    state: Mutex<State>,
    levels: Levels,
    quiet: AtomicBool,
    rotate: LogRotate,
}

impl Log {
    /// A log to a file, or to standard output.
    pub fn open(options: &LogOptions) -> Result<Log, Error> {
        let sink = match options.path.as_deref() {
            None => Sink::Output,
            Some(path) => Sink::file(path, options.append)?,
        };
        Ok(Log::to(sink, options))
    }

    /// A log that only `getLog` shows.
    pub fn quiet(options: &LogOptions) -> Log {
        Log::to(Sink::Quiet, options)
    }

    fn to(sink: Sink, options: &LogOptions) -> Log {
        let recent = VecDeque::with_capacity(KEPT_LINES);
        let state = State { sink, recent, startup_warnings: Vec::new(), total: 0, lost: 0 };
        Log {
            state: Mutex::new(state),
            levels: Levels::new(options.verbosity),
            quiet: AtomicBool::new(options.quiet),
            rotate: options.rotate,
        }
    }

    /// Writes one line.
    pub fn write(
        &self,
        severity: Severity,
        component: &str,
        id: i32,
        context: &str,
        message: &str,
        attributes: Document,
    ) {
        let letter = severity.letter();
        let line = Line { severity: letter, component, id, context, message, attributes: &attributes };
        self.put(line, false);
    }

    fn put(&self, line: Line<'_>, of_start: bool) {
        if self.is_quiet() && OF_CONNECTIONS.contains(&line.id) {
            return;
        }
        let line = line.text();
        let mut state = self.state.lock();
        state.total += 1;
        if state.recent.len() == KEPT_LINES {
            state.recent.pop_front();
        }
        state.emit(&line);
        if of_start {
            state.startup_warnings.push(line.clone());
        }
        state.recent.push_back(line);
    }

    /// Whether debug messages of this level are logged for a component.
    pub fn shows(&self, component: &str, level: i8) -> bool {
        self.levels.of(component) >= level
    }

    /// A debug message, if the component logs that much; the attributes are made only then.
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
            let line = Line { severity: &severity, component, id, context, message, attributes: &attributes };
            self.put(line, false);
        }
    }

    /// The levels, as `logComponentVerbosity` shows them.
    pub fn verbosity(&self) -> Document {
        self.levels.document()
    }

    /// Changes levels, all that `settings` names or none.
    pub fn set_verbosity(&self, settings: &Document) -> Answer<()> {
        self.levels.change(settings)
    }

    /// The level for all, `logLevel`.
    pub fn level(&self) -> i8 {
        self.levels.default_level()
    }

    /// Whether connections that come and go are left out.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Changes that.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// A line that tells.
    pub fn info(&self, component: &str, id: i32, context: &str, message: &str, attributes: Document) {
        self.write(Severity::Info, component, id, context, message, attributes);
    }

    /// A line that warns.
    pub fn warning(&self, component: &str, id: i32, context: &str, message: &str, attributes: Document) {
        self.write(Severity::Warning, component, id, context, message, attributes);
    }

    /// A warning about how the server was started, which `getLog: "startupWarnings"` repeats.
    pub fn startup_warning(&self, component: &str, id: i32, message: &str) {
        let attributes = doc! { "tags": ["startupWarnings"] };
        let (severity, context) = (Severity::Warning.letter(), "initandlisten");
        self.put(Line { severity, component, id, context, message, attributes: &attributes }, true);
    }

    /// The last lines, and how many there were in all.
    pub fn recent(&self) -> (Vec<String>, u64) {
        let state = self.state.lock();
        (state.recent.iter().cloned().collect(), state.total)
    }

    /// The warnings of the start.
    pub fn startup_warnings(&self) -> Vec<String> {
        self.state.lock().startup_warnings.clone()
    }

    /// Begins a new file, as `systemLog.logRotate` says; the old one goes on where that fails.
    pub fn rotate(&self) -> Result<(), Error> {
        self.state.lock().sink.rotate(self.rotate)
    }
}

impl State {
    /// Writes a line; lines that were lost before it are said first.
    fn emit(&mut self, line: &str) {
        if self.lost > 0 {
            let attributes = doc! { "lines": i64::try_from(self.lost).unwrap_or(i64::MAX) };
            let (component, message) = ("CONTROL", "Lines of the log could not be written");
            let note = Line {
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
