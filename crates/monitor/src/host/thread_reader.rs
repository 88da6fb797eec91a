//! Reads the scheduler statistics of a server's threads, of which a server may have thousands, within a budget of processor time.
//!
//! Each thread has a file of its own. All of them are read at first. Later only those that ran are read, as long as they make up what the process
//! used, and threads that are new. All are read again when those no longer do, and after a pause that limits the cost to a third of a
//! percent of a processor. The samplers of one process share the reader.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use fathom_host::View;
use fathom_host::process::{ProcessStat, thread_numbers, thread_sched};
use fathom_host::sched::SchedStat;

use crate::Clock;

/// The pause before the next reading of all threads, or the next list of them, as a multiple of the last one's duration.
const PAUSE_TO_READING: u64 = 300;
/// The number of busy threads that are read each time.
const MAX_BUSY_THREADS: usize = 64;
/// The part of the processor time of the process from which on the threads that were read stand for all of it.
const MIN_COVERED: f64 = 0.9;
/// The process counts its time in ticks, of which one at either end may belong to another reading.
const TICK_MARGIN_US: f64 = 20_000.0;
/// A reading that is not older serves the other sampler too.
const MAX_AGE_NS: u64 = 500_000_000;

/// The threads of a process that were read at a time.
#[derive(Clone, Debug)]
pub(crate) struct ThreadReading {
    pub(crate) at_ns: u64,
    pub(crate) threads: HashMap<u32, SchedStat>,
    /// Whether these are all of its threads.
    is_complete: bool,
    /// Processor time of the process.
    cpu_us: f64,
}

impl ThreadReading {
    /// The use of each thread since an earlier reading. A thread that the earlier one left out has none yet, and one that did not exist then counts
    /// from its begin.
    pub(crate) fn since(&self, before: &ThreadReading) -> HashMap<u32, SchedStat> {
        let used = |(number, now): (&u32, &SchedStat)| {
            let past = match before.threads.get(number) {
                Some(past) if past.ran_ns <= now.ran_ns && past.waited_ns <= now.waited_ns => *past,
                // The number of an ended thread was given to a new one.
                Some(_) => SchedStat::default(),
                None if before.is_complete => SchedStat::default(),
                None => return None,
            };
            Some((*number, now.since(past)))
        };
        self.threads.iter().filter_map(used).collect()
    }

    /// Whether threads that ran for `ran_us` since an earlier reading stand for the whole process.
    fn is_covered(&self, before: &ThreadReading, ran_us: f64) -> bool {
        ran_us + TICK_MARGIN_US >= MIN_COVERED * (self.cpu_us - before.cpu_us)
    }
}

/// Nanoseconds that some threads waited for a processor, and microseconds that they ran.
fn sums(used: &HashMap<u32, SchedStat>) -> (u64, f64) {
    let add = |of: fn(&SchedStat) -> u64| used.values().map(of).fold(0, u64::saturating_add);
    (add(|stat| stat.waited_ns), add(|stat| stat.ran_ns) as f64 / 1e3)
}

/// The reader of one process.
#[derive(Debug)]
pub(crate) struct ThreadReader {
    view: View,
    pid: u32,
    /// All threads that are known, as they were last read.
    known: HashMap<u32, SchedStat>,
    /// The known threads at the last complete reading.
    complete: HashMap<u32, SchedStat>,
    busy: Vec<u32>,
    thread_count: u64,
    is_covered: bool,
    last: Option<Arc<ThreadReading>>,
    next_complete_ns: u64,
    next_list_ns: u64,
}

/// A reader that samplers of one process share.
pub(crate) type SharedThreadReader = Arc<Mutex<ThreadReader>>;

impl ThreadReader {
    pub(crate) fn shared(view: &View, pid: u32) -> SharedThreadReader {
        Arc::new(Mutex::new(ThreadReader {
            view: view.clone(),
            pid,
            known: HashMap::new(),
            complete: HashMap::new(),
            busy: Vec::new(),
            thread_count: 0,
            is_covered: false,
            last: None,
            next_complete_ns: 0,
            next_list_ns: 0,
        }))
    }

    /// The threads now, or as they were read a moment ago. `None` if the process has ended.
    pub(crate) fn read(reader: &SharedThreadReader, clock: Clock) -> Option<Arc<ThreadReading>> {
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock.now_ns();
        let recent = reader.last.as_ref().filter(|last| now_ns < last.at_ns.saturating_add(MAX_AGE_NS));
        if let Some(recent) = recent {
            return Some(Arc::clone(recent));
        }
        let reading = Arc::new(reader.read_now(clock)?);
        reader.last = Some(Arc::clone(&reading));
        Some(reading)
    }

