//! The server's log in mongod's form since 4.4: one JSON document a line, with severity, component, id and attributes.
//!
//! The last lines stay in memory for `getLog`. A log that cannot be written is not worth a crash; the failure is counted
//! and said in the next line that can be written.

mod levels;
mod line;
mod sink;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Document, doc};
use fathom_errors::Error;
use parking_lot::Mutex;

use crate::Result as Answer;
use crate::config::{Config, LogRotate};
use levels::Levels;
use line::Line;
use sink::Sink;

pub(crate) use levels::LEVEL_MAX;
pub(crate) use line::time_text;

/// Lines that `getLog` gives back at most.
const KEPT_LINES: usize = 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Fatal,
    Error,
    Warning,
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
pub(crate) struct Log {
    state: Mutex<State>,
    levels: Levels,
    quiet: AtomicBool,
    rotate: LogRotate,
}

impl Log {
    /// A log to a file, or to standard output.
    pub(crate) fn open(config: &Config) -> Result<Log, Error> {
        let sink = match config.log_path.as_deref() {
            None => Sink::Output,
            Some(path) => Sink::file(path, config.log_append)?,
        };
        Ok(Log::to(sink, config))
    }

    /// A log that only `getLog` shows.
    pub(crate) fn quiet(config: &Config) -> Log {
        Log::to(Sink::Quiet, config)
    }

    fn to(sink: Sink, config: &Config) -> Log {
        let recent = VecDeque::with_capacity(KEPT_LINES);
        let state = State { sink, recent, startup_warnings: Vec::new(), total: 0, lost: 0 };
        Log {
            state: Mutex::new(state),
            levels: Levels::new(config.verbosity),
            quiet: AtomicBool::new(config.quiet),
            rotate: config.log_rotate,
        }
    }

    /// Writes one line.
    pub(crate) fn write(
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
    pub(crate) fn shows(&self, component: &str, level: i8) -> bool {
        self.levels.of(component) >= level
    }

    /// A debug message, if the component logs that much; the attributes are made only then.
    pub(crate) fn debug(
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
    pub(crate) fn verbosity(&self) -> Document {
        self.levels.document()
    }

    /// Changes levels, all that `settings` names or none.
    pub(crate) fn set_verbosity(&self, settings: &Document) -> Answer<()> {
        self.levels.change(settings)
    }

    /// The level for all, `logLevel`.
    pub(crate) fn level(&self) -> i8 {
        self.levels.default_level()
    }

    /// Whether connections that come and go are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Changes that.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// A line that tells.
    pub(crate) fn info(&self, component: &str, id: i32, context: &str, message: &str, attributes: Document) {
        self.write(Severity::Info, component, id, context, message, attributes);
    }

    /// A line that warns.
    pub(crate) fn warning(
        &self,
        component: &str,
        id: i32,
        context: &str,
        message: &str,
        attributes: Document,
    ) {
        self.write(Severity::Warning, component, id, context, message, attributes);
    }

    /// A warning about how the server was started, which `getLog: "startupWarnings"` repeats.
    pub(crate) fn startup_warning(&self, component: &str, id: i32, message: &str) {
        let attributes = doc! { "tags": ["startupWarnings"] };
        let (severity, context) = (Severity::Warning.letter(), "initandlisten");
        self.put(Line { severity, component, id, context, message, attributes: &attributes }, true);
    }

    /// The last lines, and how many there were in all.
    pub(crate) fn recent(&self) -> (Vec<String>, u64) {
        let state = self.state.lock();
        (state.recent.iter().cloned().collect(), state.total)
    }

    /// The warnings of the start.
    pub(crate) fn startup_warnings(&self) -> Vec<String> {
        self.state.lock().startup_warnings.clone()
    }

    /// Begins a new file, as `systemLog.logRotate` says; the old one goes on where that fails.
    pub(crate) fn rotate(&self) -> Result<(), Error> {
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
