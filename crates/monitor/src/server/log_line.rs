//! What a line of a server's log says: a slow operation, a checkpoint, a stall, or nothing of interest.
//!
//! Lines are what anybody's data and clients make of them: they may be cut, be no UTF-8, or hold the words that are looked
//! for within somebody's string. A line that is not understood is none; no line is an error. Names of fields:
//! mongodb/docs, "Log Messages", for 4.4 to 8.x; data of a mongod 4.0.3 for the text before.

use fathom_record::{ServerEventKind, SlowOperation, text_without_credentials};
use serde_json::Value;

use super::{log_text, log_time};

/// A line that bears on latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// When, milliseconds since 1970 by the server's clock.
    pub at_unix_ms: i64,
    /// What it says.
    pub what: LogWhat,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum LogWhat {
    /// A slow operation; its server and time on the run's clock are not filled in.
    Slow(Box<SlowOperation>),
    /// An event, and the line.
    Event(ServerEventKind, String),
}

/// Messages that are events, by a part of them. The first is WiredTiger's own at the end of each checkpoint (src/meta/meta_ckpt.c of
/// 11.3.1; logged by default since 5.0), the second mongod's (22308), the third WiredTiger's within long ones (by report); then
/// those of mongod 20499 and 22225, and of WiredTiger's eviction (src/evict/evict_lru.c).
static EVENTS: [(&str, ServerEventKind); 6] = [
    ("saving checkpoint snapshot", ServerEventKind::Checkpoint),
    ("Checkpoint was slow to complete", ServerEventKind::Checkpoint),
    ("Checkpoint has been running", ServerEventKind::Checkpoint),
    ("serverStatus was very slow", ServerEventKind::Stall),
    ("Flow control is engaged", ServerEventKind::Stall),
    ("Cache stuck for too long", ServerEventKind::Stall),
];

/// How long the operation of a line took, without reading the line as a whole: to choose among many.
pub(super) fn duration_ms(line: &str) -> Option<u64> {
    if line.starts_with('{') {
        let (_, rest) = line.rsplit_once("\"durationMillis\":")?;
        let digits = rest.trim_start();
        digits.get(..digits.find(|c: char| !c.is_ascii_digit())?)?.parse().ok()
    } else {
        log_text::duration_ms(line)
    }
}

/// Whether a line is one of a slow operation, as far as a look tells.
pub(super) fn may_be_slow(line: &str) -> bool {
    if line.starts_with('{') { line.contains("\"msg\":\"Slow query\"") } else { log_text::may_be_slow(line) }
}

/// Whether a line is an event, as far as a look tells.
pub(super) fn event_of(line: &str) -> Option<ServerEventKind> {
    EVENTS.iter().find(|(part, _)| line.contains(part)).map(|(_, kind)| *kind)
}

/// Reads a line, without its end; bytes that are no UTF-8 are replaced.
pub fn read_log_line(bytes: &[u8]) -> Option<LogLine> {
    let line = String::from_utf8_lossy(bytes);
    let line = line.trim_ascii();
    if may_be_slow(line) {
        return if line.starts_with('{') { slow(line) } else { log_text::slow(line) };
    }
    let kind = event_of(line)?;
    let at = if line.starts_with('{') {
        let head: Value = serde_json::from_str(line).ok()?;
        time_of(&head)?
    } else {
        log_time::unix_ms(line)?
    };
    Some(LogLine { at_unix_ms: at, what: LogWhat::Event(kind, text_without_credentials(line)) })
}

fn time_of(line: &Value) -> Option<i64> {
    log_time::unix_ms(line.get("t")?.get("$date")?.as_str()?)
}

/// A slow operation of 4.4 and later.
fn slow(line: &str) -> Option<LogLine> {
    let json: Value = serde_json::from_str(line).ok()?;
    if json.get("msg")?.as_str()? != "Slow query" {
        return None;
    }
    let attributes = json.get("attr")?;
    let number = |path: &str| attributes.pointer(path).and_then(Value::as_u64);
    let text = |path: &str| attributes.pointer(path).and_then(Value::as_str).map(text_without_credentials);
    let operation = SlowOperation {
        namespace: text("/ns").unwrap_or_default(),
        operation: operation(line, attributes),
        duration_ms: number("/durationMillis")?,
        working_ms: number("/workingMillis"),
        ticket_wait_us: number("/queues/execution/totalTimeQueuedMicros"),
        lock_wait_us: attributes.get("locks").and_then(lock_waits),
        flow_control_wait_us: number("/flowControl/timeAcquiringMicros"),
        replication_wait_ms: number("/waitForWriteConcernDurationMillis"),
        cache_wait_us: number("/storage/timeWaitingMicros/cache"),
        read_us: number("/storage/data/timeReadingMicros"),
        read_bytes: number("/storage/data/bytesRead"),
        write_us: number("/storage/data/timeWritingMicros"),
        written_bytes: number("/storage/data/bytesWritten"),
        processor_us: number("/cpuNanos").map(|ns| ns / 1000),
        plan: text("/planSummary"),
        keys_examined: number("/keysExamined"),
        documents_examined: number("/docsExamined"),
        returned: number("/nreturned"),
        application: text("/appName"),
        line: text_without_credentials(line),
        ..SlowOperation::default()
    };
    Some(LogLine { at_unix_ms: time_of(&json)?, what: LogWhat::Slow(Box::new(operation)) })
}

/// `type` where it names the operation; for a command the first field of the command, which JSON readers do not keep in order.
fn operation(line: &str, attributes: &Value) -> String {
    let kind = attributes.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_named = |name: &&str| attributes.get("command").and_then(|command| command.get(name)).is_some();
    let first = || {
        let (_, command) = line.split_once("\"command\":")?;
        let (name, _) =
            command.trim_start().strip_prefix('{')?.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(name).filter(is_named)
    };
    let name = if kind == "command" { first().unwrap_or(kind) } else { kind };
    name.to_owned()
}

/// The waits for locks of all kinds and modes; zero where locks were taken and none was waited for.
fn lock_waits(locks: &Value) -> Option<u64> {
    let locks = locks.as_object().filter(|locks| !locks.is_empty())?;
    let waits = locks.values().filter_map(|lock| lock.get("timeAcquiringMicros")?.as_object());
    let micros = waits.flat_map(|modes| modes.values()).filter_map(Value::as_u64);
    Some(micros.fold(0, u64::saturating_add))
}
