//! The verdict and the findings as plain text for a terminal. The answer comes first, then the findings by priority,
//! each with its evidence and the remedy.
//!
//! The text has no colour and no box drawing on purpose, so that it is the same in a log, a ticket and a terminal.
//! Sentences are wrapped. Commands are never wrapped, because a wrapped command could not be copied.

use std::collections::BTreeSet;

use fathom_record::verdict::{Cost, Outcome, Verdict};
use fathom_record::{Confidence, Finding, Gain, Priority, Severity};
use fathom_units::Nanos;

use crate::terminal_text::{wrap, wrapped};

/// The number of reasons that are shown; the findings and the JSON document have all of them.
const MAX_REASONS: usize = 3;

/// The lines of a verdict; with `verbose` also the id of its cause.
pub fn verdict_lines(verdict: &Verdict, width: usize, verbose: bool) -> Vec<String> {
    let mut lines = wrapped(&verdict.sentence, "", "", width);
    let reasons = match verdict.outcome {
        // The finding follows with its evidence, so its claim is enough here.
        Outcome::HeldBack => 1,
        _ => MAX_REASONS,
    };
    for reason in verdict.reasons.iter().take(reasons) {
        lines.extend(wrapped(reason, "  ", "  ", width));
    }
    if let Some(next) = &verdict.next {
        lines.extend(wrapped(next, "  Next: ", "        ", width));
    }
    let cause = verdict.cause.iter().filter(|_| verbose);
    lines.extend(cause.flat_map(|cause| wrapped(cause, "  cause: ", "  ", width)));
    lines
}

/// The least width that is readable; a smaller width is replaced by this one.
const MIN_WIDTH: usize = 40;

/// All findings: critical ones, those worth doing, hygiene, notes, undecided ones, and settings that match the advice. Without `verbose`, hygiene has
/// only claims, matching settings are a count, and settings come without their undo; with it, claims end with the id of the finding. Ends without a newline; empty for no findings.
pub fn findings_text(findings: &[Finding], width: usize, verbose: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let mut blocks = Vec::new();
    for group in GROUPS {
        let members: Vec<&Finding> = findings.iter().filter(|finding| group.holds(finding)).collect();
        if members.is_empty() {
            continue;
        }
        if group.rank == Rank::AsWanted && !verbose {
            let noun = if members.len() == 1 { "check" } else { "checks" };
            blocks.push(format!("{} {noun} passed.", members.len()));
            continue;
        }
        let mut lines = vec![format!("{} ({})", group.title, members.len())];
        for finding in members {
            match group.rank == Rank::Due(Priority::Hygiene) && !verbose {
                true => lines.extend(claim_lines(finding, group.mark, width, false)),
                false => write(&mut lines, finding, group.mark, width, verbose),
            }
        }
        blocks.push(lines.join("\n"));
    }
    blocks.join("\n\n")
}

/// The alarms alone, a claim each, and the other findings in one line: for a page that also has other content.
pub fn findings_brief(findings: &[Finding], width: usize) -> String {
    let mut lines = Vec::new();
    for group in GROUPS.iter().take(2) {
        let members = findings.iter().filter(|finding| group.holds(finding));
        members.for_each(|finding| lines.extend(claim_lines(finding, group.mark, width, false)));
    }
    let of = |rank| findings.iter().filter(|finding| Rank::from_finding(finding) == rank).count();
    lines.push(format!(
        "  {} hygiene, {} more to note, {} passed",
        of(Rank::Due(Priority::Hygiene)),
        of(Rank::Note) + of(Rank::CannotTell),
        of(Rank::AsWanted)
    ));
    lines.join("\n")
}

