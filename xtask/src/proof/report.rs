//! The report of `make proof`: the table of steps, the lists below it, and the command that repeats what failed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::join;
use super::step::ProofStep;

/// The outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofOutcome {
    Passed,
    /// A test or the command failed.
    Failed,
    /// The machine disturbed a study twice; nothing failed.
    Disturbed,
    /// None of its tests could run on this machine.
    Skipped,
    /// It was killed at the limit that only a step that hangs reaches.
    Hung,
    /// The run was interrupted before its end.
    NotReached,
}

/// A test that could not run, as the test kit writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkippedTest {
    pub(super) need: String,
    pub(super) test: String,
    pub(super) reason: String,
}

/// A step with its outcome.
#[derive(Clone, Debug)]
pub(super) struct ReportRow {
    pub(super) name: String,
    /// The words of `ONLY` that select it.
    pub(super) selection: String,
    pub(super) proves: String,
    pub(super) seconds: u64,
    /// The usual time, for comparison.
    pub(super) budget_seconds: u64,
    pub(super) outcome: ProofOutcome,
    pub(super) passed: u64,
    /// The number of tests that failed for another reason than a disturbance.
    pub(super) failed: u64,
    /// Their names, as far as the runner gave them.
    pub(super) failures: BTreeSet<String>,
    pub(super) skipped: Vec<SkippedTest>,
    /// Studies that found the machine disturbed.
    pub(super) disturbed: BTreeSet<String>,
}

/// All steps with their outcomes.
#[derive(Debug)]
pub(super) struct ProofReport {
    pub(super) rows: Vec<ReportRow>,
    pub(super) total: Duration,
    pub(super) is_interrupted: bool,
}

impl SkippedTest {
    /// A line of `FATHOM_SKIPPED`: need, test and reason between tabulators.
    pub(super) fn parse(line: &str) -> Option<SkippedTest> {
        let mut words = line.split('\t').map(str::to_owned);
        Some(SkippedTest { need: words.next()?, test: words.next()?, reason: words.next()? })
    }
}

impl ProofOutcome {
    fn word(self) -> &'static str {
        match self {
            ProofOutcome::Passed => "passed",
            ProofOutcome::Failed => "FAILED",
            ProofOutcome::Disturbed => "disturbed",
            ProofOutcome::Skipped => "skipped",
            ProofOutcome::Hung => "HUNG",
            ProofOutcome::NotReached => "not reached",
        }
    }

    fn is_failure(self) -> bool {
        matches!(self, ProofOutcome::Failed | ProofOutcome::Hung)
    }
}

impl ReportRow {
    /// The row of a step of which nothing is known yet but its outcome.
    pub(super) fn new(step: &ProofStep, outcome: ProofOutcome) -> ReportRow {
        ReportRow {
            name: step.name.clone(),
            selection: step.selection(),
            proves: step.proves.clone(),
            seconds: 0,
            budget_seconds: step.budget_seconds,
            outcome,
            passed: 0,
            failed: 0,
            failures: BTreeSet::new(),
            skipped: Vec::new(),
            disturbed: BTreeSet::new(),
        }
    }

    /// Adds the second attempt of the studies that the machine disturbed.
    pub(super) fn add_repetition(&mut self, again: ReportRow) {
        self.seconds += again.seconds;
        self.passed += again.passed;
        self.failed += again.failed;
        self.failures.extend(again.failures);
        self.skipped.extend(again.skipped);
        self.disturbed = again.disturbed;
        if self.outcome == ProofOutcome::Disturbed {
            self.outcome = again.outcome;
        } else if again.outcome.is_failure() {
            self.outcome = ProofOutcome::Failed;
        }
    }

    /// The words of `ONLY` that repeat what failed: the tests, or the step if their names are unknown.
    fn repetition(&self) -> String {
        if self.failed > 0 && self.failures.len() as u64 == self.failed {
            join(&self.failures)
        } else {
            self.selection.clone()
        }
    }
}

