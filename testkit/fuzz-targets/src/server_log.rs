//! A line of a server's log, in either form: never a panic, and what is kept of it says nothing that the line does not.

use fathom_monitor::{LogWhat, read_log_line};

pub(crate) fn take_input(line: &[u8]) {
    let Some(read) = read_log_line(line) else { return };
    assert!(read.at_unix_ms > -100_000_000);
    let kept = match read.what {
        LogWhat::Slow(operation) => operation.line,
        LogWhat::Event(_, line) => line,
    };
    // Bytes that are no UTF-8 become three, and credentials may become longer by their asterisks.
    assert!(kept.len() <= 3 * line.len());
}
