//! `fathom explain DIRECTORY`: judges a mongod's recording of itself and its log.

use std::ops::RangeInclusive;

use anyhow::Result;
use fathom_monitor::LogSource;
use fathom_record::verdict::Verdict;
use fathom_session::slow_operations;
use jiff::tz::TimeZone;

use super::recording_text;
use crate::outcome::VerbOutcome;
use crate::output;
use crate::recording_arguments::note_problems;
use crate::recording_inputs::{JudgedInputs, RecordingInputs};

/// Judges recordings and prints the answer.
pub(super) fn run(
    inputs: &RecordingInputs,
    range_ms: RangeInclusive<i64>,
    zone: &TimeZone,
    is_json: bool,
) -> Result<VerbOutcome> {
    let JudgedInputs { servers, problems, only_logs, .. } = inputs.judge(range_ms.clone())?;
    if !only_logs.is_empty() {
        note_problems(&problems);
        return run_on_logs(&only_logs, range_ms, zone, is_json);
    }
    if is_json {
        output::line(&serde_json::to_string_pretty(&recording_text::document(&servers, zone))?)?;
    } else {
        output::line(&recording_text::text(&servers, zone))?;
    }
    note_problems(&problems);
    let worst = Verdict::worst(servers.into_iter().map(|server| server.judgement.verdict));
    Ok(worst.as_ref().map_or(VerbOutcome::Unjudged, VerbOutcome::from))
}

/// Prints the slow operations of a log without a recording.
fn run_on_logs(
    logs: &[LogSource],
    range_ms: RangeInclusive<i64>,
    zone: &TimeZone,
    is_json: bool,
) -> Result<VerbOutcome> {
    let (table, problems) = slow_operations(logs, range_ms)?;
    if is_json {
        output::line(&serde_json::to_string_pretty(&recording_text::log_document(&table))?)?;
    } else {
        output::line(&recording_text::log_text(&table, zone))?;
    }
    note_problems(&problems);
    Ok(VerbOutcome::Unjudged)
}
