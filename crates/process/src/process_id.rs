//! A process told apart from a later one with the same number, and the boot it belongs to.
//!
//! Process numbers are used again within hours on a busy machine; the start time in clock ticks since boot is not.
//! Field numbers are those of proc_pid_stat(5).

use std::fs;

use fathom_errors::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process number and when that process started, in clock ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessId {
    /// This process.
    pub fn current() -> Result<ProcessId> {
        let pid = std::process::id();
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
        let (_, start_time) = parse_stat(&text)
            .ok_or_else(|| Error::new(Kind::Malformed, format!("{path} has fewer than 22 fields")))?;
        Ok(ProcessId { pid, start_time })
    }

    /// The process that has `pid` now; `None` where there is none, or only what its parent has yet to collect.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_time) = parse_stat(&String::from_utf8_lossy(&text))?;
        (!matches!(state, 'Z' | 'X')).then_some(ProcessId { pid, start_time })
    }

    /// Sends it a signal; `false` where it has ended. The kernel's handle (pidfd_open(2)) makes sure that a later process with
    /// its number is not hit.
    pub fn signal(self, signal: Signal) -> Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let failed = |e: Errno| Error::io("send a signal to", format!("process {}", self.pid), e);
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(false),
            Err(e) => return Err(failed(e)),
        };
        // Asked only now that the handle holds the number: from here on it cannot change hands.
        if !self.lives() {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }

    /// Whether this very process still runs.
    pub fn lives(self) -> bool {
        ProcessId::of(self.pid) == Some(self)
    }
}

/// The state letter (field 3) and the start time (field 22). The name in field 2 may itself hold spaces and
/// brackets, so fields are counted from its last closing one.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// A name for this boot of the machine (`random(4)`), by which start times and loop devices are known to be stale.
pub(crate) fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    Ok(text.trim().to_owned())
}

/// The pid namespace we count processes in: numbers from another one (a container) mean nothing to us.
pub(crate) fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_number_alone_is_not_enough() {
        let me = ProcessId::current().unwrap();
        assert!(me.lives());
        assert!(!ProcessId { start_time: me.start_time + 1, ..me }.lives());
        assert_eq!(ProcessId::of(me.pid), Some(me));
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(text), Some(('S', 4242)));
        assert_eq!(parse_stat("7 (short) S 1"), None);
    }
}
