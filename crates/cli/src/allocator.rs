//! Sets up the C library's allocator for a verb that runs for long and holds an engine: huge pages, and few arenas.
//!
//! An engine reads its cache at random addresses: with pages of 4 KB the processor spends a twelfth of a point read on translating
//! them (docs/journal/2026-11-21-lab-server-speed.md). If the kernel gives huge pages to programs that ask for them
//! ("madvise"), glibc asks for them if a tunable says so. MongoDB wants huge pages from 8.0 on.
//!
//! glibc gives up to eight arenas for each processor to its threads. If one thread allocates memory from its arena and another frees
//! it (an update, and the eviction that follows), that leaves holes which the other arenas cannot fill. Under updates the memory
//! outside WiredTiger's cache still grew after ten minutes; with an arena for each of two processors it levels off after
//! seven, a quarter lower, and far more of it is on huge pages (docs/journal/2026-11-23-lab-server-memory.md). So there are
//! as many arenas as processors.
//!
//! Both are read from `GLIBC_TUNABLES` only when a program starts. So the program replaces itself by a new start of itself, once. A
//! program with file capabilities does not see the tunables that it was started with, so a variable of its own marks that this has
//! been done. A value that the user set is not changed: `glibc.malloc.hugetlb=0` keeps small pages,
//! `glibc.malloc.arena_max` or `MALLOC_ARENA_MAX` sets another number of arenas.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::command_line;

const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE_PAGES: &str = "glibc.malloc.hugetlb";
const ARENAS: &str = "glibc.malloc.arena_max";
/// The older name of the same setting.
const ARENAS_OF_OLD: &str = "MALLOC_ARENA_MAX";
/// Set in the program that was started again.
const MARK: &str = "FATHOM_ALLOCATOR_SETTLED";
const POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// With a single arena, the threads of one processor would wait for each other.
const MIN_ARENAS: usize = 2;

/// The allocator's state on this machine before any change.
struct AllocatorEnvironment<'a> {
    /// Whether this is the program that was started again.
    is_settled: bool,
    /// The value of `GLIBC_TUNABLES`.
    tunables: Option<&'a OsStr>,
    /// Whether the number of arenas is set by its older name.
    has_arenas_of_old: bool,
    /// The kernel's policy on huge pages.
    policy: &'a str,
    processors: usize,
}

/// Starts the program again, with the same arguments and process id, if that changes its allocator. Returns if it does not,
/// or if the start fails: the allocator's defaults work too.
pub(crate) fn settle() {
    let policy = std::fs::read_to_string(POLICY).unwrap_or_default();
    let tunables = std::env::var_os(TUNABLES);
    let situation = AllocatorEnvironment {
        is_settled: std::env::var_os(MARK).is_some(),
        tunables: tunables.as_deref(),
        has_arenas_of_old: std::env::var_os(ARENAS_OF_OLD).is_some(),
        policy: &policy,
        processors: std::thread::available_parallelism().map_or(MIN_ARENAS, usize::from),
    };
    let Some(tunables) = situation.wanted() else { return };
    let (Ok(program), mut words) = (std::env::current_exe(), command_line::words().into_iter()) else {
        return;
    };
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    // This only returns if it failed.
    let _ = command.args(words).env(TUNABLES, tunables).env(MARK, "1").exec();
}

impl AllocatorEnvironment<'_> {
    /// The tunables to start with; `None` if they would change nothing.
    fn wanted(&self) -> Option<OsString> {
        if self.is_settled || !cfg!(target_env = "gnu") {
            return None;
        }
        let given = self.tunables.unwrap_or_default();
        let is_set = |name: &str| given.as_bytes().windows(name.len()).any(|part| part == name.as_bytes());
        let mut added = Vec::new();
        if !is_set(ARENAS) && !self.has_arenas_of_old {
            added.push(format!("{ARENAS}={}", self.processors.max(MIN_ARENAS)));
        }
        if !is_set(HUGE_PAGES) && self.policy.contains("[madvise]") {
            added.push(format!("{HUGE_PAGES}=1"));
        }
        if added.is_empty() {
            return None;
        }
        let mut all = given.to_owned();
        if !all.is_empty() {
            all.push(":");
        }
        all.push(added.join(":"));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADVISE: &str = "always [madvise] never\n";

    fn situation<'a>(tunables: Option<&'a str>, policy: &'a str) -> AllocatorEnvironment<'a> {
        let tunables = tunables.map(OsStr::new);
        AllocatorEnvironment { is_settled: false, tunables, has_arenas_of_old: false, policy, processors: 6 }
    }

    fn after(tunables: &str, policy: &str) -> Option<String> {
        situation(Some(tunables), policy).wanted().map(|all| all.to_string_lossy().into_owned())
    }

    #[test]
    fn both_are_asked_for_once() {
        let all = after("", MADVISE).unwrap();
        assert_eq!(all, "glibc.malloc.arena_max=6:glibc.malloc.hugetlb=1");
        assert_eq!(after(&all, MADVISE), None);
        let with_others = after("glibc.malloc.check=3", MADVISE).unwrap();
        assert_eq!(with_others, format!("glibc.malloc.check=3:{all}"));
    }

    #[test]
    fn huge_pages_are_asked_for_where_the_kernel_leaves_the_choice() {
        let arenas = Some("glibc.malloc.arena_max=6");
        assert_eq!(after("", "[always] madvise never\n").as_deref(), arenas);
        assert_eq!(after("", "always madvise [never]\n").as_deref(), arenas);
        assert_eq!(after("", "").as_deref(), arenas, "no such kernel");
    }

    #[test]
    fn what_the_user_set_stays() {
        assert_eq!(after("glibc.malloc.hugetlb=0:glibc.malloc.arena_max=3", MADVISE), None);
        let huge = "glibc.malloc.arena_max=3:glibc.malloc.hugetlb=1";
        assert_eq!(after("glibc.malloc.arena_max=3", MADVISE).as_deref(), Some(huge));
        assert_eq!(AllocatorEnvironment { has_arenas_of_old: true, ..situation(None, "") }.wanted(), None);
    }

    #[test]
    fn one_processor_has_two_arenas() {
        let wanted = AllocatorEnvironment { processors: 1, ..situation(None, "") }.wanted();
        assert_eq!(wanted.unwrap(), "glibc.malloc.arena_max=2");
    }

    /// glibc hides tunables from a program with file capabilities; such a program must not restart itself forever.
    #[test]
    fn it_is_started_again_once_whatever_became_of_the_tunables() {
        assert_eq!(AllocatorEnvironment { is_settled: true, ..situation(None, MADVISE) }.wanted(), None);
    }
}
