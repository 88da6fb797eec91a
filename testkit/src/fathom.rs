//! Runs the program under test with a time limit, its own state folder, and no inherited settings.
//!
//! The program never outlives its test: a child that exceeds its time is killed with its whole process group, and its
//! remains are undone.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fathom_process::ledger;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::param::page_size;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::Scratch;
use crate::skip::count_assertion;

/// Only a program that hangs takes this long; shorter than the limit of a test (.config/nextest.toml).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(540);

/// The limit of a wait for an event, which only a program that hangs reaches.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// A call that is being built.
#[derive(Debug)]
pub struct Fathom {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    input: Vec<u8>,
    folder: Option<PathBuf>,
    state: Option<PathBuf>,
    processes_file: Option<PathBuf>,
    holds_stdout: bool,
    limit: Duration,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; 128 + number for a death by signal, as a shell counts; -1 for one that overstayed.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// True if it had to be killed for overstaying.
    pub timed_out: bool,
}

impl Output {
    /// The same output, if the exit code was `code`; else the test fails and shows everything.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Output {
        count_assertion();
        let Output { stdout, stderr, .. } = &self;
        assert!(
            self.code == code,
            "exit code {} and not {code}, overstayed: {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
            self.code,
            self.timed_out
        );
        self
    }

    /// The same output without the line of the id, if the program, called with `-v`, refused with this exit code and id; else the test
    /// fails.
    #[track_caller]
    pub fn expect_refusal(self, code: i32, id: &str) -> Output {
        let output = self.expect_code(code);
        let line = format!("fathom: refusal [{id}], exit {code}\n");
        let Some(stderr) = output.stderr.strip_suffix(&line).map(str::to_owned) else {
            panic!("[{id}] was expected\n--- stderr\n{}", output.stderr)
        };
        Output { stderr, ..output }
    }

    /// Standard output as one JSON document; the test fails if it is not one.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not one JSON document: {e}\n{}", self.stdout))
    }
}