impl ProofReport {
    /// Returns whether nothing failed and all steps were reached.
    pub(super) fn is_passed(&self) -> bool {
        !self.is_interrupted && !self.rows.iter().any(|row| row.outcome.is_failure())
    }

    /// The table and the lists below it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let _ = writeln!(
            text,
            "{:width$}  {:11} {:>6} {:>6} {:>6} {:>6} {:>7}  proves",
            "step", "", "s", "usual", "passed", "failed", "skipped"
        );
        for row in &self.rows {
            let _ = writeln!(
                text,
                "{:width$}  {:11} {:>6} {:>6} {:>6} {:>6} {:>7}  {}",
                row.name,
                row.outcome.word(),
                row.seconds,
                usual(row.budget_seconds),
                row.passed,
                row.failed,
                row.skipped.len(),
                row.proves
            );
        }
        self.add_skipped(&mut text);
        self.add_disturbed(&mut text);
        self.add_end(&mut text);
        text
    }

    fn add_skipped(&self, text: &mut String) {
        let skipped: Vec<&SkippedTest> = self.rows.iter().flat_map(|row| &row.skipped).collect();
        let colon = if skipped.is_empty() { "" } else { ":" };
        let _ = writeln!(text, "\n{} tests were skipped{colon}", skipped.len());
        for test in skipped {
            let _ = writeln!(text, "  {} (needs {}): {}", test.test, test.need, test.reason);
        }
    }

    fn add_disturbed(&self, text: &mut String) {
        let disturbed: BTreeSet<String> =
            self.rows.iter().flat_map(|row| row.disturbed.iter().cloned()).collect();
        if disturbed.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nThe machine was disturbed in every attempt, so nothing follows from:");
        for study in &disturbed {
            let _ = writeln!(text, "  {study}");
        }
        let _ = writeln!(text, "On a machine at rest: make proof ONLY={}", join(&disturbed));
    }

    /// The last lines: the outcome, and how to repeat what failed.
    fn add_end(&self, text: &mut String) {
        let failed: Vec<&ReportRow> = self.rows.iter().filter(|row| row.outcome.is_failure()).collect();
        text.push('\n');
        for row in &failed {
            let names = row.failures.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let failure = match row.outcome {
                ProofOutcome::Hung => "killed, because it hung",
                _ if row.passed + row.failed == 0 && names.is_empty() => "no test ran",
                _ if names.is_empty() => "the command failed",
                _ => &names,
            };
            let _ = writeln!(text, "failed in {}: {failure}", row.name);
        }
        let total = self.total.as_secs();
        let _ = match (failed.is_empty(), self.is_interrupted) {
            (true, true) => writeln!(text, "make proof: interrupted after {total} s"),
            (true, false) => writeln!(text, "make proof: passed in {total} s"),
            (false, _) => {
                let only: Vec<String> = failed.iter().map(|row| row.repetition()).collect();
                writeln!(
                    text,
                    "make proof: FAILED after {total} s; again: make proof ONLY={}",
                    only.join(",")
                )
            }
        };
    }
}

