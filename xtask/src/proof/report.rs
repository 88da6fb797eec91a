//! The report of `make proof`: the table of steps, the lists below it, and whether all of it passed.

use std::fmt::Write as _;
use std::time::Duration;

/// The outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// A test or the command failed.
    Failed,
    /// It took more than half again its budget.
    Overrun,
    /// The deadline came first.
    NotReached,
}

/// A test that could not run, as the test kit writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkippedTest {
    pub(super) need: String,
    pub(super) test: String,
    pub(super) reason: String,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) proves: String,
    pub(super) seconds: u64,
    pub(super) budget_seconds: u64,
    pub(super) verdict: Verdict,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: Vec<SkippedTest>,
    /// Studies that found the machine disturbed in each attempt.
    pub(super) disturbed: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    pub(super) total: Duration,
    pub(super) max_total: Duration,
    /// The number of disturbed studies that do not fail the whole.
    pub(super) max_disturbed: usize,
}

impl SkippedTest {
    /// A line of `FATHOM_SKIPPED`: need, test and reason between tabulators.
    pub(super) fn parse(line: &str) -> Option<SkippedTest> {
        let mut words = line.split('\t').map(str::to_owned);
        Some(SkippedTest { need: words.next()?, test: words.next()?, reason: words.next()? })
    }
}

impl Row {
    /// Returns whether all failures are studies that the machine disturbed.
    fn is_only_disturbed(&self) -> bool {
        self.verdict == Verdict::Failed
            && !self.disturbed.is_empty()
            && self.failed == self.disturbed.len() as u64
    }

    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed if self.is_only_disturbed() => "disturbed",
            Verdict::Failed => "FAILED",
            Verdict::Overrun => "OVERRUN",
            Verdict::NotReached => "not reached",
        }
    }
}

impl Report {
    /// Returns whether the proof holds.
    pub(super) fn is_passed(&self) -> bool {
        let disturbed: usize = self.rows.iter().map(|row| row.disturbed.len()).sum();
        let may_end_so = |row: &Row| row.is_only_disturbed() && disturbed <= self.max_disturbed;
        self.total <= self.max_total
            && self.rows.iter().all(|row| row.verdict == Verdict::Passed || may_end_so(row))
    }

    /// The table and the lists below it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let _ = writeln!(
            text,
            "{:width$}  {:11} {:>6} {:>6} {:>6} {:>6} {:>7}  proves",
            "step", "", "s", "budget", "passed", "failed", "skipped"
        );
        for row in &self.rows {
            let _ = writeln!(
                text,
                "{:width$}  {:11} {:>6} {:>6} {:>6} {:>6} {:>7}  {}",
                row.name,
                row.word(),
                row.seconds,
                row.budget_seconds,
                row.passed,
                row.failed,
                row.skipped.len(),
                row.proves
            );
        }
        self.add_lists(&mut text);
        let total = self.total.as_secs();
        if self.total > self.max_total {
            let _ =
                writeln!(text, "proof: {total} s are more than the {} s allowed", self.max_total.as_secs());
        }
        let word = if self.is_passed() { "passed" } else { "FAILED" };
        let _ = writeln!(text, "make proof: {word} in {total} s");
        text
    }

    fn add_lists(&self, text: &mut String) {
        let skipped: Vec<&SkippedTest> = self.rows.iter().flat_map(|row| &row.skipped).collect();
        let _ = writeln!(
            text,
            "\n{} tests were skipped{}",
            skipped.len(),
            if skipped.is_empty() { "" } else { ":" }
        );
        for test in skipped {
            let _ = writeln!(text, "  {} (needs {}): {}", test.test, test.need, test.reason);
        }
        for study in self.rows.iter().flat_map(|row| &row.disturbed) {
            let _ = writeln!(text, "disturbed in every attempt: {study}");
        }
        for row in self.rows.iter().filter(|row| row.verdict == Verdict::NotReached) {
            let _ = writeln!(text, "not reached before the deadline: {}", row.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, verdict: Verdict, failed: u64, disturbed: &[&str]) -> Row {
        Row {
            name: name.to_owned(),
            proves: "something".to_owned(),
            seconds: 5,
            budget_seconds: 10,
            verdict,
            passed: 3,
            failed,
            skipped: Vec::new(),
            disturbed: disturbed.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn report(rows: Vec<Row>, max_disturbed: usize) -> Report {
        Report { rows, total: Duration::from_secs(5), max_total: Duration::from_secs(10), max_disturbed }
    }

    #[test]
    fn a_step_that_failed_overran_or_was_not_reached_fails_the_whole() {
        assert!(report(vec![row("a", Verdict::Passed, 0, &[])], 0).is_passed());
        for verdict in [Verdict::Failed, Verdict::Overrun, Verdict::NotReached] {
            assert!(!report(vec![row("a", verdict, 1, &[])], 2).is_passed(), "{verdict:?}");
        }
    }

    #[test]
    fn so_many_disturbed_studies_are_borne_and_no_more_and_no_other_failure() {
        let disturbed = row("faults", Verdict::Failed, 2, &["x", "y"]);
        assert!(report(vec![disturbed.clone()], 2).is_passed());
        assert!(!report(vec![disturbed], 1).is_passed());
        assert!(!report(vec![row("faults", Verdict::Failed, 3, &["x", "y"])], 2).is_passed());
    }

    #[test]
    fn a_total_over_the_limit_fails() {
        let mut over = report(vec![row("a", Verdict::Passed, 0, &[])], 0);
        over.total = Duration::from_secs(11);
        assert!(!over.is_passed());
        assert!(over.text().contains("11 s are more than the 10 s allowed"));
    }

    #[test]
    fn the_text_names_what_was_skipped_disturbed_and_not_reached() {
        let mut first = row("a", Verdict::Passed, 0, &[]);
        first.skipped.extend(SkippedTest::parse("disk\tt::one\tno loop device"));
        let rows =
            vec![first, row("faults", Verdict::Failed, 1, &["x"]), row("late", Verdict::NotReached, 0, &[])];
        let text = report(rows, 2).text();
        for line in [
            "1 tests were skipped:\n  t::one (needs disk): no loop device",
            "disturbed in every attempt: x",
            "not reached before the deadline: late",
            "make proof: FAILED in 5 s",
        ] {
            assert!(text.contains(line), "{line} in:\n{text}");
        }
    }
}