    fn read_now(&mut self, clock: Clock) -> Option<ThreadReading> {
        let stat = ProcessStat::read(&self.view, self.pid)?;
        let at_ns = clock.now_ns();
        let has_changed = stat.threads != self.thread_count;
        self.thread_count = stat.threads;
        let is_needed = !self.is_covered || self.known.len() <= MAX_BUSY_THREADS;
        let is_complete = is_needed && at_ns >= self.next_complete_ns;
        let numbers = match is_complete {
            true => thread_numbers(&self.view, self.pid),
            false => self.busy_and_new(has_changed, clock),
        };
        let read = |number: u32| Some((number, thread_sched(&self.view, self.pid, number)?));
        let threads: HashMap<u32, SchedStat> = numbers.into_iter().filter_map(read).collect();
        let cpu_us = stat.cpu_ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second().max(1) as f64;
        let reading = ThreadReading { at_ns, threads, is_complete, cpu_us };
        if is_complete {
            self.next_complete_ns = pause_after(at_ns, clock.now_ns());
            self.take_complete(&reading);
        } else {
            self.known.extend(reading.threads.iter().map(|(number, stat)| (*number, *stat)));
            self.busy.retain(|number| reading.threads.contains_key(number));
        }
        if let Some(before) = &self.last {
            let used = reading.since(before);
            self.is_covered = reading.is_covered(before, sums(&used).1);
            let ran = |number: &u32| used.get(number).map_or(0, |stat| stat.ran_ns);
            self.busy.sort_by_key(|number| std::cmp::Reverse(ran(number)));
            self.busy.truncate(MAX_BUSY_THREADS);
        }
        Some(reading)
    }

    /// The threads that ran lately, and those that were started since the threads were listed last.
    fn busy_and_new(&mut self, has_changed: bool, clock: Clock) -> Vec<u32> {
        let begin_ns = clock.now_ns();
        if has_changed && begin_ns >= self.next_list_ns {
            let listed: HashSet<u32> = thread_numbers(&self.view, self.pid).into_iter().collect();
            self.known.retain(|number, _| listed.contains(number));
            let new = listed.into_iter().filter(|number| !self.known.contains_key(number));
            // With the busy ones and not in place of them: the next complete reading ranks all.
            self.busy.extend(new.take(MAX_BUSY_THREADS));
            self.next_list_ns = pause_after(begin_ns, clock.now_ns());
        }
        self.busy.clone()
    }

    /// Ranks all threads by what they ran since the last complete reading.
    fn take_complete(&mut self, reading: &ThreadReading) {
        let ran = |(number, stat): (&u32, &SchedStat)| {
            let past = self.complete.get(number).filter(|past| past.ran_ns <= stat.ran_ns);
            (stat.since(past.copied().unwrap_or_default()).ran_ns, *number)
        };
        let mut ranked: Vec<(u64, u32)> =
            reading.threads.iter().map(ran).filter(|(ran_ns, _)| *ran_ns > 0).collect();
        ranked.sort_unstable_by(|one, other| other.cmp(one));
        self.busy = ranked.into_iter().take(MAX_BUSY_THREADS).map(|(_, number)| number).collect();
        self.known.clone_from(&reading.threads);
        self.complete.clone_from(&reading.threads);
    }
}

fn pause_after(begin_ns: u64, end_ns: u64) -> u64 {
    end_ns.saturating_add(end_ns.saturating_sub(begin_ns).saturating_mul(PAUSE_TO_READING))
}

/// The waits of a process's threads for a processor, added up over threads that start and end.
#[derive(Debug)]
pub(crate) struct ThreadWaits {
    pub(crate) reader: SharedThreadReader,
    last: Option<Arc<ThreadReading>>,
    complete: Option<Arc<ThreadReading>>,
    /// The end of the last window that was returned.
    until_ns: u64,
}

impl ThreadWaits {
    pub(crate) fn new(view: &View, pid: u32) -> ThreadWaits {
        ThreadWaits { reader: ThreadReader::shared(view, pid), last: None, complete: None, until_ns: 0 }
    }

