//! Skips tests that cannot run on a machine: counts them with the reason, and fails those that must run.
//!
//! The standard runner calls a test that returns early "ok". Here such a test ends by [`skip!`](crate::skip!), which unwinds to
//! [`run_test`] and leaves a line in the file that `FATHOM_SKIPPED` names; `setup/test.sh` and `cargo xtask proof` print these
//! lines at the end. With `FATHOM_MUST_RUN=all`, or a list of needs (`root,disk`), the call fails the test instead.

use std::cell::Cell;
use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fathom_errors::{Kind, Result};

/// A requirement of a test, by its name in `FATHOM_MUST_RUN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of root.
    Root,
    /// A user who is not root.
    User,
    /// Loop devices, and the file systems that the test makes on them.
    Disk,
    /// Limits of a control group on I/O or processors.
    Cgroup,
    /// File systems in user space.
    Fuse,
    /// Network namespaces and virtual links between them.
    Network,
    /// QEMU and the guest of `setup/guest.sh`.
    Guest,
    Chromium,
    /// A program that is not ours and can be installed: `fio`, `iostat`, `xfs_io`, a foreign client.
    Program,
    /// Recordings of real servers that are not in the repository.
    Recordings,
    /// A kernel, device or file system with the feature under test.
    Kernel,
}

impl Need {
    /// The word of `FATHOM_MUST_RUN` and of the list of skipped tests.
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::User => "user",
            Need::Disk => "disk",
            Need::Cgroup => "cgroup",
            Need::Fuse => "fuse",
            Need::Network => "network",
            Need::Guest => "guest",
            Need::Chromium => "chromium",
            Need::Program => "program",
            Need::Recordings => "recordings",
            Need::Kernel => "kernel",
        }
    }
}

/// Ends the test as skipped: `skip!(Need::Program, "no {name} on this machine")`. It never returns.
///
/// The test must have the attribute `#[fathom_testkit::test]`, and the call must be made in the test's own thread.
#[macro_export]
macro_rules! skip {
    ($need:expr, $($reason:tt)+) => {
        $crate::end_as_skipped($need, &::std::format!($($reason)+))
    };
}

/// The panic payload that unwinds from [`skip!`](crate::skip!) to [`run_test`].
struct SkipUnwind;

#[derive(Clone, Copy)]
struct Test {
    name: &'static str,
    fixtures: u32,
    assertions: u32,
}

thread_local! {
    static TEST: Cell<Option<Test>> = const { Cell::new(None) };
}

/// Runs the body of a test with the attribute `#[fathom_testkit::test]`.
///
/// # Panics If the body does, or if it took a fixture of the kit but reached none of the kit's assertions.
pub fn run_test(name: &'static str, body: impl FnOnce()) {
    TEST.set(Some(Test { name, fixtures: 0, assertions: 0 }));
    let ended = catch_unwind(AssertUnwindSafe(body));
    let test = TEST.take();
    match ended {
        Err(payload) if payload.is::<SkipUnwind>() => {}
        Err(payload) => resume_unwind(payload),
        Ok(()) => {
            let is_empty = test.is_some_and(|test| test.fixtures > 0 && test.assertions == 0);
            std::assert!(!is_empty, "{name} took a fixture and reached no assertion of the test kit");
        }
    }
}

/// Notes that the test took a fixture, so that it must reach an assertion.
pub(crate) fn count_fixture() {
    TEST.set(TEST.get().map(|test| Test { fixtures: test.fixtures + 1, ..test }));
}

/// Notes that the test reached an assertion; the kit's macros call it.
pub fn count_assertion() {
    TEST.set(TEST.get().map(|test| Test { assertions: test.assertions + 1, ..test }));
}

/// The function that [`skip!`](crate::skip!) calls.
///
/// # Panics If `FATHOM_MUST_RUN` names the need, or outside a test with the attribute `#[fathom_testkit::test]`.
#[track_caller]
pub fn end_as_skipped(need: Need, reason: &str) -> ! {
    let Some(test) = TEST.get() else {
        panic!("skipped outside of the thread of a #[fathom_testkit::test]: {reason}");
    };
    let must_run = env::var("FATHOM_MUST_RUN").unwrap_or_default();
    let must_run = must_run.split(',').any(|word| word == need.name() || word == "all");
    std::assert!(
        !must_run,
        "this test must run here (FATHOM_MUST_RUN), but: {reason} (needs {})",
        need.name()
    );
    let line = format!("{}\t{}\t{}\n", need.name(), test.name, reason.trim().replace(['\n', '\t'], " "));
    report(&line);
    resume_unwind(Box::new(SkipUnwind))
}

#[expect(clippy::print_stderr, reason = "a test tells its reader why it did nothing")]
fn report(line: &str) {
    eprint!("skipped: {line}");
    note_in("FATHOM_SKIPPED", line);
}

/// Appends a line to the file that an environment variable names, if it does.
pub(crate) fn note_in(variable: &str, line: &str) {
    let Some(path) = env::var_os(variable) else { return };
    // One write of a short line: lines of tests that run at the same time do not mix.
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
        panic!("cannot write to {}: {error}", path.display());
    }
}

/// Notes in the file that `FATHOM_STALE` names that `make refresh` would bring a file up to date. The test passes.
pub fn note_stale(path: &str) {
    count_assertion();
    note_in("FATHOM_STALE", &format!("{path}\n"));
}

/// The name of the running test; empty outside of one with the attribute.
pub(crate) fn test_name() -> &'static str {
    TEST.get().map_or("", |test| test.name)
}

/// Ends the test as skipped if the result is an error because the machine lacks a feature.
pub trait OrSkip<T> {
    /// The value.
    ///
    /// # Panics
    /// With an error of any other kind.
    fn or_skip(self, need: Need) -> T;
}

impl<T> OrSkip<T> for Result<T> {
    #[track_caller]
    fn or_skip(self, need: Need) -> T {
        match self {
            Ok(value) => value,
            Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::Permission | Kind::NotFound) => {
                end_as_skipped(need, &error.to_string())
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// `assert!` of the standard library, counted.
#[macro_export]
macro_rules! assert {
    ($($arguments:tt)+) => {{
        $crate::count_assertion();
        ::core::assert!($($arguments)+)
    }};
}

/// `assert_eq!` of the standard library, counted.
#[macro_export]
macro_rules! assert_eq {
    ($($arguments:tt)+) => {{
        $crate::count_assertion();
        ::core::assert_eq!($($arguments)+)
    }};
}

/// `assert_ne!` of the standard library, counted.
#[macro_export]
macro_rules! assert_ne {
    ($($arguments:tt)+) => {{
        $crate::count_assertion();
        ::core::assert_ne!($($arguments)+)
    }};
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
