//! Runs one step of `make proof`: its tests under cargo-nextest or its command, within its limit, and collects their output.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;

use super::report::{ProofOutcome, ReportRow, SkippedTest};
use super::step::{self, ProofStep};

/// The time that a step has to end its tests after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// The time after the end of a step in which the rest of its output is read. A child that the step left behind may keep its output
/// open for longer.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs steps in the tree at `root`.
pub(super) struct Runner {
    root: PathBuf,
    notes: TempDir,
    interrupted: Arc<AtomicBool>,
}

/// The results that a runner of tests printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Results {
    /// `None` if no summary of tests was printed.
    counts: Option<Counts>,
    failures: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Success,
    Failure,
    Killed,
    Interrupted,
}

impl Runner {
    /// Ctrl-C and SIGTERM interrupt the runner from then on.
    pub(super) fn new(root: PathBuf) -> Result<Runner> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot handle signals")?;
        }
        let notes = tempfile::tempdir().context("cannot create a folder for temporary files")?;
        Ok(Runner { root, notes, interrupted })
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a step to its end or its limit.
    pub(super) fn run(&self, step: &ProofStep) -> Result<ReportRow> {
        let command = match (&step.command, &step.tests) {
            (Some(words), _) => plain(words),
            (None, tests) => nextest(step, tests.as_deref().unwrap_or("none()")),
        };
        self.carry_out(step, command)
    }

    /// Runs tests of a step by their paths.
    pub(super) fn run_tests(&self, step: &ProofStep, tests: &BTreeSet<String>) -> Result<ReportRow> {
        self.carry_out(step, nextest(step, &step::filter(tests)))
    }

    fn carry_out(&self, step: &ProofStep, mut command: Command) -> Result<ReportRow> {
        let (skipped, disturbed) = (self.notes.path().join("skipped"), self.notes.path().join("disturbed"));
        for file in [&skipped, &disturbed] {
            File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
        }
        command.current_dir(&self.root).env("FATHOM_SKIPPED", &skipped).env("FATHOM_DISTURBED", &disturbed);
        let begun = Instant::now();
        let (end, results) = watch(command, step.limit(), &self.interrupted)?;
        let seconds = begun.elapsed().as_secs();
        let skipped = lines(&skipped)?.iter().filter_map(|line| SkippedTest::parse(line)).collect();
        let disturbed = lines(&disturbed)?.iter().map(|name| local_name(name).to_owned()).collect();
        Ok(ReportRow { seconds, ..row(step, end, results, skipped, disturbed) })
    }
}

/// The row of a step that ended so.
fn row(
    step: &ProofStep,
    end: End,
    results: Results,
    skipped: Vec<SkippedTest>,
    disturbed: BTreeSet<String>,
) -> ReportRow {
    let Results { counts, mut failures } = results;
    let Counts { mut passed, mut failed } = match (counts, &step.command) {
        (Some(counts), _) => counts,
        // A command without tests is one that passes or fails.
        (None, Some(_)) => {
            Counts { passed: u64::from(end == End::Success), failed: u64::from(end == End::Failure) }
        }
        (None, None) => Counts::default(),
    };
    let has_run = passed + failed > 0;
    // A study that the machine disturbed panics, which the runner counts as a failure.
    let before = failures.len();
    failures.retain(|name| !disturbed.contains(name));
    failed = failed.saturating_sub((before - failures.len()) as u64);
    // The runners count a skipped test as passed.
    passed = passed.saturating_sub(skipped.len() as u64);
    let outcome = match end {
        End::Killed => ProofOutcome::Hung,
        End::Interrupted => ProofOutcome::NotReached,
        _ if failed > 0 => ProofOutcome::Failed,
        End::Failure if disturbed.is_empty() => ProofOutcome::Failed,
        // A filter that no test matches, as after a module was renamed, proves nothing.
        _ if !has_run => ProofOutcome::Failed,
        _ if !disturbed.is_empty() => ProofOutcome::Disturbed,
        _ if passed == 0 && !skipped.is_empty() => ProofOutcome::Skipped,
        _ => ProofOutcome::Passed,
    };
    ReportRow { passed, failed, failures, skipped, disturbed, ..ReportRow::new(step, outcome) }
}

/// The paths of all tests that a step can select.
pub(super) fn list_tests(root: &Path) -> Result<BTreeSet<String>> {
    let mut command = Command::new("cargo");
    command.args(["nextest", "list", "--workspace", "--locked", "--profile", "proof", "--cargo-quiet"]);
    command.args(["--message-format", "oneline"]).current_dir(root).stderr(Stdio::inherit());
    forget_package(&mut command);
    let listed = command.output().context("cannot run cargo nextest; setup/nextest.sh installs it")?;
    ensure!(listed.status.success(), "cannot list the tests, because cargo nextest list failed");
    Ok(String::from_utf8_lossy(&listed.stdout).lines().filter_map(path).map(str::to_owned).collect())
}

