//! What was judged, as text for people and as a JSON document: the layers, the findings, what could not be told, what it cost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_explain::{Evidence, Judgement, judge, judge_in_turn};
use fathom_record::disk::Entry;
use fathom_record::verdict::Verdict;
use fathom_record::{Run, ServerEventKind, State};
use fathom_report::{
    amplification_lines, budget_blocks, findings_text, member_lines, queue_lines, verdict_lines,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::live::WIDTH;
use crate::run_notes::notes_of;

const SECOND_NS: f64 = 1e9;

/// A run or a watching, judged.
pub(crate) struct Explained {
    /// What was judged, in words.
    pub(crate) subject: String,
    pub(crate) evidence: Evidence,
    pub(crate) judgement: Judgement,
    /// What could not be read, a sentence each.
    pub(crate) notes: Vec<String>,
    pub(crate) state: State,
    pub(crate) folder: Option<PathBuf>,
}

impl Explained {
    /// A run folder, judged anew with what else is known of its device; the folder stays as it is.
    pub(crate) fn of_folder(folder: PathBuf, probed: Vec<Entry>) -> Result<Explained> {
        let run = Run::open(&folder)?;
        let mut evidence = Evidence::of(&run)?;
        evidence.results.extend(probed);
        if evidence.series.iter().next().is_none() {
            let what = format!("{} holds no series to judge", folder.display());
            return Err(Error::new(Kind::Unsupported, what)
                .advise("name a run of ycsb, watch or explain")
                .into());
        }
        let manifest = &run.manifest;
        let judgement = match manifest.verb.as_str() {
            "checkup" => judgement_of_checkup(&evidence, &run)?,
            _ => judge(&evidence),
        };
        Ok(Explained {
            subject: format!("{} of {}", manifest.verb, manifest.started),
            judgement,
            notes: notes_of(manifest),
            evidence,
            state: manifest.state,
            folder: Some(folder),
        })
    }
}

/// The judgement of a checkup, server by server. Its loads ran one after another, so it has no rows side by side. A checkup without recorded verdicts
/// is judged again in the same way.
fn judgement_of_checkup(evidence: &Evidence, run: &Run) -> Result<Judgement> {
    let mut judgement = Judgement::default();
    let mut verdicts = Vec::new();
    for entry in evidence.results.iter().cloned() {
        match entry {
            Entry::Budget(budget) => judgement.budgets.push(budget),
            Entry::Queue(ladder) => judgement.ladders.push(ladder),
            Entry::Amplification(one) => judgement.amplifications.push(one),
            Entry::Member(row) => judgement.members.push(row),
            Entry::Judged(verdict) => verdicts.push(*verdict),
            _ => {}
        }
    }
    judgement.verdict = Verdict::worst(verdicts);
    judgement.findings = run.findings()?;
    // Settings of the host and findings of the probe are the checkup's own; what was found under load rests on series.
    judgement.findings.retain(|finding| !finding.series.is_empty());
    Ok(if judgement.verdict.is_some() { judgement } else { judge_in_turn(evidence) })
}

/// What watching cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Processor time of all samplers, as a share of one core.
    pub(crate) core_share: f64,
    /// The same by sampler.
    pub(crate) core_share_by_sampler: BTreeMap<String, f64>,
    /// Time that the servers spent on our commands, in milliseconds a second, all together.
    pub(crate) server_ms_per_s: f64,
}

/// What watching cost, where that was counted.
pub(crate) fn cost(evidence: &Evidence) -> Option<Cost> {
    let (begin_ns, end_ns) = evidence.window_ns;
    let seconds = end_ns.saturating_sub(begin_ns) as f64 / SECOND_NS;
    let total = |name: &str, ending: &str| {
        let sampler = name.strip_suffix(ending)?.to_owned();
        Some((sampler, evidence.sum(&format!("monitor.{name}"))?))
    };
    let all = |ending: &str| -> BTreeMap<String, f64> {
        evidence.series.starting("monitor.").filter_map(|(name, _)| total(name, ending)).collect()
    };
    let by_sampler = all(".cpu_us");
    if by_sampler.is_empty() || seconds <= 0.0 {
        return None;
    }
    let of_core = |us: f64| us / 1e6 / seconds;
    Some(Cost {
        core_share: of_core(by_sampler.values().sum()),
        core_share_by_sampler: by_sampler.into_iter().map(|(name, us)| (name, of_core(us))).collect(),
        server_ms_per_s: all(".command_us").values().sum::<f64>() / 1000.0 / seconds,
    })
}