/// The usual time of a step; selected tests have none.
fn usual(seconds: u64) -> String {
    if seconds == 0 { String::new() } else { seconds.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn row(name: &str, outcome: ProofOutcome) -> ReportRow {
        let step = ProofStep { name: name.to_owned(), ..ProofStep::of_tests(&[]) };
        ReportRow { passed: 3, seconds: 5, ..ReportRow::new(&step, outcome) }
    }

    fn failed(name: &str, tests: &[&str]) -> ReportRow {
        ReportRow { failed: tests.len() as u64, failures: names(tests), ..row(name, ProofOutcome::Failed) }
    }

    fn report(rows: Vec<ReportRow>) -> ProofReport {
        ProofReport { rows, total: Duration::from_secs(5), is_interrupted: false }
    }

    #[test]
    fn only_what_the_code_is_to_blame_for_fails_the_whole() {
        for outcome in [ProofOutcome::Passed, ProofOutcome::Disturbed, ProofOutcome::Skipped] {
            assert!(report(vec![row("a", outcome)]).is_passed(), "{outcome:?}");
        }
        for outcome in [ProofOutcome::Failed, ProofOutcome::Hung] {
            assert!(
                !report(vec![row("a", ProofOutcome::Passed), row("b", outcome)]).is_passed(),
                "{outcome:?}"
            );
        }
        assert!(
            !ProofReport { is_interrupted: true, ..report(vec![row("a", ProofOutcome::Passed)]) }.is_passed()
        );
    }

    #[test]
    fn a_step_over_its_usual_time_passes() {
        let slow = ReportRow { seconds: 100_000, ..row("a", ProofOutcome::Passed) };
        assert!(report(vec![slow]).is_passed());
    }

    #[test]
    fn a_second_attempt_decides_about_a_disturbed_study_and_about_no_other() {
        let disturbed = ReportRow { disturbed: names(&["x"]), ..row("faults", ProofOutcome::Disturbed) };
        for (again, expected) in [
            (row("faults", ProofOutcome::Passed), ProofOutcome::Passed),
            (disturbed.clone(), ProofOutcome::Disturbed),
            (failed("faults", &["x"]), ProofOutcome::Failed),
        ] {
            let mut first = disturbed.clone();
            first.add_repetition(again.clone());
            assert_eq!((first.outcome, &first.disturbed), (expected, &again.disturbed));
            let mut other = ReportRow { disturbed: names(&["x"]), ..failed("faults", &["y"]) };
            other.add_repetition(again);
            assert_eq!(other.outcome, ProofOutcome::Failed);
        }
    }

    #[test]
    fn the_text_names_what_was_skipped_and_disturbed_and_repeats_what_failed() {
        let mut skipped = row("a", ProofOutcome::Passed);
        skipped.skipped.extend(SkippedTest::parse("disk\tt::one\tno loop device"));
        let disturbed = ReportRow { disturbed: names(&["d::x"]), ..row("faults", ProofOutcome::Disturbed) };
        let fuzz = ReportRow { failed: 1, ..row("fuzz", ProofOutcome::Failed) };
        let rows = vec![
            skipped,
            disturbed,
            failed("timed", &["t::y", "t::z"]),
            fuzz,
            row("guest", ProofOutcome::Hung),
        ];
        let text = report(rows).text();
        for line in [
            "\n1 tests were skipped:\n  t::one (needs disk): no loop device\n",
            "\nThe machine was disturbed in every attempt, so nothing follows from:\n  d::x\nOn a machine at rest: make proof ONLY=d::x\n",
            "\nfailed in timed: t::y, t::z\nfailed in fuzz: the command failed\nfailed in guest: killed, because it hung\n",
            "make proof: FAILED after 5 s; again: make proof ONLY=t::y,t::z,fuzz,guest\n",
        ] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
        assert!(report(vec![row("a", ProofOutcome::Passed)]).text().ends_with("make proof: passed in 5 s\n"));
    }

    #[test]
    fn tests_that_do_not_compile_are_repeated_by_their_paths() {
        let step = ProofStep::of_tests(&[&"t::y".to_owned()]);
        let text = report(vec![ReportRow::new(&step, ProofOutcome::Failed)]).text();
        assert!(text.ends_with("again: make proof ONLY=t::y\n"), "{text}");
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let rows = vec![row("a", ProofOutcome::Passed), row("b", ProofOutcome::NotReached)];
        let text = ProofReport { is_interrupted: true, ..report(rows) }.text();
        assert!(
            text.contains("not reached") && text.ends_with("make proof: interrupted after 5 s\n"),
            "{text}"
        );
    }
}