/// The most important findings, up to a limit, with an advice for each. Each rule occurs once, and undecided findings are left out. Empty if
/// none is worth doing.
pub fn findings_first<'f>(
    findings: impl IntoIterator<Item = &'f Finding>,
    count: usize,
    width: usize,
) -> String {
    let is_due = |finding: &&Finding| {
        finding.priority() >= Some(Priority::WorthDoing) && finding.confidence != Confidence::CannotTell
    };
    let mut due: Vec<&Finding> = findings.into_iter().filter(is_due).collect();
    let cost_us = |finding: &Finding| finding.cost.as_ref().map_or(0.0, |cost| cost.mean_us);
    due.sort_by(|a, b| b.priority().cmp(&a.priority()).then(cost_us(b).total_cmp(&cost_us(a))));
    let mut seen = BTreeSet::new();
    due.retain(|finding| seen.insert(&finding.id));
    let mut lines = Vec::new();
    for finding in due.into_iter().take(count) {
        let mark = if finding.priority() == Some(Priority::Critical) { "x" } else { "!" };
        lines.extend(claim_lines(finding, mark, width, false));
        match (&finding.command, &finding.advice) {
            (Some(command), _) if command.lines().count() == 1 => lines.push(format!("      $ {command}")),
            (_, Some(advice)) => lines.extend(wrap(advice, "    > ", "      ", width)),
            (Some(_), None) => lines.push("    > 'fathom doctor --script' writes the commands.".to_owned()),
            (None, None) => {}
        }
    }
    lines.join("\n")
}

/// The group of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// A finding that asks for an action.
    Due(Priority),
    Note,
    /// An undecided check. An undecided alarm asks for an action that decides it, and is not in this group.
    CannotTell,
    AsWanted,
}

impl Rank {
    pub(crate) fn from_finding(finding: &Finding) -> Rank {
        match finding.priority() {
            Some(priority) => Rank::Due(priority),
            None if finding.severity == Severity::Ok => Rank::AsWanted,
            None if finding.confidence == Confidence::CannotTell => Rank::CannotTell,
            None => Rank::Note,
        }
    }
}

struct FindingGroup {
    title: &'static str,
    mark: &'static str,
    rank: Rank,
}

const GROUPS: [FindingGroup; 6] = [
    FindingGroup {
        title: "Critical: costs latency or risks data now",
        mark: "x",
        rank: Rank::Due(Priority::Critical),
    },
    FindingGroup { title: "Worth doing: it matters here", mark: "!", rank: Rank::Due(Priority::WorthDoing) },
    FindingGroup {
        title: "Hygiene: the vendor's advice, no effect measured",
        mark: "~",
        rank: Rank::Due(Priority::Hygiene),
    },
    FindingGroup { title: "Notes", mark: "-", rank: Rank::Note },
    FindingGroup { title: "Cannot tell", mark: "?", rank: Rank::CannotTell },
    FindingGroup { title: "Passed", mark: "+", rank: Rank::AsWanted },
];

impl FindingGroup {
    fn holds(&self, finding: &Finding) -> bool {
        Rank::from_finding(finding) == self.rank
    }
}

/// The claim, with its confidence unless it is certain, and its id on request.
fn claim_lines(finding: &Finding, mark: &str, width: usize, shows_id: bool) -> Vec<String> {
    let likely = if finding.confidence == Confidence::Likely { " (likely)" } else { "" };
    let id = if shows_id { format!(" [{}]", finding.id) } else { String::new() };
    wrap(&format!("{}{likely}{id}", finding.claim), &format!("  {mark} "), "    ", width)
}

fn write(lines: &mut Vec<String>, finding: &Finding, mark: &str, width: usize, verbose: bool) {
    lines.extend(claim_lines(finding, mark, width, verbose));
    // Older versions recorded costs of zero if no operation was timed.
    if let Some(cost) = finding.cost.as_ref().filter(|cost| cost.share > 0.0) {
        lines.extend(wrap(&cost_sentence(cost), "      ", "        ", width));
    }
    for evidence in &finding.evidence {
        lines.extend(wrap(evidence, "      ", "        ", width));
    }
    if let Some(advice) = &finding.advice {
        lines.extend(wrap(advice, "    > ", "      ", width));
    }
    for command in finding.command.iter().flat_map(|command| command.lines()) {
        // A line that begins with # is for an editor, not for a shell.
        let prompt = if command.starts_with('#') { "" } else { "$ " };
        lines.push(format!("      {prompt}{command}"));
    }
    if let Some(gain) = &finding.gain {
        lines.extend(wrap(&gain_sentence(gain), "    = ", "      ", width));
    }
    if let Some(next) = &finding.next_look {
        lines.extend(wrap(next, "      next: ", "            ", width));
    }
    // Each step has a line. The undo of a command is a step too.
    let undo = finding.undo.iter().filter(|_| verbose || !finding.is_setting()).flat_map(|undo| undo.lines());
    for (number, step) in undo.enumerate() {
        let first = if number == 0 { "      undo: " } else { "            " };
        match finding.command.is_some() {
            true => lines.push(format!("{first}{step}")),
            false => lines.extend(wrap(step, first, "            ", width)),
        }
    }
    if let Some(source) = &finding.source {
        lines.extend(wrap(source, "      see ", "          ", width));
    }
}

