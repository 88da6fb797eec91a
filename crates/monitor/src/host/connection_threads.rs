//! The use of processors and disk by the threads of a server on this host: of each connection, and of the engine's own threads.
//!
//! mongod names a thread after the connection that it serves (`conn123`), and WiredTiger its own (`WTEvict...`). Every thread
//! has files of its own under `/proc/PID/task`, so a reader with a budget reads them while the process is busy, and `io` is read of the busiest
//! threads only. The use of the whole process is recorded with them, so that the part that the listed threads cover is known. A server whose
//! threads serve many connections each does not say what a connection used, which is noted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::process::{ProcessIo, ProcessStat};
use fathom_record::disk::Entry;
use fathom_record::{ServerWork, ThreadUse};

use super::thread_reader::{SharedThreadReader, ThreadReader, ThreadReading};
use crate::sampler::Notes;
use crate::{Batch, Sampler};

/// The number of threads whose `io` is read, and that of the names that are kept.
const MAX_READ_THREADS: usize = 64;
const MAX_KEPT_NAMES: usize = 24;
/// A process that uses less of a processor and moves fewer bytes a second is at rest.
const MIN_PROCESSOR_SHARE: f64 = 0.05;
const MIN_BYTES_PER_S: f64 = 262_144.0;
/// Names are read again after so many readings: the kernel gives the numbers of ended threads to new ones.
const NAME_LIFETIME_READINGS: u32 = 30;

/// The counters of a process at a reading.
#[derive(Clone, Copy, Debug)]
struct ProcessTotals {
    at_ns: u64,
    cpu_us: f64,
    io: Option<ProcessIo>,
}

/// The name of a thread, and its bytes where they were read.
#[derive(Clone, Debug, Default)]
struct ThreadFacts {
    name: String,
    io: Option<ProcessIo>,
}

/// The threads at a reading, the process at that time, and the facts of the busiest threads.
#[derive(Debug)]
struct WorkReading {
    process: ProcessTotals,
    threads: Arc<ThreadReading>,
    facts: HashMap<u32, ThreadFacts>,
}

/// Reads `/proc/PID/task` of one server.
pub(crate) struct ConnectionThreads {
    view: View,
    member: String,
    pid: u32,
    reader: SharedThreadReader,
    last: Option<ProcessTotals>,
    reading: Option<WorkReading>,
    readings: u32,
    notes: Notes,
}

impl ConnectionThreads {
    pub(crate) fn new(view: &View, member: &str, pid: u32, reader: SharedThreadReader) -> ConnectionThreads {
        ConnectionThreads {
            view: view.clone(),
            member: member.to_owned(),
            pid,
            reader,
            last: None,
            reading: None,
            readings: 0,
            notes: Notes::default(),
        }
    }

    fn totals(&self, at_ns: u64) -> Option<ProcessTotals> {
        let stat = ProcessStat::read(&self.view, self.pid)?;
        let cpu_us = stat.cpu_ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second().max(1) as f64;
        Some(ProcessTotals { at_ns, cpu_us, io: ProcessIo::read(&self.view, self.pid) })
    }

    /// Reads `io` and the names of those threads that ran most since the last reading.
    fn read_facts(&mut self, threads: &ThreadReading) -> HashMap<u32, ThreadFacts> {
        self.readings = self.readings.wrapping_add(1);
        let keeps_names = !self.readings.is_multiple_of(NAME_LIFETIME_READINGS);
        let past = self.reading.as_ref();
        let used = past.map_or_else(|| threads.threads.clone(), |past| threads.since(&past.threads));
        let mut busiest: Vec<u32> = threads.threads.keys().copied().collect();
        let ran = |number: &u32| used.get(number).map_or((0, 0), |stat| (stat.ran_ns, stat.slices));
        busiest.sort_unstable_by_key(|number| Reverse(ran(number)));
        let facts = |number: u32| {
            let folder = format!("proc/{}/task/{number}", self.pid);
            // Of an ended thread, whose number another has now, the counters were higher.
            let is_same = |past: &&WorkReading| {
                let ran_ns = |reading: &ThreadReading| reading.threads.get(&number).map(|stat| stat.ran_ns);
                ran_ns(&past.threads) <= ran_ns(threads)
            };
            let known = past.filter(|_| keeps_names).filter(is_same).and_then(|past| past.facts.get(&number));
            let name = known.map(|known| known.name.clone());
            let name = name.or_else(|| self.view.text(&format!("{folder}/comm"))).unwrap_or_default();
            let io = self.view.text(&format!("{folder}/io")).and_then(|text| ProcessIo::parse(&text));
            (number, ThreadFacts { name: name.trim_end().to_owned(), io })
        };
        busiest.into_iter().take(MAX_READ_THREADS).map(facts).collect()
    }
}

