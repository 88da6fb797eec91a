//! The first thing that a reader sees: the verdict, and the few figures that matter most, each a card.

use fathom_record::disk::{Entry, VerdictOutcome};
use fathom_record::study::{Study, StudyComparison, StudyVerdict};
use fathom_record::verdict::{Outcome, Verdict};
use fathom_record::{Confidence, Finding, Severity};
use fathom_units::{Nanos, count};
use serde::Serialize;

use super::study;
use crate::study::told::{
    answers, chance, design, effect, effect_interval, percent, sentence, spaced, tally, versus,
};

/// A card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Card {
    /// `bad`, `good`, `unsure` or `plain`, said by a word and a sign too, not by colour alone.
    pub(super) kind: &'static str,
    /// The word above.
    pub(super) label: String,
    /// The figure or the sentence.
    pub(super) text: String,
    /// What stands below.
    pub(super) more: String,
}

/// The cards: the verdict first, then what was asked of the server and what it gave.
pub(super) fn cards(results: &[Entry], findings: &[Finding]) -> Vec<Card> {
    // What a study came to is its verdict; what was found beside it is told where it is found.
    let mut cards: Vec<Card> = study::studies(results).flat_map(study_cards).collect();
    if cards.is_empty() {
        cards.push(verdict(results, findings));
    }
    for entry in results {
        cards.extend(match entry {
            Entry::Load(load) => {
                let slowest = load
                    .by_operation
                    .iter()
                    .filter_map(|one| Some((one.response.as_ref().or(one.service.as_ref())?, one)))
                    .max_by_key(|(latency, _)| latency.p99_ns);
                let tail = slowest.and_then(|(latency, one)| {
                    Some(format!("99 % of {} took no longer than {}", one.name, Nanos(latency.p99_ns?)))
                });
                Some(Card {
                    kind: if load.client_limited { "unsure" } else { "plain" },
                    label: format!("{}: {}", load.server, load.workload),
                    text: format!("{} operations a second", count(load.per_s)),
                    more: match (load.client_limited, tail) {
                        (true, _) => {
                            "The client was busy itself: the server may be able to do more".to_owned()
                        }
                        (false, tail) => tail.unwrap_or_default(),
                    },
                })
            }
            Entry::Knee(knee) => Some(Card {
                kind: if knee.withheld.is_some() { "unsure" } else { "plain" },
                label: knee.phase.clone(),
                text: match knee.withheld {
                    // The processors set the pace: the disk does more.
                    Some(_) => format!("{} operations a second at least", count(knee.throughput_max_per_s)),
                    None => format!("{} operations a second at most", count(knee.throughput_max_per_s)),
                },
                more: format!("{} for one at a time", Nanos(knee.latency_at_one_ns.max(0.0) as u64)),
            }),
            Entry::Objective(objective) => Some(Card {
                kind: if objective.rate_per_s.is_some() { "good" } else { "bad" },
                label: objective.objective.clone(),
                text: objective.words.clone(),
                more: String::new(),
            }),
            _ => None,
        });
    }
    cards
}

/// The answer as cards: the whole first, then each comparison on which it rests.
fn study_cards(study: &Study) -> Vec<Card> {
    let answers = answers(study);
    let has = |verdict: StudyVerdict| answers.iter().any(|one| one.verdict == verdict);
    let kind = match (has(StudyVerdict::Better), has(StudyVerdict::Worse)) {
        (true, false) => "good",
        (false, true) => "bad",
        // Both, or that there is no difference: neither good nor bad.
        _ if has(StudyVerdict::Worse) || has(StudyVerdict::Same) => "plain",
        _ => "unsure",
    };
    let (text, more) = match answers.as_slice() {
        [one] => (sentence(one), String::new()),
        many => (tally(many), design(study)),
    };
    let whole = Card { kind, label: study.question.clone(), text, more };
    std::iter::once(whole).chain(answers.into_iter().map(|one| comparison_card(study, one))).collect()
}

