//! Parses a line of a server's log: a slow operation, a checkpoint, a stall, a client's driver, or nothing of interest.
//!
//! Lines depend on the data and the clients: they may be cut, may not be UTF-8, or may hold the searched words within a
//! string. A line that is not understood is ignored; no line is an error. Sources of the field names: mongodb/docs,
//! "Log Messages", for 4.4 to 8.x; logs of a mongod 4.0.3 for the text format before.
//!
//! Times are `2024-06-01T13:24:10.034+02:00` since 4.4, `...+0200` before, `...Z` from some tools.

use std::borrow::Cow;

use fathom_record::{ServerEventKind, SlowOperation, text_without_credentials};

use super::json_fields::JsonFields;
use super::operation_shape::{plan_shape, shape};

/// A line that concerns latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The time, in milliseconds since 1970 by the server's clock.
    pub at_unix_ms: i64,
    /// The thread that wrote it: `conn11` serves one connection.
    pub context: String,
    pub what: LogEvent,
}

/// The event of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEvent {
    Slow(Box<LoggedOperation>),
    /// An event, and the line.
    Event(ServerEventKind, String),
    /// The driver of the client behind a connection, with its version.
    Driver(String),
}

/// A slow operation with the facts that group it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedOperation {
    /// Its figures, without its server and its time on the run's clock.
    pub operation: SlowOperation,
    /// Its name and its command without values: `find { filter: { user: ? } }`.
    pub shape: String,
    /// The driver, if the line itself names it (a router passes it on).
    pub driver: Option<String>,
    /// True if it is one write of a command whose own line follows.
    pub is_part_of_command: bool,
}

/// Parts of messages that mark events. The first is WiredTiger's own at the end of each checkpoint (src/meta/meta_ckpt.c of 11.3.1;
/// logged by default since 5.0), the second mongod's (22308), the third WiredTiger's within long ones (by report); then those of
/// mongod 20499 and 22225, and of WiredTiger's eviction (src/evict/evict_lru.c).
static EVENTS: [(&str, ServerEventKind); 6] = [
    ("saving checkpoint snapshot", ServerEventKind::Checkpoint),
    ("Checkpoint was slow to complete", ServerEventKind::Checkpoint),
    ("Checkpoint has been running", ServerEventKind::Checkpoint),
    ("serverStatus was very slow", ServerEventKind::Stall),
    ("Flow control is engaged", ServerEventKind::Stall),
    ("Cache stuck for too long", ServerEventKind::Stall),
];

/// The figures with which mongod begins the text after a command; the first one present ends the plan.
const TEXT_FIGURES: [&str; 6] =
    [" keysExamined:", " cursorid:", " nMatched:", " ninserted:", " ndeleted:", " numYields:"];

/// Returns the duration of a line's operation without parsing the whole line, in order to choose among many lines.
pub(crate) fn duration_ms(line: &str) -> Option<u64> {
    if line.starts_with('{') {
        let (_, rest) = line.rsplit_once("\"durationMillis\":")?;
        let digits = rest.trim_start();
        digits.get(..digits.find(|c: char| !c.is_ascii_digit())?)?.parse().ok()
    } else {
        text_duration_ms(line)
    }
}

/// Returns whether a line seems to be of a slow operation, without parsing the whole line.
pub(crate) fn may_be_slow(line: &str) -> bool {
    if line.starts_with('{') { line.contains("\"Slow query\"") } else { text_may_be_slow(line) }
}

/// Returns the event that a line seems to be, without parsing the whole line.
pub(crate) fn event_of(line: &str) -> Option<ServerEventKind> {
    EVENTS.iter().find(|(part, _)| line.contains(part)).map(|(_, kind)| *kind)
}

/// Returns the time of a line without parsing the whole line.
pub(super) fn line_time_ms(line: &str) -> Option<i64> {
    /// The time is the first field.
    const MAX_HEAD_BYTES: usize = 32;
    if !line.starts_with('{') {
        return unix_ms(line);
    }
    let at = line
        .as_bytes()
        .get(..MAX_HEAD_BYTES.min(line.len()))?
        .windows(7)
        .position(|word| word == b"\"$date\"")?;
    unix_ms(line.get(at + 7..)?.trim_start_matches([':', ' ']).strip_prefix('"')?)
}

/// Reads a line, without its end; bytes that are not UTF-8 are replaced.
pub fn read_log_line(bytes: &[u8]) -> Option<LogLine> {
    let line = String::from_utf8_lossy(bytes);
    let line = line.trim_ascii();
    let is_json = line.starts_with('{');
    if may_be_slow(line) {
        return if is_json { slow(line) } else { text_slow(line) };
    }
    if let Some(driver) = driver_of_connection(line) {
        return driver;
    }
    let kind = event_of(line)?;
    let (at_unix_ms, context) = if is_json {
        let fields = JsonFields::parse(line)?;
        (time_of(&fields)?, fields.text("ctx").unwrap_or_default().into_owned())
    } else {
        (unix_ms(line)?, text_context(line).to_owned())
    };
    let what = LogEvent::Event(kind, text_without_credentials(line));
    Some(LogLine { at_unix_ms, context, what })
}

