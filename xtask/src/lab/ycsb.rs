//! go-ycsb, the load that the measured model of mongod was made with, as a child process.
//!
//! `setup/go-ycsb.sh` builds it once. What it prints at its end is read; an operation that it calls failed fails the run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_process::Signals;

use super::cpu_of_children_s;

/// The client, ready to run.
pub(crate) struct Ycsb {
    program: PathBuf,
    signals: Signals,
}

/// What one run came to.
#[derive(Clone, Debug)]
pub(crate) struct YcsbRun {
    /// From its start to its end.
    pub(crate) seconds: f64,
    /// Processor time of the client, its start included.
    pub(crate) cpu_s: f64,
    /// How long the operations themselves took, by its own account.
    pub(crate) busy_s: f64,
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
        let begun = Instant::now();
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
        let seconds = begun.elapsed().as_secs_f64();
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
        let busy_s = run_time_s(&said).context("go-ycsb did not say how long it ran")?;
        Ok(YcsbRun { seconds, cpu_s: cpu_of_children_s()? - before_s, busy_s })
    }
}

fn read_all(mut file: std::fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// `Run finished, takes 1m3.25s`, as Go prints durations.
fn run_time_s(output: &str) -> Option<f64> {
    let text = output.lines().find_map(|line| line.strip_prefix("Run finished, takes "))?;
    let mut total_s = 0.0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit)?;
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => 1e-6,
        };
        total_s += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    Some(total_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_prints_them() {
        let said = "x\nRun finished, takes 1m3.5s\nREAD - ...\n";
        assert_eq!(run_time_s(said), Some(63.5));
        assert_eq!(run_time_s("Run finished, takes 250ms\n"), Some(0.25));
        assert_eq!(run_time_s("nothing"), None);
    }
}
