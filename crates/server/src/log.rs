//! The server's log in mongod's form since 4.4: one JSON document a line, with severity, component, id and attributes.
//!
//! The last lines stay in memory for `getLog`. A log that cannot be written is not worth a crash; the failure is counted
//! and said in the next line that can be written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bson::{Bson, Document, doc};
use fathom_errors::Error;
use parking_lot::Mutex;

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

/// Where lines go.
#[derive(Debug)]
enum Sink {
    Output,
    File(File, PathBuf),
    /// Nowhere but the memory; for tests.
    Quiet,
}

#[derive(Debug)]
struct State {
    sink: Sink,
    recent: VecDeque<String>,
    startup_warnings: Vec<String>,
    total: u64,
    lost: u64,
}

/// The log of a server.
#[derive(Debug)]
pub(crate) struct Log(Mutex<State>);

impl Log {
    /// A log to a file, or to standard output.
    pub(crate) fn open(path: Option<&Path>, append: bool) -> Result<Log, Error> {
        let sink = match path {
            None => Sink::Output,
            Some(path) => {
                let mut options = File::options();
                options.create(true).write(true).append(append).truncate(!append);
                let file = options.open(path).map_err(|error| Error::io("open the log", path, error))?;
                Sink::File(file, path.to_owned())
            }
        };
        Ok(Log::to(sink))
    }

    /// A log that only `getLog` shows.
    pub(crate) fn quiet() -> Log {
        Log::to(Sink::Quiet)
    }

    fn to(sink: Sink) -> Log {
        let recent = VecDeque::with_capacity(KEPT_LINES);
        Log(Mutex::new(State { sink, recent, startup_warnings: Vec::new(), total: 0, lost: 0 }))
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
        let mut line = doc! {
            "t": bson::DateTime::now(),
            "s": severity.letter(),
            "c": component,
            "id": id,
            "ctx": context,
            "msg": message,
        };
        if !attributes.is_empty() {
            line.insert("attr", attributes);
        }
        let line = Bson::Document(line).into_relaxed_extjson().to_string();
        let mut state = self.0.lock();
        state.total += 1;
        if state.recent.len() == KEPT_LINES {
            state.recent.pop_front();
        }
        state.emit(&line);
        state.recent.push_back(line);
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
        self.warning(component, id, "initandlisten", message, doc! { "tags": ["startupWarnings"] });
        let mut state = self.0.lock();
        if let Some(line) = state.recent.back().cloned() {
            state.startup_warnings.push(line);
        }
    }

    /// The last lines, and how many there were in all.
    pub(crate) fn recent(&self) -> (Vec<String>, u64) {
        let state = self.0.lock();
        (state.recent.iter().cloned().collect(), state.total)
    }

    /// The warnings of the start.
    pub(crate) fn startup_warnings(&self) -> Vec<String> {
        self.0.lock().startup_warnings.clone()
    }

    /// Opens the file anew, after somebody else renamed it (`logRotate`).
    pub(crate) fn reopen(&self) -> Result<(), Error> {
        let mut state = self.0.lock();
        let Sink::File(_, path) = &state.sink else { return Ok(()) };
        let path = path.clone();
        let file = File::options().create(true).append(true).open(&path);
        state.sink = Sink::File(file.map_err(|error| Error::io("open the log", &path, error))?, path);
        Ok(())
    }
}

impl State {
    fn emit(&mut self, line: &str) {
        let result = match &mut self.sink {
            Sink::Quiet => Ok(()),
            Sink::File(file, _) => file.write_all(format!("{line}\n").as_bytes()),
            Sink::Output => std::io::stdout().write_all(format!("{line}\n").as_bytes()),
        };
        if result.is_err() {
            self.lost += 1;
        }
    }
}