/// The path of a test in a line of nextest: the program, a space, and the path.
fn path(line: &str) -> Option<&str> {
    line.split_whitespace().next_back()
}

fn plain(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("false", String::as_str));
    command.args(words.iter().skip(1));
    command
}

fn nextest(step: &ProofStep, filter: &str) -> Command {
    let mut command = Command::new("cargo");
    // The programs of make test: a list of some of them would leave out the tests of the next one.
    command.args(["nextest", "run", "--workspace", "--locked", "--profile", "proof"]);
    command.args(["--no-fail-fast", "--cargo-quiet", "-E", filter]);
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

/// Runs a command and passes on its output. At its limit, or once `interrupted` is set, it is killed with its process group.
fn watch(mut command: Command, limit: Duration, interrupted: &AtomicBool) -> Result<(End, Results)> {
    let words = format!("{command:?}");
    forget_package(&mut command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {words}"))?;
    let results = Arc::new(Mutex::new(Results::default()));
    let (sender, ended) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        pass_on(stdout, std::io::stdout(), Arc::clone(&results), sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        pass_on(stderr, std::io::stderr(), Arc::clone(&results), sender);
    }
    let end = wait(&mut child, limit, interrupted).with_context(|| format!("cannot wait for {words}"))?;
    // The channel closes when both streams have ended.
    let _ = ended.recv_timeout(OUTPUT_TIMEOUT);
    let results = results.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((end, results))
}

/// Waits for the end of a child.
fn wait(child: &mut Child, limit: Duration, interrupted: &AtomicBool) -> std::io::Result<End> {
    let begun = Instant::now();
    let end = loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { End::Success } else { End::Failure });
        } else if interrupted.load(Ordering::Relaxed) {
            break End::Interrupted;
        } else if begun.elapsed() >= limit {
            break End::Killed;
        }
        thread::sleep(CHECK_INTERVAL);
    };
    kill(child)?;
    Ok(end)
}

/// Ends the process group of a child. SIGTERM first: nextest then ends its tests, which have their own process groups.
fn kill(child: &mut Child) -> std::io::Result<ExitStatus> {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < STOP_TIMEOUT {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(CHECK_INTERVAL);
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()
}

/// Copies lines and takes the results from them, in a thread of its own, which drops `sender` at the end of the stream.
fn pass_on(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    results: Arc<Mutex<Results>>,
    sender: mpsc::Sender<()>,
) {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(std::io::Result::ok) {
            let text = String::from_utf8_lossy(&line);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            // nextest prints one summary, the standard runner one for each program.
            if let Some(Counts { passed, failed }) = summary(&text) {
                let counts = results.counts.get_or_insert_default();
                counts.passed += passed;
                counts.failed += failed;
            }
            results.failures.extend(failure(&text).map(str::to_owned));
            // A closed output does not end the tests.
            let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
        }
        drop(sender);
    });
}

