//! The first part of the page: the verdict, and the few most important figures, each as a card.

use fathom_record::burst_allowance::{BurstAllowance, BurstVerdict};
use fathom_record::capacity::Capacity;
use fathom_record::disk::{Entry, Objective, burst_allowance, capacities};
use fathom_record::study::{StudyComparison, StudyResult, StudyVerdict};
use fathom_record::verdict::{Outcome, Verdict};
use fathom_record::{Confidence, Finding, Priority, RunVerdict, VerdictBasis};
use fathom_units::{Nanos, count};
use serde::Serialize;

use super::study;
use crate::capacity::{capacity_sentences, stated};
use crate::run_verdict::verdict_sentence;
use crate::study::labels::{
    answers, chance, design, effect, effect_interval, percent, sentence, spaced, tally, versus,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Card {
    /// `bad`, `good`, `unsure` or `plain`; it is also expressed by a word and a sign, not by colour alone.
    pub(super) kind: &'static str,
    pub(super) label: String,
    /// The figure or the sentence.
    pub(super) text: String,
    /// The small text below.
    pub(super) more: String,
}

/// The cards: the verdict first, then the request to the server and its result.
pub(super) fn cards(results: &[Entry], findings: &[Finding]) -> Vec<Card> {
    // The answer of a study is its verdict; its findings are listed below.
    let mut cards: Vec<Card> = study::studies(results).flat_map(study_cards).collect();
    let capacities = capacities(results);
    let objective = results.iter().find_map(|entry| match entry {
        Entry::Objective(objective) => Some(objective_card(objective)),
        _ => None,
    });
    let has_search = objective.is_some() || !capacities.is_empty();
    let is_examined =
        |entry: &Entry| matches!(entry, Entry::Judged(verdict) if verdict.outcome != Outcome::NotExamined);
    // A search answers its own question; unless a server was watched, there is no other question.
    if cards.is_empty() && (objective.is_none() || results.iter().any(is_examined)) {
        cards.push(verdict(results, findings));
    }
    cards.extend(objective);
    cards.extend(capacities.iter().map(|one| capacity_card(one)));
    for entry in results {
        cards.extend(match entry {
            // Steps of a search.
            Entry::Load(_) if has_search => None,
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
                    // The processors were the limit: the disk is capable of more.
                    Some(_) => format!("{} operations a second at least", count(knee.throughput_max_per_s)),
                    None => format!("{} operations a second at most", count(knee.throughput_max_per_s)),
                },
                more: format!("{} for one at a time", Nanos(knee.latency_at_one_ns.max(0.0) as u64)),
            }),
            _ => None,
        });
    }
    cards
}

/// The verdict of a run whose capacities were measured: the answer to its need, or the cause or deployment that decides it, and the capacities.
fn capacity_verdict(verdict: &RunVerdict<'_>, results: &[Entry]) -> Card {
    let mut carried = capacity_sentences(&capacities(results));
    carried.extend(burst_allowance(results).map(|allowance| allowance.words.clone()));
    let carried = carried.join(" ");
    let (text, more) = match verdict.basis {
        VerdictBasis::Capacities(_) => (carried, String::new()),
        _ => (verdict_sentence(verdict), carried),
    };
    Card { kind: kind(verdict.outcome), label: "Verdict".to_owned(), text, more }
}

/// The card of a run that an error ended before its first result.
pub(super) fn error_card(error: &str) -> Card {
    Card {
        kind: "bad",
        label: "Verdict".to_owned(),
        text: "The run ended with an error before anything was measured.".to_owned(),
        more: error.to_owned(),
    }
}

fn objective_card(objective: &Objective) -> Card {
    Card {
        kind: if objective.rate_per_s.is_some() { "good" } else { "bad" },
        label: objective.objective.clone(),
        text: objective.words.clone(),
        more: String::new(),
    }
}

