//! The sampler of a server's process on this host: processor time, waits for a processor, I/O and memory.
//!
//! The wait is in one file for each thread, and a server may have thousands of threads. The files are read again only after
//! two hundred times the time that the last reading took, so that they cost at most half a percent of a processor.

use std::collections::HashMap;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_host::cgroup::Cgroups;
use fathom_host::process::{ProcessIo, ProcessStat, threads};
use fathom_host::sched::SchedStat;

use super::Edge;
use crate::sampler::Notes;
use crate::{Batch, Sampler, Sums};

/// The pause before the next reading of all threads, as a multiple of the last reading's duration.
const REST: u64 = 200;

/// Reads the server's `/proc/PID`.
pub(crate) struct ServerProcess {
    view: View,
    member: String,
    pid: u32,
    started_ticks: Option<u64>,
    edge: Edge,
    quota_edge: Edge,
    sums: Sums,
    waits: ThreadWaits,
    notes: Notes,
}

impl ServerProcess {
    pub(crate) fn new(view: &View, member: &str, pid: u32) -> ServerProcess {
        ServerProcess {
            view: view.clone(),
            member: member.to_owned(),
            pid,
            started_ticks: None,
            edge: Edge::default(),
            quota_edge: Edge::default(),
            sums: Sums::default(),
            waits: ThreadWaits::default(),
            notes: Notes::default(),
        }
    }
}

impl Sampler for ServerProcess {
    fn name(&self) -> String {
        format!("process.{}", self.member)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let pid = self.pid;
        let stat = ProcessStat::read(&self.view, pid)
            .filter(|stat| self.started_ticks.is_none_or(|started| started == stat.started_ticks));
        let Some(stat) = stat else {
            return Err(Error::new(
                Kind::NotFound,
                format!("process {pid} of server {} has ended", self.member),
            ));
        };
        self.started_ticks = Some(stat.started_ticks);
        let at_ns = batch.clock.now_ns();
        let series = |what: &str| format!("server.{}.process.{what}", self.member);
        let cpu_us = stat.cpu_ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second().max(1) as f64;
        self.sums.put(batch, &series("cpu_us"), "us", at_ns, cpu_us);
        let window_ns = self.edge.window_to(at_ns);
        if let Some(window_ns) = window_ns {
            let bytes = stat.resident_pages as f64 * rustix::param::page_size() as f64;
            batch.put(series("resident_bytes"), "bytes", window_ns, bytes);
        }
        match ProcessIo::read(&self.view, pid) {
            Some(io) => {
                self.sums.put(batch, &series("read_bytes"), "bytes", at_ns, io.read_bytes as f64);
                if let Some(bytes) = io.read_call_bytes {
                    self.sums.put(batch, &series("read_call_bytes"), "bytes", at_ns, bytes as f64);
                }
                self.sums.put(batch, &series("written_bytes"), "bytes", at_ns, io.written_bytes as f64);
            }
            None => self.notes.once(batch, format!(
                "The I/O of process {pid} may not be read (only its own user and root may); without it nothing is said of what else writes to its disk."
            )),
        }
        let groups = Cgroups::read(&self.view, Some(pid));
        if let Some((quota, throttled_us)) = groups.cpu_max().zip(groups.cpu_throttled_us()) {
            self.sums.put(batch, &series("throttled_us"), "us", at_ns, throttled_us as f64);
            if let Some(window_ns) = self.quota_edge.window_to(at_ns) {
                batch.put(series("cpu_quota"), "1", window_ns, quota);
            }
        }
        if let Some((limit, window_ns)) = groups.memory_limit().zip(window_ns) {
            batch.put(series("memory_limit_bytes"), "bytes", window_ns, limit.max_bytes as f64);
            if let Some(used_bytes) = limit.used_bytes {
                batch.put(series("memory_used_bytes"), "bytes", window_ns, used_bytes as f64);
            }
        }
        if let Some((window_ns, waited_ns)) = self.waits.read(batch, || threads(&self.view, pid)) {
            batch.put(series("run_wait_us"), "us", window_ns, waited_ns as f64 / 1e3);
        }
        Ok(())
    }
}

/// The waits of a process's threads, added up over threads that start and end.
#[derive(Default)]
struct ThreadWaits {
    edge: Edge,
    last: HashMap<u32, SchedStat>,
    next_ns: u64,
}

impl ThreadWaits {
    /// Returns the window since the last reading and the wait added in it, unless it is too soon to read again. The wait of
    /// a thread that ended since the last reading is lost.
    fn read(
        &mut self,
        batch: &Batch,
        threads: impl FnOnce() -> Vec<(u32, SchedStat)>,
    ) -> Option<((u64, u64), u64)> {
        let begin_ns = batch.clock.now_ns();
        if begin_ns < self.next_ns {
            return None;
        }
        let now: HashMap<u32, SchedStat> = threads().into_iter().collect();
        let at_ns = batch.clock.now_ns();
        self.next_ns = at_ns.saturating_add((at_ns - begin_ns).saturating_mul(REST));
        let window_ns = self.edge.window_to(at_ns);
        let added = |(thread, stat): (&u32, &SchedStat)| match self.last.get(thread) {
            Some(before) if before.waited_ns <= stat.waited_ns => stat.waited_ns - before.waited_ns,
            // A new thread, or one that reuses the number of an ended thread.
            _ => stat.waited_ns,
        };
        let waited_ns = now.iter().map(added).fold(0, u64::saturating_add);
        let any = !now.is_empty();
        self.last = now;
        window_ns.filter(|_| any).map(|window_ns| (window_ns, waited_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::{machine, run_twice};

    #[test]
    fn threads_that_come_and_go_are_added_up() {
        let mut waits = ThreadWaits::default();
        let batch = Batch::new(crate::Clock::since(std::time::Instant::now()));
        let stat = |waited_ns| SchedStat { waited_ns, ..SchedStat::default() };
        let mut read = |threads: Vec<(u32, SchedStat)>| {
            waits.next_ns = 0;
            waits.read(&batch, || threads).map(|(_, waited_ns)| waited_ns)
        };
        assert_eq!(read(vec![(1, stat(100)), (2, stat(50))]), None);
        assert_eq!(read(vec![(1, stat(130)), (3, stat(7))]), Some(37));
        assert_eq!(read(vec![(1, stat(5))]), Some(5));
    }

    #[test]
    fn another_process_of_the_same_number_is_not_watched() {
        let stat = |started: u32, ticks: u32| {
            format!("9 (mongod) S 1 9 9 0 -1 0 0 0 0 0 {ticks} 5 0 0 20 0 7 0 {started} 1 10 9")
        };
        let (folder, view) =
            machine(&[("proc/9/stat", &stat(77, 10)), ("proc/9/io", "read_bytes: 1\nwrite_bytes: 2\n")]);
        let mut sampler = ServerProcess::new(&view, "0", 9);
        let file = folder.path().join("proc/9/stat");
        let values = run_twice(&mut sampler, || std::fs::write(&file, stat(77, 30)).unwrap());
        assert!(values.contains(&("server.0.process.cpu_us".to_owned(), 200_000.0)), "{values:?}");
        std::fs::write(&file, stat(99, 1)).unwrap();
        let mut batch = Batch::new(crate::Clock::since(std::time::Instant::now()));
        assert!(sampler.sample(&mut batch).unwrap_err().to_string().contains("ended"));
    }
}
