//! Fuzzes lines of a server's log, in either format: no panic, and the kept parts contain nothing that the line lacks.

use fathom_monitor::{LogWhat, read_log_line};

pub(crate) fn take_input(line: &[u8]) {
    let Some(read) = read_log_line(line) else { return };
    assert!(read.at_unix_ms > -100_000_000);
    let kept = match read.what {
        LogWhat::Slow(logged) => {
            // A shape is truncated; the name of the operation, which is from the line, precedes it.
            assert!(logged.shape.len() <= 3 * line.len() + 2048);
            logged.operation.line
        }
        LogWhat::Event(_, line) | LogWhat::Driver(line) => line,
    };
    // Bytes that are not UTF-8 become three, and credentials may become longer by their asterisks.
    assert!(kept.len() <= 3 * line.len());
}
