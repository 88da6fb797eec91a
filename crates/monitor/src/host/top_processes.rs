//! Names the processes that use the processors and those that read and write on the watched devices, while a server may lack these.
//!
//! `/proc` of every process costs milliseconds to read, so it is read only while the processors are busy or a watched device carries mostly the
//! I/O of other processes. It is then not read again before two hundred times the time that the reading took.

use std::collections::{BTreeMap, HashMap};

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::diskstats::{self, SECTOR_BYTES};
use fathom_host::process::{self, ProcessIo, ProcessStat};
use fathom_host::sched::CpuTimes;

use super::{Edge, WatchedDevice};
use crate::{Batch, Sampler};

/// The idle time, waits for I/O included, below which the processors are suspected, in percent.
const MAX_IDLE_PCT: f64 = 25.0;
/// A neighbour is suspected from this rate of other processes' bytes on, if these are also this share of the device's bytes.
const MIN_OTHERS_BYTES_PER_S: f64 = 32.0 * 1_048_576.0;
const MIN_OTHERS_SHARE: f64 = 0.5;
/// Earlier readings are dropped after this time without a suspicion.
const MAX_QUIET_NS: u64 = 60_000_000_000;
/// The pause before the next walk, as a multiple of the last walk's duration.
const PAUSE_TO_WALK: u64 = 200;
/// The number of processes named.
const MAX_NAMED_PROCESSES: usize = 3;
/// A process that uses fewer processors and fewer bytes a second is not named.
const MIN_PROCESSORS: f64 = 0.1;
const MIN_BYTES_PER_S: f64 = 1_048_576.0;

/// Reads `/proc/PID/stat` and `io` of all processes.
pub(crate) struct TopProcesses {
    view: View,
    devices: Vec<String>,
    servers: Vec<u32>,
    edge: Edge,
    cpu: Option<CpuTimes>,
    /// The bytes of the devices, and those of the servers.
    bytes: Option<(u64, u64)>,
    /// The time of the last walk, and the use of each process until then.
    walk: Option<(u64, HashMap<Process, ProcessUsage>)>,
    next_ns: u64,
    suspected_ns: u64,
    /// Usage since the suspicion began, by process name, and the time that it covers.
    used: BTreeMap<String, ProgramProcesses>,
    used_ns: u64,
    facts: BTreeMap<&'static str, String>,
}

/// A process, identified by its number and start time.
type Process = (u32, u64);

/// Counters of a process.
#[derive(Clone, Copy, Debug, Default)]
struct ProcessUsage {
    cpu_ticks: u64,
    io_bytes: u64,
}

/// The processes of one name.
#[derive(Debug, Default)]
struct ProgramProcesses {
    usage: ProcessUsage,
    /// The number of one of them, and whether there are more.
    pid: u32,
    is_several: bool,
    /// The part of their processor time that watched servers and this process used.
    own_cpu_ticks: u64,
}

impl TopProcesses {
    /// `targets` are the devices watched, `servers` the processes of servers.
    pub(crate) fn new(view: &View, targets: &[WatchedDevice], servers: &[u32]) -> TopProcesses {
        TopProcesses {
            view: view.clone(),
            devices: targets
                .iter()
                .filter(|target| target.bottom)
                .map(|target| target.name.clone())
                .collect(),
            servers: servers.to_vec(),
            edge: Edge::default(),
            cpu: None,
            bytes: None,
            walk: None,
            next_ns: 0,
            suspected_ns: 0,
            used: BTreeMap::new(),
            used_ns: 0,
            facts: BTreeMap::new(),
        }
    }

    fn lacks_processors(&mut self) -> bool {
        let Ok(times) = CpuTimes::read(&self.view) else { return false };
        let last = self.cpu.replace(times);
        let shares = last.and_then(|last| times.shares_since(&last));
        shares.is_some_and(|shares| shares.idle_pct + shares.iowait_pct < MAX_IDLE_PCT)
    }

    /// Returns whether the devices carried mostly the bytes of others within `seconds`.
    fn has_neighbour(&mut self, seconds: f64) -> bool {
        let Some(now) = self.read_bytes() else { return false };
        let Some(last) = self.bytes.replace(now) else { return false };
        let (all, own) = (now.0.saturating_sub(last.0) as f64, now.1.saturating_sub(last.1) as f64);
        let others = all - own;
        others >= MIN_OTHERS_BYTES_PER_S * seconds && others >= MIN_OTHERS_SHARE * all
    }