impl Sampler for ConnectionThreads {
    fn name(&self) -> String {
        format!("threads.{}", self.member)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let begin_ns = batch.clock.now_ns();
        // The sampler of the process reports one that has ended.
        let Some(now) = self.totals(begin_ns) else { return Ok(()) };
        let is_busy = self.last.replace(now).is_some_and(|before| now.is_busy_since(&before));
        if !is_busy {
            return Ok(());
        }
        let Some(threads) = ThreadReader::read(&self.reader, batch.clock) else { return Ok(()) };
        let facts = self.read_facts(&threads);
        if now.io.is_none() {
            let note = "the I/O of its threads may not be read (only its own user and root may)";
            let cost = "which connection reads and writes the disk is not known";
            self.notes.once(batch, format!("server {}: {note}: {cost}", self.member));
        }
        let reading = WorkReading { process: now, threads, facts };
        let before = self.reading.replace(reading);
        let Some((before, now)) = before.as_ref().zip(self.reading.as_ref()) else { return Ok(()) };
        let used = used_since(before, now);
        if let Some(shared) = used.iter().find(|thread| thread.is_shared() && thread.processor_us > 0) {
            let known = "which operations take time is known from $currentOp alone";
            let note = format!("its threads serve many connections each ({})", shared.name);
            let cost = "which of them use processors and the disk is not known";
            self.notes.once(batch, format!("server {}: {note}: {cost}; {known}", self.member));
        }
        if let Ok(server) = self.member.parse()
            && !used.is_empty()
        {
            batch.entries.push(Entry::ServerWork(Box::new(ServerWork {
                server,
                begin_ns: before.process.at_ns,
                end_ns: now.process.at_ns,
                threads: used,
                process: Some(now.process.since(&before.process)),
                ..ServerWork::default()
            })));
        }
        Ok(())
    }
}

impl ProcessTotals {
    fn is_busy_since(&self, before: &ProcessTotals) -> bool {
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let used = self.since(before);
        let bytes = used.read_bytes.unwrap_or(0).saturating_add(used.written_bytes.unwrap_or(0));
        seconds > 0.0
            && (used.processor_us as f64 / 1e6 >= MIN_PROCESSOR_SHARE * seconds
                || bytes as f64 >= MIN_BYTES_PER_S * seconds)
    }

    fn since(&self, before: &ProcessTotals) -> ThreadUse {
        let bytes = |of: fn(&ProcessIo) -> u64| Some(of(&self.io?).saturating_sub(of(&before.io?)));
        let processor_us = (self.cpu_us - before.cpu_us).max(0.0) as u64;
        ThreadUse {
            name: String::new(),
            processor_us,
            run_wait_us: 0,
            read_bytes: bytes(|io| io.read_bytes),
            written_bytes: bytes(|io| io.written_bytes),
        }
    }
}

