//! `fathom serve` as a child process: started on a folder, asked for its status, stopped by SIGTERM, or killed on drop.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bson::{RawDocument, RawDocumentBuf, doc};
use fathom_client::{Address, Connection, Target};
use fathom_process::Signals;
use rustix::process::{Pid, Signal, kill_process};

use super::beside;

/// The line of the log that says that clients may connect.
const READY: &str = "Waiting for connections";
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for a stop: the last checkpoint of a full cache on a slow disk takes long.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// The engines that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchEngine {
    WiredTiger,
    RocksDb,
}

impl BenchEngine {
    /// Both, the reference first.
    pub(crate) const ALL: [BenchEngine; 2] = [BenchEngine::WiredTiger, BenchEngine::RocksDb];

    /// As `--storageEngine` spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BenchEngine::WiredTiger => "wiredTiger",
            BenchEngine::RocksDb => "rocksdb",
        }
    }
}

pub(crate) struct BenchServer {
    child: Child,
    port: u16,
    control: Connection,
    signals: Signals,
}

impl BenchServer {
    /// Starts one with its data and its log in `folder`.
    pub(crate) fn start(
        engine: BenchEngine,
        folder: &Path,
        flags: &[&str],
        signals: &Signals,
    ) -> Result<BenchServer> {
        BenchServer::start_program(&beside("fathom")?, engine, folder, flags, signals)
    }

    /// The same with this program.
    pub(crate) fn start_program(
        program: &Path,
        engine: BenchEngine,
        folder: &Path,
        flags: &[&str],
        signals: &Signals,
    ) -> Result<BenchServer> {
        let log = folder.join("server.log");
        // The port of an earlier server must not be read from it.
        let _ = fs::remove_file(&log);
        let mut command = Command::new(program);
        command
            .args(["serve", "--port", "0", "--storageEngine", engine.name(), "--dbpath"])
            .arg(folder.join("db"));
        command.arg("--logpath").arg(&log).args(flags).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().context("cannot start fathom serve")?;
        let begun = Instant::now();
        let port = loop {
            if let Some(port) = port_of(&fs::read_to_string(&log).unwrap_or_default()) {
                break port;
            }
            let ended = child.try_wait().context("cannot wait for fathom serve")?;
            if ended.is_some() || begun.elapsed() > START_TIMEOUT || signals.wait(Duration::from_millis(10)) {
                let _ = child.kill();
                let _ = child.wait();
                bail!("fathom serve did not come up; its log is {}", log.display());
            }
        };
        match Connection::connect(&Target::at(Address::new("127.0.0.1", port))) {
            Ok(control) => Ok(BenchServer { child, port, control, signals: signals.clone() }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("cannot connect to fathom serve: {error}")
            }
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command on `admin`.
    pub(crate) fn run(&mut self, command: &bson::Document) -> Result<RawDocumentBuf> {
        self.control.run("admin", command).map_err(|error| anyhow::anyhow!("{command}: {error}"))
    }

    pub(crate) fn status(&mut self) -> Result<RawDocumentBuf> {
        self.run(&doc! { "serverStatus": 1 })
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process")?;
        kill_process(pid, Signal::TERM).context("cannot stop fathom serve")?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for fathom serve")? {
                if status.success() {
                    return Ok(());
                }
                bail!("fathom serve ended with {status}");
            }
            if begun.elapsed() > STOP_TIMEOUT || self.signals.wait(Duration::from_millis(20)) {
                bail!("fathom serve did not stop");
            }
        }
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // Already ended in the ordinary case, and then both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port in the line that reports readiness, once the line is complete.
fn port_of(log: &str) -> Option<u16> {
    let line = log.split_inclusive('\n').find(|line| line.contains(READY) && line.ends_with('\n'))?;
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("attr")?.get("port")?.as_u64()?.try_into().ok()
}

/// A number of a status by its path; `None` if it is missing.
pub(crate) fn number(status: &RawDocument, path: &[&str]) -> Option<f64> {
    let (name, rest) = path.split_first()?;
    let value = status.get(*name).ok()??;
    if !rest.is_empty() {
        return number(value.as_document()?, rest);
    }
    value.as_f64().or(value.as_i64().map(|n| n as f64)).or(value.as_i32().map(f64::from))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn the_port_and_numbers_are_found() {
        let line = r#"{"attr":{"port":4711},"msg":"Waiting for connections"}"#;
        assert_eq!(port_of(line), None);
        assert_eq!(port_of(&format!("{{}}\n{line}\n")), Some(4711));
        let status = rawdoc! { "a": { "b": 2_i64, "c": "x" } };
        assert_eq!(number(&status, &["a", "b"]), Some(2.0));
        assert_eq!((number(&status, &["a", "c"]), number(&status, &["b"])), (None, None));
    }
}
