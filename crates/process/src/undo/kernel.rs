//! What the kernel holds by itself, apart from files and devices: control groups, processes and settings.
//!
//! A control group is emptied into the nearest ancestor that takes processes, then removed. A process is asked to end,
//! then ended; the handle of the kernel (pidfd_open(2)) makes sure that a number given to somebody else in the meantime
//! is not hit. A setting below `/sys` is put back where it still has the value that we gave it.

use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Undone, comes_true, patiently};
use crate::ProcessId;

/// The file that lists a group's processes, and takes one by number (cgroups(7)).
const PROCESSES: &str = "cgroup.procs";

pub(super) fn remove_cgroup(path: &Path) -> Result<Undone> {
    if !path.exists() {
        return Ok(Undone::Before);
    }
    if !path.join(PROCESSES).exists() {
        let what = format!("{} is not a cgroup", path.display());
        return Err(Error::new(Kind::NotOurs, what));
    }
    // A process that was just ended is listed for a moment more, and makes the group busy.
    patiently(|| {
        move_processes_up(path)?;
        match fs::remove_dir(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove cgroup", path, e)),
            _ => Ok(()),
        }
    })?;
    Ok(Undone::Now)
}

fn move_processes_up(path: &Path) -> Result<()> {
    let list = path.join(PROCESSES);
    let text = fs::read_to_string(&list).map_err(|e| Error::io("read", &list, e))?;
    for pid in text.lines() {
        move_up(path, pid)?;
    }
    Ok(())
}

/// In version 2 a group with controllers for its children takes no processes itself; one further up will.
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

pub(super) fn end_process(id: ProcessId) -> Result<Undone> {
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

pub(super) fn put_back_setting(path: &Path, previous: &str, value: Option<&str>) -> Result<Undone> {
    let now = match fs::read_to_string(path) {
        Ok(text) => chosen(&text),
        // The device went, and its settings with it.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Undone::Before),
        Err(e) => return Err(Error::io("read", path, e)),
    };
    // Somebody has set it anew since: that is theirs.
    if now == previous || value.is_some_and(|value| now != value) {
        return Ok(Undone::Before);
    }
    fs::write(path, previous).map_err(|e| Error::io("put back", path, e))?;
    let back = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    if chosen(&back) != previous {
        let what = format!("{} did not take back {previous}", path.display());
        return Err(Error::new(Kind::Unsupported, what).advise("look at it and set it by hand"));
    }
    Ok(Undone::Now)
}

/// The value of a setting: the word in square brackets where it is a choice.
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
        let id = ProcessId::of(child.id()).unwrap();
        let earlier = ProcessId { start_time: id.start_time - 1, ..id };
        assert_eq!(end_process(earlier).unwrap(), Undone::Before);
        assert!(id.lives());
        assert_eq!(end_process(id).unwrap(), Undone::Now);
        child.wait().unwrap();
        assert_eq!(end_process(id).unwrap(), Undone::Before);
    }

    #[test]
    fn only_what_still_has_our_value_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read_ahead_kb");
        fs::write(&path, "16\n").unwrap();
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), Undone::Now);
        assert_eq!(fs::read_to_string(&path).unwrap(), "128");
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), Undone::Before);
        fs::write(&path, "64\n").unwrap();
        assert_eq!(put_back_setting(&path, "128", Some("16")).unwrap(), Undone::Before);
        assert_eq!(put_back_setting(&path, "128", None).unwrap(), Undone::Now);
        fs::remove_file(&path).unwrap();
        assert_eq!(put_back_setting(&path, "128", None).unwrap(), Undone::Before);
        assert_eq!(chosen("none [mq-deadline] kyber\n"), "mq-deadline");
    }
}
