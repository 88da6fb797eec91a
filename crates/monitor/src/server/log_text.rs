//! Slow operations in the log's form before 4.4: fields as words in a line, the command as the shell would print it.
//!
//! What a client sent stands within the line, so figures are looked for from its end: what mongod itself writes comes last.

use fathom_record::{SlowOperation, text_without_credentials};

use super::log_line::{LogLine, LogWhat};
use super::log_time;

/// The figures that begin what mongod writes behind a command; the first of them that is there ends the plan.
const FIGURES: [&str; 6] =
    [" keysExamined:", " cursorid:", " nMatched:", " ninserted:", " ndeleted:", " numYields:"];

/// The last words of a line are its duration.
pub(super) fn duration_ms(line: &str) -> Option<u64> {
    line.strip_suffix("ms")?.rsplit(' ').next()?.parse().ok()
}

/// `2026-11-21T05:35:53.472+0000 I COMMAND  [conn1] command ... 11ms`.
pub(super) fn may_be_slow(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (severity, component) = (words.next(), words.next());
    severity == Some("I") && matches!(component, Some("COMMAND" | "WRITE")) && duration_ms(line).is_some()
}

/// Reads a line that [`may_be_slow`].
pub(super) fn slow(line: &str) -> Option<LogLine> {
    let at_unix_ms = log_time::unix_ms(line)?;
    let (_, message) = line.split_once("] ")?;
    let mut words = message.split(' ');
    let (kind, namespace) = (words.next()?, words.next()?);
    // What mongod writes itself begins with one of its figures; before may stand anything.
    let tail_at = FIGURES.iter().filter_map(|name| line.rfind(name)).min()?;
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
        duration_ms: duration_ms(line)?,
        lock_wait_us: section(" locks:").map(lock_waits),
        flow_control_wait_us: section(" flowControl:").map(lock_waits),
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
fn lock_waits(section: &str) -> u64 {
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
