//! What the keys do and what the lines mean, on one screen.

use ratatui::text::Line;

/// Table: the help, as it stands.
const HELP: [&str; 18] = [
    "q  quit (Ctrl-C and Esc too)      p  pause the screen; collecting goes on",
    "m  mark this moment in the run    ?  this help",
    "",
    "loops     the mean time of an operation and the layers it went to, from",
    "          the last minutes; ! where they do not add up",
    "heat      a column a second, a line a decade of latency; C a checkpoint,",
    "          m your marks. Hotter: more of that second's operations",
    "queues    how many stand at each rung, of how many it lets through, and",
    "          +n waiting in front of it. CAP: full in that share of the last",
    "          minute's samples",
    "serv/resp time from the send, and from when the operation was due",
    "checkpoint time until the next is due; the last five: time and bytes",
    "device    mean time of reads, writes and flushes of the last ten seconds",
    "io PSI    share of time in which some task waited for a device",
    "suspects  the findings to look at first, with the gain they promise",
    "notes     what could not be read, and what that costs",
    "",
    "Nothing is ever changed: only reading commands are sent. docs/watch.md",
];

/// The help as lines.
pub(super) fn lines() -> Vec<Line<'static>> {
    HELP.iter().map(|line| Line::raw(*line)).collect()
}
