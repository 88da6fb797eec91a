//! Detects other programs' use of the machine while ours were measured.
//!
//! Pairs of runs favour neither over time, but a compiler that starts between the two runs of a pair does. Such a pair
//! is run again, whatever its result, as long as the bench has patience; after that it counts and is reported as
//! disturbed. Only CPU time is seen: a neighbour that uses only the disk is not.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fathom_process::Signals;

/// The share of all CPUs, percent, that other programs may use before a pair is disturbed. Two idle CPUs with the
/// usual daemons stay below 1.
const MAX_OTHERS_PCT: f64 = 5.0;
/// The length of one check while waiting for calm.
const CHECK_TIME: Duration = Duration::from_secs(1);
/// Clock ticks per second of proc_pid_stat(5); the same on every Linux that Rust runs on.
const TICKS_PER_S: f64 = 100.0;
/// The flag of a kernel thread in proc_pid_stat(5) (`PF_KTHREAD`); its work may be done for our programs.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The CPU time of all other programs, at one moment when none of ours runs.
pub(super) struct Neighbours {
    at: Instant,
    ticks: u64,
}

impl Neighbours {
    /// Reads the present state. The programs that this process started and waited for are in its own account, which is left out.
    pub(super) fn look() -> Neighbours {
        let own = std::process::id();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let ticks = |pid: u32| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
        let ticks = pids.filter(|pid| *pid != own).filter_map(ticks).sum();
        Neighbours { at: Instant::now(), ticks }
    }

    /// Returns whether other programs have used the processors since.
    pub(super) fn disturbed(&self) -> bool {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let used_s = Neighbours::look().ticks.saturating_sub(self.ticks) as f64 / TICKS_PER_S;
        100.0 * used_s / (self.at.elapsed().as_secs_f64() * cpus as f64) > MAX_OTHERS_PCT
    }
}

/// User and system time of a process and of its children that ended; `None` for a kernel thread.
fn ticks(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything; the third field follows it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    if field(9)? & KERNEL_THREAD != 0 {
        return None;
    }
    (14..=17).map(field).sum()
}

/// The time that may go into runs that are thrown away.
pub(super) struct Patience {
    left: Duration,
}

impl Patience {
    /// Patience for `seconds` in all.
    pub(super) fn new(seconds: u64) -> Patience {
        Patience { left: Duration::from_secs(seconds) }
    }

    /// Returns whether there is time to discard the measurement since `before`; if so, waits until the machine is calm,
    /// or patience ends.
    pub(super) fn allows(&mut self, before: &Neighbours, signals: &Signals) -> Result<bool> {
        if self.left.is_zero() {
            return Ok(false);
        }
        self.left = self.left.saturating_sub(before.at.elapsed());
        loop {
            let look = Neighbours::look();
            if signals.wait(CHECK_TIME) {
                bail!("interrupted");
            }
            self.left = self.left.saturating_sub(look.at.elapsed());
            if self.left.is_zero() || !look.disturbed() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name_and_kernel_threads_left_out() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 9 9 9 9 100 20 3 4 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(127));
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 1 2 3 4 20 0 1 0 5 0 0";
        assert_eq!(ticks(kernel), None);
        assert_eq!(ticks("nothing"), None);
    }

    #[test]
    fn patience_ends() {
        let signals = Signals::install().unwrap();
        let mut patience = Patience::new(1);
        assert!(patience.allows(&Neighbours::look(), &signals).unwrap());
        assert!(!patience.allows(&Neighbours::look(), &signals).unwrap());
        assert!(!Patience::new(0).allows(&Neighbours::look(), &signals).unwrap());
    }
}
