//! The verdict for a terminal: the answer first, what it rests on in a line or two, and what to do.

use fathom_record::verdict::{Outcome, Verdict};

use crate::wrap::wrapped;

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
}
