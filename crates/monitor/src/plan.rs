//! The plan of monitoring: makes the samplers of the devices, processes and servers to watch, each with its period and its
//! thread.

use std::time::Duration;

use fathom_host::View;

use crate::Sampler;
use crate::host::{
    ConnectionThreads, Cpu, DeviceCounters, Devices, InFlightRequests, Journals, MemoryPages, NetworkSampler,
    Pressures, Queues, ServerProcess, TopProcesses,
};
use crate::table::{Lane, row};
use crate::trace::Trace;

/// The servers, devices and metrics to watch.
pub struct MonitorPlan {
    /// The host's `/proc` and `/sys`.
    pub view: View,
    /// The devices under the servers' data; `None` if they run on another machine: then no source of this host is read.
    pub devices: Option<Devices>,
    /// Samplers of servers and of anything else, each with a thread of its own.
    pub servers: Vec<Box<dyn Sampler>>,
    /// The servers' processes on this host: the server's number in the run, and the process number.
    pub processes: Vec<(String, u32)>,
    /// Periods that differ from the table's, by the sampler's name.
    pub periods: Vec<(String, Duration)>,
    /// True if block requests are to be traced, as far as the kernel permits.
    pub trace: bool,
}

/// Samplers ready to run, and notes on sources that were not found.
#[derive(Debug, Default)]
pub struct Schedule {
    pub samplers: Vec<SamplerPlan>,
    /// Sources that were not found and the findings that are lost, a sentence each.
    pub notes: Vec<String>,
}

impl MonitorPlan {
    /// Plans to watch only the host of the data, at the periods of the table.
    pub fn for_host(devices: Devices) -> MonitorPlan {
        MonitorPlan {
            view: View::live(),
            devices: Some(devices),
            servers: Vec::new(),
            processes: Vec::new(),
            periods: Vec::new(),
            trace: false,
        }
    }

    /// Makes the samplers for this plan.
    pub fn schedule(mut self) -> Schedule {
        let mut schedule = Schedule::default();
        let mut samplers = self.host_samplers(&mut schedule.notes);
        samplers.append(&mut self.servers);
        for sampler in samplers {
            let name = sampler.name();
            let scheduled = SamplerPlan::new(sampler);
            let period = self.periods.iter().find(|(of, _)| *of == name).map(|(_, period)| *period);
            schedule.samplers.push(match period {
                Some(period) => scheduled.every(period),
                None => scheduled,
            });
        }
        schedule
    }

    fn host_samplers(&self, notes: &mut Vec<String>) -> Vec<Box<dyn Sampler>> {
        let Some(devices) = &self.devices else { return Vec::new() };
        let view = &self.view;
        let mut samplers: Vec<Box<dyn Sampler>> = vec![
            Box::new(Cpu::new(view)),
            Box::new(Pressures::new(view)),
            Box::new(MemoryPages::new(view)),
            Box::new(NetworkSampler::new(view)),
        ];
        for (member, pid) in &self.processes {
            let process = ServerProcess::new(view, member, *pid);
            samplers.push(Box::new(ConnectionThreads::new(view, member, *pid, process.thread_reader())));
            samplers.push(Box::new(process));
        }
        let pids: Vec<u32> = self.processes.iter().map(|(_, pid)| *pid).collect();
        let found = devices.find(view);
        let targets = found.as_deref().unwrap_or(&[]);
        samplers.push(Box::new(TopProcesses::new(view, targets, &pids)));
        match found {
            Ok(targets) => {
                samplers.push(Box::new(DeviceCounters::new(view, &targets)));
                samplers.push(Box::new(InFlightRequests::new(view, &targets)));
                samplers.push(Box::new(Queues::new(view, &targets, &pids)));
                samplers.push(Box::new(Journals::new(view, &targets)));
                if self.trace {
                    samplers.push(Box::new(Trace::new(view, &targets)));
                }
            }
            Err(error) => notes.push(format!(
                "No disk is watched: {error}; without one there is no share of the device in the mean, no finding about queues and caps, and no amplification at the disk."
            )),
        }
        samplers
    }
}

/// A sampler, its period, and the information lost if it cannot read.
pub struct SamplerPlan {
    pub sampler: Box<dyn Sampler>,
    /// The period of its readings; at least a millisecond.
    pub period: Duration,
    /// The thread that it runs on.
    pub lane: Lane,
    /// The information that is lost without it, to end the sentence "without it there is …".
    pub without: String,
}

impl SamplerPlan {
    /// Plans a sampler as its row in the table says; one without a row reads each second on its own thread.
    pub fn new(sampler: Box<dyn Sampler>) -> SamplerPlan {
        let row = row(&sampler.name());
        SamplerPlan {
            period: row.map_or(Duration::from_secs(1), |row| row.period),
            lane: row.map_or(Lane::Own, |row| row.lane),
            without: row.map_or_else(|| "a gap in the record".to_owned(), |row| row.without.to_owned()),
            sampler,
        }
    }

    /// The same sampler with another period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> SamplerPlan {
        self.period = period;
        self
    }
}

impl std::fmt::Debug for SamplerPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} every {:?}", self.sampler.name(), self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::machine;

    #[test]
    fn a_directory_in_memory_costs_the_disk_findings_and_says_so() {
        let (_folder, view) = machine(&[("proc/self/mountinfo", "22 1 0:5 / / rw - tmpfs tmpfs rw\n")]);
        let plan = MonitorPlan { view, ..MonitorPlan::for_host(Devices::Under("/data".into())) };
        let schedule = plan.schedule();
        assert!(schedule.notes[0].contains("tmpfs"), "{:?}", schedule.notes);
        assert!(schedule.samplers.iter().all(|one| one.sampler.name() != "devices"));
        let remote = MonitorPlan { devices: None, ..MonitorPlan::for_host(Devices::All) };
        assert!(remote.schedule().samplers.is_empty());
    }

    #[test]
    fn periods_are_the_tables_unless_the_plan_says_otherwise() {
        let (_folder, view) = machine(&[("sys/block/sda/dev", "8:0")]);
        let fast = Duration::from_millis(10);
        let plan = MonitorPlan {
            view,
            periods: vec![("in_flight".into(), fast)],
            ..MonitorPlan::for_host(Devices::All)
        };
        let periods: Vec<_> =
            plan.schedule().samplers.into_iter().map(|one| (one.sampler.name(), one.period)).collect();
        assert!(periods.contains(&("in_flight".into(), fast)));
        assert!(periods.contains(&("devices".into(), Duration::from_secs(1))));
    }
}
