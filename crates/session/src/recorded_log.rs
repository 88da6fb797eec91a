//! The slow operations of a server's log, alone or together with its recording.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use fathom_errors::{Error, Result};
use fathom_explain::{LoggedWork, SlowOperationCounter};
use fathom_monitor::{LogReading, LogSource, is_log, logs_beside, read_slow_operations};
use fathom_record::SlowOperationTable;

use crate::recording::JudgedRecording;

/// The threshold of a mongod that was started without one.
const DEFAULT_SLOW_MS: i64 = 100;

/// Counts the slow operations of logs that ended in a time range, in milliseconds since 1970. Also returns the errors of
/// parts that could not be read.
///
/// # Errors
/// If a file does not exist or may not be read, or none has a line of a server's log.
pub fn slow_operations(
    logs: &[LogSource],
    range_ms: RangeInclusive<i64>,
) -> Result<(SlowOperationTable, Vec<Error>)> {
    let (table, _, problems) = counted(SlowOperationCounter::default(), logs, range_ms)?;
    Ok((table, problems))
}

/// The same for the time of a recording of the same server. The operations behind its incidents are named in its judgement.
///
/// # Errors
/// As [`slow_operations`].
pub fn slow_operations_beside(
    server: &mut JudgedRecording,
    logs: &[LogSource],
) -> Result<(SlowOperationTable, Vec<Error>)> {
    let judgement = &mut server.judgement;
    let window_ms = (judgement.begin_ms, judgement.end_ms);
    let counter = SlowOperationCounter::with_recording(&judgement.incidents, &judgement.timeline);
    let (mut table, work, problems) = counted(counter, logs, window_ms.0..=window_ms.1)?;
    judgement.name_logged_work(&work);
    table.threshold_ms = Some(server.facts.slow_ms.unwrap_or(DEFAULT_SLOW_MS));
    table.sample_rate = server.facts.slow_sample_rate;
    let both = table.span_ms.map(|(first, last)| (first.max(window_ms.0), last.min(window_ms.1)));
    table.engine_read_bytes = both
        .filter(|(first, last)| first < last)
        .and_then(|both| judgement.timeline.engine_read_bytes_within(both));
    Ok((table, problems))
}

fn counted(
    mut counter: SlowOperationCounter<'_>,
    logs: &[LogSource],
    range_ms: RangeInclusive<i64>,
) -> Result<(SlowOperationTable, LoggedWork, Vec<Error>)> {
    let LogReading { files, lines, span_ms, problems } =
        read_slow_operations(logs, range_ms, &mut |event| {
            let logged = event.logged;
            counter.add(event.ended_ms, &logged.operation, &logged.shape, logged.driver.as_deref());
        })?;
    let files = files.iter().map(|file| file.display().to_string()).collect();
    let (table, work) = counter.finish_with_work();
    Ok((SlowOperationTable { files, lines, span_ms, ..table }, work, problems))
}

/// The logs of a recorded server that are on this host: near its recording, or at the path in its options. Those that were written last before the
/// recording begins are left out.
pub fn found_logs(server: &JudgedRecording) -> Vec<PathBuf> {
    let mut logs = logs_beside(Path::new(&server.directory));
    if logs.is_empty() {
        // A recording of another host may name the path of this host's own log.
        let here = Path::new(&server.directory).canonicalize().unwrap_or_default();
        let is_own = server.facts.db_path.as_ref().is_some_and(|path| here.starts_with(path));
        let named = server.facts.log_path.iter().filter(|_| is_own).map(PathBuf::from);
        logs.extend(named.filter(|path| is_log(path)));
    }
    let is_new = |path: &PathBuf| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        since.is_none_or(|since| since.as_millis() as i64 >= server.judgement.begin_ms)
    };
    logs.retain(is_new);
    logs
}
