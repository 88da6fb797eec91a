//! Runs go-ycsb, the load generator behind the measured model of mongod, as a child process.
//!
//! `setup/go-ycsb.sh` builds it once. Its final output is read; an operation that it reports as failed fails the run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fathom_process::Signals;

use super::cpu_of_children_s;

/// The client, ready to run.
pub(crate) struct Ycsb {
    program: PathBuf,
    signals: Signals,
}

/// The result of one run.
#[derive(Clone, Debug)]
pub(crate) struct YcsbRun {
    /// Processor time of the client, its start included.
    pub(crate) cpu_s: f64,
}

impl Ycsb {
    /// Builds it if the cache lacks it.
    pub(crate) fn find(root: &Path, signals: &Signals) -> Result<Ycsb> {
        let script = root.join("setup/go-ycsb.sh");
        let output = Command::new(&script).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {}", script.display()))?;
        if !output.status.success() {
            bail!("setup/go-ycsb.sh failed; it says why above");
        }
        let program = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(Ycsb { program, signals: signals.clone() })
    }

    /// Runs `load` or `run` with 16 threads against a port. While it runs, `watch` is called every 50 ms.
    pub(crate) fn run(
        &self,
        what: &str,
        port: u16,
        settings: &[(&str, String)],
        watch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<YcsbRun> {
        let mut command = Command::new(&self.program);
        command.args([what, "mongodb", "-p", &format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb?w=1")]);
        command.args(["-p", "threadcount=16"]);
        for (name, value) in settings {
            command.args(["-p", &format!("{name}={value}")]);
        }
        let output = tempfile::tempfile().context("cannot make a temporary file")?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let before_s = cpu_of_children_s()?;
        let mut child = command.spawn().context("cannot start go-ycsb")?;
        let watched = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(error.into()),
                Ok(None) => {}
            }
            if self.signals.wait(Duration::from_millis(50)) {
                break Err(anyhow::anyhow!("interrupted"));
            }
            if let Err(error) = watch() {
                break Err(error);
            }
        };
        if watched.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let said = read_all(output)?;
        let status = watched?;
        let complaint = said.lines().find(|line| line.contains("error") || line.contains(" err:"));
        let failed = said.lines().find(|line| line.contains("_ERROR"));
        if let (false, _, _) | (_, Some(_), _) | (_, _, Some(_)) = (status.success(), complaint, failed) {
            bail!(
                "go-ycsb {what} failed ({status}): {}",
                complaint.or(failed).unwrap_or_else(|| said.trim())
            );
        }
        if !said.contains("Run finished") {
            bail!("go-ycsb {what} ended before its time: {}", said.trim());
        }
        Ok(YcsbRun { cpu_s: cpu_of_children_s()? - before_s })
    }
}

fn read_all(mut file: std::fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}
