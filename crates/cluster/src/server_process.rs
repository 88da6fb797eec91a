//! Identifies the processes of a cluster by number, start time and the folder that they work on.
//!
//! A signal is sent only to a process that was recorded when it was started and whose command line still contains our folder; in an
//! environment of mlaunch, which records no processes, to a process with exactly its folder and its port on the command line.

use std::fs;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{ProcessId, Signals};
use rustix::process::Signal;

/// The pause between two checks for processes that should end.
const PAUSE: Duration = Duration::from_millis(10);

/// The words of a command line that identify one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark(Vec<[String; 2]>);

impl Mark {
    /// Built from the arguments that a server was started with: its folder, or a router's log, and its port.
    pub(crate) fn new(arguments: &[String]) -> Mark {
        let pair = |name: &str| {
            let place = arguments.iter().position(|word| word == name)?;
            Some([name.to_owned(), arguments.get(place + 1)?.clone()])
        };
        Mark(pair("--dbpath").or_else(|| pair("--logpath")).into_iter().chain(pair("--port")).collect())
    }

    /// The adjacent words of a command line.
    pub(crate) fn between(words: &[&str]) -> Mark {
        Mark(
            words
                .windows(2)
                .filter_map(|pair| <&[&str; 2]>::try_from(pair).ok())
                .map(|pair| pair.map(str::to_owned))
                .collect(),
        )
    }

    fn is_on(&self, words: &[String]) -> bool {
        let has = |[name, value]: &[String; 2]| {
            words.windows(2).any(|pair| matches!(pair, [a, b] if a == name && b == value))
        };
        self.0.len() == 2 && self.0.iter().all(has)
    }

    /// Whether a recorded process runs and is this server.
    pub(crate) fn is_of(&self, id: ProcessId) -> bool {
        id.lives() && self.is_on(&command_line(id.pid))
    }

    /// The process with this command line, even if another process started it.
    pub(crate) fn search(&self) -> Option<ProcessId> {
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let pid = pids.find(|pid| self.is_on(&command_line(*pid)))?;
        ProcessId::read(pid)
    }
}

fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a process is paused (state T of proc_pid_stat(5)).
pub(crate) fn is_paused(id: ProcessId) -> bool {
    let text = fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Waits until all have ended; returns those that have not at the time limit, or when we are to stop.
pub(crate) fn wait_until_ended(
    mut ids: Vec<ProcessId>,
    limit: Duration,
    signals: &Signals,
) -> Vec<ProcessId> {
    let until = Instant::now() + limit;
    loop {
        ids.retain(|id| id.lives());
        if ids.is_empty() || Instant::now() >= until || signals.wait(PAUSE) {
            return ids;
        }
    }
}

/// A signal by number or name: `9`, `KILL`, `SIGKILL`.
pub fn signal(text: &str) -> Result<Signal> {
    const NAMES: [(&str, Signal); 16] = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("ABRT", Signal::ABORT),
        ("KILL", Signal::KILL),
        ("BUS", Signal::BUS),
        ("SEGV", Signal::SEGV),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("PIPE", Signal::PIPE),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
        ("CONT", Signal::CONT),
        ("STOP", Signal::STOP),
        ("TSTP", Signal::TSTP),
        ("TRAP", Signal::TRAP),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let by_number = || text.parse().ok().and_then(Signal::from_named_raw);
    by_name.or_else(by_number).ok_or_else(|| {
        Error::new(Kind::Usage, format!("'{text}' is not a signal"))
            .with_id("unknown-signal")
            .advise("write a number or a name, like 9 or SIGKILL")
    })
}

/// Whether this signal is expected to end a process.
pub(crate) fn is_final(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::KILL, Signal::ABORT].contains(&signal)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_the_recorded_process_with_our_folder_is_ours() {
        let arguments: Vec<String> =
            ["--dbpath", "/c/db", "--port", "7"].iter().map(|&word| word.to_owned()).collect();
        let mark = Mark::new(&arguments);
        let start = |words: &[&str]| {
            // It waits for a line, and so ends with this process at the latest.
            Command::new("sh")
                .args(["-c", "read line", "sh"])
                .args(words)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut ours = start(&["--dbpath", "/c/db", "--port", "7"]);
        let mut other = start(&["--dbpath", "/c/db", "--port", "8"]);
        let (our_id, other_id) = (ProcessId::read(ours.id()).unwrap(), ProcessId::read(other.id()).unwrap());
        // The command line of the shell is complete only after exec.
        while command_line(our_id.pid).len() < 5 || command_line(other_id.pid).len() < 5 {
            std::thread::sleep(PAUSE);
        }
        let results = (mark.is_of(our_id), mark.is_of(other_id), mark.search());
        for child in [&mut ours, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(results, (true, false, Some(our_id)));
        assert!(!mark.is_of(our_id) && mark.search().is_none());
        assert!(!Mark::new(&[]).is_on(&arguments));
    }

    #[test]
    fn signals_by_number_and_name() {
        for text in ["9", "KILL", "SIGKILL", "sigkill"] {
            assert_eq!(signal(text).unwrap(), Signal::KILL);
        }
        assert!(signal("SIGNONE").is_err() && signal("0").is_err() && signal("999").is_err());
    }
}
