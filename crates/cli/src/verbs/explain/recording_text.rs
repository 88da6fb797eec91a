//! The answer on recordings: at most 40 lines of text, or one JSON document with all incidents.

use fathom_explain::recording::{DiskOwnership, OwnShare};
use fathom_monitor::ClockStep;
use fathom_record::SlowOperationTable;
use fathom_record::incident::Incident;
use fathom_report::{printable, wrapped};
use fathom_session::JudgedRecording;
use fathom_units::{Bytes, count, time_span};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::slow_operation_text::{MAX_SHAPES, sentences};
use crate::output::WIDTH;
use crate::recording_arguments::{precise_time, short_time};
use crate::recording_inputs::{clock_sentences, name_of};
use crate::server_dumps::dumped_facts_sentence;

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// The most lines of an answer.
const MAX_LINES: usize = 40;
/// The amounts of detail for a single server, and for several. The first one whose text is short enough is printed.
const DETAILS_OF_ONE: [TextDetail; 4] = [
    TextDetail::new(1, 5, 4, MAX_SHAPES),
    TextDetail::new(1, 4, 3, MAX_SHAPES),
    TextDetail::new(1, 2, 2, MAX_SHAPES),
    TextDetail::new(1, 1, 1, MAX_SHAPES),
];
const DETAILS_OF_SEVERAL: [TextDetail; 6] = [
    TextDetail::new(4, 2, 1, 1),
    TextDetail::new(4, 1, 1, 1),
    TextDetail::new(4, 1, 0, 0),
    TextDetail::new(3, 1, 0, 0),
    TextDetail::new(2, 1, 0, 1),
    TextDetail::new(1, 1, 0, 1),
];
/// The number of other servers whose verdicts are shown.
const MAX_OTHERS: usize = 8;

/// How much of an answer is printed.
#[derive(Clone, Copy)]
struct TextDetail {
    /// The servers that are shown. Of others there is the verdict.
    servers: usize,
    /// The incidents that are described for each.
    incidents: usize,
    /// The reasons of each verdict.
    reasons: usize,
    /// The shapes of slow operations.
    shapes: usize,
}

impl TextDetail {
    const fn new(servers: usize, incidents: usize, reasons: usize, shapes: usize) -> TextDetail {
        TextDetail { servers, incidents, reasons, shapes }
    }
}

/// The answer as one document.
pub(super) fn document(servers: &[JudgedRecording], zone: &TimeZone) -> Value {
    let of_server = |server: &JudgedRecording| {
        let mut document = json!({
            "directory": server.directory,
            "facts": server.facts,
            "first": precise_time(server.judgement.begin_ms, zone),
            "last": precise_time(server.judgement.end_ms, zone),
            "judgement": server.judgement,
        });
        if let Some(fields) = document.as_object_mut() {
            if !server.clock_steps.is_empty() {
                fields.insert("clock_steps".to_owned(), json!(server.clock_steps));
            }
            if let Some(clock) = &server.clock {
                fields.insert("clock".to_owned(), json!(clock));
            }
            if let Some(table) = &server.slow_operations {
                fields.insert("slow_operations".to_owned(), json!(table));
            }
        }
        document
    };
    json!({ "schema": SCHEMA, "servers": servers.iter().map(of_server).collect::<Vec<_>>() })
}

/// The answer for a terminal.
pub(super) fn text(servers: &[JudgedRecording], zone: &TimeZone) -> String {
    let details = if servers.len() == 1 { &DETAILS_OF_ONE[..] } else { &DETAILS_OF_SEVERAL[..] };
    let mut lines = Vec::new();
    for detail in details {
        lines = all_lines(servers, zone, *detail);
        if lines.len() <= MAX_LINES {
            return lines.join("\n");
        }
    }
    lines.truncate(MAX_LINES - 1);
    lines.push("... (--json has all)".to_owned());
    lines.join("\n")
}

