//! Processes: asked to end, then ended. The handle of the kernel (pidfd_open(2)) makes sure that a number given to
//! somebody else in the meantime is not hit.

use fathom_errors::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Undone, comes_true};
use crate::ProcessId;

pub(super) fn end(id: ProcessId) -> Result<Undone> {
    let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else { return Ok(Undone::Before) };
    let name = format!("process {}", id.pid);
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(Undone::Before),
        Err(e) => return Err(Error::io("open", &name, e)),
    };
    // Asked only now that the handle holds the number: from here on it cannot change hands.
    if !id.lives() {
        return Ok(Undone::Before);
    }
    for signal in [Signal::TERM, Signal::KILL] {
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => return Err(Error::io("end", &name, e)),
        }
        if comes_true(|| !id.lives()) {
            return Ok(Undone::Now);
        }
    }
    Err(Error::new(Kind::Busy, format!("{name} does not end, even when killed"))
        .advise("it hangs in the kernel, often on a device that does not answer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_recorded_process_ends_and_a_later_one_with_its_number_does_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        let earlier = ProcessId { start_time: id.start_time - 1, ..id };
        assert_eq!(end(earlier).unwrap(), Undone::Before);
        assert!(id.lives());
        assert_eq!(end(id).unwrap(), Undone::Now);
        child.wait().unwrap();
        assert_eq!(end(id).unwrap(), Undone::Before);
    }
}
