//! Runs one step of `make proof`: its tests under cargo-nextest or its command, within its time, and collects their output.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::report::{Row, SkippedTest, Verdict};
use super::step::Step;

/// The time that a step has to end its tests after its limit.
const GRACE: Duration = Duration::from_secs(15);

/// Runs steps in the tree at `root`.
pub(super) struct Runner {
    root: PathBuf,
    notes: TempDir,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Runner {
    pub(super) fn new(root: PathBuf) -> Result<Runner> {
        Ok(Runner { root, notes: tempfile::tempdir().context("cannot create a folder for temporary files")? })
    }

    /// Runs a step to its end, its limit or the deadline.
    pub(super) fn run(&self, step: &Step, left: Duration) -> Result<Row> {
        let command = match (&step.command, &step.tests) {
            (Some(words), _) => plain(words),
            (None, tests) => nextest(step, tests.as_deref().unwrap_or("none()")),
        };
        self.carry_out(step, command, left)
    }

    /// Runs tests of a step by their names.
    pub(super) fn run_tests_again(&self, step: &Step, tests: &[String], left: Duration) -> Result<Row> {
        let names: Vec<String> = tests.iter().map(|name| format!("test(={})", local_name(name))).collect();
        self.carry_out(step, nextest(step, &names.join(" | ")), left)
    }

    fn carry_out(&self, step: &Step, mut command: Command, left: Duration) -> Result<Row> {
        let (skipped, disturbed) = (self.notes.path().join("skipped"), self.notes.path().join("disturbed"));
        for file in [&skipped, &disturbed] {
            File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
        }
        command.current_dir(&self.root).env("FATHOM_SKIPPED", &skipped).env("FATHOM_DISTURBED", &disturbed);
        let begun = Instant::now();
        let (is_success, counts) = watch(command, step.limit().min(left))?;
        let seconds = begun.elapsed();
        let verdict = if seconds >= left {
            Verdict::NotReached
        } else if seconds >= step.limit() {
            Verdict::Overrun
        } else if is_success {
            Verdict::Passed
        } else {
            Verdict::Failed
        };
        let skipped: Vec<SkippedTest> =
            lines(&skipped)?.iter().filter_map(|line| SkippedTest::parse(line)).collect();
        let counts = match (&step.command, counts) {
            // A command without counts is one test that passes or fails.
            (Some(_), Counts { passed: 0, failed: 0 }) => {
                Counts { passed: u64::from(is_success), failed: u64::from(!is_success) }
            }
            _ => counts,
        };
        Ok(Row {
            name: step.name.clone(),
            proves: step.proves.clone(),
            seconds: seconds.as_secs(),
            budget_seconds: step.budget().as_secs(),
            verdict,
            // The runners count a skipped test as passed.
            passed: counts.passed.saturating_sub(skipped.len() as u64),
            failed: counts.failed,
            skipped,
            disturbed: lines(&disturbed)?,
        })
    }
}

fn plain(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("false", String::as_str));
    command.args(words.iter().skip(1));
    command
}

fn nextest(step: &Step, filter: &str) -> Command {
    let mut command = Command::new("cargo");
    // Only integration tests have a second tier, and fewer programs are linked without the others.
    command.args([
        "nextest",
        "run",
        "--workspace",
        "--test",
        "tests",
        "--test",
        "targets",
        "--test",
        "simulation",
        "--locked",
        "--profile",
        "proof",
    ]);
    command.arg("--no-fail-fast");
    command.args(["--cargo-quiet", "-E", filter]);
    if let Some(threads) = step.threads {
        command.arg("--test-threads").arg(threads.to_string());
    }
    if step.ignored {
        command.args(["--run-ignored", "all"]);
    }
    command
}

/// `module::test` of the full path of a test, whose first part is its program.
fn local_name(path: &str) -> &str {
    path.split_once("::").map_or(path, |(_, rest)| rest)
}

/// Removes the environment variables that `cargo run` sets for this package. Build scripts depend on some of them
/// (ring's for `CARGO_MANIFEST_DIR`), so that half the dependencies would be compiled again after each `make test`.
fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"CARGO_MANIFEST_") || bytes.starts_with(b"CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
}

