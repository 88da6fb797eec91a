//! Kills a process that writes, again and again, and looks at what is left.
//!
//! A durable engine's test file adds, beside [`conformance_tests`](crate::conformance_tests),
//!
//! ```text
//! fathom_engine::conformance_crash_tests!(subject);
//! ```
//!
//! The test binary starts itself with `FATHOM_CRASH_FOLDER` set; that child writes from several threads and says on its
//! standard output what is durable; the parent kills it with SIGKILL at a random moment, opens the folder and checks that
//!
//! - everything that was acknowledged is there;
//! - of each thread's commits a prefix is there, and of all commits together too: a commit is never there without one
//!   that it could see;
//! - records and index entries, written in one transaction, agree;
//! - every value is whole.
//!
//! `FATHOM_CRASH_ROUNDS` says how often; with `FATHOM_CRASH_KEEP` set, a folder in which something is wrong is kept.
//!
//! A killed process loses what it had in its own memory, not what the kernel had: power cuts are another test's business.

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

/// Says to a test binary that it is the child, and where to write.
pub const FOLDER_VARIABLE: &str = "FATHOM_CRASH_FOLDER";

/// Set, it keeps the folder in which something was found wrong.
const KEEP_VARIABLE: &str = "FATHOM_CRASH_KEEP";

/// How long a child may take to acknowledge its first commit.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two tests of a durable engine; `subject` names a function beside it that returns a [`Subject`].
#[macro_export]
macro_rules! conformance_crash_tests {
    ($subject:ident) => {
        mod kills {
            use $crate::conformance::crash;

            /// Not a test of its own: what the other starts as another process.
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

/// How many kills: `FATHOM_CRASH_ROUNDS`, or 5.
pub fn wanted_rounds() -> u32 {
    std::env::var("FATHOM_CRASH_ROUNDS")
        .map_or(5, |text| text.parse().expect("FATHOM_CRASH_ROUNDS is no number"))
}

/// How this test binary is started again with one ignored test, given with its crate and modules, as the child.
pub fn command(test: &str, folder: &Path) -> Command {
    let name = test.split_once("::").map_or(test, |(_crate, name)| name);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER_VARIABLE, folder).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// What the rounds came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Commits that the children acknowledged as durable.
    pub acknowledged: u64,
    /// Commits that were found at the end, acknowledged or not.
    pub found: u64,
    /// Rounds in which the child was killed before its first acknowledgement.
    pub early: u32,
}

/// Starts, kills and inspects `rounds` times in one folder. `spawn` starts a process that calls [`write_until_killed`]
/// with its standard output piped to us.
pub fn rounds(subject: &Subject<'_>, spawn: &dyn Fn(&Path) -> Child, rounds: u32) -> Outcome {
    let folder = tempfile::Builder::new().prefix("fathom-crash-").tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut random = Random::new(now.as_nanos() as u64);
    let mut outcome = Outcome::default();
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
        // The inspection closed the engine, so that what it found may not go any more.
        durable = found;
    }
    outcome
}

/// Kills the child at its moment, and says what it acknowledged.
fn run_child(child: Child, early: bool, delay: Duration) -> Writers {
    let mut child = Killed(child);
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
        let deadline = Instant::now() + PATIENCE;
        while first_seen.recv_timeout(Duration::from_millis(20)).is_err() {
            assert!(Instant::now() < deadline, "the child acknowledged nothing in {PATIENCE:?}");
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

/// A child that is killed and waited for when it goes out of scope, whatever the reason.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
