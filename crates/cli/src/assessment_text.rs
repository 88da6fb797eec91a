//! An assessment as text and as a JSON document: the layers, the findings, the readings that failed, and the cost of monitoring.

use std::path::Path;

use fathom_explain::{Evidence, Judgement, MonitoringCost};
use fathom_record::disk::Entry;
use fathom_record::verdict::Verdict;
use fathom_record::{Finding, ServerEventKind, State};
use fathom_report::{
    amplification_lines, budget_blocks, findings_text, member_lines, queue_lines, verdict_lines,
};
use fathom_session::{Assessment, ranked_findings};
use serde_json::{Map, Value, json};

use crate::output::{self, WIDTH};
use crate::work_view::work_views;

const SECOND_NS: f64 = 1e9;

fn verdict_block(verdict: &Verdict) -> String {
    verdict_lines(verdict, WIDTH, output::shows_ids()).join("\n")
}

/// The text of an assessed run or of a monitored deployment; `folder` is the run folder, if it was recorded.
pub(crate) fn text(assessment: &Assessment, state: State, folder: Option<&Path>) -> String {
    let Assessment { subject, evidence, judgement, notes } = assessment;
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / SECOND_NS;
    let mut blocks: Vec<String> = judgement.verdict.iter().map(verdict_block).collect();
    blocks.push(format!("{subject}: watched for {seconds:.0} s{}", state_word(state)));
    blocks.extend(members(evidence));
    blocks.extend(figures(judgement));
    let findings = findings_text(&judgement.findings, WIDTH, output::shows_ids());
    blocks.extend((!findings.is_empty()).then_some(findings));
    if !notes.is_empty() {
        let lines = notes.iter().flat_map(|note| fathom_report::wrapped(note, "  ? ", "    ", WIDTH));
        let lines: Vec<String> = std::iter::once("What could not be read".to_owned()).chain(lines).collect();
        blocks.push(lines.join("\n"));
    }
    let mut last = Vec::new();
    if let Some(cost) = MonitoringCost::from_evidence(evidence) {
        last.push(format!(
            "Watching took {:.2} % of one core and {:.2} ms of the servers' time a second.",
            100.0 * cost.core_share,
            cost.server_ms_per_s
        ));
    }
    last.extend(folder.map(|folder| format!("Run folder: {}", folder.display())));
    blocks.extend((!last.is_empty()).then(|| last.join("\n")));
    blocks.join("\n\n")
}

/// The answer alone: the verdict, the first steps to take, and the readings that failed.
pub(crate) fn brief_text(assessment: &Assessment) -> String {
    const MAX_LINES: usize = 3;
    let Assessment { subject, evidence, judgement, notes } = assessment;
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / SECOND_NS;
    let mut blocks: Vec<String> = judgement.verdict.iter().map(verdict_block).collect();
    blocks.push(format!("{subject}: watched for {seconds:.0} s, nothing was written there"));
    blocks.extend(members(evidence));
    let first: Vec<Finding> =
        judgement.findings.iter().filter(|one| one.is_alarm()).take(MAX_LINES).cloned().collect();
    blocks.extend((!first.is_empty()).then(|| findings_text(&first, WIDTH, output::shows_ids())));
    let unread = notes.iter().take(MAX_LINES);
    let mut lines: Vec<String> =
        unread.flat_map(|note| fathom_report::wrapped(note, "  ? ", "    ", WIDTH)).collect();
    if notes.len() > MAX_LINES {
        lines.push(format!("  ? and {} more; --verbose shows them", notes.len() - MAX_LINES));
    }
    blocks.extend((!lines.is_empty()).then(|| lines.join("\n")));
    blocks.join("\n")
}