fn all_lines(servers: &[JudgedRecording], zone: &TimeZone, detail: TextDetail) -> Vec<String> {
    let mut order: Vec<&JudgedRecording> = servers.iter().collect();
    if servers.len() > detail.servers {
        order.sort_by_key(|server| server.judgement.verdict.exit_code() != 1);
    }
    let (shown, others) = order.split_at(detail.servers.min(order.len()));
    let of_server = |server: &&JudgedRecording| lines(server, zone, servers.len() == 1, detail);
    let mut all = shown.iter().map(of_server).collect::<Vec<_>>().join(&String::new());
    if !others.is_empty() {
        all.extend([String::new(), "Other servers:".to_owned()]);
        for server in others.iter().take(MAX_OTHERS) {
            let line = format!("{}: {}", name_of(server), server.judgement.verdict.sentence);
            all.extend(wrapped(&printable(&line), "  ", "    ", WIDTH));
        }
        if let Some(more) = others.len().checked_sub(MAX_OTHERS).filter(|more| *more > 0) {
            let held_back = others.iter().skip(MAX_OTHERS);
            let held_back = held_back.filter(|server| server.judgement.verdict.exit_code() == 1).count();
            let line = format!("{more} more, {held_back} of them held back (--json has them).");
            all.extend(wrapped(&line, "  ", "    ", WIDTH));
        }
    }
    let common = if servers.len() > 1 { common_missing(servers) } else { Vec::new() };
    for sentence in clock_sentences(servers).iter().map(String::as_str).chain(common) {
        all.push(String::new());
        all.extend(wrapped(&printable(sentence), "", "  ", WIDTH));
    }
    all
}

/// The sentences on what none of several recordings has.
fn common_missing(servers: &[JudgedRecording]) -> Vec<&str> {
    let Some((first, others)) = servers.split_first() else { return Vec::new() };
    let is_common = |sentence: &&String| {
        others.iter().all(|server| server.judgement.missing.iter().any(|other| other == *sentence))
    };
    first.judgement.missing.iter().filter(is_common).map(String::as_str).collect()
}

/// The slow operations of a log without a recording, as one document.
pub(super) fn log_document(table: &SlowOperationTable) -> Value {
    json!({ "schema": SCHEMA, "servers": [], "slow_operations": table })
}

/// The same for a terminal.
pub(super) fn log_text(table: &SlowOperationTable, zone: &TimeZone) -> String {
    let mut lines = Vec::new();
    let mut add = |sentence: &str, first: &str, rest: &str| {
        lines.extend(wrapped(&printable(sentence), first, rest, WIDTH));
    };
    let verdict = "Not examined: a log has only slow operations. To judge storage, name the server's \
        recording (diagnostic.data) too.";
    add(verdict, "", "  ");
    sentences(table, MAX_SHAPES).iter().for_each(|one| add(&one.text, one.first, one.rest));
    if let Some((first, last)) = table.span_ms {
        let span = format!(
            "Log: {}, {} to {}{}.",
            table.files.join(", "),
            short_time(first, zone),
            short_time(last, zone),
            zone_name(zone)
        );
        add(&span, "", "  ");
    }
    lines.join("\n")
}

/// The suffix of times in UTC.
fn zone_name(zone: &TimeZone) -> &'static str {
    if *zone == TimeZone::UTC { " UTC" } else { "" }
}

fn lines(server: &JudgedRecording, zone: &TimeZone, is_one: bool, detail: TextDetail) -> Vec<String> {
    let judgement = &server.judgement;
    let mut lines = Vec::new();
    let mut add = |sentence: &str, first: &str, rest: &str| {
        lines.extend(wrapped(&printable(sentence), first, rest, WIDTH));
    };
    add(&judgement.verdict.sentence, "", "  ");
    judgement.verdict.reasons.iter().take(detail.reasons).for_each(|reason| add(reason, "  ", "    "));
    let number = judgement.incidents.len();
    if number > 0 {
        let shown = number.min(detail.incidents);
        let heading = match number > shown {
            true => format!("The {shown} costliest of {number} incidents (--json has all):"),
            false => "Incidents, the costliest first:".to_owned(),
        };
        add(&heading, "", "  ");
        for (rank, incident) in judgement.incidents.iter().take(shown).enumerate() {
            add(&incident_line(incident, zone), "  ", "      ");
            // The evidence for the cause of the costliest incident, and the evidence against it.
            let about = incident.evidence.iter().chain(&incident.against).filter(|_| rank == 0 && is_one);
            about.for_each(|sentence| add(sentence, "      ", "      "));
        }
    }
    if let Some(table) = &server.slow_operations {
        sentences(table, detail.shapes).iter().for_each(|one| add(&one.text, one.first, one.rest));
    }
    if let Some(next) = &judgement.verdict.next {
        add(&format!("Next: {next}"), "", "  ");
    }
    let zone_name = zone_name(zone);
    let recorded = format!(
        "Recorded: {}, {} to {}{zone_name}, with samples for {}, {} reads and writes.",
        name_of(server),
        short_time(judgement.begin_ms, zone),
        short_time(judgement.end_ms, zone),
        time_span(judgement.recorded_s),
        count(judgement.operations),
    );
    add(&recorded, "", "  ");
    if is_one {
        dumped_facts_sentence(&server.facts).iter().for_each(|one| add(one, "  ", "    "));
        own_share_sentences(&judgement.disks, zone).iter().for_each(|one| add(one, "  ", "    "));
    }
    clock_notes(server, zone).iter().for_each(|note| add(note, "  ", "    "));
    if is_one {
        judgement.missing.iter().for_each(|missing| add(missing, "  ", "    "));
    }
    lines
}

