//! Large memory of a long-running verb on huge pages.
//!
//! An engine's cache is looked up at random: with pages of 4 KB the processor spends a twelfth of a point read on finding
//! where each lies (docs/journal/2026-11-21-lab-server-speed.md). Where the kernel gives huge pages to who asks for them
//! ("madvise"), glibc asks if `glibc.malloc.hugetlb=1` stands in `GLIBC_TUNABLES` when a program starts, and only then. So the
//! program starts itself once more in its own place. A value that the user set is left alone: `glibc.malloc.hugetlb=0`
//! keeps small pages. MongoDB wants huge pages from 8.0 on.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const TUNABLES: &str = "GLIBC_TUNABLES";
const NAME: &str = "glibc.malloc.hugetlb";
const POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Starts the program again, with the same arguments and process id, if that gives it huge pages; returns if it does not, and
/// where it cannot be done: small pages serve too.
pub(crate) fn ask() {
    let policy = std::fs::read_to_string(POLICY).unwrap_or_default();
    let Some(tunables) = with_huge_pages(std::env::var_os(TUNABLES).as_deref(), &policy) else { return };
    let (Ok(program), mut words) = (std::env::current_exe(), std::env::args_os()) else { return };
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    // Returns only when it failed.
    let _ = command.args(words).env(TUNABLES, tunables).exec();
}

/// The tunables to start with; none where they would change nothing.
fn with_huge_pages(tunables: Option<&OsStr>, policy: &str) -> Option<OsString> {
    let given = tunables.unwrap_or_default();
    let is_set = given.as_bytes().windows(NAME.len()).any(|part| part == NAME.as_bytes());
    if !cfg!(target_env = "gnu") || is_set || !policy.contains("[madvise]") {
        return None;
    }
    let mut all = given.to_owned();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(NAME);
    all.push("=1");
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(tunables: &str, policy: &str) -> Option<String> {
        with_huge_pages(Some(OsStr::new(tunables)), policy).map(|all| all.to_string_lossy().into_owned())
    }

    #[test]
    fn huge_pages_are_asked_for_once_and_where_the_kernel_leaves_the_choice() {
        let madvise = "always [madvise] never\n";
        assert_eq!(after("", madvise).as_deref(), Some("glibc.malloc.hugetlb=1"));
        assert_eq!(
            after("glibc.malloc.arena_max=2", madvise).as_deref(),
            Some("glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1")
        );
        assert_eq!(after("glibc.malloc.hugetlb=1", madvise), None);
        assert_eq!(after("glibc.malloc.hugetlb=0", madvise), None, "the user's choice");
        assert_eq!(after("", "[always] madvise never\n"), None);
        assert_eq!(after("", "always madvise [never]\n"), None);
        assert_eq!(after("", ""), None, "no such kernel");
    }
}
