//! The answer of a checkup as text: the verdict in sentences, the answers to needs, the findings that matter most, and the path of the run folder.
//! `--verbose` prints all findings instead of the first three.

use fathom_host::doctor::Diagnosis;
use fathom_record::capacity::CapacityLimit;
use fathom_record::disk::{burst_allowance, capacities, need_answers};
use fathom_record::storage_causes;
use fathom_report::{
    capacity_sentences, findings_first, findings_text, need_lines, verdict_sentence, wrapped,
};
use fathom_session::{SessionResult, ranked_findings};

use super::deployment::parts;
use crate::assessment_text;
use crate::output::{self, WIDTH};

/// Findings that a brief checkup names, with one server and with several, whose sentences take the lines; the rest are on the page.
const MAX_FINDINGS: usize = 3;
const MAX_FINDINGS_WITH_SEVERAL: usize = 1;

/// The text below the table of capacities, which may be empty. `unfinished` is the sentence on an interrupted search.
pub(super) fn text(
    is_brief: bool,
    unfinished: Option<String>,
    diagnosis: Option<&Diagnosis>,
    result: &SessionResult,
    is_watch: bool,
) -> String {
    let mut lines = Vec::new();
    if result.is_interrupted {
        lines.extend(paragraph("Interrupted: the figures above are what was measured until then."));
        lines.extend(unfinished.iter().flat_map(|sentence| paragraph(sentence)));
    }
    let measured = capacities(&result.results);
    lines.extend(capacity_sentences(&measured).iter().flat_map(|sentence| paragraph(sentence)));
    // Otherwise it was already printed when it was measured.
    let allowance = burst_allowance(&result.results).filter(|_| is_brief);
    lines.extend(allowance.into_iter().flat_map(|allowance| paragraph(&allowance.words)));
    lines.extend(need_lines(&need_answers(&result.results), WIDTH));
    if is_brief {
        // A limit that the capacities already name is not repeated.
        let is_capped = measured.iter().any(|one| one.limit == CapacityLimit::Cap);
        let causes = storage_causes(&result.probe_findings).filter(|_| !is_capped);
        lines.extend(causes.flat_map(|cause| paragraph(&format!("{}.", cause.claim))));
        let host = diagnosis.map_or(&[][..], |diagnosis| &diagnosis.findings);
        let under_load = ranked_findings(&result.assessments);
        let all = host.iter().chain(&result.probe_findings).chain(&under_load);
        let has_several = measured.windows(2).any(|pair| pair[0].server != pair[1].server);
        let limit = if has_several { MAX_FINDINGS_WITH_SEVERAL } else { MAX_FINDINGS };
        let first = findings_first(all, limit, WIDTH);
        lines.extend((!first.is_empty()).then(|| format!("\nWhat matters most:\n{first}")));
    } else {
        lines.extend(details(result, is_watch));
    }
    if let Some(diagnosis) = diagnosis {
        let settings = diagnosis.findings.iter().filter(|finding| finding.is_alarm()).count();
        let verb = if settings == 1 { "setting differs" } else { "settings differ" };
        lines.push(match settings {
            0 => "\nNo host setting differs from MongoDB's advice.".to_owned(),
            n => format!("\n{n} host {verb} from MongoDB's advice; see 'fathom doctor'."),
        });
    }
    lines.extend(result.folder.as_ref().map(|folder| format!("Run folder: {}", folder.display())));
    lines.join("\n")
}

/// A sentence below an empty line.
fn paragraph(text: &str) -> Vec<String> {
    std::iter::once(String::new()).chain(wrapped(text, "", "", WIDTH)).collect()
}

/// The findings on the disk and under load.
fn details(result: &SessionResult, is_watch: bool) -> Vec<String> {
    let findings = findings_text(&result.probe_findings, WIDTH, output::shows_ids());
    let under_load = assessment_text::text_under_load(parts(is_watch, &result.assessments).1);
    let blocks = [findings, under_load].into_iter().filter(|text| !text.is_empty());
    let verdict = result.verdict().filter(|_| capacities(&result.results).is_empty());
    let verdict = verdict.map(|verdict| format!("Verdict: {}", verdict_sentence(&verdict)));
    let verdict = verdict.map(|text| wrapped(&text, "", "  ", WIDTH).join("\n"));
    blocks.chain(verdict).map(|text| format!("\n{text}")).collect()
}

#[cfg(test)]
mod tests {
    use fathom_explain::Need;
    use fathom_host::doctor::DoctorSubject;
    use fathom_record::State;
    use fathom_record::capacity::{NeedAnswer, NeedVerdict};
    use fathom_record::disk::Entry;

    use super::*;
    use crate::result_printer::ResultText;

