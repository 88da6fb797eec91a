//! Undoes objects of the kernel itself other than files and devices: control groups, processes and settings.
//!
//! A control group is emptied into the nearest ancestor that accepts processes, then removed. A process is asked to end, then
//! killed; the handle of the kernel (pidfd_open(2)) ensures that another process with the same number is not hit. A setting
//! below `/sys` is restored if it still has the value that we gave it.

use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{UndoOutcome, comes_true, patiently};
use crate::ProcessId;

/// The file that lists a group's processes, and adds one by number (cgroups(7)).
const PROCESSES: &str = "cgroup.procs";

pub(super) fn remove_cgroup(path: &Path) -> Result<UndoOutcome> {
    if !path.exists() {
        return Ok(UndoOutcome::Before);
    }
    if !path.join(PROCESSES).exists() {
        let what = format!("{} is not a cgroup", path.display());
        return Err(Error::new(Kind::NotOurs, what));
    }
    // A process that has just ended is still listed for a moment, and keeps the group busy.
    patiently(|| {
        move_processes_up(path)?;
        match fs::remove_dir(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove cgroup", path, e)),
            _ => Ok(()),
        }
    })?;
    Ok(UndoOutcome::Now)
}

fn move_processes_up(path: &Path) -> Result<()> {
    let list = path.join(PROCESSES);
    let text = fs::read_to_string(&list).map_err(|e| Error::io("read", &list, e))?;
    for pid in text.lines() {
        move_up(path, pid)?;
    }
    Ok(())
}

/// In version 2 a group with controllers for its children accepts no processes itself; an ancestor will.
fn move_up(path: &Path, pid: &str) -> Result<()> {
    let ancestors = path.ancestors().skip(1).take_while(|ancestor| ancestor.join(PROCESSES).exists());
    let mut refused = None;
    for ancestor in ancestors {
        match fs::write(ancestor.join(PROCESSES), pid) {
            Ok(()) => return Ok(()),
            // It ended in the meantime (ESRCH).
            Err(_) if !Path::new("/proc").join(pid).exists() => return Ok(()),
            Err(e) => refused = Some(Error::io("move processes to", ancestor, e)),
        }
    }
    let nowhere = || Error::new(Kind::Unsupported, format!("there is no cgroup above {}", path.display()));
    Err(refused.unwrap_or_else(nowhere))
}

pub(super) fn end_process(id: ProcessId) -> Result<UndoOutcome> {
    let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else {
        return Ok(UndoOutcome::Before);
    };
    let name = format!("process {}", id.pid);
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(UndoOutcome::Before),
        Err(e) => return Err(Error::io("open", &name, e)),
    };
    // Checked only after the handle is open: from here on the number cannot be reused.
    if !id.lives() {
        return Ok(UndoOutcome::Before);
    }
    for signal in [Signal::TERM, Signal::KILL] {
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => return Err(Error::io("end", &name, e)),
        }
        if comes_true(|| !id.lives()) {
            return Ok(UndoOutcome::Now);
        }
    }
    Err(Error::new(Kind::Busy, format!("{name} does not end, even when killed"))
        .advise("it hangs in the kernel, often on a device that does not answer"))
}

pub(super) fn put_back_setting(path: &Path, previous: &str, value: Option<&str>) -> Result<UndoOutcome> {
    let now = match fs::read_to_string(path) {
        Ok(text) => chosen(&text),
        // The device no longer exists, nor do its settings.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(UndoOutcome::Before),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    // It has been set since: the value is another program's.
    if now == previous || value.is_some_and(|value| now != value) {
        return Ok(UndoOutcome::Before);
    }
    fs::write(path, previous).map_err(|e| Error::io("put back", path, e))?;
    let back = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    if chosen(&back) != previous {
        let what = format!("{} did not take back {previous}", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("look at it and set it by hand"));
    }
    Ok(UndoOutcome::Now)
}

/// The value of a setting: the word in square brackets of a choice.
fn chosen(text: &str) -> String {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or(text.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_recorded_process_ends_and_a_later_one_with_its_number_does_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::read(child.id()).unwrap();
        let earlier = ProcessId { start_time: id.start_time - 1, ..id };
        assert_eq!(end_process(earlier).unwrap(), UndoOutcome::Before);
        assert!(id.lives());
        assert_eq!(end_process(id).unwrap(), UndoOutcome::Now);
        child.wait().unwrap();
        assert_eq!(end_process(id).unwrap(), UndoOutcome::Before);
    }

    #[test]
    fn only_what_still_has_our_value_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read_ahead_kb");
        fs::write(&path, "16\n").unwrap();
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), UndoOutcome::Now);
        assert_eq!(fs::read_to_string(&path).unwrap(), "128");
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), UndoOutcome::Before);
        fs::write(&path, "64\n").unwrap();
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), UndoOutcome::Before);
        assert_eq!(put_back_setting(&path, "128", None).unwrap(), UndoOutcome::Now);
        fs::remove_file(&path).unwrap();
        assert_eq!(put_back_setting(&path, "128", None).unwrap(), UndoOutcome::Before);
        assert_eq!(chosen("none [mq-deadline] kyber\n"), "mq-deadline");
    }
}