/// The figures on which findings rest: budgets, queues, amplification, and a comparison of the servers; a block each.
fn figures(judgement: &Judgement) -> Vec<String> {
    let Judgement { budgets, ladders, amplifications, members, .. } = judgement;
    let mut blocks: Vec<String> = Vec::new();
    blocks.extend(budget_blocks(budgets, WIDTH).into_iter().map(|lines| lines.join("\n")));
    blocks.extend(ladders.iter().map(|ladder| queue_lines(ladder, WIDTH).join("\n")));
    blocks.extend(amplifications.iter().map(|one| amplification_lines(one, WIDTH).join("\n")));
    if members.len() > 1 {
        blocks.push(member_lines(members, true, WIDTH).join("\n"));
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Everything that was judged, as fields of a document.
fn judged_fields(assessment: &Assessment) -> Map<String, Value> {
    let Assessment { judgement, notes, .. } = assessment;
    let Judgement { budgets, ladders, amplifications, members, findings, withheld, verdict, .. } = judgement;
    let fields = [
        ("verdict", json!(verdict)),
        ("layers", json!(budgets)),
        ("findings", json!(findings)),
        ("ladders", json!(ladders)),
        ("amplification", json!(amplifications)),
        ("members", json!(members)),
        ("withheld", json!(withheld)),
        ("notes", json!(notes)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Complete => "",
        State::Interrupted => ", interrupted",
        State::Failed => ", of a run that failed",
        State::Running => ", of a run that has no end",
    }
}

/// A line for each server: its name and kind.
fn members(evidence: &Evidence) -> Option<String> {
    let line = |member: String| {
        let fact = |what: &str| evidence.environment.get(&format!("server.{member}{what}")).cloned();
        let mut words: Vec<String> =
            ["", ".role", ".engine", ".version"].into_iter().filter_map(fact).collect();
        words.extend(fact(".shard").or_else(|| fact(".set")).map(|part_of| format!("of {part_of}")));
        words.extend(fact(".hidden").map(|_| "hidden".to_owned()));
        words.extend(fact(".votes").filter(|votes| votes == "0").map(|_| "without a vote".to_owned()));
        fathom_report::wrapped(&words.join(" "), &format!("  server {member}  "), "      ", WIDTH)
    };
    let mut lines: Vec<String> = evidence.members().into_iter().flat_map(line).collect();
    lines.extend(changes(evidence));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Changes of the servers during monitoring: failovers, and members that left and came back.
fn changes(evidence: &Evidence) -> Vec<String> {
    const MAX_LINES: usize = 20;
    let told: Vec<String> = evidence
        .results
        .iter()
        .filter_map(|entry| match entry {
            Entry::ServerEvent(event) if event.kind == ServerEventKind::Member => {
                Some(format!("{:.1} s: {}", event.at_ns as f64 / SECOND_NS, event.line))
            }
            _ => None,
        })
        .collect();
    let surplus = told.len().saturating_sub(MAX_LINES);
    let mut lines: Vec<String> = told
        .iter()
        .take(MAX_LINES)
        .flat_map(|line| fathom_report::wrapped(line, "  * ", "    ", WIDTH))
        .collect();
    if surplus > 0 {
        lines.push(format!("  * and {surplus} more changes"));
    }
    lines
}

/// The document of the verb `explain`.
pub(crate) fn document(assessment: &Assessment, state: State, folder: Option<&Path>) -> Value {
    let Assessment { subject, evidence, .. } = assessment;
    let (begin_ns, end_ns) = evidence.window_ns;
    let mut document = json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "explain",
        "subject": subject,
        "state": state,
        "window_s": [begin_ns as f64 / SECOND_NS, end_ns as f64 / SECOND_NS],
        "run_folder": folder,
        "cost": MonitoringCost::from_evidence(evidence),
        "work": work_views(evidence),
    });
    if let Some(document) = document.as_object_mut() {
        document.extend(judged_fields(assessment));
    }
    document
}

/// The layers of the time under load, server by server, and the findings; empty if nothing was judged.
pub(crate) fn text_under_load(assessments: &[Assessment]) -> String {
    let mut blocks = Vec::new();
    for one in assessments {
        let verdict = one.judgement.verdict.iter().map(verdict_block);
        let parts: Vec<String> = verdict.chain(figures(&one.judgement)).collect();
        if !parts.is_empty() {
            blocks.push(format!("{} under load\n{}", one.subject, parts.join("\n")));
        }
    }
    let findings = findings_text(&ranked_findings(assessments), WIDTH, output::shows_ids());
    if !findings.is_empty() {
        blocks.push(format!("Found under load\n{findings}"));
    }
    blocks.join("\n\n")
}

/// The same as a document.
pub(crate) fn document_under_load(assessments: &[Assessment]) -> Value {
    Value::Array(assessments.iter().map(document_of_server).collect())
}

/// All judgements of a server or a deployment, as a document.
pub(crate) fn document_of_server(assessment: &Assessment) -> Value {
    let mut fields = judged_fields(assessment);
    fields.insert("server".to_owned(), json!(assessment.subject));
    Value::Object(fields)
}