/// The most disks with a sentence on whose their work was.
const MAX_SHARED_DISKS: usize = 2;

/// The server's share of the work of the database's disk, or of each disk that may be it.
fn own_share_sentences(disks: &[DiskOwnership], zone: &TimeZone) -> Vec<String> {
    let own_words = |own: &OwnShare| {
        let share = own.share.filter(|_| own.bytes >= 1.0)?;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let at_least = own.least.and_then(|least| Some((least.begin_ms, least.share?)));
        let at_least = at_least.filter(|(_, least)| share - least >= 0.1).map(|(begin_ms, least)| {
            format!(", and {} in the minute from {}", percent(least), short_time(begin_ms, zone))
        });
        Some((Bytes(own.bytes as u64), format!("{}{}", percent(share), at_least.unwrap_or_default())))
    };
    let sentence = |one: &DiskOwnership| {
        let reads =
            own_words(&one.reads).map(|(bytes, own)| format!("read {bytes} (of which mongod at most {own})"));
        let writes = own_words(&one.writes)
            .map(|(bytes, own)| format!("wrote {bytes} (of which mongod at most {own})"));
        let work: Vec<String> = [reads, writes].into_iter().flatten().collect();
        (!work.is_empty()).then(|| format!("{} {}.", one.disk, work.join(" and ")))
    };
    let may_be = disks.iter().filter(|one| one.is_database != Some(false));
    may_be.filter_map(sentence).take(MAX_SHARED_DISKS).collect()
}

/// The sentences on a clock that ran backwards, or was far off.
fn clock_notes(server: &JudgedRecording, zone: &TimeZone) -> Vec<String> {
    let mut notes = Vec::new();
    let length_s = |step: &ClockStep| step.from_ms.saturating_sub(step.to_ms) as f64 / 1e3;
    let steps = &server.clock_steps;
    if let Some(largest) = steps.iter().max_by(|one, other| length_s(one).total_cmp(&length_s(other))) {
        let times = match steps.len() {
            1 => "once".to_owned(),
            number => format!("{} times, furthest", count(number as f64)),
        };
        notes.push(format!(
            "The host's clock ran backwards {times} at {}, by {}: times around it are uncertain.",
            short_time(largest.from_ms, zone),
            time_span(length_s(largest))
        ));
    }
    notes.extend(server.judgement.left_out.iter().map(|left_out| {
        format!(
            "Left out: samples for {}, {} to {}, which are far from the others: the clock was wrong.",
            time_span(left_out.recorded_s),
            short_time(left_out.begin_ms, zone),
            short_time(left_out.end_ms, zone)
        )
    }));
    notes
}

/// `2025-07-10 19:28:10, 100 s, operations took 312 s longer: Storage, ...`.
fn incident_line(incident: &Incident, zone: &TimeZone) -> String {
    let cost = match incident.lost_s {
        lost_s if lost_s >= 0.1 => {
            let range = incident.wide_range_s().map_or_else(String::new, |(low_s, high_s)| {
                format!(" (95 % interval {} to {})", time_span(low_s), time_span(high_s))
            });
            format!(", operations took {}{range} longer in total", time_span(lost_s))
        }
        _ => String::new(),
    };
    format!(
        "{} for {}{cost}. {}",
        short_time(incident.begin_ms, zone),
        time_span(incident.length_s()),
        incident.sentence
    )
}
