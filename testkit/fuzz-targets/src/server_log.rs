//! Fuzzes lines of a server's log, in either format: no panic, and the kept parts contain nothing that the line lacks.

use fathom_monitor::{LogEvent, LogOwner, is_log_text, read_log_line};

pub(crate) fn take_input(line: &[u8]) {
    let owner = std::str::from_utf8(line).ok().and_then(LogOwner::from_line);
    assert!(owner.and_then(|owner| owner.host).is_none_or(|host| host.len() <= line.len()));
    let _ = is_log_text(line);
    let Some(read) = read_log_line(line) else { return };
    assert!(read.at_unix_ms > -100_000_000);
    let kept = match read.what {
        LogEvent::Slow(logged) => {
            // A shape is truncated; the name of the operation, which is from the line, precedes it.
            assert!(logged.shape.len() <= 3 * line.len() + 2048);
            logged.operation.line
        }
        LogEvent::Event(_, line) | LogEvent::Driver(line) => line,
    };
    // Bytes that are not UTF-8 become three, and credentials may become longer by their asterisks.
    assert!(kept.len() <= 3 * line.len());
}
