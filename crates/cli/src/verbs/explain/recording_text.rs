//! The answer on recordings: at most 40 lines of text, or one JSON document with all incidents.

use fathom_record::SlowOperationTable;
use fathom_record::incident::Incident;
use fathom_report::{printable, wrapped};
use fathom_session::JudgedRecording;
use fathom_units::{count, time_span};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::slow_operation_text::sentences;
use crate::output::WIDTH;
use crate::recording_arguments::{precise_time, short_time};
use crate::recording_inputs::{clock_sentences, name_of};

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// The number of incidents that are described for a single server, and for each of several.
const MAX_INCIDENTS: usize = 5;
const MAX_INCIDENTS_OF_SEVERAL: usize = 2;
/// The number of reasons of a verdict that are shown, in the same two cases.
const MAX_REASONS: usize = 4;
const MAX_REASONS_OF_SEVERAL: usize = 1;
/// The number of servers that are shown; each of the others has one line.
const MAX_SERVERS: usize = 4;

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
    let is_one = servers.len() == 1;
    let shown = servers.iter().take(MAX_SERVERS).map(|server| lines(server, zone, is_one).join("\n"));
    let mut text = shown.collect::<Vec<_>>().join("\n\n");
    if servers.len() > MAX_SERVERS {
        text.push_str("\n\nOther servers:\n");
        let more = servers.iter().skip(MAX_SERVERS).flat_map(|server| {
            let line = format!("{}: {}", name_of(server), server.judgement.verdict.sentence);
            wrapped(&printable(&line), "  ", "    ", WIDTH)
        });
        text.push_str(&more.collect::<Vec<_>>().join("\n"));
    }
    for sentence in clock_sentences(servers) {
        text.push_str("\n\n");
        text.push_str(&wrapped(&printable(&sentence), "", "  ", WIDTH).join("\n"));
    }
    text
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
    sentences(table).iter().for_each(|one| add(&one.text, one.first, one.rest));
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

fn lines(server: &JudgedRecording, zone: &TimeZone, is_one: bool) -> Vec<String> {
    let judgement = &server.judgement;
    let mut lines = Vec::new();
    let mut add = |sentence: &str, first: &str, rest: &str| {
        lines.extend(wrapped(&printable(sentence), first, rest, WIDTH));
    };
    add(&judgement.verdict.sentence, "", "  ");
    let (reasons, incidents) = match is_one {
        true => (MAX_REASONS, MAX_INCIDENTS),
        false => (MAX_REASONS_OF_SEVERAL, MAX_INCIDENTS_OF_SEVERAL),
    };
    judgement.verdict.reasons.iter().take(reasons).for_each(|reason| add(reason, "  ", "    "));
    let number = judgement.incidents.len();
    if number > 0 {
        let shown = number.min(incidents);
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
        sentences(table).iter().for_each(|one| add(&one.text, one.first, one.rest));
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
        judgement.missing.iter().for_each(|missing| add(missing, "  ", "    "));
    }
    lines
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
