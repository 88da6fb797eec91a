//! A control group for one test that limits the processors or the memory of a running process (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_host::cgroup::Cgroups;
use fathom_process::{Guard, Resource};
use fathom_units::Bytes;

use crate::scratch::{fixture_ledger, root_fixture};
use crate::skip::Need;

/// The period of a quota, in microseconds (the kernel's default).
const PERIOD_US: f64 = 100_000.0;

/// A group, without limits at first. On drop, its processes move back to the parent.
#[derive(Debug)]
pub struct LimitGroup {
    _group: Guard,
    path: PathBuf,
    is_unified: bool,
}

impl LimitGroup {
    /// A group of the controller `cpu` or `memory`. The test ends as skipped where this machine cannot have it.
    #[track_caller]
    pub fn new(controller: &str) -> LimitGroup {
        root_fixture(Need::Cgroup, || make(controller))
    }

    /// Puts a running process in, with all its threads. Its present memory stays with its former group.
    pub fn adopt_process(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// The file that takes the numbers of processes, for [`Fathom::under_cap`](crate::Fathom::under_cap).
    pub fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Limits the processors that the group may use; `None` ends the limit.
    pub fn set_processors(&self, processors: Option<f64>) -> Result<()> {
        let quota_us = processors.map(|processors| (processors * PERIOD_US).round().to_string());
        if self.is_unified {
            let quota_us = quota_us.unwrap_or_else(|| "max".to_owned());
            return self.write("cpu.max", &format!("{quota_us} {PERIOD_US}"));
        }
        self.write("cpu.cfs_quota_us", &quota_us.unwrap_or_else(|| "-1".to_owned()))
    }

    /// Limits the memory of the group, its files in the page cache included; `None` ends the limit.
    pub fn set_memory(&self, limit: Option<Bytes>) -> Result<()> {
        let limit = limit.map(|limit| limit.0.to_string());
        if self.is_unified {
            return self.write("memory.max", &limit.unwrap_or_else(|| "max".to_owned()));
        }
        self.write("memory.limit_in_bytes", &limit.unwrap_or_else(|| "-1".to_owned()))
    }

    /// The anonymous memory of the group. Without swap the kernel cannot reclaim it.
    pub fn anonymous_memory(&self) -> Result<Bytes> {
        let file = self.path.join("memory.stat");
        let text = fs::read_to_string(&file).map_err(|e| Error::io("read", &file, e))?;
        let key = if self.is_unified { "anon " } else { "rss " };
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        line.map(Bytes).ok_or_else(|| {
            Error::new(Kind::Malformed, format!("{} has no line {}", file.display(), key.trim()))
        })
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let file = self.path.join(file);
        fs::write(&file, text).map_err(|e| Error::io("write", &file, e))
    }
}

fn make(controller: &str) -> Result<LimitGroup> {
    let view = View::live();
    let groups = Cgroups::read(&view, None);
    let (parent, is_unified) = match groups.controller_folder(controller).filter(|folder| folder.is_dir()) {
        Some(folder) => (folder, false),
        None => (unified(&groups, controller)?, true),
    };
    let ledger = fixture_ledger()?;
    let path = parent.join(ledger.unique_name());
    let entry = ledger.will_make(Resource::Cgroup { path: path.clone() })?;
    let group = entry.guard();
    fs::create_dir(&path).map_err(|e| Error::io("create the control group", &path, e))?;
    Ok(LimitGroup { _group: group, path, is_unified })
}

/// The root of the tree of version 2, which passes the controller on from here.
fn unified(groups: &Cgroups, controller: &str) -> Result<PathBuf> {
    let lacking = || {
        Error::new(
            Kind::Unsupported,
            format!("no control group tree with the controller {controller} is mounted"),
        )
    };
    let own = groups.unified_folder().ok_or_else(lacking)?;
    let is_offered = |folder: &&Path| {
        let text = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        text.split_whitespace().any(|word| word == controller)
    };
    let root = own.ancestors().filter(is_offered).last().ok_or_else(lacking)?;
    let control = root.join("cgroup.subtree_control");
    fs::write(&control, format!("+{controller}")).map_err(|e| Error::io("write", &control, e))?;
    Ok(root.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{assert, assert_eq, test};

    #[test]
    fn a_process_is_limited_and_let_go() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let (processors, memory) = (LimitGroup::new("cpu"), LimitGroup::new("memory"));
        let path = processors.path.clone();
        processors.adopt_process(sleeper.id()).unwrap();
        processors.set_processors(Some(0.25)).unwrap();
        let file = if processors.is_unified { "cpu.max" } else { "cpu.cfs_quota_us" };
        let read = || fs::read_to_string(path.join(file)).unwrap();
        assert!(read().starts_with("25000"), "{}", read());
        processors.set_processors(None).unwrap();
        assert!(!read().starts_with("25000"), "{}", read());
        memory.adopt_process(sleeper.id()).unwrap();
        memory.set_memory(Some(Bytes(64 << 20))).unwrap();
        assert!(memory.anonymous_memory().unwrap().0 < 64 << 20);
        memory.set_memory(None).unwrap();
        drop((processors, memory));
        assert!(!path.exists());
        assert_eq!(sleeper.try_wait().unwrap(), None);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