impl Fathom {
    /// A call of the program built for this test: `Fathom::new(env!("CARGO_BIN_EXE_fathom"))`.
    pub fn new(program: impl Into<PathBuf>) -> Fathom {
        Fathom {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            input: Vec::new(),
            folder: None,
            state: None,
            processes_file: None,
            holds_stdout: false,
            limit: DEFAULT_TIMEOUT,
        }
    }

    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Fathom {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Fathom {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Fathom {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Its standard input; empty by default.
    #[must_use]
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Fathom {
        self.input = input.into();
        self
    }

    /// The folder it starts in.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Fathom {
        self.folder = Some(folder.into());
        self
    }

    /// Its state folder; by default a new one that is deleted after the call.
    #[must_use]
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Fathom {
        self.state = Some(folder.into());
        self
    }

    /// Starts it inside an I/O cap: `cap.processes_file()`.
    #[must_use]
    pub fn under_cap(mut self, processes_file: impl Into<PathBuf>) -> Fathom {
        self.processes_file = Some(processes_file.into());
        self
    }

    /// Leaves room for 768 bytes of standard output: the program waits in the write for which there is no room, until
    /// [`RunningProgram::release_stdout`] or its end is asked for.
    #[must_use]
    pub fn hold_stdout(mut self) -> Fathom {
        self.holds_stdout = true;
        self
    }

    /// The time after which it is killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Fathom {
        self.limit = limit;
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Output {
        self.spawn().wait()
    }

    /// Starts it and leaves it running, for signals.
    #[track_caller]
    pub fn spawn(self) -> RunningProgram {
        let scratch = Scratch::new().unwrap_or_else(|e| panic!("{e}"));
        let state = self.state.clone().unwrap_or_else(|| scratch.path());
        let mut command = match &self.processes_file {
            None => Command::new(&self.program),
            // A shell joins the group and then becomes the program.
            Some(file) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(file).arg(&self.program);
                shell
            }
        };
        command.args(&self.arguments).env("FATHOM_STATE", &state).envs(self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let held = self.holds_stdout.then(|| {
            let (held, writer) = HeldPipe::new().unwrap_or_else(|e| panic!("cannot make a pipe: {e}"));
            command.stdout(writer);
            held
        });
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut child =
            command.spawn().unwrap_or_else(|e| panic!("cannot start {}: {e}", self.program.display()));
        if let Some(mut stdin) = child.stdin.take() {
            let input = self.input;
            // A program that reads nothing closes its end, and writes to it fail.
            thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let (stdout, stderr) = (Stream::new(child.stdout.take()), Stream::new(child.stderr.take()));
        let deadline = Instant::now() + self.limit;
        RunningProgram { child, status: None, stdout, stderr, held, deadline, state, scratch }
    }
}

#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    status: Option<ExitStatus>,
    stdout: Stream,
    stderr: Stream,
    held: Option<HeldPipe>,
    deadline: Instant,
    state: PathBuf,
    scratch: Scratch,
}

impl RunningProgram {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Sends it a signal (`rustix::process::Signal`).
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.raw_pid().filter(|_| self.status.is_none()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Closes our end of its standard output, as `| head -1` does after its line.
    pub fn close_stdout(&mut self) {
        self.stdout.close();
    }

    /// Reads on from standard output that was held.
    pub fn release_stdout(&mut self) {
        if let Some(held) = self.held.take() {
            let pipe = held.release().unwrap_or_else(|e| panic!("cannot read a pipe: {e}"));
            self.stdout = Stream::new(Some(pipe));
        }
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until standard output holds `text`; returns false if the program or its time ended first.
    pub fn wait_for_stdout(&mut self, text: &str) -> bool {
        loop {
            let ended = self.has_ended() || Instant::now() >= self.deadline;
            if self.stdout.text().contains(text) {
                return true;
            }
            if ended {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns whether it has ended. Its process group then ends too.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            // An ended process that was not waited for keeps its number, so that the killed group is certainly its own.
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let seen = self.raw_pid().map(|pid| waitid(WaitId::Pid(pid), how));
            if matches!(seen, Some(Ok(Some(_)))) {
                self.kill();
            }
        }
        self.status.is_some()
    }

    /// Waits for its end, or kills it when its time is over.
    pub fn wait(mut self) -> Output {
        self.release_stdout();
        let mut pause = Duration::from_millis(1);
        while !self.has_ended() && Instant::now() < self.deadline {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        let timed_out = self.status.is_none();
        self.kill();
        let status = self.status.filter(|_| !timed_out);
        let code = status.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)));
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        Output { code: code.unwrap_or(-1), stdout, stderr, timed_out }
    }

    fn raw_pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills the program, if it still runs, and whatever it started in its process group.
    fn kill(&mut self) {
        if self.status.is_none() {
            if let Some(pid) = self.raw_pid() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        // A folder that the test named is left for the test to check.
        if self.state == self.scratch.path() {
            let _ = ledger::undo_dead_in(&self.state);
        }
    }
}

/// A pipe that has room for a few bytes, because the rest of it holds blank bytes of ours.
#[derive(Debug)]
struct HeldPipe {
    reader: PipeReader,
    blank_bytes: usize,
}

impl HeldPipe {
    /// Enough for the first lines of a program, and too little for a result.
    const MAX_SHOWN_BYTES: usize = 768;

    fn new() -> io::Result<(HeldPipe, PipeWriter)> {
        let (mut reader, mut writer) = io::pipe()?;
        let mut page = vec![0; page_size()];
        let mut blank_bytes = 0;
        fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        loop {
            match writer.write(&page) {
                Ok(count) => blank_bytes += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        // The kernel adds a write to the last page if it has room for the whole of it.
        reader.read_exact(&mut page)?;
        page.truncate(page.len() - Self::MAX_SHOWN_BYTES);
        writer.write_all(&page)?;
        fcntl_setfl(&writer, OFlags::empty())?;
        Ok((HeldPipe { reader, blank_bytes: blank_bytes - Self::MAX_SHOWN_BYTES }, writer))
    }

    /// The pipe without the blank bytes, for a reader.
    fn release(mut self) -> io::Result<PipeReader> {
        self.reader.read_exact(&mut vec![0; self.blank_bytes])?;
        Ok(self.reader)
    }
}

/// An output pipe, emptied by a thread so that the program never blocks on it.
#[derive(Debug)]
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn new(pipe: Option<impl Read + Send + 'static>) -> Stream {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let closing: Arc<AtomicBool> = Arc::default();
        let (into, closed) = (Arc::clone(&bytes), Arc::clone(&closing));
        let reader = pipe.map(|mut pipe| {
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !closed.load(Ordering::Acquire) {
                    match pipe.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(length) => {
                            let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
                            bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
                        }
                    }
                }
            })
        });
        Stream { bytes, closing, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// The pipe is closed after the next piece that arrives.
    fn close(&mut self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Everything that came. A process that outlived the program may hold the pipe; it is not waited for long.
    fn finish(&mut self) -> String {
        let start = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished())
            && start.elapsed() < Duration::from_secs(2)
        {
            thread::sleep(Duration::from_millis(1));
        }
        self.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Fathom {
        Fathom::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn code_streams_and_standard_input_come_through() {
        let output = shell("cat; echo complaint >&2; exit 3").stdin("text").run().expect_code(3);
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("text", "complaint\n"));
        assert!(!output.timed_out);
    }

    #[test]
    fn one_that_overstays_is_killed_with_its_children() {
        let output = shell("echo begun; sleep 600 & wait").limit(Duration::from_millis(300)).run();
        assert!(output.timed_out && output.code == -1);
        assert_eq!(output.stdout, "begun\n");
    }

    #[test]
    fn a_signal_and_a_reader_that_went_away_arrive() {
        let mut running = shell("echo ready; sleep 600").spawn();
        assert!(running.wait_for_stdout("ready"));
        running.signal(Signal::TERM);
        assert_eq!(running.wait().code, 128 + 15);

        let mut running = shell("while echo line; do :; done 2> /dev/null; exit 7").spawn();
        running.close_stdout();
        assert!(running.wait().code > 0);
    }

    #[test]
    fn a_held_program_waits_in_its_output() {
        let scratch = Scratch::new().unwrap();
        let script = "echo first; touch begun; printf '%1000d\\n' 5; touch over; echo last";
        let running = shell(script).current_dir(scratch.path()).hold_stdout().spawn();
        while !scratch.path().join("begun").exists() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!scratch.path().join("over").exists());
        let output = running.wait().expect_code(0);
        assert_eq!(output.stdout, format!("first\n{:>1000}\nlast\n", 5));
        assert!(scratch.path().join("over").exists());
        // A program that is never read ends with its test.
        shell("exec yes").hold_stdout().spawn();
    }

    #[test]
    fn each_call_has_a_state_folder_of_its_own() {
        let states: Vec<_> = (0..2).map(|_| shell("echo $FATHOM_STATE").run().stdout).collect();
        assert_ne!(states[0], states[1]);
        assert_eq!(shell("echo $FATHOM_STATE").state("/given").run().stdout, "/given\n");
    }
}
