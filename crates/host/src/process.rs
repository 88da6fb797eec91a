//! One process: its processor time, its threads' waits for a processor, its I/O and its memory.
//!
//! From `/proc/PID/{stat,io,task/*/schedstat}` (proc(5)). A process number may be reused after the process has ended, so the start
//! time accompanies every reading. Reads and writes are those that reached the block layer, in `io`; only the process's own user and
//! root may read that file, and it is `None` for others.

use std::fs::{self, File};
use std::io::Read;

use crate::View;
use crate::sched::SchedStat;

/// The fields used of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The start time in clock ticks since boot; with the number it identifies the process.
    pub started_ticks: u64,
    /// User and system time of all its threads, including ended ones, in clock ticks.
    pub cpu_ticks: u64,
    pub threads: u64,
    /// Pages in memory; the kernel counts them in batches, so it is a little off with many threads.
    pub resident_pages: u64,
}

impl ProcessStat {
    /// Reads it; `None` when there is no such process.
    pub fn read(view: &View, pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&view.text(&format!("proc/{pid}/stat"))?)
    }

    /// Parses the line. The name in brackets may hold anything, brackets too, so fields count from the last bracket.
    pub fn parse(stat: &str) -> Option<ProcessStat> {
        let (_, rest) = stat.rsplit_once(')')?;
        // Field 3 of proc(5), the state, is the first here.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(ProcessStat {
            started_ticks: field(22)?,
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            resident_pages: fields.get(24 - 3)?.parse::<i64>().ok()?.try_into().unwrap_or(0),
        })
    }
}

/// The name of a process in the text of its `stat`: the first 15 bytes of its program's, which may hold anything.
pub fn name(stat: &str) -> Option<&str> {
    let (before, _) = stat.rsplit_once(')')?;
    Some(before.split_once('(')?.1)
}

/// Bytes that a process had read from and written to block devices; memory file systems and FUSE file systems do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIo {
    /// Bytes it had fetched.
    pub read_bytes: u64,
    /// Bytes that its read calls returned, from any source (`rchar`); `None` on a kernel without it.
    pub read_call_bytes: Option<u64>,
    /// Bytes it had sent, counted when a page becomes dirty, so including bytes that are written later.
    pub written_bytes: u64,
}

impl ProcessIo {
    /// Reads it; `None` when it may not be read.
    pub fn read(view: &View, pid: u32) -> Option<ProcessIo> {
        ProcessIo::parse(&view.text(&format!("proc/{pid}/io"))?)
    }

    pub fn parse(io: &str) -> Option<ProcessIo> {
        let field = |name: &str| {
            let value = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse().ok()
        };
        Some(ProcessIo {
            read_bytes: field("read_bytes")?,
            read_call_bytes: field("rchar"),
            written_bytes: field("write_bytes")?,
        })
    }
}

/// The numbers of its running threads.
pub fn thread_numbers(view: &View, pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(view.root().join(format!("proc/{pid}/task"))) else { return Vec::new() };
    tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The scheduler statistics of one thread. Each has a file of its own, so thousands of threads are expensive.
pub fn thread_sched(view: &View, pid: u32, number: u32) -> Option<SchedStat> {
    let mut file = File::open(view.root().join(format!("proc/{pid}/task/{number}/schedstat"))).ok()?;
    // Three numbers. One call reads them, where reading to the end takes three.
    let mut text = [0; 96];
    let length = file.read(&mut text).ok()?;
    SchedStat::parse(std::str::from_utf8(text.get(..length)?).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_count_from_the_last_bracket() {
        let stat =
            "725 (a) b (c) S 1 725 725 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 7 0 8888 1000000 250 184 1 1\n";
        let expected = ProcessStat { started_ticks: 8888, cpu_ticks: 42, threads: 7, resident_pages: 250 };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        assert_eq!(ProcessStat::parse("725 (a) S 1 2"), None);
        assert_eq!(name(stat), Some("a) b (c"));
    }

    #[test]
    fn cancelled_writes_are_another_line() {
        let io = "rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        let expected = ProcessIo { read_bytes: 4096, read_call_bytes: Some(9), written_bytes: 8192 };
        assert_eq!(ProcessIo::parse(io), Some(expected));
        assert_eq!(ProcessIo::parse("read_bytes: 4096\n"), None);
    }

    #[test]
    fn this_process_is_there_and_no_other_of_its_number() {
        let view = View::live();
        let pid = std::process::id();
        let stat = ProcessStat::read(&view, pid).expect("every Linux has /proc");
        assert!(stat.resident_pages > 0 && stat.threads > 0);
        assert!(thread_numbers(&view, pid).contains(&pid) && thread_sched(&view, pid, pid).is_some());
        assert_eq!(ProcessStat::read(&view, u32::MAX), None);
        assert!(thread_numbers(&view, u32::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\) S)?( -?[0-9]{1,22}|read_bytes: |write_bytes:|\n|.){0,40}") {
            ProcessStat::parse(&text);
            name(&text);
            ProcessIo::parse(&text);
        }
    }
}