fn time_of(line: &JsonFields<'_>) -> Option<i64> {
    unix_ms(&line.object(&["t"])?.text("$date")?)
}

/// A slow operation of 4.4 and later.
fn slow(line: &str) -> Option<LogLine> {
    let fields = JsonFields::parse(line)?;
    if fields.text("msg")? != "Slow query" {
        return None;
    }
    let attributes = fields.object(&["attr"])?;
    let text = |name: &str| attributes.text(name).map(|text| text_without_credentials(&text));
    let within = |path: &[&str], name: &str| attributes.object(path).and_then(|fields| fields.number(name));
    let data = attributes.object(&["storage", "data"]).unwrap_or_default();
    let command = attributes.object(&["command"]).unwrap_or_default();
    let kind = attributes.text("type").unwrap_or_default();
    let is_part_of_command = matches!(&*kind, "update" | "remove" | "insert");
    let name = match kind {
        kind if !is_part_of_command => command.first_name().map_or(kind, |name| Cow::from(name.to_owned())),
        kind => kind,
    };
    let operation = SlowOperation {
        namespace: text("ns").unwrap_or_default(),
        operation: name.clone().into_owned(),
        duration_ms: attributes.number("durationMillis")?,
        working_ms: attributes.number("workingMillis"),
        ticket_wait_us: within(&["queues", "execution"], "totalTimeQueuedMicros"),
        lock_wait_us: attributes.object(&["locks"]).and_then(|locks| lock_waits(&locks)),
        flow_control_wait_us: within(&["flowControl"], "timeAcquiringMicros"),
        replication_wait_ms: attributes.number("waitForWriteConcernDurationMillis"),
        cache_wait_us: within(&["storage", "timeWaitingMicros"], "cache"),
        read_us: data.number("timeReadingMicros"),
        read_bytes: data.number("bytesRead"),
        write_us: data.number("timeWritingMicros"),
        written_bytes: data.number("bytesWritten"),
        processor_us: attributes.number("cpuNanos").map(|ns| ns / 1000),
        plan: attributes.text("planSummary").map(|plan| plan_shape(&plan)),
        keys_examined: attributes.number("keysExamined"),
        documents_examined: attributes.number("docsExamined"),
        returned: attributes.number("nreturned"),
        application: text("appName"),
        line: text_without_credentials(line),
        ..SlowOperation::default()
    };
    let driver = command.object(&["$client", "driver"]).and_then(|driver| driver_words(&driver));
    let shape = shape_of(
        &name,
        attributes.raw("command").unwrap_or_default(),
        attributes.raw("originatingCommand").unwrap_or_default(),
    );
    Some(LogLine {
        at_unix_ms: time_of(&fields)?,
        context: fields.text("ctx").unwrap_or_default().into_owned(),
        what: LogEvent::Slow(Box::new(LoggedOperation { operation, shape, driver, is_part_of_command })),
    })
}

/// The shape with the operation's name. A `getMore` has the shape of the command that it continues.
fn shape_of(name: &str, command: &str, origin: &str) -> String {
    let (name, shape) = named_shape(name, command, origin);
    if shape.is_empty() { name } else { format!("{name} {shape}") }
}

/// The operation's name, and the shape of its command or of the one that it continues.
pub(crate) fn named_shape(name: &str, command: &str, origin: &str) -> (String, String) {
    let (name, command) = if name == "getMore" && origin.starts_with('{') {
        let first = origin.get(1..).unwrap_or_default().trim_start().trim_start_matches('"');
        let end = first.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(first.len());
        (format!("getMore of {}", first.get(..end).unwrap_or_default()), origin)
    } else {
        (name.to_owned(), command)
    };
    (name, shape(command))
}

/// Name and version of a driver: `PyMongo 4.10.1`.
fn driver_words(driver: &JsonFields<'_>) -> Option<String> {
    let words = [driver.text("name"), driver.text("version")].into_iter().flatten();
    Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
}

