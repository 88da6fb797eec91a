//! The sampler of a server's process on this host: processor time, waits for a processor, I/O and memory.
//!
//! The wait is in one file for each thread, which a reader with a budget reads.

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_host::cgroup::{Cgroups, QuotaSetting};
use fathom_host::process::{ProcessIo, ProcessStat};

use super::Edge;
use super::thread_reader::{SharedThreadReader, ThreadWaits};
use crate::sampler::Notes;
use crate::{Batch, Sampler, Sums};

/// Reads the server's `/proc/PID`.
pub(crate) struct ServerProcess {
    view: View,
    member: String,
    pid: u32,
    started_ticks: Option<u64>,
    edge: Edge,
    quota_edge: Edge,
    /// The setting of the quota that was last written as a fact.
    quota: Option<QuotaSetting>,
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
            quota: None,
            sums: Sums::default(),
            waits: ThreadWaits::new(view, pid),
            notes: Notes::default(),
        }
    }
}

impl ServerProcess {
    /// The reader of its threads, for the other sampler of the process.
    pub(crate) fn thread_reader(&self) -> SharedThreadReader {
        self.waits.reader.clone()
    }

    /// Writes the file of the quota and its text as facts when they change. A quota that is lifted leaves the last ones.
    fn put_quota_setting(&mut self, groups: &Cgroups, batch: &mut Batch) {
        let Some(setting) = groups.cpu_quota_setting().filter(|found| self.quota.as_ref() != Some(found))
        else {
            return;
        };
        let name = format!("server.{}.process.cpu_quota", self.member);
        batch.facts.push((format!("{name}.file"), setting.file.clone()));
        batch.facts.push((format!("{name}.setting"), setting.text.clone()));
        self.quota = Some(setting);
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
        let member = self.member.clone();
        let series = |what: &str| format!("server.{member}.process.{what}");
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
        if let Some((window_ns, waited_ns)) = self.waits.read(batch.clock) {
            batch.put(series("run_wait_us"), "us", window_ns, waited_ns as f64 / 1e3);
        }
        self.put_quota_setting(&groups, batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::{machine, run_twice};

    #[test]
    fn the_file_of_a_quota_is_a_fact_and_its_text_follows_changes() {
        let (folder, view) = machine(&[
            ("proc/9/stat", "9 (mongod) S 1 9 9 0 -1 0 0 0 0 0 10 5 0 0 20 0 7 0 77 1 10 9"),
            ("proc/9/cgroup", "2:cpu:/db\n"),
            ("proc/self/mountinfo", "33 1 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
            ("sys/fs/cgroup/cpu/db/cpu.cfs_quota_us", "6000\n"),
            ("sys/fs/cgroup/cpu/db/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/db/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 7000\n"),
        ]);
        let mut sampler = ServerProcess::new(&view, "0", 9);
        let mut facts = || {
            let mut batch = Batch::new(crate::Clock::since(std::time::Instant::now()));
            sampler.sample(&mut batch).unwrap();
            batch.facts
        };
        let fact = |name: &str, text: &str| (format!("server.0.process.cpu_quota.{name}"), text.to_owned());
        let file = fact("file", "/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us");
        assert_eq!(facts(), [file.clone(), fact("setting", "6000")]);
        assert_eq!(facts(), []);
        std::fs::write(folder.path().join("sys/fs/cgroup/cpu/db/cpu.cfs_quota_us"), "8000\n").unwrap();
        assert_eq!(facts(), [file, fact("setting", "8000")]);
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