/// The cost of a cause, as a sentence.
pub(crate) fn cost_sentence(cost: &Cost) -> String {
    let tail = cost.p99_us.map_or_else(String::new, |us| {
        format!(" The slowest kind's 99th percentile is {}.", Nanos((us.max(0.0) * 1e3).round() as u64))
    });
    format!("Costs {}{tail}", cost.words())
}

/// The gain of following the advice, with its interval and the method of its computation.
pub(crate) fn gain_sentence(gain: &Gain) -> String {
    let (low, high) = gain.interval;
    let percent = |share: f64| 100.0 * share;
    format!(
        "Expected: {} falls by {:.0} % ({:.0} to {:.0} %). {}",
        gain.of,
        percent(gain.share),
        percent(low),
        percent(high),
        gain.basis
    )
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use fathom_record::Confidence;
    use fathom_record::verdict::{Cost, Domain, LatencyClock};

    use super::*;

    #[test]
    fn what_matters_most_comes_with_what_to_do() {
        let finding = |id: &str, priority| Finding {
            priority: Some(priority),
            ..Finding::new(id, Severity::Warning, format!("The claim of {id}."))
        };
        let findings = [
            finding("a", Priority::Hygiene).command("sysctl -w vm.a=0"),
            finding("b", Priority::WorthDoing).command("sysctl -w vm.b=0"),
            finding("c", Priority::Critical).advice("Move the journal."),
            finding("d", Priority::WorthDoing),
            finding("c", Priority::Critical),
            Finding { confidence: Confidence::CannotTell, ..finding("e", Priority::Critical) },
        ];
        assert_eq!(
            findings_first(&findings, 2, 80),
            "  x The claim of c.\n    > Move the journal.\n  ! The claim of b.\n      $ sysctl -w vm.b=0"
        );
        assert_eq!(findings_first(&findings[..1], 3, 80), "");
    }

    #[test]
    fn the_answer_comes_first_and_what_to_do_last() {
        let cost = Cost {
            clock: LatencyClock::Response,
            share: 0.81,
            interval: (0.74, 0.85),
            mean_us: 14_900.0,
            p99_us: Some(97_500.0),
            unserved_per_s: None,
            basis: "x".into(),
        };
        let verdict = Verdict {
            outcome: Outcome::HeldBack,
            sentence: "Held back by slow syncs of the journal: 14.9 ms of the mean response time of 18.4 ms, 81 % (74 to 85 %)."
                .into(),
            cause: Some("journal-on-path".into()),
            domain: Some(Domain::Storage),
            cost: Some(cost),
            confidence: Confidence::Likely,
            reasons: vec!["Writes wait for the journal to reach the disk.".into(), "Second.".into()],
            next: Some("Put the journal on a device with power-loss protection.".into()),
            is_of_deployment: false,
        };
        assert_eq!(
            verdict_lines(&verdict, 80, false),
            [
                "Held back by slow syncs of the journal: 14.9 ms of the mean response time of",
                "18.4 ms, 81 % (74 to 85 %).",
                "  Writes wait for the journal to reach the disk.",
                "  Next: Put the journal on a device with power-loss protection.",
            ]
        );
        assert_eq!(verdict_lines(&verdict, 80, true).last().unwrap(), "  cause: journal-on-path");
    }

    fn sample() -> Vec<Finding> {
        let hygiene = Finding::new("e", Severity::Warning, "kernel.pid_max is 32768, below 64000.")
            .evidence("/proc/sys/kernel/pid_max = 32768")
            .advice("Recommended: 64000 or more.")
            .command("sysctl -w kernel.pid_max=64000")
            .undo("sysctl -w kernel.pid_max=32768");
        vec![
            hygiene,
            Finding::new("a", Severity::Ok, "All is well."),
            Finding::new("b", Severity::Note, "Worth knowing.").confidence(Confidence::CannotTell),
            Finding { priority: Some(Priority::WorthDoing), ..Finding::new("c", Severity::Warning, "The read-ahead of md0 is 4096 KiB, which reads too much around.") }
                .evidence("/sys/block/md0/queue/read_ahead_kb = 4096")
                .advice("Recommended: 4 to 16 KiB.")
                .command("blockdev --setra 32 /dev/md0\n# in a file: a long line that is never wrapped, whatever its length")
                .source("www.mongodb.com/docs"),
            Finding::new("d", Severity::Critical, "No barriers.").confidence(Confidence::Likely),
        ]
    }

    #[test]
    fn what_costs_comes_first_and_what_is_well_is_a_count() {
        let text = findings_text(&sample(), 60, false);
        let expected = "\
Critical: costs latency or risks data now (1)
  x No barriers. (likely)

Worth doing: it matters here (1)
  ! The read-ahead of md0 is 4096 KiB, which reads too much
    around.
      /sys/block/md0/queue/read_ahead_kb = 4096
    > Recommended: 4 to 16 KiB.
      $ blockdev --setra 32 /dev/md0
      # in a file: a long line that is never wrapped, whatever its length
      see www.mongodb.com/docs

Hygiene: the vendor's advice, no effect measured (1)
  ~ kernel.pid_max is 32768, below 64000.

Cannot tell (1)
  ? Worth knowing.

1 check passed.";
        assert_eq!(text, expected);
        let all = findings_text(&sample(), 60, true);
        assert!(all.ends_with("Passed (1)\n  + All is well. [a]"), "{all}");
        assert!(all.contains("  x No barriers. (likely) [d]\n"), "{all}");
        let hygiene = "
  ~ kernel.pid_max is 32768, below 64000. [e]
      /proc/sys/kernel/pid_max = 32768
    > Recommended: 64000 or more.
      $ sysctl -w kernel.pid_max=64000
      undo: sysctl -w kernel.pid_max=32768
";
        assert!(all.contains(hygiene), "{all}");
        let brief = "  x No barriers. (likely)
  ! The read-ahead of md0 is 4096 KiB, which reads too much
    around.
  1 hygiene, 1 more to note, 1 passed";
        assert_eq!(findings_brief(&sample(), 60), brief);
    }

    #[test]
    fn what_it_would_bring_comes_with_its_interval() {
        let gain = Gain {
            of: "mean latency of reads".into(),
            share: 0.42,
            interval: (0.3, 0.512),
            basis: "The backlog of 40 over a depth of 32.".into(),
        };
        let mut finding =
            Finding::new("a", Severity::Warning, "The queue is at its cap.").advice("Raise it.");
        finding.gain = Some(gain);
        finding.next_look = Some("The same load with a depth of 64.".into());
        finding.undo = Some("Set it back to 32.\nAnd have one session again.".into());
        let expected = "\
Worth doing: it matters here (1)
  ! The queue is at its cap.
    > Raise it.
    = Expected: mean latency of reads falls by 42 % (30 to
      51 %). The backlog of 40 over a depth of 32.
      next: The same load with a depth of 64.
      undo: Set it back to 32.
            And have one session again.";
        assert_eq!(findings_text(&[finding], 60, false), expected);
    }

    #[test]
    fn nothing_is_lost_and_no_width_panics() {
        for width in [0, 1, 40, 80, usize::MAX] {
            for finding in sample() {
                let text = findings_text(std::slice::from_ref(&finding), width, true);
                let first = finding.claim.split(' ').next().unwrap();
                assert!(text.contains(first), "{text}");
            }
        }
        assert_eq!(findings_text(&[], 80, true), "");
    }
}
