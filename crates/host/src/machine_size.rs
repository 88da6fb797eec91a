//! The size of the machine for this process: a control group, or the set of allowed processors, may leave it only a part.
//!
//! In a container `/proc` shows the host's processors and memory; the usable part is in the control groups and in the process's own status.

use fathom_units::Bytes;

use crate::cgroup::Cgroups;
use crate::{View, environment, memory, run_queue};

/// The processors and the memory of the host, and what this process may use of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineSize {
    /// Processors that are online.
    pub online: f64,
    /// The least of these, of the processors that the process may run on, and of its quota.
    pub processors: f64,
    pub total: Bytes,
    /// The smaller of it and the group's limit.
    pub memory: Bytes,
    /// True if this is a container, by the marks that container runtimes leave.
    pub is_container: bool,
}

impl MachineSize {
    /// Reads the size; `None` if `/proc` does not show it.
    pub fn read(view: &View) -> Option<MachineSize> {
        let groups = Cgroups::read(view, None);
        let online = run_queue::processors(&view.text("proc/stat")?) as f64;
        let total = memory::field_bytes(&view.text("proc/meminfo")?, "MemTotal")?;
        let allowed = allowed_processors(view).unwrap_or(online);
        let processors = groups.cpu_max().map_or(allowed, |quota| quota.min(allowed)).min(online);
        let memory = groups.memory_max_bytes().map_or(total, |limit| limit.min(total));
        Some(MachineSize {
            online,
            processors,
            total: Bytes(total),
            memory: Bytes(memory),
            is_container: environment::container(view, &groups).is_some(),
        })
    }

    /// `a container with 1.5 of 8 processors and 2 GiB of memory`; `None` without a limit.
    pub fn limit_words(&self) -> Option<String> {
        let processors = (self.processors < self.online)
            .then(|| format!("{} of {} processors", (100.0 * self.processors).round() / 100.0, self.online));
        let memory = (self.memory < self.total).then(|| format!("{} of memory", self.memory));
        let parts: Vec<String> = processors.into_iter().chain(memory).collect();
        let place = if self.is_container { "container" } else { "control group" };
        (!parts.is_empty()).then(|| format!("a {place} with {}", parts.join(" and ")))
    }

    /// The same as a sentence on this process.
    pub fn limit_sentence(&self) -> Option<String> {
        self.limit_words().map(|words| format!("This runs in {words}."))
    }
}

/// The number of processors that this process may run on: its group's set and its own mask.
fn allowed_processors(view: &View) -> Option<f64> {
    let status = view.text("proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(parse_list(list.trim())? as f64).filter(|count| *count > 0.0)
}

/// The length of a list of numbers, such as `0-3,8`.
fn parse_list(list: &str) -> Option<u64> {
    list.split(',').try_fold(0_u64, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fathom_testkit::{assert, assert_eq, test};
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// A machine of four processors and 8 GiB, whose process is in a group with these files.
    fn machine(allowed: &str, files: &[(&str, &str)]) -> (TempDir, View) {
        let folder = TempDir::new().unwrap();
        let status = format!("Name:\tx\nCpus_allowed_list:\t{allowed}\n");
        let host = [
            ("proc/stat", "cpu  1 2\ncpu0 1\ncpu1 2\ncpu2 1\ncpu3 1\n"),
            ("proc/meminfo", "MemTotal:  8388608 kB\n"),
            ("proc/self/status", &status),
            ("proc/self/cgroup", "0::/db\n"),
            ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
        ];
        for (path, text) in host.iter().chain(files) {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let view = View::snapshot(folder.path()).unwrap();
        (folder, view)
    }

    fn sentence(allowed: &str, files: &[(&str, &str)]) -> Option<String> {
        let (_folder, view) = machine(allowed, files);
        MachineSize::read(&view).unwrap().limit_sentence()
    }

    #[test]
    fn the_smallest_limit_is_the_size() {
        const QUOTA: (&str, &str) = ("sys/fs/cgroup/db/cpu.max", "150000 100000\n");
        const MEMORY: (&str, &str) = ("sys/fs/cgroup/memory.max", "2147483648\n");
        assert_eq!(sentence("0-3", &[]), None);
        assert_eq!(
            sentence("0-3", &[QUOTA, MEMORY, (".dockerenv", "")]).unwrap(),
            "This runs in a container with 1.5 of 4 processors and 2 GiB of memory."
        );
        assert_eq!(sentence("2", &[QUOTA]).unwrap(), "This runs in a control group with 1 of 4 processors.");
        assert_eq!(
            sentence("0,2-3", &[MEMORY]).unwrap(),
            "This runs in a control group with 3 of 4 processors and 2 GiB of memory."
        );
        // A limit above the machine's size has no effect.
        let wide =
            [("sys/fs/cgroup/db/cpu.max", "900000 100000\n"), ("sys/fs/cgroup/memory.max", "99999999999\n")];
        assert_eq!(sentence("0-7", &wide), None);
    }

    #[test]
    fn the_live_machine_has_a_size() {
        let size = MachineSize::read(&View::live()).unwrap();
        assert!(size.processors > 0.0 && size.processors <= size.online, "{size:?}");
        assert!(size.memory.get() > 0 && size.memory <= size.total, "{size:?}");
    }

    proptest! {
        #[test]
        fn no_list_panics(list in "[0-9,-]{0,30}") {
            parse_list(&list);
        }
    }
}
