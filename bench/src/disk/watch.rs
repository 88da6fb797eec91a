//! Measures a running program from outside by the kernel's own accounts (proc(5)), so that both programs are measured
//! in the same way.
//!
//! CPU time is the sum over the program's threads; the time of kernel threads and interrupts for it is in neither
//! program's account. A program that hangs is ended: every wait has a limit.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_process::Signals;

/// The interval between two checks of a program outside the measurement.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The time by which a run may exceed its requested length: for start, end, and a busy machine.
const MAX_EXCESS_TIME: Duration = Duration::from_secs(60);

/// A started program, which is ended when this is dropped.
pub(super) struct ChildProgram {
    child: Child,
    outputs: Vec<JoinHandle<String>>,
    started: Instant,
    deadline: Instant,
    /// The most memory it ever held, bytes, as far as seen.
    peak_bytes: u64,
    signals: Signals,
}

/// CPU time and bytes moved, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    at: Instant,
    cpu_ns: u64,
    moved_bytes: u64,
}

/// The kernel's counts between two accounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockCounts {
    /// CPU time per block moved, microseconds.
    pub(super) cpu_us_per_io: f64,
    /// 512-byte blocks a second, as the kernel counts.
    pub(super) io_per_s: f64,
}

impl BlockCounts {
    /// `None` when nothing moved, which means that the kernel does not count (`CONFIG_TASK_IO_ACCOUNTING`) or that the
    /// program had ended.
    fn between(from: Account, to: Account, block_bytes: u64) -> Option<BlockCounts> {
        let blocks = to.moved_bytes.checked_sub(from.moved_bytes)? as f64 / block_bytes as f64;
        let cpu_us = to.cpu_ns.checked_sub(from.cpu_ns)? as f64 / 1e3;
        let seconds = to.at.duration_since(from.at).as_secs_f64();
        (blocks >= 1.0).then(|| BlockCounts { cpu_us_per_io: cpu_us / blocks, io_per_s: blocks / seconds })
    }
}