/// The path of a test that failed, from nextest's `        FAIL [   0.004s] (1/2) fathom::tests a::b` or the standard runner's
/// `---- a::b stdout ----`.
fn failure(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("---- ") {
        return rest.strip_suffix(" stdout ----");
    }
    let (status, rest) = line.split_once('[')?;
    let status = status.trim_start();
    let is_failure = ["FAIL", "TIMEOUT", "ABORT", "SIG"].iter().any(|word| status.starts_with(word));
    let (_, test) = rest.split_once("s] ").filter(|_| is_failure)?;
    path(test)
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

    /// Only a hang takes so long.
    const TIMEOUT: Duration = Duration::from_secs(300);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

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
    fn tests_that_failed_are_read_from_the_lines_of_both_runners() {
        for line in [
            "        FAIL [   0.004s] (1/2) fathom::tests a::b",
            "     TIMEOUT [ 900.004s] ( 1/22) fathom::tests a::b",
            "     SIGABRT [   0.004s] fathom::tests a::b",
            "---- a::b stdout ----",
        ] {
            assert_eq!(failure(line), Some("a::b"), "{line}");
        }
        for line in [
            "        PASS [   0.004s] (1/2) fathom::tests a::b",
            "     Summary [   0.1s] 1 test run: 0 passed, 1 failed",
            "        SLOW [> 60.000s] (---) fathom::tests a::b",
            "FAILED a::b",
        ] {
            assert_eq!(failure(line), None, "{line}");
        }
    }

    #[test]
    fn a_disturbed_study_is_no_failure_and_another_one_is() {
        let step = ProofStep::of_tests(&[]);
        let outcome = |failures: &[&str], disturbed: &[&str]| {
            let counts = Counts { passed: 1, failed: failures.len() as u64 };
            let results = Results { counts: Some(counts), failures: names(failures) };
            let row = row(&step, End::Failure, results, Vec::new(), names(disturbed));
            (row.outcome, row.failed)
        };
        assert_eq!(outcome(&["a", "b"], &["a", "b"]), (ProofOutcome::Disturbed, 0));
        assert_eq!(outcome(&["a", "b"], &["a"]), (ProofOutcome::Failed, 1));
        assert_eq!(outcome(&["a"], &[]), (ProofOutcome::Failed, 1));
        // The tests did not compile.
        assert_eq!(outcome(&[], &[]), (ProofOutcome::Failed, 0));
    }

    #[test]
    fn a_step_whose_tests_were_all_skipped_is_skipped() {
        let step = ProofStep::of_tests(&[]);
        let results = |passed| {
            let counts = Some(Counts { passed, failed: 0 });
            Results { counts, ..Results::default() }
        };
        let skipped = || vec![SkippedTest::parse("guest\ta::b\tno QEMU").unwrap()];
        let outcome = |passed| row(&step, End::Success, results(passed), skipped(), names(&[])).outcome;
        assert_eq!((outcome(1), outcome(2)), (ProofOutcome::Skipped, ProofOutcome::Passed));
    }

    #[test]
    fn a_step_without_any_test_has_failed_and_a_command_needs_none() {
        let tests = ProofStep::of_tests(&[]);
        let command = ProofStep { command: Some(vec!["true".to_owned()]), tests: None, ..tests.clone() };
        let outcome = |step, counts| {
            let results = Results { counts, ..Results::default() };
            let row = row(step, End::Success, results, Vec::new(), names(&[]));
            (row.outcome, row.passed)
        };
        let none = Some(Counts::default());
        assert_eq!(outcome(&tests, none), (ProofOutcome::Failed, 0));
        // The standard runner exits with 0 if its filter matches no test.
        assert_eq!(outcome(&command, none), (ProofOutcome::Failed, 0));
        assert_eq!(outcome(&command, None), (ProofOutcome::Passed, 1));
        assert_eq!(outcome(&command, Some(Counts { passed: 2, failed: 0 })), (ProofOutcome::Passed, 2));
    }

    #[test]
    fn the_paths_of_tests_are_those_that_nextest_lists() {
        let listed = "fathom::tests faults::device::proof::a\nfathom-testkit disturbance::b\n\n";
        let paths: Vec<&str> = listed.lines().filter_map(path).collect();
        assert_eq!(paths, ["faults::device::proof::a", "disturbance::b"]);
    }

    #[test]
    fn a_command_does_not_learn_the_package_of_its_parent() {
        assert!(
            std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("CARGO_PKG_NAME").is_some()
        );
        let command = shell("test -z \"${CARGO_MANIFEST_DIR-}${CARGO_PKG_NAME-}\"");
        assert_eq!(watch(command, TIMEOUT, &AtomicBool::new(false)).unwrap().0, End::Success);
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        let begun = Instant::now();
        let (end, _) = watch(shell("sleep 1000 & wait"), Duration::ZERO, &AtomicBool::new(false)).unwrap();
        assert_eq!(end, End::Killed);
        assert!(begun.elapsed() < TIMEOUT);
    }

    #[test]
    fn an_interruption_ends_the_command() {
        let begun = Instant::now();
        let (end, _) = watch(shell("sleep 1000 & wait"), TIMEOUT, &AtomicBool::new(true)).unwrap();
        assert_eq!(end, End::Interrupted);
        assert!(begun.elapsed() < TIMEOUT);
    }

    #[test]
    fn a_child_in_another_group_that_keeps_the_output_open_is_not_waited_for() {
        let begun = Instant::now();
        let process = tempfile::NamedTempFile::new().unwrap();
        let script = format!(
            "echo 'test result: ok. 2 passed; 0 failed;'; setsid sleep 1000 & echo $! >{}",
            process.path().display()
        );
        let (end, results) = watch(shell(&script), TIMEOUT, &AtomicBool::new(false)).unwrap();
        let process: i32 = fs::read_to_string(process.path()).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        assert_eq!((end, results.counts), (End::Success, Some(Counts { passed: 2, failed: 0 })));
        assert!(begun.elapsed() < TIMEOUT);
    }
}