fn capacity_card(capacity: &Capacity) -> Card {
    Card {
        kind: if capacity.withheld.is_some() { "unsure" } else { "plain" },
        label: format!("{}: {}", capacity.server, capacity.load.name()),
        text: stated(capacity).map_or_else(|| "no rate".to_owned(), |rate| format!("{rate} a second")),
        more: match &capacity.withheld {
            Some(withheld) => withheld.clone(),
            None => format!("at {}; limit: {}", capacity.objective, capacity.limit.words()),
        },
    }
}

/// The answer as cards: the whole first, then each comparison on which it rests.
fn study_cards(study: &StudyResult) -> Vec<Card> {
    let answers = answers(study);
    let has = |verdict: StudyVerdict| answers.iter().any(|one| one.verdict == verdict);
    let kind = match (has(StudyVerdict::Better), has(StudyVerdict::Worse)) {
        (true, false) => "good",
        (false, true) => "bad",
        // Both answers, or no difference: neither good nor bad.
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

fn comparison_card(study: &StudyResult, one: &StudyComparison) -> Card {
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

/// The verdict of the run; else whether the rate of a drive lasts, else the worst finding of a check.
fn verdict(results: &[Entry], findings: &[Finding]) -> Card {
    let run = RunVerdict::new(results, findings);
    if let Some(card) = run.as_ref().and_then(|run| verdict_of_run(run, results)) {
        return card;
    }
    if let Some(allowance) = burst_allowance(results) {
        return burst_card(allowance);
    }
    // Findings of hygiene do not answer the question.
    let due = || findings.iter().filter(|finding| finding.priority() >= Some(Priority::WorthDoing));
    let worst = due().min_by_key(|finding| {
        (std::cmp::Reverse(finding.priority()), finding.confidence == Confidence::CannotTell)
    });
    let (kind, text) = match (&run, worst) {
        (Some(run), _) => (kind(run.outcome), verdict_sentence(run)),
        (None, Some(finding)) if finding.confidence == Confidence::CannotTell => {
            ("unsure", finding.claim.clone())
        }
        (None, Some(finding)) => ("bad", finding.claim.clone()),
        // The absence of findings proves nothing.
        (None, None) => ("unsure", "What was measured does not tell what holds this system back.".to_owned()),
    };
    let more = match due().count() {
        0 => String::new(),
        1 => "One finding below says what to do.".to_owned(),
        many => format!("{many} findings below say what to do."),
    };
    Card { kind, label: "Verdict".to_owned(), text, more }
}

/// The card of a verdict on servers or on capacities; `None` for one on the disk alone, to which the findings belong.
pub(super) fn verdict_of_run(run: &RunVerdict<'_>, results: &[Entry]) -> Option<Card> {
    match &run.basis {
        _ if !capacities(results).is_empty() => Some(capacity_verdict(run, results)),
        VerdictBasis::Server(verdict) => Some(verdict_card(verdict)),
        VerdictBasis::Needs(_) => Some(capacity_verdict(run, results)),
        _ => None,
    }
}

/// Whether the rate of a drive lasts.
fn burst_card(allowance: &BurstAllowance) -> Card {
    let kind = match allowance.verdict {
        BurstVerdict::Sustained => "good",
        BurstVerdict::Burst => "bad",
        BurstVerdict::NoStep | BurstVerdict::CannotTell => "unsure",
    };
    let more = allowance
        .device_class
        .as_ref()
        .map_or_else(String::new, |class| format!("The disk is, or behaves like, {class}."));
    Card { kind, label: "Verdict".to_owned(), text: allowance.words.clone(), more }
}

fn kind(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::HeldBack => "bad",
        Outcome::NotHeldBack => "good",
        Outcome::CannotTell | Outcome::NotExamined => "unsure",
    }
}

fn verdict_card(verdict: &Verdict) -> Card {
    let more = verdict.next.clone().or_else(|| verdict.reasons.first().cloned()).unwrap_or_default();
    Card { kind: kind(verdict.outcome), label: "Verdict".to_owned(), text: verdict.sentence.clone(), more }
}

#[cfg(test)]
mod tests {
    use fathom_record::Severity;
    use fathom_record::capacity::CapacityLimit;

    use super::*;

    #[test]
    fn the_worst_certain_finding_is_the_verdict_where_no_probe_gave_one() {
        let findings = [
            Finding::new("a", Severity::Warning, "Cannot be determined.").confidence(Confidence::CannotTell),
            Finding::new("b", Severity::Warning, "The queue is full."),
            Finding::new("c", Severity::Note, "Worth knowing."),
            Finding::new("d", Severity::Warning, "Few process numbers.")
                .evidence("/proc/sys/kernel/pid_max = 1"),
        ];
        let cards = cards(&[], &findings);
        assert_eq!((cards[0].kind, cards[0].text.as_str()), ("bad", "The queue is full."));
        assert_eq!(cards[0].more, "2 findings below say what to do.");
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
    fn a_drive_is_its_own_verdict_and_a_checkup_says_whether_its_rates_last() {
        let allowance = |verdict| BurstAllowance {
            verdict,
            words: "In burst: 2,000, then 500.".to_owned(),
            seconds: 30.0,
            requests: 30_000,
            levels: Vec::new(),
            bucket: None,
            excluded_requests: None,
            device_class: Some("an EBS volume".to_owned()),
        };
        let entry = |verdict| Entry::BurstAllowance(Box::new(allowance(verdict)));
        let kinds =
            [BurstVerdict::Burst, BurstVerdict::NoStep, BurstVerdict::Sustained, BurstVerdict::CannotTell]
                .map(|verdict| super::cards(&[entry(verdict)], &[])[0].kind);
        assert_eq!(kinds, ["bad", "unsure", "good", "unsure"]);
        let card = &super::cards(&[entry(BurstVerdict::Burst)], &[])[0];
        assert_eq!(card.text, "In burst: 2,000, then 500.");
        let mut capacity = Capacity {
            server: "Server on WiredTiger".to_owned(),
            load: fathom_record::capacity::CapacityLoad::Reads,
            objective: "p99<10ms".to_owned(),
            rate_per_s: Some(900.0),
            broken_per_s: Some(1000.0),
            quantile_ns: None,
            device_reads_per_operation: Some(1.0),
            device_reads_per_page: Some(1.0),
            is_counted_by_process: false,
            limit: CapacityLimit::Disk,
            limit_reason: String::new(),
            saturation: None,
            checkpoints: None,
            withheld: None,
        };
        assert_eq!(capacity_card(&capacity).text, "about 900 a second");
        // The sentence counts reads of the device, and so does the card.
        capacity.device_reads_per_operation = Some(0.5);
        assert_eq!(capacity_card(&capacity).text, "about 450 a second");
        capacity.device_reads_per_operation = Some(1.0);
        let results = [Entry::Capacity(Box::new(capacity)), entry(BurstVerdict::CannotTell)];
        let card = &super::cards(&results, &[])[0];
        assert!(card.text.starts_with("This disk carries about 900"), "{}", card.text);
        assert!(card.text.ends_with("In burst: 2,000, then 500."), "{}", card.text);
    }

    #[test]
    fn a_search_without_a_watched_server_is_its_own_answer() {
        let words = "p99<10ms holds up to 185 operations a second.";
        let objective = Entry::Objective(Objective {
            objective: "p99<10ms".to_owned(),
            rate_per_s: Some(185.0),
            tried: Vec::new(),
            words: words.to_owned(),
        });
        let judged = |outcome| Entry::Judged(Box::new(Verdict::new(outcome, "x".to_owned())));
        let texts = |outcome| {
            let cards = super::cards(&[objective.clone(), judged(outcome)], &[]);
            cards.into_iter().map(|card| card.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(Outcome::NotExamined), [words]);
        assert_eq!(texts(Outcome::NotHeldBack)[1], words);
    }

    #[test]
    fn only_a_verdict_that_nothing_holds_back_is_green() {
        let kind = |outcome| verdict_card(&Verdict::new(outcome, "x".to_owned())).kind;
        let outcomes = [Outcome::HeldBack, Outcome::CannotTell, Outcome::NotHeldBack, Outcome::NotExamined];
        assert_eq!(outcomes.map(kind), ["bad", "unsure", "good", "unsure"]);
    }
}