/// The use by name since an earlier reading, the busiest first. Threads that serve no connection are added up under their name
/// without its number. The use of a thread that ended meanwhile, or that either reading left out, is not in it.
fn used_since(before: &WorkReading, now: &WorkReading) -> Vec<ThreadUse> {
    let mut by_name: HashMap<String, ThreadUse> = HashMap::new();
    for (number, sched) in now.threads.since(&before.threads) {
        let Some(facts) = now.facts.get(&number) else { continue };
        let ran_ns = |reading: &WorkReading| reading.threads.threads.get(&number).map(|stat| stat.ran_ns);
        // A thread that is new since the last reading has read all its bytes since then.
        let is_new = ran_ns(before).is_none_or(|past| Some(past) > ran_ns(now));
        let past_io = if is_new { Some(NO_IO) } else { before.facts.get(&number).and_then(|past| past.io) };
        let bytes = |of: fn(&ProcessIo) -> u64| Some(of(&facts.io?).saturating_sub(of(&past_io?)));
        let (read, written) = (bytes(|io| io.read_bytes), bytes(|io| io.written_bytes));
        if sched.ran_ns == 0 && read.unwrap_or(0) == 0 && written.unwrap_or(0) == 0 {
            continue;
        }
        let name = group_name(&facts.name);
        let sum = by_name.entry(name.to_owned()).or_default();
        sum.name = name.to_owned();
        sum.processor_us += sched.ran_ns / 1000;
        sum.run_wait_us += sched.waited_ns / 1000;
        let add = |sum: &mut Option<u64>, value: Option<u64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0).saturating_add(value));
            }
        };
        add(&mut sum.read_bytes, read);
        add(&mut sum.written_bytes, written);
    }
    let mut used: Vec<ThreadUse> = by_name.into_values().collect();
    used.sort_by(|one, other| (rank(other), &one.name).cmp(&(rank(one), &other.name)));
    used.truncate(MAX_KEPT_NAMES);
    used
}

/// Bytes of a thread that has not begun.
const NO_IO: ProcessIo = ProcessIo { read_bytes: 0, read_call_bytes: None, written_bytes: 0 };

/// A microsecond of a processor counts as much as a kilobyte of a disk, about what both cost.
fn rank(used: &ThreadUse) -> u64 {
    let bytes = used.read_bytes.unwrap_or(0).saturating_add(used.written_bytes.unwrap_or(0));
    used.processor_us.saturating_add(bytes / 1024)
}

