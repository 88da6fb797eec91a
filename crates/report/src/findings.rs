//! The verdict and the findings as plain text for a terminal: the answer first, then the findings, the worst first,
//! each with what it rests on and the way out.
//!
//! Plain on purpose: no colour and no box drawing, so that the text is the same in a log, a ticket and a terminal.
//! Sentences are wrapped; commands are never, since a wrapped command does not survive being copied.

use fathom_record::verdict::{Cost, Outcome, Verdict};
use fathom_record::{Confidence, Finding, Gain, Severity};
use fathom_units::Nanos;

use crate::terminal_text::{wrap, wrapped};

/// How many reasons are shown; all stand with the findings and in JSON.
const MOST_REASONS: usize = 3;

/// The lines of a verdict.
pub fn verdict_lines(verdict: &Verdict, width: usize) -> Vec<String> {
    let mut lines = wrapped(&verdict.sentence, "", "", width);
    let reasons = match verdict.outcome {
        // The finding follows with its evidence; here its claim is enough.
        Outcome::HeldBack => 1,
        _ => MOST_REASONS,
    };
    for reason in verdict.reasons.iter().take(reasons) {
        lines.extend(wrapped(reason, "  ", "  ", width));
    }
    if let Some(next) = &verdict.next {
        lines.extend(wrapped(next, "  Next: ", "        ", width));
    }
    lines
}

/// The narrowest column that is still readable; a smaller width is taken for this one.
const WIDTH_MIN: usize = 40;

/// All findings: critical ones, warnings, notes, what could not be told, and what is as wanted (a count, or with
/// `verbose` in full). Ends without a newline; empty for no findings.
pub fn findings_text(findings: &[Finding], width: usize, verbose: bool) -> String {
    let width = width.max(WIDTH_MIN);
    let mut blocks = Vec::new();
    for group in GROUPS {
        let members: Vec<&Finding> = findings.iter().filter(|finding| group.holds(finding)).collect();
        if members.is_empty() {
            continue;
        }
        if group.severity == Severity::Ok && !verbose {
            let (noun, verb) = if members.len() == 1 { ("check", "is") } else { ("checks", "are") };
            blocks.push(format!("{} {noun} {verb} as wanted.", members.len()));
            continue;
        }
        let mut lines = vec![format!("{} ({})", group.title, members.len())];
        members.iter().for_each(|finding| write(&mut lines, finding, group.mark, width));
        blocks.push(lines.join("\n"));
    }
    blocks.join("\n\n")
}

/// The alarms alone, a claim each, and what else there is in one line: for a page that has other matters too.
pub fn findings_brief(findings: &[Finding], width: usize) -> String {
    let mut alarms: Vec<&Finding> = findings.iter().filter(|finding| finding.is_alarm()).collect();
    alarms.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut lines = Vec::new();
    for finding in &alarms {
        let mark = if finding.severity == Severity::Critical { "x" } else { "!" };
        lines.extend(wrap(&finding.claim, &format!("  {mark} "), "    ", width));
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    lines.push(format!("  {} more to note, {} as wanted", of(Severity::Note), of(Severity::Ok)));
    lines.join("\n")
}

struct Group {
    title: &'static str,
    mark: &'static str,
    severity: Severity,
    /// Holds what could not be told, or all else.
    untold: bool,
}

const GROUPS: [Group; 5] = [
    Group { title: "Critical", mark: "x", severity: Severity::Critical, untold: false },
    Group { title: "Warnings", mark: "!", severity: Severity::Warning, untold: false },
    Group { title: "Notes", mark: "-", severity: Severity::Note, untold: false },
    Group { title: "Cannot tell", mark: "?", severity: Severity::Note, untold: true },
    Group { title: "As wanted", mark: "+", severity: Severity::Ok, untold: false },
];

impl Group {
    fn holds(&self, finding: &Finding) -> bool {
        // What could not be told of a warning is still a warning: only notes are set apart.
        let untold = finding.severity == Severity::Note && finding.confidence == Confidence::CannotTell;
        finding.severity == self.severity && untold == self.untold
    }
}

fn write(lines: &mut Vec<String>, finding: &Finding, mark: &str, width: usize) {
    let likely = if finding.confidence == Confidence::Likely { " (likely)" } else { "" };
    lines.extend(wrap(&format!("{}{likely}", finding.claim), &format!("  {mark} "), "    ", width));
    if let Some(cost) = &finding.cost {
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
    // A step each line.
    for (number, step) in finding.undo.iter().flat_map(|undo| undo.lines()).enumerate() {
        let first = if number == 0 { "      undo: " } else { "            " };
        lines.extend(wrap(step, first, "            ", width));
    }
    if let Some(source) = &finding.source {
        lines.extend(wrap(source, "      see ", "          ", width));
    }
}

/// What a cause costs its users.
pub(crate) fn cost_sentence(cost: &Cost) -> String {
    let tail = cost.p99_us.map_or_else(String::new, |us| {
        format!(" The slowest kind's 99th percentile is {}.", Nanos((us.max(0.0) * 1e3).round() as u64))
    });
    format!("Costs {}{tail}", cost.words())
}

/// What following the advice would bring, with its interval and how that was computed.
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
    use fathom_record::verdict::{Clock, Cost, Domain};

    use super::*;

    #[test]
    fn the_answer_comes_first_and_what_to_do_last() {
        let cost = Cost {
            clock: Clock::Response,
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
        };
        assert_eq!(
            verdict_lines(&verdict, 80),
            [
                "Held back by slow syncs of the journal: 14.9 ms of the mean response time of",
                "18.4 ms, 81 % (74 to 85 %).",
                "  Writes wait for the journal to reach the disk.",
                "  Next: Put the journal on a device with power-loss protection.",
            ]
        );
    }

    fn sample() -> Vec<Finding> {
        vec![
            Finding::new("a", Severity::Ok, "All is well."),
            Finding::new("b", Severity::Note, "Worth knowing.").confidence(Confidence::CannotTell),
            Finding::new("c", Severity::Warning, "The read-ahead of md0 is 4096 KiB, which reads too much around.")
                .evidence("/sys/block/md0/queue/read_ahead_kb = 4096")
                .advice("Wanted: 4 to 16 KiB.")
                .command("blockdev --setra 32 /dev/md0\n# in a file: a long line that is never wrapped, whatever its length")
                .source("www.mongodb.com/docs"),
            Finding::new("d", Severity::Critical, "No barriers.").confidence(Confidence::Likely),
        ]
    }

    #[test]
    fn the_worst_comes_first_and_what_is_well_is_a_count() {
        let text = findings_text(&sample(), 60, false);
        let expected = "\
Critical (1)
  x No barriers. (likely)

Warnings (1)
  ! The read-ahead of md0 is 4096 KiB, which reads too much
    around.
      /sys/block/md0/queue/read_ahead_kb = 4096
    > Wanted: 4 to 16 KiB.
      $ blockdev --setra 32 /dev/md0
      # in a file: a long line that is never wrapped, whatever its length
      see www.mongodb.com/docs

Cannot tell (1)
  ? Worth knowing.

1 check is as wanted.";
        assert_eq!(text, expected);
        assert!(findings_text(&sample(), 60, true).ends_with("As wanted (1)\n  + All is well."));
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
Warnings (1)
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