/// The text.
pub(crate) fn text(explained: &Explained) -> String {
    let Explained { subject, evidence, judgement, notes, state, folder } = explained;
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / SECOND_NS;
    let mut blocks: Vec<String> =
        judgement.verdict.iter().map(|verdict| verdict_lines(verdict, WIDTH).join("\n")).collect();
    blocks.push(format!("{subject}: {seconds:.0} s on one clock{}", state_word(*state)));
    blocks.extend(members(evidence));
    blocks.extend(figures(judgement));
    let findings = findings_text(&judgement.findings, WIDTH, false);
    blocks.extend((!findings.is_empty()).then_some(findings));
    if !notes.is_empty() {
        let lines = notes.iter().flat_map(|note| fathom_report::wrapped(note, "  ? ", "    ", WIDTH));
        let lines: Vec<String> = std::iter::once("What could not be read".to_owned()).chain(lines).collect();
        blocks.push(lines.join("\n"));
    }
    let mut last = Vec::new();
    if let Some(cost) = cost(evidence) {
        last.push(format!(
            "Watching took {:.2} % of one core and {:.2} ms of the servers' time a second.",
            100.0 * cost.core_share,
            cost.server_ms_per_s
        ));
    }
    last.extend(folder.as_ref().map(|folder| format!("Run folder: {}", folder.display())));
    blocks.extend((!last.is_empty()).then(|| last.join("\n")));
    blocks.join("\n\n")
}

/// The figures that findings rest on: budgets, queues, amplification, the servers side by side; a block each.
pub(crate) fn figures(judgement: &Judgement) -> Vec<String> {
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

/// The same figures as results of a run.
pub(crate) fn entries(judgement: &Judgement) -> Vec<Entry> {
    let Judgement { budgets, ladders, amplifications, members, .. } = judgement;
    let mut entries: Vec<Entry> = budgets.iter().cloned().map(Entry::Budget).collect();
    entries.extend(ladders.iter().cloned().map(Entry::Queue));
    entries.extend(amplifications.iter().cloned().map(Entry::Amplification));
    entries.extend(members.iter().cloned().map(Entry::Member));
    entries.extend(judgement.verdict.iter().cloned().map(|verdict| Entry::Judged(Box::new(verdict))));
    entries
}

/// Everything that was judged, as fields of a document.
pub(crate) fn judged_fields(judgement: &Judgement, notes: &[String]) -> Map<String, Value> {
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

/// A line for each server: who it is.
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

/// What changed among the servers while they were watched: failovers, members that went and came back.
fn changes(evidence: &Evidence) -> Vec<String> {
    const MOST: usize = 20;
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
    let surplus = told.len().saturating_sub(MOST);
    let mut lines: Vec<String> =
        told.iter().take(MOST).flat_map(|line| fathom_report::wrapped(line, "  * ", "    ", WIDTH)).collect();
    if surplus > 0 {
        lines.push(format!("  * and {surplus} more changes"));
    }
    lines
}

/// The document.
pub(crate) fn document(explained: &Explained) -> Value {
    let Explained { subject, evidence, judgement, notes, state, folder } = explained;
    let (begin_ns, end_ns) = evidence.window_ns;
    let mut document = json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "explain",
        "subject": subject,
        "state": state,
        "window_s": [begin_ns as f64 / SECOND_NS, end_ns as f64 / SECOND_NS],
        "run_folder": folder,
        "cost": cost(evidence),
    });
    if let Some(document) = document.as_object_mut() {
        document.extend(judged_fields(judgement, notes));
    }
    document
}