/// A connection's own name, or the name of a group of threads: `WTEvict` of `WTEvict.Server3`.
fn group_name(name: &str) -> &str {
    let is_connection = name
        .strip_prefix("conn")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    if is_connection {
        return name;
    }
    let name = name.split(['.', '[', '-']).next().unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::Clock;
    use crate::host::testing::machine;

    fn write(folder: &Path, path: &str, text: &str) {
        let file = folder.join("proc/9").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// A thread with milliseconds of a processor, milliseconds of waiting for one, and bytes read and written.
    fn thread(
        folder: &Path,
        number: u32,
        name: &str,
        (ran_ms, waited_ms): (u64, u64),
        io: Option<(u64, u64)>,
    ) {
        write(folder, &format!("task/{number}/comm"), &format!("{name}\n"));
        let sched = format!("{} {} {}\n", ran_ms * 1_000_000, waited_ms * 1_000_000, ran_ms);
        write(folder, &format!("task/{number}/schedstat"), &sched);
        if let Some((read, written)) = io {
            write(folder, &format!("task/{number}/io"), &io_text(read, written));
        }
    }

    fn io_text(read: u64, written: u64) -> String {
        format!("rchar: 1\nread_bytes: {read}\nwrite_bytes: {written}\n")
    }

    fn process(folder: &Path, ticks: u64, io: Option<(u64, u64)>) {
        write(folder, "stat", &format!("9 (mongod) S 1 9 9 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 7 0 77 1 10 9"));
        if let Some((read, written)) = io {
            write(folder, "io", &io_text(read, written));
        }
    }

    /// The work that samples a second apart record, with a change before each.
    fn recorded(changes: &[&dyn Fn(&Path)]) -> (Vec<ServerWork>, Vec<String>) {
        let (folder, view) = machine(&[]);
        let mut sampler = ConnectionThreads::new(&view, "0", 9, ThreadReader::shared(&view, 9));
        let clock = Clock::simulated(&[]);
        let mut batch = Batch::new(clock);
        for change in changes {
            change(folder.path());
            clock.pass(Duration::from_secs(1));
            sampler.sample(&mut batch).unwrap();
        }
        let work = batch.entries.into_iter().map(|entry| match entry {
            Entry::ServerWork(work) => *work,
            other => panic!("{other:?}"),
        });
        (work.collect(), batch.notes)
    }

    #[test]
    fn each_connection_has_its_use_and_the_engines_threads_are_groups() {
        let (work, notes) = recorded(&[
            &|folder| process(folder, 100, Some((0, 0))),
            &|folder| {
                process(folder, 150, Some((1_000_000, 0)));
                thread(folder, 20, "conn3", (100, 5), Some((500_000, 0)));
                thread(folder, 21, "conn4", (50, 0), Some((0, 0)));
                thread(folder, 22, "WTEvict.Server0", (10, 0), Some((0, 1000)));
            },
            &|folder| {
                process(folder, 220, Some((10_000_000, 5000)));
                thread(folder, 20, "conn3", (600, 25), Some((9_500_000, 0)));
                thread(folder, 22, "WTEvict.Server0", (60, 0), Some((0, 2000)));
                thread(folder, 23, "WTEvict.Server1", (30, 0), Some((0, 3000)));
            },
        ]);
        assert_eq!(notes, Vec::<String>::new());
        let [work] = work.as_slice() else { panic!("{work:?}") };
        let used = |name: &str, processor_us, run_wait_us, read, written| ThreadUse {
            name: name.into(),
            processor_us,
            run_wait_us,
            read_bytes: Some(read),
            written_bytes: Some(written),
        };
        assert_eq!(
            work.threads,
            [used("conn3", 500_000, 20_000, 9_000_000, 0), used("WTEvict", 80_000, 0, 0, 4000)]
        );
        let ticks_us = 70.0 * 1e6 / rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(work.process, Some(used("", ticks_us as u64, 0, 9_000_000, 5000)));
        assert_eq!(work.end_ns - work.begin_ns, 1_000_000_000);
    }

    #[test]
    fn a_quiet_process_is_not_read_and_one_without_io_is_noted_once() {
        let quiet = |folder: &Path| process(folder, 100, Some((5, 5)));
        assert_eq!(recorded(&[&quiet, &quiet, &quiet]).0, []);
        let ran = |ticks: u64| {
            move |folder: &Path| {
                process(folder, ticks, None);
                thread(folder, 20, "conn3", (ticks * 10, 0), None);
            }
        };
        let (work, notes) = recorded(&[&ran(100), &ran(200), &ran(300), &ran(400)]);
        assert_eq!((work.len(), work[0].threads[0].read_bytes), (2, None));
        assert_eq!(notes.len(), 1, "{notes:?}");
    }

    /// The threads of a lab server and of a mongod with the adaptive executor.
    #[test]
    fn threads_that_serve_many_connections_are_noted_once() {
        for (name, group) in [("EventLoop", "EventLoop"), ("worker-12", "worker")] {
            let ran = |ticks: u64| {
                move |folder: &Path| {
                    process(folder, ticks, Some((0, 0)));
                    thread(folder, 20, name, (ticks * 10, 0), Some((0, 0)));
                }
            };
            let (work, notes) = recorded(&[&ran(100), &ran(200), &ran(300), &ran(400)]);
            assert!(work.iter().all(|work| work.threads[0].is_shared()), "{work:?}");
            let expected = format!(
                "server 0: its threads serve many connections each ({group}): which of them use processors and the disk is not known; which operations take time is known from $currentOp alone"
            );
            assert_eq!(notes, [expected]);
        }
    }

    #[test]
    fn a_thread_that_takes_the_number_of_another_is_a_new_one() {
        let (work, _) = recorded(&[
            &|folder| process(folder, 100, Some((0, 0))),
            &|folder| {
                process(folder, 200, Some((0, 0)));
                thread(folder, 20, "conn3", (900, 0), Some((8000, 0)));
            },
            &|folder| {
                process(folder, 300, Some((0, 0)));
                thread(folder, 20, "conn8", (100, 0), Some((700, 0)));
            },
        ]);
        let used = &work[0].threads[0];
        assert_eq!((used.name.as_str(), used.processor_us, used.read_bytes), ("conn8", 100_000, Some(700)));
    }

    #[test]
    fn names_without_numbers_are_groups() {
        for (name, group) in [
            ("conn12", "conn12"),
            ("conn", "conn"),
            ("connector7", "connector"),
            ("WTEvict.Server", "WTEvict"),
            ("WTCheck.tThread", "WTCheck"),
            ("ReplBatcher", "ReplBatcher"),
            ("TTLMonitor", "TTLMonitor"),
        ] {
            assert_eq!(group_name(name), group, "{name}");
        }
    }
}
