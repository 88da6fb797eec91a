//! Runs the lab server as a child process, on any free port, with its own folder and log.
//!
//! It is the built program, not the library: a test kills the same program that a user runs. The port is read from the
//! server's own log, never guessed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fathom_client::{Address, Connection, Target};
use rustix::process::Signal;

use crate::{Fathom, Output, RunningProgram, TIMEOUT};

/// The text of the log line that says that the server accepts clients.
const READY: &str = "Waiting for connections";

/// A running `fathom serve`.
#[derive(Debug)]
pub struct LabServer {
    running: RunningProgram,
    port: u16,
}

impl LabServer {
    /// Starts the program `fathom` on a dbPath with an engine (`wiredTiger`, `rocksdb`) and further flags; the error is its
    /// output if it did not start.
    pub fn start(
        program: impl AsRef<Path>,
        engine: &str,
        db_path: &Path,
        flags: &[&str],
    ) -> Result<LabServer, Output> {
        let call = Fathom::new(program.as_ref())
            .args(["serve", "--port", "0", "--storageEngine", engine, "--dbpath"])
            .arg(db_path)
            .args(flags)
            .limit(Duration::from_secs(600));
        LabServer::from_call(call)
    }

    /// The same of a router (`fathom route`) in front of a config server.
    pub fn route(program: impl AsRef<Path>, config: &LabServer, flags: &[&str]) -> Result<LabServer, Output> {
        let call = Fathom::new(program.as_ref())
            .args(["route", "--port", "0", "--configdb"])
            .arg(format!("127.0.0.1:{}", config.port))
            .args(flags)
            .limit(Duration::from_secs(600));
        LabServer::from_call(call)
    }

    /// The same for a call whose server reports readiness, but which clients reach at another port than it reports.
    pub(crate) fn at(call: Fathom, port: u16) -> Result<LabServer, Output> {
        let server = LabServer::from_call(call)?;
        Ok(LabServer { port, ..server })
    }

    /// Starts it by a prepared call, for example under an I/O cap.
    ///
    /// # Errors
    /// The output of a server that did not come up.
    pub fn from_call(call: Fathom) -> Result<LabServer, Output> {
        let mut running = call.spawn();
        // The line may be incomplete when its first words have arrived.
        let port = loop {
            if !running.wait_for_stdout(READY) {
                return Err(running.wait());
            }
            if let Some(port) = port_of(&running.stdout()) {
                break port;
            }
            thread::sleep(Duration::from_millis(1));
        };
        Ok(LabServer { running, port })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A new connection, whose waits only a server that hangs outlasts.
    pub fn connect(&self) -> fathom_client::Result<Connection> {
        let mut target = Target::at(Address::new("127.0.0.1", self.port));
        target.connect_timeout = TIMEOUT;
        target.socket_timeout = Some(TIMEOUT);
        Connection::connect(&target)
    }

    /// Ends it without warning (SIGKILL).
    pub fn kill(self) -> Output {
        self.running.signal(Signal::KILL);
        self.running.wait()
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    pub fn stop(self) -> Output {
        self.running.signal(Signal::TERM);
        self.running.wait()
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.running.has_ended()
    }

    /// Waits for its end by itself.
    pub fn wait(self) -> Output {
        self.running.wait()
    }
}

/// The port in the line that reports readiness, once the line is complete.
fn port_of(log: &str) -> Option<u16> {
    let line = log.split_inclusive('\n').find(|line| line.contains(READY) && line.ends_with('\n'))?;
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("attr")?.get("port")?.as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_a_whole_line() {
        let line = r#"{"s":"I","msg":"Waiting for connections","attr":{"port":4711,"ssl":"off"}}"#;
        assert_eq!(port_of(line), None);
        assert_eq!(port_of(&format!("{{\"attr\":{{\"port\":1}}}}\n{line}\n")), Some(4711));
    }
}
