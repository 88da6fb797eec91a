//! What a line of a server's log says: a slow operation, a checkpoint, a stall, or nothing of interest.
//!
//! Lines are what anybody's data and clients make of them: they may be cut, be no UTF-8, or hold the words that are looked
//! for within somebody's string. A line that is not understood is none; no line is an error. Names of fields:
//! mongodb/docs, "Log Messages", for 4.4 to 8.x; data of a mongod 4.0.3 for the text before.
//!
//! Times are `2024-06-01T13:24:10.034+02:00` since 4.4, `...+0200` before, `...Z` from some tools.

use fathom_record::{ServerEventKind, SlowOperation, text_without_credentials};
use serde_json::Value;

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

/// The figures that begin what mongod writes behind a command; the first of them that is there ends the plan.
const TEXT_FIGURES: [&str; 6] =
    [" keysExamined:", " cursorid:", " nMatched:", " ninserted:", " ndeleted:", " numYields:"];

/// How long the operation of a line took, without reading the line as a whole: to choose among many.
pub(super) fn duration_ms(line: &str) -> Option<u64> {
    if line.starts_with('{') {
        let (_, rest) = line.rsplit_once("\"durationMillis\":")?;
        let digits = rest.trim_start();
        digits.get(..digits.find(|c: char| !c.is_ascii_digit())?)?.parse().ok()
    } else {
        text_duration_ms(line)
    }
}

/// Whether a line is one of a slow operation, as far as a look tells.
pub(super) fn may_be_slow(line: &str) -> bool {
    if line.starts_with('{') { line.contains("\"msg\":\"Slow query\"") } else { text_may_be_slow(line) }
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
        return if line.starts_with('{') { slow(line) } else { text_slow(line) };
    }
    let kind = event_of(line)?;
    let at = if line.starts_with('{') {
        let head: Value = serde_json::from_str(line).ok()?;
        time_of(&head)?
    } else {
        unix_ms(line)?
    };
    Some(LogLine { at_unix_ms: at, what: LogWhat::Event(kind, text_without_credentials(line)) })
}

fn time_of(line: &Value) -> Option<i64> {
    unix_ms(line.get("t")?.get("$date")?.as_str()?)
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

// The form before 4.4: fields as words in a line, the command as the shell would print it. What a client sent stands within the line,
// so figures are looked for from its end: what mongod itself writes comes last.

/// The last words of a line are its duration.
fn text_duration_ms(line: &str) -> Option<u64> {
    line.strip_suffix("ms")?.rsplit(' ').next()?.parse().ok()
}

/// `2026-11-21T05:35:53.472+0000 I COMMAND  [conn1] command ... 11ms`.
fn text_may_be_slow(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (severity, component) = (words.next(), words.next());
    severity == Some("I")
        && matches!(component, Some("COMMAND" | "WRITE"))
        && text_duration_ms(line).is_some()
}

/// Reads a line that [`text_may_be_slow`].
fn text_slow(line: &str) -> Option<LogLine> {
    let at_unix_ms = unix_ms(line)?;
    let (_, message) = line.split_once("] ")?;
    let mut words = message.split(' ');
    let (kind, namespace) = (words.next()?, words.next()?);
    // What mongod writes itself begins with one of its figures; before may stand anything.
    let tail_at = TEXT_FIGURES.iter().filter_map(|name| line.rfind(name)).min()?;
    let (head, tail) = line.split_at_checked(tail_at)?;
    let number = |name: &str| {
        let (_, rest) = tail.rsplit_once(name)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    let section = |name: &str| Some(within_braces(tail.split_once(name)?.1));
    let plan = head.rsplit_once(" planSummary: ").map(|(_, plan)| text_without_credentials(plan.trim()));
    let storage = section(" storage:").unwrap_or_default();
    let of_storage = |name: &str| {
        let rest = storage.split_once(name)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    let operation = SlowOperation {
        namespace: namespace.to_owned(),
        operation: command_of(message).unwrap_or(kind).to_owned(),
        duration_ms: text_duration_ms(line)?,
        lock_wait_us: section(" locks:").map(text_lock_waits),
        flow_control_wait_us: section(" flowControl:").map(text_lock_waits),
        cache_wait_us: of_storage("cache:"),
        read_us: of_storage("timeReadingMicros:"),
        read_bytes: of_storage("bytesRead:"),
        write_us: of_storage("timeWritingMicros:"),
        written_bytes: of_storage("bytesWritten:"),
        plan,
        keys_examined: number(" keysExamined:"),
        documents_examined: number(" docsExamined:"),
        returned: number(" nreturned:"),
        line: text_without_credentials(line),
        ..SlowOperation::default()
    };
    Some(LogLine { at_unix_ms, what: LogWhat::Slow(Box::new(operation)) })
}

/// `find` of `command ycsb.c command: find { ... }`; a single write has none.
fn command_of(message: &str) -> Option<&str> {
    let (before, rest) = message.split_once(" command: ")?;
    let name = rest.split(' ').next()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && before.starts_with("command ")).then_some(name)
}

/// From `{` to its `}`, both included; to the end if it is not there.
fn within_braces(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return text.get(..=at).unwrap_or(text);
        }
    }
    text
}

/// The sum of all numbers within each `timeAcquiringMicros: { r: 5998, w: 2 }`, or of the one behind it.
fn text_lock_waits(section: &str) -> u64 {
    let waits = section.split("timeAcquiringMicros:").skip(1);
    let micros = waits.flat_map(|rest| {
        let rest = rest.trim_start();
        let modes = if rest.starts_with('{') {
            within_braces(rest)
        } else {
            rest.split([',', '}']).next().unwrap_or_default()
        };
        modes.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok())
    });
    micros.fold(0, u64::saturating_add)
}

/// Milliseconds since 1970; `None` for anything else, and for years before 1970 or after 9999.
pub(super) fn unix_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let field = |from: usize, to: usize| {
        let digits = bytes.get(from..to)?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let separated =
        is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':') && is(19, b'.');
    if !separated {
        return None;
    }
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second, ms) = (field(11, 13)?, field(14, 16)?, field(17, 19)?, field(20, 23)?);
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let offset_minutes = match bytes.get(23)? {
        b'Z' => 0,
        sign @ (b'+' | b'-') => {
            let minutes_at = if is(26, b':') { 27 } else { 26 };
            let minutes = field(24, 26)? * 60 + field(minutes_at, minutes_at + 2)?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let seconds = (days(year, month, day) * 24 + hour) * 3600 + (minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + ms)
}

/// Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 1970-01-01 is day 719468 of that count.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_log_are_read() {
        // By `date -d ... +%s%3N`.
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2024-02-29T23:59:59.999+00:00", 1_709_251_199_999),
            ("2024-06-01T13:24:10.034+02:00", 1_717_241_050_034),
            ("2026-11-21T05:35:53.472+0000", 1_795_239_353_472),
            ("2026-11-21T05:35:53.472-0530", 1_795_259_153_472),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
        ] {
            assert_eq!(unix_ms(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2024-06-01",
            "2024-06-01T13:24:10.034",
            "2024-06-01T13:24:10.034*00:00",
            "2024-13-01T13:24:10.034Z",
        ] {
            assert_eq!(unix_ms(text), None, "{text}");
        }
    }
}
