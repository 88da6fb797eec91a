//! The lab server as a child process, on any free port, with a folder and a log of its own.
//!
//! It is the built program, not the library: what a test kills is what a person would run. Refuses to guess the port: the
//! server's own log says it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fathom_client::{Address, Connection, Target};
use rustix::process::Signal;

use crate::{Fathom, Output, Running};

/// What the log line says when clients may come.
const READY: &str = "Waiting for connections";

/// A running `fathom serve`.
#[derive(Debug)]
pub struct LabServer {
    running: Running,
    port: u16,
}

impl LabServer {
    /// Starts the program `fathom` on a dbPath with an engine (`wiredTiger`, `rocksdb`) and further flags; an error is what
    /// it said when it did not come up.
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
        LabServer::ready(call)
    }

    /// The same of a router (`fathom route`) in front of a config server.
    pub fn route(program: impl AsRef<Path>, config: &LabServer, flags: &[&str]) -> Result<LabServer, Output> {
        let call = Fathom::new(program.as_ref())
            .args(["route", "--port", "0", "--configdb"])
            .arg(format!("127.0.0.1:{}", config.port))
            .args(flags)
            .limit(Duration::from_secs(600));
        LabServer::ready(call)
    }

    /// The same of a call whose server says that it is ready, and which clients reach at another port than it says.
    pub(crate) fn at(call: Fathom, port: u16) -> Result<LabServer, Output> {
        let server = LabServer::ready(call)?;
        Ok(LabServer { port, ..server })
    }

    fn ready(call: Fathom) -> Result<LabServer, Output> {
        let mut running = call.spawn();
        // The line may still be on its way when its first words are there.
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

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A new connection; waits at most a minute for any reply.
    pub fn connect(&self) -> fathom_client::Result<Connection> {
        let mut target = Target::at(Address::new("127.0.0.1", self.port));
        target.socket_timeout = Some(Duration::from_secs(60));
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

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.running.has_ended()
    }

    /// Waits for its end by itself.
    pub fn wait(self) -> Output {
        self.running.wait()
    }
}

/// The port in the line that says that the server is ready, once the line is whole.
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