impl ChildProgram {
    /// Starts `command`, which should last `seconds`.
    pub(super) fn start(mut command: Command, seconds: u64, signals: &Signals) -> Result<ChildProgram> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let outputs = vec![drain(child.stdout.take()), drain(child.stderr.take())];
        let deadline = started + Duration::from_secs(seconds) + MAX_EXCESS_TIME;
        Ok(ChildProgram { child, outputs, started, deadline, peak_bytes: 0, signals: signals.clone() })
    }

    /// Waits until `condition` of the process number holds; returns the time since the start, or `None` when the
    /// program ended first.
    pub(super) fn until(
        &mut self,
        every: Duration,
        mut condition: impl FnMut(u32) -> bool,
    ) -> Result<Option<Duration>> {
        while !condition(self.child.id()) {
            if self.glance()? {
                return Ok(None);
            }
            self.pause(every)?;
        }
        Ok(Some(self.started.elapsed()))
    }

    /// Lets it work through `from` to `to`, as shares of `seconds` after its first request, and counts.
    pub(super) fn count(
        &mut self,
        seconds: u64,
        (from, to): (f64, f64),
        block_bytes: u64,
    ) -> Result<Option<BlockCounts>> {
        let idle = moved_bytes(self.child.id()).unwrap_or(0);
        let first = self.until(CHECK_INTERVAL, |pid| moved_bytes(pid).is_some_and(|bytes| bytes > idle))?;
        if first.is_none() {
            return Ok(None);
        }
        self.pause(Duration::from_secs_f64(seconds as f64 * from))?;
        let begin = account(self.child.id());
        self.pause(Duration::from_secs_f64(seconds as f64 * (to - from)))?;
        let end = account(self.child.id());
        Ok(begin.zip(end).and_then(|(begin, end)| BlockCounts::between(begin, end, block_bytes)))
    }

    /// Waits for its end; returns its standard output, and the most memory it held in bytes.
    ///
    /// # Errors
    /// When it is asked to stop, hangs, or ends with a code other than those in `fine`.
    pub(super) fn finish(mut self, fine: &[i32]) -> Result<(String, u64)> {
        while !self.glance()? {
            self.pause(CHECK_INTERVAL)?;
        }
        let status = self.child.wait().context("cannot wait for it")?;
        let mut outputs = self.outputs.drain(..).map(|output| output.join().unwrap_or_default());
        let (output, complaint) = (outputs.next().unwrap_or_default(), outputs.next().unwrap_or_default());
        drop(outputs);
        if !status.code().is_some_and(|code| fine.contains(&code)) {
            let said = complaint.lines().chain(output.lines()).find(|line| !line.trim().is_empty());
            bail!("it ended with {status}: {}", said.unwrap_or("no message"));
        }
        Ok((output, self.peak_bytes))
    }

    /// Returns whether it has ended; until then, records its peak memory.
    fn glance(&mut self) -> Result<bool> {
        let peak = status_number(self.child.id(), "VmHWM:").map_or(0, |kib| kib << 10);
        self.peak_bytes = self.peak_bytes.max(peak);
        if self.child.try_wait().context("cannot wait for it")?.is_some() {
            return Ok(true);
        }
        if Instant::now() > self.deadline {
            bail!("it did not end in time");
        }
        Ok(false)
    }

    fn pause(&self, length: Duration) -> Result<()> {
        if self.signals.wait(length) {
            bail!("interrupted");
        }
        Ok(())
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        // Already ended in the ordinary case, and then both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end on a thread, so that a program never waits for us to read.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error only the bytes before it can be shown.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn account(pid: u32) -> Option<Account> {
    let mut cpu_ns = 0;
    for thread in threads(pid) {
        // A thread that ends in between loses its account; the programs keep their threads to the end.
        let path = format!("/proc/{pid}/task/{thread}/schedstat");
        let text = fs::read_to_string(path).unwrap_or_default();
        cpu_ns += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Some(Account { at: Instant::now(), cpu_ns, moved_bytes: moved_bytes(pid)? })
}

/// The thread numbers of a process; an empty list once it has ended.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Bytes that a process moved between itself and block devices.
fn moved_bytes(pid: u32) -> Option<u64> {
    io_bytes(&format!("/proc/{pid}/io"))
}

/// Returns whether a thread has moved a first byte.
pub(super) fn has_moved(pid: u32, thread: u32) -> bool {
    io_bytes(&format!("/proc/{pid}/task/{thread}/io")).is_some_and(|bytes| bytes > 0)
}

fn io_bytes(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    Some(number_after(&text, "read_bytes:")? + number_after(&text, "write_bytes:")?)
}

/// A number of `/proc/PID/status`, such as `Threads:` or `VmHWM:` (in KiB).
pub(crate) fn status_number(pid: u32, key: &str) -> Option<u64> {
    number_after(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, key)
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.get(key.len()..)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_key_at_a_line_start() {
        let text = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 12288\n";
        assert_eq!(number_after(text, "read_bytes:"), Some(4096));
        assert_eq!(number_after(text, "write_bytes:"), Some(8192));
        assert_eq!(number_after("VmHWM:\t  123 kB\n", "VmHWM:"), Some(123));
        assert_eq!(number_after(text, "bytes:"), None);
    }

    #[test]
    fn cpu_per_block_needs_blocks() {
        let at = Instant::now();
        let from = Account { at, cpu_ns: 1_000, moved_bytes: 4096 };
        let to = Account { at: at + Duration::from_secs(2), cpu_ns: 41_000, moved_bytes: 4096 * 11 };
        let counted = BlockCounts::between(from, to, 4096).unwrap();
        assert_eq!(counted, BlockCounts { cpu_us_per_io: 4.0, io_per_s: 5.0 });
        assert_eq!(BlockCounts::between(from, from, 4096), None);
        assert_eq!(BlockCounts::between(to, from, 4096), None);
    }

    #[test]
    fn a_program_is_heard_and_its_failure_told() {
        let signals = Signals::install().unwrap();
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            ChildProgram::start(command, 1, &signals).unwrap().finish(&[0, 1])
        };
        assert_eq!(run("echo out; exit 1").unwrap().0, "out\n");
        let error = run("echo out; echo 'no room' >&2; exit 3").unwrap_err().to_string();
        assert!(error.contains("no room"), "{error}");
    }
}
