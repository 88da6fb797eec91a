//! How the C library's allocator serves a verb that runs for long and holds an engine: on huge pages, from few arenas.
//!
//! An engine's cache is looked up at random: with pages of 4 KB the processor spends a twelfth of a point read on finding
//! where each lies (docs/journal/2026-11-21-lab-server-speed.md). Where the kernel gives huge pages to who asks for them
//! ("madvise"), glibc asks if told to. MongoDB wants huge pages from 8.0 on.
//!
//! glibc gives eight arenas for each processor to as many threads, and what one thread takes from its arena and another gives
//! back (an update, and eviction that frees it) leaves holes there that the other arenas cannot fill: under updates the memory
//! beside WiredTiger's cache still grew after ten minutes, where with an arena for each of two processors it levels off after
//! seven, a quarter lower, and far more of it comes onto huge pages (docs/journal/2026-11-23-lab-server-memory.md). So there are
//! as many arenas as processors.
//!
//! Both are read from `GLIBC_TUNABLES` when a program starts, and only then. So the program starts itself once more in its own
//! place, once: a program with file capabilities does not get the tunables that it was started with, so a mark of our own says
//! that it has been done. A value that the user set is left alone: `glibc.malloc.hugetlb=0` keeps small pages,
//! `glibc.malloc.arena_max` or `MALLOC_ARENA_MAX` another number of arenas.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE_PAGES: &str = "glibc.malloc.hugetlb";
const ARENAS: &str = "glibc.malloc.arena_max";
/// The older name of the same setting.
const ARENAS_OF_OLD: &str = "MALLOC_ARENA_MAX";
/// Set in the program that was started again.
const MARK: &str = "FATHOM_ALLOCATOR_SETTLED";
const POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// One processor's threads wait for each other in a single arena.
const FEWEST_ARENAS: usize = 2;

/// What is so on this machine before anything is asked for.
struct Situation<'a> {
    /// Whether this is the program that was started again.
    is_settled: bool,
    /// `GLIBC_TUNABLES`.
    tunables: Option<&'a OsStr>,
    /// Whether the number of arenas is set by its older name.
    has_arenas_of_old: bool,
    /// The kernel's policy on huge pages.
    policy: &'a str,
    processors: usize,
}

/// Starts the program again, with the same arguments and process id, if that changes how it gets memory; returns if it does not,
/// and where it cannot be done: the allocator's defaults serve too.
pub(crate) fn settle() {
    let policy = std::fs::read_to_string(POLICY).unwrap_or_default();
    let tunables = std::env::var_os(TUNABLES);
    let situation = Situation {
        is_settled: std::env::var_os(MARK).is_some(),
        tunables: tunables.as_deref(),
        has_arenas_of_old: std::env::var_os(ARENAS_OF_OLD).is_some(),
        policy: &policy,
        processors: std::thread::available_parallelism().map_or(FEWEST_ARENAS, usize::from),
    };
    let Some(tunables) = situation.wanted() else { return };
    let (Ok(program), mut words) = (std::env::current_exe(), std::env::args_os()) else { return };
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    // Returns only when it failed.
    let _ = command.args(words).env(TUNABLES, tunables).env(MARK, "1").exec();
}

impl Situation<'_> {
    /// The tunables to start with; none where they would change nothing.
    fn wanted(&self) -> Option<OsString> {
        if self.is_settled || !cfg!(target_env = "gnu") {
            return None;
        }
        let given = self.tunables.unwrap_or_default();
        let is_set = |name: &str| given.as_bytes().windows(name.len()).any(|part| part == name.as_bytes());
        let mut added = Vec::new();
        if !is_set(ARENAS) && !self.has_arenas_of_old {
            added.push(format!("{ARENAS}={}", self.processors.max(FEWEST_ARENAS)));
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

    fn situation<'a>(tunables: Option<&'a str>, policy: &'a str) -> Situation<'a> {
        let tunables = tunables.map(OsStr::new);
        Situation { is_settled: false, tunables, has_arenas_of_old: false, policy, processors: 6 }
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
        assert_eq!(Situation { has_arenas_of_old: true, ..situation(None, "") }.wanted(), None);
    }

    #[test]
    fn one_processor_has_two_arenas() {
        let wanted = Situation { processors: 1, ..situation(None, "") }.wanted();
        assert_eq!(wanted.unwrap(), "glibc.malloc.arena_max=2");
    }

    /// glibc keeps tunables from a program with file capabilities; it must not start itself for ever.
    #[test]
    fn it_is_started_again_once_whatever_became_of_the_tunables() {
        assert_eq!(Situation { is_settled: true, ..situation(None, MADVISE) }.wanted(), None);
    }
}
