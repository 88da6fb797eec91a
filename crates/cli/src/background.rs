//! A verb that goes on in the background: the parent waits until the child is ready, and only then ends.
//!
//! The program is started again, in a session of its own and without a terminal, with the same arguments. Its standard
//! input is a pipe to the parent, by which it says once that it is ready, or in one sentence why it cannot be.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Result;
use fathom_errors::{Error, Kind};
use rustix::process::{Pid, Signal, kill_process};

use crate::output;
use crate::verbs::Outcome;

/// Tells the child that it is one.
const MARK: &str = "FATHOM_IN_BACKGROUND";
const READY: &str = "ready";

/// The end of the pipe that the child holds.
#[derive(Debug)]
pub(crate) struct Parent(std::fs::File);

/// What came of starting a child.
#[derive(Debug)]
enum Started {
    /// It is ready; its process id.
    Ready(u32),
    /// It ended, with this sentence if it said one.
    Failed(u32, ExitStatus, String),
}

/// Starts the child, and says what mongod's parent says; complaints call the child `what`.
pub(crate) fn go(what: &str, log: Option<&Path>) -> Result<Outcome> {
    output::line("about to fork child process, waiting until server is ready for connections.")?;
    let log = log.unwrap_or(Path::new("")).display();
    match start()? {
        Started::Ready(pid) => {
            output::line(&format!("forked process: {pid}"))?;
            output::line("child process started successfully, parent exiting")?;
            Ok(Outcome::Clean)
        }
        Started::Failed(pid, status, said) => {
            let why = if said.is_empty() { format!("process {pid} ended with {status}") } else { said };
            let what = format!("the {what} could not go into the background");
            Err(Error::new(Kind::Unsupported, what).because(why).advise(format!("the log is {log}")).into())
        }
    }
}

/// The parent, if this process is the child; it then has left the parent's session and folder.
pub(crate) fn parent() -> Result<Option<Parent>> {
    if std::env::var_os(MARK).is_none() {
        return Ok(None);
    }
    let failed =
        |error: std::io::Error| Error::new(Kind::Unsupported, "cannot go into the background").because(error);
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    // A folder that somebody may want to unmount is not held.
    std::env::set_current_dir("/").map_err(failed)?;
    Ok(Some(Parent(pipe.into())))
}

impl Parent {
    /// Says that all went well. A parent that is gone needs not know.
    pub(crate) fn ready(mut self) {
        let _ = self.0.write_all(READY.as_bytes());
    }

    /// Says why it cannot be.
    pub(crate) fn failed(mut self, error: &Error) {
        let _ = self.0.write_all(error.to_string().as_bytes());
    }
}

/// Starts this program again as a child in the background, and waits until it is ready or has ended.
fn start() -> Result<Started> {
    let failed = |error: std::io::Error| {
        Error::new(Kind::Unsupported, "cannot start the server in the background").because(error)
    };
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(std::env::args_os().skip(1)).env(MARK, "1");
    command.stdin(Stdio::from(writer)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    // Our copy of the child's end goes, or the end of its words would never be seen.
    drop(command);
    let mut said = String::new();
    let mut chunk = [0; 1024];
    while said != READY {
        match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => said.push_str(&String::from_utf8_lossy(chunk.get(..length).unwrap_or_default())),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                stop(child.id());
                return Err(failed(error).into());
            }
        }
    }
    if said == READY {
        return Ok(Started::Ready(child.id()));
    }
    let status = child.wait().map_err(failed)?;
    Ok(Started::Failed(child.id(), status, said))
}

fn stop(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
}