/// The line in which a connection's client introduces itself (51800). The outer `None`: it is another line.
fn driver_of_connection(line: &str) -> Option<Option<LogLine>> {
    if line.starts_with('{') {
        return line.contains("\"client metadata\"").then(|| {
            let fields = JsonFields::parse(line)?;
            let attributes = fields.object(&["attr"])?;
            let driver = driver_words(&attributes.object(&["doc", "driver"])?)?;
            let context = attributes.text("client")?.into_owned();
            Some(LogLine { at_unix_ms: time_of(&fields)?, context, what: LogEvent::Driver(driver) })
        });
    }
    let (_, rest) = line.split_once("] received client metadata from ")?;
    let read = || {
        let (who, document) = rest.split_once(": {")?;
        let (_, driver) = document.split_once("driver: { name: \"")?;
        let (name, rest) = driver.split_once('"')?;
        let version = rest.strip_prefix(", version: \"").and_then(|rest| rest.split_once('"'));
        let driver = version.map_or_else(|| name.to_owned(), |(version, _)| format!("{name} {version}"));
        let context = who.rsplit(' ').next()?.to_owned();
        Some(LogLine { at_unix_ms: unix_ms(line)?, context, what: LogEvent::Driver(driver) })
    };
    Some(read())
}

/// The waits for locks of all kinds and modes; zero if locks were taken without any wait.
fn lock_waits(locks: &JsonFields<'_>) -> Option<u64> {
    locks.first_name()?;
    let waits = locks.values().filter_map(JsonFields::parse);
    let modes = waits.filter_map(|lock| lock.object(&["timeAcquiringMicros"]));
    let micros = |modes: JsonFields<'_>| {
        modes.values().filter_map(|micros| micros.parse::<u64>().ok()).fold(0, u64::saturating_add)
    };
    Some(modes.map(micros).fold(0, u64::saturating_add))
}

// The form before 4.4: fields as words in a line, the command as the shell would print it. The client's text is within the line,
// so figures are looked for from its end: mongod's own text comes last.

/// The last words of a line are its duration.
fn text_duration_ms(line: &str) -> Option<u64> {
    line.strip_suffix("ms")?.rsplit(' ').next()?.parse().ok()
}

/// `2026-11-21T05:35:53.472+0000 I COMMAND  [conn1] command ... 11ms`.
fn text_may_be_slow(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (severity, component) = (words.next(), words.next());
    severity == Some("I")
        && matches!(component, Some("COMMAND" | "WRITE" | "QUERY"))
        && text_duration_ms(line).is_some()
}

/// Reads a line that [`text_may_be_slow`].
fn text_slow(line: &str) -> Option<LogLine> {
    let at_unix_ms = unix_ms(line)?;
    let (_, message) = line.split_once("] ")?;
    let mut words = message.split(' ');
    let (kind, namespace) = (words.next()?, words.next()?);
    // The text that mongod adds begins with one of its figures; any text may come before.
    let tail_at = TEXT_FIGURES.iter().filter_map(|name| line.rfind(name)).min()?;
    let (head, tail) = line.split_at_checked(tail_at)?;
    let number = |name: &str| {
        let (_, rest) = tail.rsplit_once(name)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    let section = |name: &str| Some(within_braces(tail.split_once(name)?.1));
    let plan = head.rsplit_once(" planSummary: ").map(|(_, plan)| plan_shape(plan));
    let storage = section(" storage:").unwrap_or_default();
    let of_storage = |name: &str| {
        let rest = storage.split_once(name)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    let is_part_of_command = matches!(kind, "update" | "remove" | "insert");
    let name = command_of(message).unwrap_or(kind);
    let behind = |word: &str| {
        let (_, rest) = message.split_once(word)?;
        rest.get(rest.find('{')?..)
    };
    let command = behind(" command: ").or_else(|| behind(" query: ")).unwrap_or_default();
    let shape = shape_of(name, command, behind(" originatingCommand: ").unwrap_or_default());
    let client = message.get(kind.len() + namespace.len() + 1..).unwrap_or_default();
    let application = client.strip_prefix(" appName: \"").and_then(|rest| rest.split_once('"'));
    let operation = SlowOperation {
        namespace: namespace.to_owned(),
        operation: name.to_owned(),
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
        application: application.map(|(name, _)| text_without_credentials(name)),
        line: text_without_credentials(line),
        ..SlowOperation::default()
    };
    let what =
        LogEvent::Slow(Box::new(LoggedOperation { operation, shape, driver: None, is_part_of_command }));
    Some(LogLine { at_unix_ms, context: text_context(line).to_owned(), what })
}

/// Returns `conn11` of `2026-11-21T05:35:53.472+0000 I COMMAND  [conn11] ...`.
fn text_context(line: &str) -> &str {
    line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(context, _)| context)
}

/// Returns `find` of `command ycsb.c command: find { ... }`; a single write has no such word.
fn command_of(message: &str) -> Option<&str> {
    let (before, rest) = message.split_once(" command: ")?;
    let name = rest.split(' ').next()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && before.starts_with("command ")).then_some(name)
}

/// Returns the text from `{` to its `}`, both included, or to the end if `}` is missing.
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

/// The sum of all numbers within each `timeAcquiringMicros: { r: 5998, w: 2 }`, or of the single number that follows.
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
fn unix_ms(text: &str) -> Option<i64> {
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
            if minutes > 24 * 60 {
                return None;
            }
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
