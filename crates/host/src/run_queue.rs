//! Reads the number of runnable tasks, and the time that all tasks together waited for a processor.
//!
//! From `/proc/stat`, `/proc/loadavg` (proc(5)) and `/proc/schedstat`
//! (torvalds/linux:Documentation/scheduler/sched-stats.rst). Many kernels are built without the last; then the wait is `None`.

use crate::View;

/// The processors that are online: the `cpuN` lines of `/proc/stat`.
pub fn processors(stat: &str) -> usize {
    let numbered = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    stat.lines().filter(numbered).count()
}

/// The tasks that run or are runnable, including the reader.
pub fn runnable(view: &View) -> Option<u64> {
    parse_runnable(&view.text("proc/loadavg")?)
}

/// The number before the slash in `/proc/loadavg`.
pub fn parse_runnable(loadavg: &str) -> Option<u64> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// Nanoseconds that tasks were runnable without a processor since boot, all processors and tasks together.
pub fn waited_ns(view: &View) -> Option<u64> {
    parse_waited_ns(&view.text("proc/schedstat")?)
}

/// The eighth number of the `cpuN` lines, which is the same since version 15 of the file (2.6.30).
pub fn parse_waited_ns(schedstat: &str) -> Option<u64> {
    let version: u32 =
        schedstat.lines().find_map(|line| line.strip_prefix("version "))?.trim().parse().ok()?;
    if version < 15 {
        return None;
    }
    let waits = schedstat.lines().filter(|line| line.starts_with("cpu"));
    let mut waits = waits.filter_map(|line| line.split_ascii_whitespace().nth(8)?.parse().ok()).peekable();
    waits.peek()?;
    Some(waits.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_file_is_read() {
        assert_eq!(processors("cpu  1 2\ncpu0 1\ncpu1 2\ncpufreq\nintr 1"), 2);
        assert_eq!(parse_runnable("2.84 2.10 5.63 5/131 725\n"), Some(5));
        let text = "version 15\ntimestamp 4295\ncpu0 0 0 9 8 7 6 100 20 5\ndomain0 3 1 2 3 4 5 6 7 8\ncpu1 0 0 1 1 1 1 50 3 2\n";
        assert_eq!(parse_waited_ns(text), Some(23));
        assert_eq!(parse_waited_ns("version 14\ncpu0 0 0 9 8 7 6 100 20 5"), None);
        assert_eq!(parse_waited_ns("version 15\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(version 1[0-9]\n)?(cpu|[0-9]{1,22}| |/|\n|.){0,40}") {
            processors(&text);
            parse_runnable(&text);
            parse_waited_ns(&text);
        }
    }
}