/// Runs a command, passes on its output, and kills it with all its children at its time limit.
fn watch(mut command: Command, limit: Duration) -> Result<(bool, Counts)> {
    let words = format!("{command:?}");
    forget_package(&mut command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {words}"))?;
    let (group, ended) = (Pid::from_child(&child), AtomicBool::new(false));
    let streams = (child.stdout.take(), child.stderr.take());
    let counts = thread::scope(|scope| {
        scope.spawn(|| end_after(group, limit, &ended));
        let stdout = streams.0;
        let copied = scope.spawn(|| stdout.map(|stream| pass_on(stream, std::io::stdout())));
        let errors = streams.1.map(|stream| pass_on(stream, std::io::stderr()));
        let output = copied.join().ok().flatten();
        ended.store(true, Ordering::Relaxed);
        // nextest counts on standard error, the standard runner on standard output.
        [errors, output].into_iter().flatten().fold(Counts::default(), |sum, one| Counts {
            passed: sum.passed + one.passed,
            failed: sum.failed + one.failed,
        })
    });
    let status = child.wait().with_context(|| format!("cannot wait for {words}"))?;
    Ok((status.success(), counts))
}

/// Ends a process group at its limit. SIGTERM first: nextest then ends its tests, which have their own process groups.
fn end_after(group: Pid, limit: Duration, ended: &AtomicBool) {
    for (signal, wait) in [(Signal::TERM, limit), (Signal::KILL, GRACE)] {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            if ended.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = kill_process_group(group, signal);
    }
}

/// Copies lines and takes nextest's summary from them.
fn pass_on(from: impl std::io::Read, mut to: impl Write) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(from).split(b'\n').map_while(std::io::Result::ok) {
        if let Some(seen) = summary(&String::from_utf8_lossy(&line)) {
            counts = seen;
        }
        // A closed output does not end the tests.
        let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
    }
    counts
}

/// The numbers of nextest's `     Summary [  12.345s] 10 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 2301 skipped`, or of
/// the standard runner's `test result: ok. 23 passed; 0 failed; 1 ignored; finished in 1.0s`.
fn summary(line: &str) -> Option<Counts> {
    // At the start of a line only: nextest indents those that it quotes from tests that failed.
    if let Some(result) = line.strip_prefix("test result: ") {
        let mut words = result.split(&[' ', '.', ';']).filter_map(|word| word.parse::<u64>().ok());
        return Some(Counts { passed: words.next()?, failed: words.next()? });
    }
    let (_, rest) = line.split_once("Summary [")?;
    let (_, numbers) = rest.split_once("run: ")?;
    let mut counts = Counts::default();
    // Some passed tests may be counted again: "8 passed (1 slow, 1 flaky)".
    let outside = numbers.split(['(', ')']).step_by(2).collect::<String>();
    for part in outside.split(',') {
        let mut words = part.split_whitespace();
        let (Some(number), Some(word)) =
            (words.next().and_then(|word| word.parse::<u64>().ok()), words.next())
        else {
            continue;
        };
        match word {
            "passed" => counts.passed += number,
            "skipped" => {}
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runner_counted_is_read_from_its_summary() {
        let line = "     Summary [  12.345s] 10 tests run: 7 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 2301 skipped";
        assert_eq!(summary(line), Some(Counts { passed: 7, failed: 3 }));
        assert_eq!(
            summary("     Summary [   0.1s] 1 test run: 1 passed, 3 skipped"),
            Some(Counts { passed: 1, failed: 0 })
        );
        assert_eq!(summary("        PASS [   0.013s] (1/2) a b"), None);
        let line = "test result: ok. 23 passed; 1 failed; 2 ignored; 0 measured; 300 filtered out; finished in 1.05s";
        assert_eq!(summary(line), Some(Counts { passed: 23, failed: 1 }));
    }

    #[test]
    fn a_command_does_not_learn_the_package_of_its_parent() {
        assert!(
            std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("CARGO_PKG_NAME").is_some()
        );
        let mut command = Command::new("sh");
        command.args(["-c", "test -z \"${CARGO_MANIFEST_DIR-}${CARGO_PKG_NAME-}\""]);
        let (is_success, _) = watch(command, Duration::from_secs(60)).unwrap();
        assert!(is_success);
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 100 & wait"]);
        let begun = Instant::now();
        let (is_success, _) = watch(command, Duration::from_millis(200)).unwrap();
        assert!(!is_success);
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
