//! The built-in server as a child of this program, in a folder that goes again.
//!
//! The folder and the process are in the ledger, so that `fathom cleanup` takes them away where this program was killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ledger::Guard;
use fathom_process::{Ledger, Thing};
use rustix::process::{Pid, Signal, kill_process};

/// What its log says when clients may come.
const READY: &str = "Waiting for connections";
/// How long it may take to come up and to stop with its last checkpoint.
const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(60);

/// A running built-in server. Dropped, it is killed and its folder removed.
pub(crate) struct LabServer {
    child: Child,
    port: u16,
    process: Option<Guard>,
    folder: Option<Guard>,
}

impl LabServer {
    /// Starts it with an engine on a new folder under `parent`.
    pub(crate) fn start(ledger: &Ledger, parent: &Path, engine: &str) -> Result<LabServer> {
        let path = parent.join(ledger.unique_name());
        let folder = ledger.create_tree(&path)?.guard();
        let failed = |error: std::io::Error| {
            Error::new(Kind::Unsupported, "cannot start the built-in server").because(error)
        };
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["serve", "--port", "0", "--storageEngine", engine, "--dbpath"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let process = ledger.will_make(Thing::process(child.id())?)?.guard();
        let (log, complaint) = (child.stdout.take(), child.stderr.take());
        let mut server = LabServer { child, port: 0, process: Some(process), folder: Some(folder) };
        let (sender, port) = std::sync::mpsc::channel();
        thread::spawn(move || {
            // It reads on to the end, or the server would wait for room in the pipe.
            for line in
                log.into_iter().flat_map(|log| BufReader::new(log).lines()).map_while(std::io::Result::ok)
            {
                if let Some(port) = port_of(&line) {
                    let _ = sender.send(port);
                }
            }
        });
        if let Ok(port) = port.recv_timeout(START) {
            server.port = port;
            return Ok(server);
        }
        let _ = server.child.kill();
        let mut said = String::new();
        complaint.into_iter().for_each(|mut pipe| drop(pipe.read_to_string(&mut said)));
        let why = said.lines().next().unwrap_or("it did not say why").to_owned();
        Err(Error::new(Kind::Unsupported, "the built-in server did not come up").because(why))
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops it with its last checkpoint, and removes its folder.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // One that is gone already is waited for all the same.
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + STOP;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.process.take().map_or(Ok(()), Guard::keep)?;
        self.folder.take().map_or(Ok(()), Guard::undo)
    }
}

impl Drop for LabServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The process first: a folder in use could get new files.
        drop(self.process.take());
        drop(self.folder.take());
    }
}

/// The port in the line that says that it is ready.
fn port_of(line: &str) -> Option<u16> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("msg")?.as_str().filter(|message| *message == READY)?;
    line.get("attr")?.get("port")?.as_u64()?.try_into().ok()
}

/// The engines that the server has, with the names that people know.
pub(crate) const ENGINES: [(&str, &str); 2] = [("wiredTiger", "WiredTiger"), ("rocksdb", "RocksDB")];