    /// Bytes of the devices and of the servers; `None` if one of them cannot be read.
    fn read_bytes(&self) -> Option<(u64, u64)> {
        if self.devices.is_empty() || self.servers.is_empty() {
            return None;
        }
        let lines = diskstats::read(&self.view).ok()?;
        let sectors = |line: &diskstats::Line| line.counters.read_sectors + line.counters.write_sectors;
        let devices = lines.iter().filter(|line| self.devices.contains(&line.name)).map(sectors).sum::<u64>();
        let mut own = 0;
        for pid in &self.servers {
            let io = ProcessIo::read(&self.view, *pid)?;
            own += io.read_bytes + io.written_bytes;
        }
        Some((devices * SECTOR_BYTES, own))
    }

    /// Reads all processes, and adds their use since the last walk.
    fn take_walk(&mut self, begin_ns: u64, batch: &Batch) {
        let mut walk = HashMap::new();
        for pid in self.view.list("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
            let Some(text) = self.view.text(&format!("proc/{pid}/stat")) else { continue };
            let Some((stat, name)) = ProcessStat::parse(&text).zip(process::name(&text)) else { continue };
            let io_bytes = ProcessIo::read(&self.view, pid)
                .map_or(0, |io| io.read_bytes.saturating_add(io.written_bytes));
            let usage = ProcessUsage { cpu_ticks: stat.cpu_ticks, io_bytes };
            let id = (pid, stat.started_ticks);
            if let Some((_, before)) = &self.walk {
                let before = before.get(&id).copied().unwrap_or_default();
                let is_own = pid == std::process::id() || self.servers.contains(&pid);
                let group = self.used.entry(name.to_owned()).or_default();
                group.add(pid, is_own, usage, before);
            }
            walk.insert(id, usage);
        }
        if let Some((last_ns, _)) = &self.walk {
            self.used_ns += begin_ns.saturating_sub(*last_ns);
        }
        self.walk = Some((begin_ns, walk));
        let took_ns = batch.clock.now_ns().saturating_sub(begin_ns);
        self.next_ns = begin_ns.saturating_add(took_ns.saturating_mul(PAUSE_TO_WALK));
    }

    fn tell(&mut self, batch: &mut Batch) {
        let seconds = self.used_ns as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
        let processors = |group: &ProgramProcesses| group.usage.cpu_ticks as f64 / ticks_per_s / seconds;
        let bytes_per_s = |group: &ProgramProcesses| group.usage.io_bytes as f64 / seconds;
        let cpu = self.top(&processors, MIN_PROCESSORS, |value| format!("{value:.2} processors"));
        let io = self.top(&bytes_per_s, MIN_BYTES_PER_S, |value| format!("{:.0} MiB/s", value / 1_048_576.0));
        let all: f64 = self.used.values().map(processors).sum();
        let own: f64 =
            self.used.values().map(|group| group.own_cpu_ticks as f64 / ticks_per_s / seconds).sum();
        let own_share = if all > 0.0 { format!("{:.1}", (own / all).abs()) } else { String::new() };
        self.say(batch, "host.top.cpu", cpu);
        self.say(batch, "host.top.cpu.own_share", own_share);
        self.say(batch, "host.top.io", io);
    }

