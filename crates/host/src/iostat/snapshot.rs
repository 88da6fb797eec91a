//! All that one report needs from the kernel, read together.

use fathom_errors::Result;
use rustix::time::ClockId;

use crate::View;
use crate::diskstats::{DiskSampler, Line, nanoseconds};
use crate::sched::CpuTimes;

/// The counters of every device and of the CPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub taken_ns: u64,
    /// Time since boot with sleep included, in nanoseconds: the interval of the first report.
    pub uptime_ns: u64,
    /// What the CPUs have done since boot.
    pub cpu: CpuTimes,
    /// Every device's counters, in the kernel's order.
    pub lines: Vec<Line>,
}

/// Takes snapshots.
#[derive(Debug)]
pub struct Sampler {
    view: View,
    disks: DiskSampler,
}

impl Sampler {
    /// Opens the counters.
    pub fn open(view: &View) -> Result<Self> {
        Ok(Sampler { view: view.clone(), disks: DiskSampler::open(view)? })
    }

    /// Reads everything now.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let disks = self.disks.sample()?;
        let uptime_ns = nanoseconds(ClockId::Boottime);
        let cpu = CpuTimes::read(&self.view)?;
        Ok(Snapshot { taken_ns: disks.taken_ns, uptime_ns, cpu, lines: disks.lines })
    }
}
