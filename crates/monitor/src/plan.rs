//! What to watch: from devices, processes and servers to the samplers that read them, each with its period and its
//! thread.

use std::time::Duration;

use fathom_host::View;

use crate::Sampler;
use crate::host::{
    Cpu, DeviceCounters, Devices, InFlight, Journals, MemoryPages, Network, Pressures, Queues, ServerProcess,
    TopProcesses,
};
use crate::table::{Lane, row};
use crate::trace::Trace;

/// What to watch.
pub struct Plan {
    /// The host's `/proc` and `/sys`.
    pub view: View,
    /// The devices under the servers' data; `None` where their host is another machine: then nothing of this host is read.
    pub devices: Option<Devices>,
    /// Samplers of servers and of anything else, each with a thread of its own.
    pub servers: Vec<Box<dyn Sampler>>,
    /// The servers' processes on this host: the server's number in the run, and the process's.
    pub processes: Vec<(String, u32)>,
    /// Periods that differ from the table's, by the sampler's name.
    pub periods: Vec<(String, Duration)>,
    /// Whether to trace block requests, where the kernel lets us.
    pub trace: bool,
}

/// Samplers ready to run, and what could not be found.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The samplers.
    pub samplers: Vec<Scheduled>,
    /// What could not be found and which findings that costs, a sentence each.
    pub notes: Vec<String>,
}

impl Plan {
    /// Nothing but the host of the data, at the periods of the table.
    pub fn of_host(devices: Devices) -> Plan {
        Plan {
            view: View::live(),
            devices: Some(devices),
            servers: Vec::new(),
            processes: Vec::new(),
            periods: Vec::new(),
            trace: false,
        }
    }

    /// The samplers for it.
    pub fn schedule(mut self) -> Schedule {
        let mut schedule = Schedule::default();
        let mut samplers = self.host_samplers(&mut schedule.notes);
        samplers.append(&mut self.servers);
        for sampler in samplers {
            let name = sampler.name();
            let scheduled = Scheduled::new(sampler);
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
            Box::new(Network::new(view)),
        ];
        for (member, pid) in &self.processes {
            samplers.push(Box::new(ServerProcess::new(view, member, *pid)));
        }
        let pids: Vec<u32> = self.processes.iter().map(|(_, pid)| *pid).collect();
        let found = devices.find(view);
        let targets = found.as_deref().unwrap_or(&[]);
        samplers.push(Box::new(TopProcesses::new(view, targets, &pids)));
        match found {
            Ok(targets) => {
                samplers.push(Box::new(DeviceCounters::new(view, &targets)));
                samplers.push(Box::new(InFlight::new(view, &targets)));
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

/// A sampler, how often it is to read, and what is lost when it cannot.
pub struct Scheduled {
    /// The sampler.
    pub sampler: Box<dyn Sampler>,
    /// How often it reads; at least a millisecond.
    pub period: Duration,
    /// Whose thread it runs on.
    pub lane: Lane,
    /// What cannot be said without it, to end the sentence "without it there is …".
    pub without: String,
}

impl Scheduled {
    /// As its row in the table of samplers says; one that has no row reads each second on a thread of its own.
    pub fn new(sampler: Box<dyn Sampler>) -> Scheduled {
        let row = row(&sampler.name());
        Scheduled {
            period: row.map_or(Duration::from_secs(1), |row| row.period),
            lane: row.map_or(Lane::Own, |row| row.lane),
            without: row.map_or_else(|| "a gap in the record".to_owned(), |row| row.without.to_owned()),
            sampler,
        }
    }

    /// With another period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Scheduled {
        self.period = period;
        self
    }
}

impl std::fmt::Debug for Scheduled {
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
        let plan = Plan { view, ..Plan::of_host(Devices::Under("/data".into())) };
        let schedule = plan.schedule();
        assert!(schedule.notes[0].contains("tmpfs"), "{:?}", schedule.notes);
        assert!(schedule.samplers.iter().all(|one| one.sampler.name() != "devices"));
        let remote = Plan { devices: None, ..Plan::of_host(Devices::All) };
        assert!(remote.schedule().samplers.is_empty());
    }

    #[test]
    fn periods_are_the_tables_unless_the_plan_says_otherwise() {
        let (_folder, view) = machine(&[("sys/block/sda/dev", "8:0")]);
        let fast = Duration::from_millis(10);
        let plan = Plan { view, periods: vec![("in_flight".into(), fast)], ..Plan::of_host(Devices::All) };
        let periods: Vec<_> =
            plan.schedule().samplers.into_iter().map(|one| (one.sampler.name(), one.period)).collect();
        assert!(periods.contains(&("in_flight".into(), fast)));
        assert!(periods.contains(&("devices".into(), Duration::from_secs(1))));
    }
}
