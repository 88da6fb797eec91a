//! Identifies a process, distinct from a later one with the same number, and the boot it belongs to.
//!
//! Process numbers are reused within hours on a busy machine; with the start time in clock ticks since boot they are
//! unique. Field numbers are those of proc_pid_stat(5).

use std::fs;

use fathom_errors::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process number and when that process started, in clock ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessId {
    pub fn current() -> Result<ProcessId> {
        let pid = std::process::id();
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
        let stat = parse_stat(&text)
            .ok_or_else(|| Error::new(Kind::Malformed, format!("{path} has fewer than 22 fields")))?;
        Ok(ProcessId { pid, start_time: stat.start_time })
    }

    /// The process that has `pid` now; `None` if there is none, or only a zombie. A process whose first thread has ended before the
    /// others still has its files and ports.
    pub fn read(pid: u32) -> Option<ProcessId> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let Stat { state, threads, start_time } = parse_stat(&String::from_utf8_lossy(&text))?;
        let is_over = state == 'X' || state == 'Z' && threads <= 1;
        (!is_over).then_some(ProcessId { pid, start_time })
    }

    /// Sends it a signal; `false` if it has ended. The kernel's handle (pidfd_open(2)) ensures that a later process with
    /// its number is not signalled.
    pub fn signal(self, signal: Signal) -> Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let failed = |e: Errno| Error::io("send a signal to", format!("process {}", self.pid), e);
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(false),
            Err(e) => return Err(failed(e)),
        };
        // Checked only after the handle is open: from here on the number cannot be reused.
        if !self.lives() {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }

    /// Returns whether this very process still runs.
    pub fn lives(self) -> bool {
        ProcessId::read(self.pid) == Some(self)
    }
}

/// The fields of `/proc/PID/stat` that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    /// Field 3 of `/proc/PID/stat`.
    state: char,
    /// Field 20; of an ended process, at most the one that its parent has yet to collect.
    threads: u64,
    /// Field 22 of `/proc/PID/stat`, in clock ticks.
    start_time: u64,
}

/// The name in field 2 may itself hold spaces and brackets, so fields are counted from its last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    Some(Stat { state, threads, start_time: fields.nth(1)?.parse().ok()? })
}

/// The name of this boot of the machine (`random(4)`), which shows that older start times and loop devices are stale.
pub(crate) fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    Ok(text.trim().to_owned())
}

/// The pid namespace of this process: numbers from another one (a container) are not comparable.
pub(crate) fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use fathom_testkit::{Need, skip, test};

    use super::*;

    #[test]
    fn this_process_lives_and_its_number_alone_is_not_enough() {
        let me = ProcessId::current().unwrap();
        assert!(me.lives());
        assert!(!ProcessId { start_time: me.start_time + 1, ..me }.lives());
        assert_eq!(ProcessId::read(me.pid), Some(me));
    }

    #[test]
    fn a_process_lives_until_its_last_thread_has_ended() {
        // Only the first thread ends, as happens first when a server of many threads is killed.
        let script = "import ctypes, platform, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); \
            ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)";
        let Ok(mut child) = Command::new("python3").args(["-c", script]).spawn() else {
            skip!(Need::Program, "no python3");
        };
        let stat = format!("/proc/{}/stat", child.id());
        let until = Instant::now() + Duration::from_secs(300);
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let lives = ProcessId::read(child.id()).is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lives && ProcessId::read(child.id()).is_none());
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(text), Some(Stat { state: 'S', threads: 1, start_time: 4242 }));
        assert_eq!(parse_stat("7 (short) S 1"), None);
    }
}