    /// Returns a window and the wait of all threads in it: since the last reading if the threads that were read stand for the process, or since the
    /// last complete one. The wait of a thread that ended in between is lost.
    pub(crate) fn read(&mut self, clock: Clock) -> Option<((u64, u64), u64)> {
        let now = ThreadReader::read(&self.reader, clock)?;
        let before = self.last.replace(Arc::clone(&now));
        let complete = match now.is_complete {
            true => self.complete.replace(Arc::clone(&now)),
            false => self.complete.clone(),
        };
        let before = before.filter(|before| before.at_ns < now.at_ns && !now.threads.is_empty())?;
        let (waited_ns, ran_us) = sums(&now.since(&before));
        let is_whole = before.is_complete && now.is_complete || now.is_covered(&before, ran_us);
        let window = if is_whole {
            ((before.at_ns, now.at_ns), waited_ns)
        } else {
            // A window that was returned since then would count twice.
            let complete = complete.filter(|past| now.is_complete && past.at_ns >= self.until_ns)?;
            ((complete.at_ns, now.at_ns), sums(&now.since(&complete)).0)
        };
        self.until_ns = now.at_ns;
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::host::testing::machine;

    fn stat(ran_ns: u64, waited_ns: u64) -> SchedStat {
        SchedStat { ran_ns, waited_ns, slices: 1 }
    }

    fn reading(at_ns: u64, is_complete: bool, threads: &[(u32, SchedStat)]) -> ThreadReading {
        ThreadReading { at_ns, threads: threads.iter().copied().collect(), is_complete, cpu_us: 0.0 }
    }

    #[test]
    fn threads_that_come_and_go_are_added_up() {
        let waited = |now: &ThreadReading, before: &ThreadReading| sums(&now.since(before)).0;
        let first = reading(1, true, &[(1, stat(0, 100)), (2, stat(0, 50))]);
        let second = reading(2, true, &[(1, stat(0, 130)), (3, stat(0, 7))]);
        assert_eq!(waited(&second, &first), 37);
        // The number belongs to another thread now.
        assert_eq!(waited(&reading(3, true, &[(1, stat(0, 5))]), &second), 5);
        // Whether thread 3 is new is not known.
        let partial = reading(2, false, &[(1, stat(0, 130))]);
        assert_eq!(waited(&reading(3, true, &[(1, stat(0, 131)), (3, stat(0, 7))]), &partial), 1);
    }

    /// A process of so many threads, the first of which has run and waited for so many milliseconds.
    fn process(folder: &Path, threads: u32, busy_ms: &[u64], cpu_ticks: u64) {
        let line = format!("9 (mongod) S 1 9 9 0 -1 0 0 0 0 0 {cpu_ticks} 0 0 0 20 0 {threads} 0 77 1 10 9");
        let write = |path: &str, text: &str| {
            let file = folder.join("proc/9").join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("stat", &line);
        for number in 0..threads {
            let ms = busy_ms.get(number as usize).copied().unwrap_or(0);
            write(&format!("task/{}/schedstat", 100 + number), &format!("{0} {0} {ms}\n", ms * 1_000_000));
        }
    }

    /// The numbers of threads that each reading has, a second apart and `took` long each, and the waits that it adds, in milliseconds.
    fn read(steps: &[(u32, &[u64], u64)]) -> Vec<(usize, Option<u64>)> {
        let (folder, view) = machine(&[]);
        let clock = Clock::simulated(&[]);
        let mut waits = ThreadWaits::new(&view, 9);
        let one = |(threads, busy_ms, ticks): &(u32, &[u64], u64)| {
            process(folder.path(), *threads, busy_ms, *ticks);
            clock.pass(Duration::from_secs(1));
            let waited = waits.read(clock).map(|(_, waited_ns)| waited_ns / 1_000_000);
            (waits.last.as_ref().unwrap().threads.len(), waited)
        };
        steps.iter().map(one).collect()
    }

    #[test]
    fn of_many_threads_those_that_ran_are_read_while_they_cover_the_process() {
        let ticks = |ms: u64| ms * rustix::param::clock_ticks_per_second() / 1000;
        assert_eq!(
            read(&[
                (200, &[1000, 500], ticks(1500)),
                (200, &[1400, 700], ticks(2100)),
                (200, &[1800, 900], ticks(2700)),
                // Thread 5 takes most of the time, which the two that are read do not cover.
                (200, &[1900, 900, 0, 0, 0, 800], ticks(3600)),
                (200, &[2000, 900, 0, 0, 0, 1600], ticks(4500)),
                (200, &[2100, 900, 0, 0, 0, 2400], ticks(5400)),
                // A thread that is new is read at once.
                (201, &[2200, 900, 0, 0, 0, 3200], ticks(6300)),
            ]),
            [
                (200, None),
                (200, Some(600)),
                (2, Some(600)),
                (2, None),
                // Complete, but the reading before was not.
                (200, None),
                (200, Some(900)),
                (3, Some(900)),
            ]
        );
    }

    #[test]
    fn few_threads_are_all_read_each_time() {
        assert_eq!(
            read(&[(3, &[10], 1), (3, &[20], 2), (4, &[30, 0, 0, 5], 3)]),
            [(3, None), (3, Some(10)), (4, Some(15))]
        );
    }
}
