//! Continues a verb in the background: the parent waits until the child is ready, and only then ends.
//!
//! The program is started again with the same arguments, in a new session and without a terminal. Its standard
//! input is a pipe to the parent, through which it reports once that it is ready, or the reason for its failure in one sentence.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_errors::{Error, Kind};

use crate::command_line;
use crate::outcome::VerbOutcome;
use crate::output;

/// The environment variable that marks the child.
const MARK: &str = "FATHOM_IN_BACKGROUND";
const READY: &str = "ready";
/// The time in which a child must exit after it has closed its pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two checks of whether it has exited.
const PAUSE: Duration = Duration::from_millis(10);

/// The end of the pipe that the child holds.
#[derive(Debug)]
pub(crate) struct Parent(std::fs::File);

/// The outcome of starting a child.
#[derive(Debug)]
enum ChildStart {
    /// It is ready; its process id.
    Ready(u32),
    /// It ended, with the sentence that it reported, if any.
    Failed(u32, ExitStatus, String),
}

/// Starts the child, and prints the lines of mongod's parent process; errors call the child `what`.
pub(crate) fn go(what: &str, log: Option<&Path>) -> Result<VerbOutcome> {
    output::line("about to fork child process, waiting until server is ready for connections.")?;
    let log = log.unwrap_or(Path::new("")).display();
    match start()? {
        ChildStart::Ready(pid) => {
            output::line(&format!("forked process: {pid}"))?;
            output::line("child process started successfully, parent exiting")?;
            Ok(VerbOutcome::Clean)
        }
        ChildStart::Failed(pid, status, said) => {
            let why = if said.is_empty() { format!("process {pid} ended with {status}") } else { said };
            let what = format!("the {what} could not go into the background");
            Err(Error::new(Kind::Unsupported, what).because(why).advise(format!("the log is {log}")).into())
        }
    }
}

/// The connection to the parent, if this process is the child. The child has then left the parent's session and directory.
pub(crate) fn parent() -> Result<Option<Parent>> {
    if std::env::var_os(MARK).is_none() {
        return Ok(None);
    }
    let failed =
        |error: std::io::Error| Error::new(Kind::Unsupported, "cannot go into the background").because(error);
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    // The child must not keep a file system from being unmounted.
    std::env::set_current_dir("/").map_err(failed)?;
    Ok(Some(Parent(pipe.into())))
}

impl Parent {
    /// Reports success to the parent. A parent that has ended is no error.
    pub(crate) fn ready(mut self) {
        let _ = self.0.write_all(READY.as_bytes());
    }

    /// Reports the reason for a failure to the parent.
    pub(crate) fn failed(mut self, error: &Error) {
        let _ = self.0.write_all(error.to_string().as_bytes());
    }
}

/// Starts this program again as a child in the background.
fn start() -> Result<ChildStart> {
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(command_line::words().into_iter().skip(1)).env(MARK, "1");
    started(command, EXIT_TIMEOUT)
}

fn failed(error: std::io::Error) -> Error {
    Error::new(Kind::Unsupported, "cannot start the server in the background").because(error)
}

/// Starts a child, and waits until it is ready or has ended.
fn started(mut command: Command, exit_timeout: Duration) -> Result<ChildStart> {
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::from(writer)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    // This closes the parent's copy of the child's end, so that the pipe closes when the child ends.
    drop(command);
    let mut said = String::new();
    let mut chunk = [0; 1024];
    while said != READY {
        match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => said.push_str(&String::from_utf8_lossy(chunk.get(..length).unwrap_or_default())),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                // The outcome of a child that cannot report would remain unknown.
                let _ = exit_status(&mut child, Duration::ZERO);
                return Err(failed(error).into());
            }
        }
    }
    if said == READY {
        return Ok(ChildStart::Ready(child.id()));
    }
    let (status, was_killed) = exit_status(&mut child, exit_timeout).map_err(failed)?;
    if was_killed && said.is_empty() {
        said = format!("process {} did not end after it had closed its pipe, and was killed", child.id());
    }
    Ok(ChildStart::Failed(child.id(), status, said))
}

/// Waits until a child has exited, and kills it after the timeout. Returns whether it had to.
fn exit_status(child: &mut Child, timeout: Duration) -> std::io::Result<(ExitStatus, bool)> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() >= until {
            child.kill()?;
            return Ok((child.wait()?, true));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_child_that_closes_its_pipe_and_does_not_end_is_killed() {
        let closed = script("exec 0<&-; exec sleep 5");
        match started(closed, Duration::from_millis(100)).unwrap() {
            ChildStart::Failed(_, status, said) => {
                assert_eq!(status.signal(), Some(9), "it was waited for until it ended by itself");
                assert!(said.contains("did not end"), "{said}");
            }
            ChildStart::Ready(pid) => panic!("{pid} is ready"),
        }
    }

    #[test]
    fn a_child_is_ready_or_says_why_it_cannot_be() {
        let ready = script("printf ready >&0; exec 0<&-; exec sleep 0.2");
        assert!(matches!(started(ready, EXIT_TIMEOUT).unwrap(), ChildStart::Ready(_)));
        let refused = script("printf 'no room' >&0; exit 3");
        match started(refused, EXIT_TIMEOUT).unwrap() {
            ChildStart::Failed(_, status, said) => {
                assert_eq!((status.code(), said.as_str()), (Some(3), "no room"))
            }
            ChildStart::Ready(pid) => panic!("{pid} is ready"),
        }
    }
}
