//! The use of CPU time: each thread's time running and waiting to run, and the machine's shares.
//!
//! A probe thread that waits on the run queue measures a fast disk as slow: on a busy 2-CPU machine fsync took 3.5 ms
//! by the application's clock and 27 µs by the disk's. `schedstat` (three numbers: ns running, ns waiting on the run
//! queue, time slices; torvalds/linux:Documentation/scheduler/sched-stats.rst) separates the two. A kernel built
//! without it gives `None`. The figures are of this process on the live machine only.

use std::fs;

use fathom_errors::{Error, Kind, Result};

use crate::View;

/// A thread's scheduler statistics since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Nanoseconds on a CPU.
    pub ran_ns: u64,
    /// Nanoseconds runnable but waiting for a CPU.
    pub waited_ns: u64,
    /// The number of times that it got a CPU.
    pub slices: u64,
}

impl SchedStat {
    /// Parses a schedstat file.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(SchedStat { ran_ns: next()?, waited_ns: next()?, slices: next()? })
    }

    /// The increase since `earlier`; 0 if a sum fell because a thread ended.
    #[must_use]
    pub fn since(self, earlier: SchedStat) -> SchedStat {
        SchedStat {
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: SchedStat) -> SchedStat {
        SchedStat {
            ran_ns: self.ran_ns.saturating_add(other.ran_ns),
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
            slices: self.slices.saturating_add(other.slices),
        }
    }
}

/// The state of a thread, and how often it went to sleep (proc(5), `/proc/PID/task/TID/status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStatus {
    /// `R` is running or runnable, `S` sleeps, `D` waits for a device; others are rare.
    pub state: char,
    /// The number of times that it gave up its CPU because it had to wait.
    pub voluntary_switches: u64,
}

impl ThreadStatus {
    /// Reads the status of one of our threads, by its kernel id; `None` once it has ended.
    pub fn read(tid: i32) -> Option<ThreadStatus> {
        ThreadStatus::parse(&fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?)
    }

    /// Parses a status file.
    pub fn parse(text: &str) -> Option<ThreadStatus> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(ThreadStatus {
            state: field("State:")?.chars().next()?,
            voluntary_switches: field("voluntary_ctxt_switches:")?.parse().ok()?,
        })
    }
}

/// The statistics of one of our threads (by its kernel id), or of the calling thread. `None` for an ended thread, and
/// on a kernel without the file.
pub fn thread_wait(tid: Option<i32>) -> Option<SchedStat> {
    let text = match tid {
        Some(tid) => fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")),
        // Before 3.17 there was no thread-self.
        None => fs::read_to_string("/proc/thread-self/schedstat").or_else(|_| {
            let tid = rustix::thread::gettid().as_raw_nonzero();
            fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"))
        }),
    };
    SchedStat::parse(&text.ok()?)
}

/// The sum over all of our threads that still run; the statistics of an ended thread are lost, so read the sum before
/// threads are joined.
pub fn process_wait() -> Option<SchedStat> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let mut sum = None;
    for task in tasks.flatten() {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok();
        if let Some(stat) = stat.as_deref().and_then(SchedStat::parse) {
            sum = Some(stat.plus(sum.unwrap_or_default()));
        }
    }
    sum
}

/// The times of all CPUs together since boot, in clock ticks (USER_HZ) as `/proc/stat` gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User code, guests included.
    pub user: u64,
    /// User code at lowered priority, guests included.
    pub nice: u64,
    /// Time in the kernel, in ticks.
    pub system: u64,
    /// Time without work, in ticks.
    pub idle: u64,
    /// Idle with a request of that CPU outstanding; may fall (proc(5)).
    pub iowait: u64,
    /// Time in hardware interrupts, in ticks.
    pub irq: u64,
    /// Time in soft interrupts, in ticks.
    pub softirq: u64,
    /// Ready to run while the hypervisor ran another guest.
    pub steal: u64,
    /// Virtual CPUs of guests; already in `user` and `nice`.
    pub guest: u64,
}

/// Shares of an interval, in percent of all CPUs; they add up to 100, or are all 0 if nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    /// Percent of time in user code.
    pub user_pct: f64,
    /// User code at lowered priority.
    pub nice_pct: f64,
    /// The kernel with all interrupts.
    pub system_pct: f64,
    /// Idle with requests outstanding.
    pub iowait_pct: f64,
    /// Taken by the hypervisor.
    pub steal_pct: f64,
    pub idle_pct: f64,
}