    /// A checkup that was recorded on a virtual machine.
    fn recorded() -> (Diagnosis, SessionResult) {
        let subject = DoctorSubject {
            origin: "live",
            dir: "/data".to_owned(),
            mount: None,
            devices: Vec::new(),
            kernel: "6.18".to_owned(),
            architecture: "x86_64".to_owned(),
            mongodb: "8.0".to_owned(),
            mongod_pid: None,
        };
        let findings = include_str!("../../../../../tests/fixtures/checkup/findings.json");
        let results = include_str!("../../../../../tests/fixtures/checkup/results.jsonl");
        let result = SessionResult {
            state: State::Complete,
            folder: Some("/runs/20261127T072830Z-checkup-18955".into()),
            results: results.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            probe_findings: Vec::new(),
            assessments: Vec::new(),
            search: None,
            is_interrupted: false,
            broken: None,
            error: None,
        };
        let findings = serde_json::from_str(findings).unwrap();
        (Diagnosis { subject, assumptions: Vec::new(), findings }, result)
    }

    /// The table as it is printed while the capacities are measured, and the answer below it.
    fn printed(diagnosis: &Diagnosis, result: &SessionResult, unfinished: Option<String>) -> String {
        let mut table = ResultText::default();
        let rows = result.results.iter().filter(|entry| matches!(entry, Entry::Capacity(_)));
        let mut lines: Vec<String> = rows.flat_map(|entry| table.lines(entry)).collect();
        lines.push(text(true, unfinished, Some(diagnosis), result, false));
        lines.join("\n") + "\n"
    }

    #[test]
    fn a_whole_answer() {
        let (diagnosis, result) = recorded();
        let printed = printed(&diagnosis, &result, None);
        assert_eq!(printed, include_str!("../../../../../tests/fixtures/checkup/answer.txt"));
        assert!(printed.lines().count() < 45 && printed.lines().all(|line| line.len() <= WIDTH));
    }

    /// Both engines with a need, on the screen of a terminal.
    #[test]
    fn an_answer_for_both_engines() {
        let (diagnosis, mut result) = recorded();
        let of_other = result.results.clone().into_iter().filter_map(|entry| match entry {
            Entry::Capacity(mut one) => {
                one.server = "Server on RocksDB".to_owned();
                one.rate_per_s = one.rate_per_s.map(|rate| 0.8 * rate);
                one.broken_per_s = one.broken_per_s.map(|rate| 0.8 * rate);
                Some(Entry::Capacity(one))
            }
            _ => None,
        });
        let at = result.results.iter().rposition(|entry| matches!(entry, Entry::Capacity(_))).unwrap();
        let of_other: Vec<Entry> = of_other.collect();
        result.results.splice(at + 1..at + 1, of_other);
        let need: Need = "reads=5000,writes=800,data=500G,memory=64G".parse().unwrap();
        let measured = capacities(&result.results);
        let answers: Vec<NeedAnswer> = measured
            .chunk_by(|one, other| one.server == other.server)
            .map(|of_server| need.answer(&of_server[0].server, of_server, false))
            .collect();
        result.results.extend(answers.into_iter().map(|answer| Entry::Need(Box::new(answer))));
        let printed = printed(&diagnosis, &result, None);
        assert_eq!(printed, include_str!("../../../../../tests/fixtures/checkup/answer-both.txt"));
        let longest = printed.lines().map(|line| line.chars().count()).max();
        assert!(printed.lines().count() < 45 && longest <= Some(WIDTH), "{printed}");
    }

    /// A checkup under a cap with a need, which ended before the mix.
    #[test]
    fn an_answer_to_a_need_that_was_interrupted() {
        let (diagnosis, mut result) = recorded();
        result.results.retain(|entry| !matches!(entry, Entry::BurstAllowance(_)));
        result.results.truncate(2);
        for entry in &mut result.results {
            let Entry::Capacity(capacity) = entry else { continue };
            capacity.limit = CapacityLimit::Cap;
            capacity.limit_reason =
                "A control group holds vda at 300 reads a second, which was reached 50 % of the time"
                    .to_owned();
        }
        result.results.push(Entry::Need(Box::new(NeedAnswer {
            server: "Server on WiredTiger".to_owned(),
            need: "reads=20000".to_owned(),
            verdict: NeedVerdict::No,
            sentence: "No: reads=20000 requires 20,000 device reads and 0 journaled writes a second. The disk carries 86 % of that."
                .to_owned(),
            device_reads_per_s: 20_000.0,
            writes_per_s: 0.0,
            factor: Some(0.86),
            broken_factor: Some(0.95),
            assumptions: vec!["All records are accessed equally often.".to_owned()],
        })));
        result.is_interrupted = true;
        let unfinished = "The search for mix is incomplete: 6,768 a second met the objective.".to_owned();
        let printed = printed(&diagnosis, &result, Some(unfinished));
        assert_eq!(printed, include_str!("../../../../../tests/fixtures/checkup/answer-need.txt"));
    }
}