fn comparison_card(study: &Study, one: &StudyComparison) -> Card {
    let kind = match one.verdict {
        StudyVerdict::Better => "good",
        StudyVerdict::Worse => "bad",
        StudyVerdict::Same => "plain",
        StudyVerdict::Undecided => "unsure",
    };
    let floor = study.noise.iter().find(|noise| noise.metric == one.metric);
    let floor = floor.map_or_else(String::new, |noise| format!(" Noise floor {}.", percent(noise.floor)));
    Card {
        kind,
        label: format!("{}, {}", spaced(&one.metric), versus(one)),
        text: format!("{}: {}", study::verdict(one).1, effect(one.ratio)),
        more: format!(
            "95 %: {}; p {} after all comparisons, {} pairs.{floor}",
            effect_interval(one.interval),
            chance(one.adjusted_p),
            one.pairs.len()
        ),
    }
}

/// Of the servers that were judged the worst; else what the probe said, else the worst finding of a check.
fn verdict(results: &[Entry], findings: &[Finding]) -> Card {
    let judged = results.iter().filter_map(|entry| match entry {
        Entry::Judged(verdict) => Some(verdict.as_ref().clone()),
        _ => None,
    });
    if let Some(verdict) = Verdict::worst(judged) {
        return judged_card(&verdict);
    }
    let said = results.iter().rev().find_map(|entry| match entry {
        Entry::Verdict(verdict) => Some(verdict),
        _ => None,
    });
    let worst =
        findings.iter().filter(|finding| finding.severity >= Severity::Warning).min_by_key(|finding| {
            (std::cmp::Reverse(finding.severity), finding.confidence == Confidence::CannotTell)
        });
    let (kind, text) = match (said, worst) {
        (Some(verdict), _) => (
            match verdict.outcome {
                VerdictOutcome::Sound => "good",
                VerdictOutcome::Spoiled => "bad",
                VerdictOutcome::CannotTell => "unsure",
            },
            verdict.words.clone(),
        ),
        (None, Some(finding)) if finding.confidence == Confidence::CannotTell => {
            ("unsure", finding.claim.clone())
        }
        (None, Some(finding)) => ("bad", finding.claim.clone()),
        // That nothing was found shows nothing.
        (None, None) => ("unsure", "What was measured does not tell what holds this system back.".to_owned()),
    };
    let alarms = findings.iter().filter(|finding| finding.severity >= Severity::Warning).count();
    let more = match alarms {
        0 => String::new(),
        1 => "One finding needs a look.".to_owned(),
        many => format!("{many} findings need a look."),
    };
    Card { kind, label: "Verdict".to_owned(), text, more }
}

fn judged_card(verdict: &Verdict) -> Card {
    let kind = match verdict.outcome {
        Outcome::HeldBack => "bad",
        Outcome::NotHeldBack => "good",
        Outcome::CannotTell | Outcome::NotExamined => "unsure",
    };
    let more = verdict.next.clone().or_else(|| verdict.reasons.first().cloned()).unwrap_or_default();
    Card { kind, label: "Verdict".to_owned(), text: verdict.sentence.clone(), more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_certain_finding_is_the_verdict_where_no_probe_gave_one() {
        let findings = [
            Finding::new("a", Severity::Warning, "Cannot be told.").confidence(Confidence::CannotTell),
            Finding::new("b", Severity::Warning, "The queue is full."),
            Finding::new("c", Severity::Note, "Worth knowing."),
        ];
        let cards = cards(&[], &findings);
        assert_eq!((cards[0].kind, cards[0].text.as_str()), ("bad", "The queue is full."));
        assert_eq!(cards[0].more, "2 findings need a look.");
        let calm = super::cards(&[], &findings[2..]);
        assert_eq!(calm[0].kind, "unsure", "an absence of findings is no good news");
        let unsure = super::cards(&[], &findings[..1]);
        assert_eq!(unsure[0].kind, "unsure");
        let nothing = super::cards(&[], &[]);
        assert_eq!(
            nothing[0].kind, "unsure",
            "a run that failed before it measured anything is no good news"
        );
    }

    #[test]
    fn only_a_verdict_that_nothing_holds_back_is_green() {
        let kind = |outcome| judged_card(&Verdict::new(outcome, "x".to_owned())).kind;
        let outcomes = [Outcome::HeldBack, Outcome::CannotTell, Outcome::NotHeldBack, Outcome::NotExamined];
        assert_eq!(outcomes.map(kind), ["bad", "unsure", "good", "unsure"]);
    }
}