impl CpuTimes {
    /// Parses the `cpu` line of `/proc/stat`; fields that old kernels lack are 0.
    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut fields = line.split_ascii_whitespace();
        let mut first = || fields.next()?.parse().ok();
        let (user, nice, system, idle) = (first()?, first()?, first()?, first()?);
        let mut later = || first().unwrap_or(0);
        let (iowait, irq, softirq, steal, guest) = (later(), later(), later(), later(), later());
        Some(CpuTimes { user, nice, system, idle, iowait, irq, softirq, steal, guest })
    }

    pub fn read(view: &View) -> Result<Self> {
        let text = view.required("proc/stat")?;
        let hidden = || {
            Error::new(
                Kind::Unsupported,
                "/proc/stat has no times of processors, as in a container that hides them",
            )
        };
        CpuTimes::parse(&text).ok_or_else(hidden)
    }

    /// The shares of the time since `earlier`; `None` where the sum of all times did not grow: no tick passed, or the
    /// counters began again. Neither an idle nor a full processor follows from that.
    ///
    /// Where the sum grew, a part that fell (`iowait` may) counts as 0, and the others are shares of what grew.
    pub fn shares_since(&self, earlier: &CpuTimes) -> Option<CpuShares> {
        if self.sum() <= earlier.sum() {
            return None;
        }
        let step = |of: fn(&CpuTimes) -> u64| of(self).saturating_sub(of(earlier)) as f64;
        let (user, nice, idle) = (step(|t| t.user), step(|t| t.nice), step(|t| t.idle));
        let (iowait, steal) = (step(|t| t.iowait), step(|t| t.steal));
        let system = step(CpuTimes::kernel);
        let total = user + nice + system + idle + iowait + steal;
        let share = |part: f64| 100.0 * part / total;
        Some(CpuShares {
            user_pct: share(user),
            nice_pct: share(nice),
            system_pct: share(system),
            iowait_pct: share(iowait),
            steal_pct: share(steal),
            idle_pct: share(idle),
        })
    }

    /// The kernel's time with that of all interrupts.
    fn kernel(&self) -> u64 {
        self.system.saturating_add(self.irq).saturating_add(self.softirq)
    }

    /// All times; guests are in `user` and `nice`.
    fn sum(&self) -> u64 {
        [self.user, self.nice, self.idle, self.iowait, self.steal]
            .into_iter()
            .fold(self.kernel(), u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use fathom_testkit::{Need, skip, test};

    use super::*;

    #[test]
    fn a_thread_that_worked_has_run() {
        let Some(before) = thread_wait(None) else { skip!(Need::Kernel, "this kernel has no schedstat") };
        let mut sum = 0_u64;
        while thread_wait(None).unwrap().since(before).ran_ns == 0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(thread_wait(Some(tid)).unwrap().ran_ns > before.ran_ns);
        assert!(process_wait().unwrap().ran_ns >= before.ran_ns);
        assert!(thread_wait(Some(i32::MAX)).is_none());
    }

    #[test]
    fn a_thread_that_waits_sleeps_and_is_seen_to() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = gone.recv();
        });
        let tid = told.recv().unwrap();
        let asleep = || ThreadStatus::read(tid).is_some_and(|status| status.state == 'S');
        let until = std::time::Instant::now() + std::time::Duration::from_secs(300);
        while !asleep() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(asleep() && ThreadStatus::read(tid).unwrap().voluntary_switches > 0);
        drop(go);
        thread.join().unwrap();
        assert_eq!(ThreadStatus::read(i32::MAX), None);
        assert_eq!(ThreadStatus::parse("State:\tD (disk sleep)\n"), None);
        let whole = "Name:\tState:\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t7\n";
        assert_eq!(ThreadStatus::parse(whole), Some(ThreadStatus { state: 'D', voluntary_switches: 7 }));
    }

    #[test]
    fn shares_follow_sysstat() {
        let before = CpuTimes::parse("cpu  100 0 50 1000 10 1 2 3 0 0\ncpu0 1 2 3 4\n").unwrap();
        let after =
            CpuTimes { user: 130, system: 58, irq: 2, softirq: 3, steal: 8, idle: 1055, iowait: 9, ..before };
        let shares = after.shares_since(&before).unwrap();
        assert_eq!((shares.user_pct, shares.system_pct, shares.steal_pct), (30.0, 10.0, 5.0));
        assert_eq!((shares.idle_pct, shares.iowait_pct), (55.0, 0.0));
        assert_eq!(before.shares_since(&before), None);
        assert_eq!(CpuTimes::parse("cpu  1 2 3 4").unwrap().steal, 0);
        assert!(CpuTimes::parse("cpu0 1 2 3 4").is_none());
    }

    #[test]
    fn a_sum_that_falls_is_no_full_processor() {
        let times = |text: &str| CpuTimes::parse(text).unwrap();
        let before = times("cpu  1000 0 500 8000 400 0 0 0 0 0");
        for after in
            ["cpu  900 0 450 7000 426 0 0 0 0 0", "cpu  1026 0 500 8000 374 0 0 0 0 0", "cpu  1 0 0 9 0"]
        {
            assert_eq!(times(after).shares_since(&before), None, "{after}");
        }
        let grown = times("cpu  1050 0 500 8050 380 0 0 0 0 0").shares_since(&before).unwrap();
        assert_eq!((grown.user_pct, grown.idle_pct, grown.iowait_pct), (50.0, 50.0, 0.0));
    }
}
