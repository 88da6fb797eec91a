//! Control groups: emptied into the nearest ancestor that takes processes, then removed.

use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::{Undone, patiently};

/// The file that lists a group's processes, and takes one by number (cgroups(7)).
const PROCESSES: &str = "cgroup.procs";

pub(super) fn remove(path: &Path) -> Result<Undone> {
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
