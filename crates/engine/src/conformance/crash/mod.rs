//! Crash tests: kill a process that writes, again and again, and check what is left.
//!
//! A durable engine's test file adds, besides [`conformance_tests`](crate::conformance_tests),
//!
//! ```text
//! fathom_engine::conformance_crash_tests!(subject);
//! ```
//!
//! The test binary starts itself with `FATHOM_CRASH_FOLDER` set. That child writes from several threads and prints to its
//! standard output what is durable. The parent kills it with SIGKILL at a random moment, opens the folder and checks that
//!
//! - everything that was acknowledged exists;
//! - a prefix of each thread's commits exists, and a prefix of all commits together: a commit never exists without one
//!   that it could see;
//! - records and index entries, written in one transaction, agree;
//! - every value is intact.
//!
//! `FATHOM_CRASH_ROUNDS` sets the number of rounds; `FATHOM_CRASH_KEEP` keeps a folder in which an error was found.
//!
//! A killed process loses what it had in its own memory, not what the kernel had. Power cuts are not tested here.

mod child;
mod content;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use child::write_until_killed;

use super::Subject;
use super::random::Random;
use content::{WRITERS, Writers};

/// The environment variable that makes a test binary the child, and names the folder to write to.
pub const FOLDER_VARIABLE: &str = "FATHOM_CRASH_FOLDER";

/// The environment variable that keeps a folder in which an error was found.
const KEEP_VARIABLE: &str = "FATHOM_CRASH_KEEP";

/// How long a child may take to acknowledge its first commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The two tests of a durable engine; `subject` names a function in the same module that returns a [`Subject`].
#[macro_export]
macro_rules! conformance_crash_tests {
    ($subject:ident) => {
        mod kills {
            use $crate::conformance::crash;

            /// Not a test by itself: the other test starts it as a child process.
            #[test]
            #[ignore = "the helper process of the next test"]
            fn helper_process() {
                let folder = std::env::var_os(crash::FOLDER_VARIABLE).expect("only another test runs this");
                crash::write_until_killed(&super::$subject(), folder.as_ref());
            }

            #[test]
            fn commits_survive_kills() {
                let child = concat!(module_path!(), "::helper_process");
                let spawn = |folder: &std::path::Path| crash::command(child, folder).spawn().unwrap();
                crash::rounds(&super::$subject(), &spawn, crash::wanted_rounds());
            }
        }
    };
}

/// The number of kills: `FATHOM_CRASH_ROUNDS`, or 5.
pub fn wanted_rounds() -> u32 {
    std::env::var("FATHOM_CRASH_ROUNDS")
        .map_or(5, |text| text.parse().expect("FATHOM_CRASH_ROUNDS is no number"))
}

/// The command that starts this test binary as the child, with one ignored test, given by its crate and modules.
pub fn command(test: &str, folder: &Path) -> Command {
    let name = test.split_once("::").map_or(test, |(_crate, name)| name);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER_VARIABLE, folder).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// The result of the rounds.
#[derive(Clone, Debug, Default)]
pub struct CrashResult {
    /// Commits that the children acknowledged as durable.
    pub acknowledged: u64,
    /// Commits that were found at the end, acknowledged or not.
    pub found: u64,
    /// Rounds in which the child was killed before its first acknowledgement.
    pub early: u32,
}

/// Starts, kills and inspects `rounds` times in one folder. `spawn` starts a process that calls [`write_until_killed`]
/// with its standard output piped to us.
pub fn rounds(subject: &Subject<'_>, spawn: &dyn Fn(&Path) -> Child, rounds: u32) -> CrashResult {
    let folder = tempfile::Builder::new().prefix("fathom-crash-").tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut random = Random::new(now.as_nanos() as u64);
    let mut outcome = CrashResult::default();
    let mut durable: Writers = [0; WRITERS];
    for round in 0..rounds {
        // Every fourth child may die while it opens and recovers.
        let early = round % 4 == 3;
        let delay = Duration::from_millis(random.below(400));
        let acknowledged = run_child(spawn(folder.path()), early, delay);
        outcome.early += u32::from(acknowledged == [0; WRITERS]);
        for (durable, acknowledged) in durable.iter_mut().zip(acknowledged) {
            *durable = acknowledged.max(*durable);
        }
        let found = match content::inspect(subject, folder.path(), &durable) {
            Ok(found) => found,
            Err(complaint) => {
                if std::env::var_os(KEEP_VARIABLE).is_some() {
                    eprintln!("what is wrong stays in {}", folder.keep().display());
                }
                panic!(
                    "round {round}, killed {delay:?} after its start or first acknowledgement: {complaint}"
                );
            }
        };
        outcome.acknowledged = durable.iter().sum();
        outcome.found = found.iter().sum();
        eprintln!("crash round {round}: acknowledged {durable:?}, found {found:?}");
        // The inspection closed the engine, so what it found must not disappear later.
        durable = found;
    }
    outcome
}

/// Kills the child at its moment, and returns what it acknowledged.
fn run_child(child: Child, early: bool, delay: Duration) -> Writers {
    let mut child = ChildGuard(child);
    let mut lines = BufReader::new(child.0.stdout.take().expect("the child's standard output must be piped"));
    let (first, first_seen) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut acknowledged = [0; WRITERS];
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|many| many > 0) {
            if let Some((writer, sequence)) = content::read_acknowledgement(&line) {
                acknowledged[writer] = sequence;
                let _ = first.send(());
            }
            line.clear();
        }
        acknowledged
    });
    if !early {
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        while first_seen.recv_timeout(Duration::from_millis(20)).is_err() {
            assert!(Instant::now() < deadline, "the child acknowledged nothing in {COMMIT_TIMEOUT:?}");
            if let Some(status) = child.0.try_wait().unwrap() {
                panic!("the child ended by itself, with {status}, before it acknowledged anything");
            }
        }
    }
    thread::sleep(delay);
    if let Some(status) = child.0.try_wait().unwrap() {
        panic!("the child ended by itself, with {status}");
    }
    drop(child);
    reader.join().unwrap()
}

/// A child that is killed and waited for when it is dropped, whatever the reason.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