    /// Describes the groups that used most.
    fn top(
        &self,
        value: &dyn Fn(&ProgramProcesses) -> f64,
        least: f64,
        words: impl Fn(f64) -> String,
    ) -> String {
        let mut all: Vec<(&String, &ProgramProcesses, f64)> =
            self.used.iter().map(|(name, group)| (name, group, value(group))).collect();
        all.retain(|(.., value)| *value >= least);
        all.sort_by(|one, other| other.2.total_cmp(&one.2));
        let named = all.iter().take(MAX_NAMED_PROCESSES).map(|(name, group, value)| {
            let which = if group.is_several { "several".to_owned() } else { format!("pid {}", group.pid) };
            format!("{name} ({which}) {}", words(*value))
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// Adds a fact if it changed.
    fn say(&mut self, batch: &mut Batch, name: &'static str, value: String) {
        if self.facts.get(name).map_or("", String::as_str) != value {
            self.facts.insert(name, value.clone());
            batch.facts.push((name.to_owned(), value));
        }
    }

    fn forget(&mut self, batch: &mut Batch) {
        self.walk = None;
        self.used.clear();
        self.used_ns = 0;
        for name in self.facts.keys().copied().collect::<Vec<_>>() {
            self.say(batch, name, String::new());
        }
    }
}

impl ProgramProcesses {
    fn add(&mut self, pid: u32, is_own: bool, now: ProcessUsage, before: ProcessUsage) {
        self.is_several |= self.pid != 0 && self.pid != pid;
        self.pid = pid;
        let cpu_ticks = now.cpu_ticks.saturating_sub(before.cpu_ticks);
        self.own_cpu_ticks += if is_own { cpu_ticks } else { 0 };
        self.usage.cpu_ticks += cpu_ticks;
        self.usage.io_bytes += now.io_bytes.saturating_sub(before.io_bytes);
    }
}

impl Sampler for TopProcesses {
    fn name(&self) -> String {
        "top_processes".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let at_ns = batch.clock.now_ns();
        let window_ns = self.edge.window_to(at_ns);
        let lacks_processors = self.lacks_processors();
        let seconds = window_ns.map_or(0.0, |(begin_ns, end_ns)| (end_ns - begin_ns) as f64 / 1e9);
        let has_neighbour = self.has_neighbour(seconds);
        if lacks_processors || has_neighbour {
            self.suspected_ns = at_ns;
            if at_ns >= self.next_ns {
                self.take_walk(at_ns, batch);
                self.tell(batch);
            }
        } else {
            // Usage while nothing is suspected is not counted.
            self.walk = None;
            if at_ns.saturating_sub(self.suspected_ns) > MAX_QUIET_NS {
                self.forget(batch);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::Clock;
    use crate::host::testing::machine;

    fn facts(sampler: &mut TopProcesses, clock: Clock) -> Vec<(String, String)> {
        let mut batch = Batch::new(clock);
        sampler.next_ns = 0;
        sampler.sample(&mut batch).unwrap();
        clock.pass(Duration::from_millis(10));
        batch.facts
    }

    #[test]
    fn processes_are_named_while_the_processors_are_busy_and_no_longer() {
        let stat = |name: &str, ticks: u64| {
            format!("9 ({name}) R 1 9 9 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 1 10 9")
        };
        let times =
            |busy: u64, idle: u64| format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n");
        let (folder, view) = machine(&[
            ("proc/stat", &times(0, 0)),
            ("proc/99999991/stat", &stat("cc1plus", 10)),
            ("proc/99999991/io", "read_bytes: 0\nwrite_bytes: 0\n"),
            ("proc/99999992/stat", &stat("idle one", 5)),
            ("proc/99999993/stat", &stat("cc1plus", 10)),
        ]);
        let put = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
        // The server is kept apart from another program of the same name.
        let mut sampler = TopProcesses::new(&view, &[], &[99999993]);
        let clock = Clock::simulated(&[]);
        assert_eq!(facts(&mut sampler, clock), [], "nothing is known of the time before");
        put("proc/stat", &times(100, 5));
        assert_eq!(facts(&mut sampler, clock), [], "the first walk has none to be compared with");
        put("proc/stat", &times(200, 10));
        put("proc/99999991/stat", &stat("cc1plus", 1000));
        put("proc/99999993/stat", &stat("cc1plus", 260));
        let told = facts(&mut sampler, clock);
        let cpu = &told.iter().find(|(name, _)| name == "host.top.cpu").unwrap().1;
        assert!(cpu.starts_with("cc1plus (several) ") && !cpu.contains("idle one"), "{told:?}");
        assert_eq!(told.iter().find(|(name, _)| name == "host.top.cpu.own_share").unwrap().1, "0.2");
        // Idle again: no process is read, and after a minute no process is named.
        put("proc/stat", &times(200, 1000));
        assert_eq!(facts(&mut sampler, clock), []);
        assert!(sampler.walk.is_none());
        let mut batch = Batch::new(clock);
        sampler.forget(&mut batch);
        assert!(batch.facts.contains(&("host.top.cpu".to_owned(), String::new())), "{:?}", batch.facts);
    }

    #[test]
    fn a_neighbour_is_suspected_by_the_bytes_that_no_server_asked_for() {
        let device = |sectors: u64| format!("   7       0 loop0 1 0 {sectors} 1 0 0 0 0 0 0 0\n");
        let io = |bytes: u64| format!("read_bytes: {bytes}\nwrite_bytes: 0\n");
        let (folder, view) = machine(&[("proc/diskstats", &device(0)), ("proc/99999991/io", &io(0))]);
        let put = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
        let mut sampler = TopProcesses::new(&view, &[], &[99999991]);
        sampler.devices = vec!["loop0".to_owned()];
        assert!(!sampler.has_neighbour(1.0));
        put("proc/diskstats", &device(200_000));
        put("proc/99999991/io", &io(1_000_000));
        assert!(sampler.has_neighbour(1.0), "102 MB, of which the server asked for 1 MB");
        put("proc/diskstats", &device(400_000));
        put("proc/99999991/io", &io(91_000_000));
        assert!(!sampler.has_neighbour(1.0), "its own");
    }
}
