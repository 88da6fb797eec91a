//! Findings as plain text for a terminal: the worst first, each with what it rests on and the way out.
//!
//! Plain on purpose: no colour and no box drawing, so that the text is the same in a log, a ticket and a terminal.
//! Sentences are wrapped; commands are never, since a wrapped command does not survive being copied.

use fathom_record::{Confidence, Finding, Severity};

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
    wrap(lines, &format!("{}{likely}", finding.claim), &format!("  {mark} "), "    ", width);
    for evidence in &finding.evidence {
        wrap(lines, evidence, "      ", "        ", width);
    }
    if let Some(advice) = &finding.advice {
        wrap(lines, advice, "    > ", "      ", width);
    }
    for command in finding.command.iter().flat_map(|command| command.lines()) {
        // A line that begins with # is for an editor, not for a shell.
        let prompt = if command.starts_with('#') { "" } else { "$ " };
        lines.push(format!("      {prompt}{command}"));
    }
    if let Some(source) = &finding.source {
        wrap(lines, source, "      see ", "          ", width);
    }
}

/// Breaks `text` at spaces; a word longer than a line (a path) gets a line of its own, whole.
fn wrap(lines: &mut Vec<String>, text: &str, first: &str, rest: &str, width: usize) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let longer = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && longer > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

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
