//! Runs the ramp and the background sync in simulated time: seconds, steps and syncs are exact, however late a wait ends.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_process::Signals;
use fathom_units::Nanos;

use super::run::Ramp;
use super::worker::{self, RecordAccess, WorkerState};
use super::{Lines, MongoperfEvent, MongoperfOptions, MongoperfPlan, MongoperfStep};
use crate::clock::WaitClock;
use crate::file::BlockFile;
use crate::stamp::Stamper;
use crate::tracks::{Track, lock};

const MS: u64 = 1_000_000;
/// The time at which the clock begins, which must not matter.
const BEGIN_NS: u64 = 77 * MS;

/// Time that passes in sleeps, one of which ends late.
struct SimulatedTime {
    now_ns: AtomicU64,
    /// The moment from which a sleep ends late, once, and by how much.
    stall_ns: Mutex<Option<(u64, u64)>>,
}

impl SimulatedTime {
    fn new(stall_ms: Option<(u64, u64)>) -> SimulatedTime {
        let stall_ns = stall_ms.map(|(at_ms, late_ms)| (BEGIN_NS + at_ms * MS, late_ms * MS));
        SimulatedTime { now_ns: AtomicU64::new(BEGIN_NS), stall_ns: Mutex::new(stall_ns) }
    }

    fn pass(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl WaitClock for SimulatedTime {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let stall = lock(&self.stall_ns).take_if(|(at_ns, _)| deadline_ns >= *at_ns);
        let late_ns = stall.map_or(0, |(_, late_ns)| late_ns);
        self.pass(deadline_ns.saturating_sub(self.now_ns()) + late_ns);
    }
}

/// A file whose every sync takes 24 ms; calls `synced` after each.
struct SyncedFile<'a, F> {
    clock: &'a SimulatedTime,
    synced: F,
}

impl<F: Fn() + Sync> BlockFile for SyncedFile<'_, F> {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.clock.pass(24 * MS);
        (self.synced)();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_over(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The lines and the steps of a run in which 100 reads end in each second, however long it is, and one sync ends soon after each.
fn climb(
    document: &str,
    seconds: u64,
    step_ticks: u32,
    stall_ms: Option<(u64, u64)>,
) -> (Vec<String>, Vec<MongoperfStep>) {
    let parsed = MongoperfOptions::parse(document).unwrap();
    let (clock, stamper) = (SimulatedTime::new(stall_ms), Stamper::new(1, false));
    let file = SyncedFile { clock: &clock, synced: || () };
    let options = parsed.options.clone();
    let shared = WorkerState::new(
        &clock,
        &options,
        RecordAccess::Direct(&file),
        Path::new("/the/file"),
        &stamper,
        512,
    );
    let plan =
        MongoperfPlan { options: options.clone(), seconds: Some(Nanos::secs(seconds)), step_ticks, seed: 7 };
    let (mut lines, mut told) = (Lines::new(&options, &parsed.echo), Vec::new());
    let mut tell = |event: &MongoperfEvent<'_>| {
        told.extend(lines.lines(event));
        if matches!(event, MongoperfEvent::Threads(1) | MongoperfEvent::Second(_)) {
            (0..100).for_each(|_| shared.shards.shard(0).tracks().record(Track::Read, MS));
            lock(&shared.syncs).extend(options.mapped.then_some((clock.now_ns(), 24 * MS)));
        }
        Ok(())
    };
    let signals = Signals::install().unwrap();
    let mut ramp = Ramp::new(&shared, &plan, &signals, &mut tell);
    let mut started = Vec::new();
    ramp.climb(|index| {
        started.push(index);
        Ok(())
    })
    .unwrap();
    let steps = std::mem::take(&mut ramp.steps);
    assert_eq!(started, (0..steps.last().unwrap().threads).collect::<Vec<_>>());
    (told, steps)
}

/// The threads, the start and the length of each step, in milliseconds.
fn steps_ms(steps: &[MongoperfStep]) -> Vec<(u32, u64, u64)> {
    let ms = |seconds: f64| (seconds * 1000.0).round() as u64;
    steps.iter().map(|step| (step.threads, ms(step.begin_s), ms(step.length_s))).collect()
}

#[test]
fn threads_double_with_each_step_and_each_second_is_a_line() {
    let (lines, steps) = climb("{nThreads:5,fileSizeMB:16,r:true,w:true,recSizeKB:64}", 5, 1, None);
    let second = "100 ops/sec 6 MB/sec";
    let step = |threads: u32| [format!("new thread, total running : {threads}"), "read:1 write:1".to_owned()];
    let expected: Vec<String> = [1, 2, 4, 5]
        .into_iter()
        .flat_map(|threads| step(threads).into_iter().chain([second.to_owned()]))
        .chain([second.to_owned()])
        .collect();
    assert_eq!(lines, expected);
    assert_eq!(steps_ms(&steps), [(1, 0, 1000), (2, 1000, 1000), (4, 2000, 1000), (5, 3000, 2000)]);

    let (lines, steps) = climb("{nThreads:5,fileSizeMB:16,r:true}", 9, 8, None);
    assert_eq!(lines.iter().position(|line| line.ends_with(" : 2")), Some(2 + 8));
    assert_eq!(steps_ms(&steps), [(1, 0, 8000), (2, 8000, 1000)]);
}

#[test]
fn a_second_in_which_the_machine_stood_still_has_its_own_length() {
    let (lines, steps) = climb("{nThreads:4,fileSizeMB:16,r:true}", 4, 1, Some((1500, 1700)));
    let rates: Vec<&String> = lines.iter().filter(|line| line.contains("ops/sec")).collect();
    // The second one ends at 3.2 s, and the next one with the fourth second.
    assert_eq!(rates, ["100 ops/sec 0 MB/sec", "45 ops/sec 0 MB/sec", "125 ops/sec 0 MB/sec"]);
    assert_eq!(steps_ms(&steps), [(1, 0, 1000), (2, 1000, 2200), (4, 3200, 800)]);
}

#[test]
fn a_sync_begins_at_once_and_a_delay_after_each() {
    let options = MongoperfOptions::parse("{mmf:1,w:1,syncDelay:1}").unwrap().options;
    let (clock, stamper) = (SimulatedTime::new(Some((1500, 400))), Stamper::new(1, false));
    let idle = SyncedFile { clock: &clock, synced: || () };
    let shared =
        WorkerState::new(&clock, &options, RecordAccess::Direct(&idle), Path::new("/f"), &stamper, 512);
    let end = || {
        if clock.now_ns() >= BEGIN_NS + 4000 * MS {
            shared.stop();
        }
    };
    worker::sync(&shared, &SyncedFile { clock: &clock, synced: end }).unwrap();
    let syncs = lock(&shared.syncs);
    let syncs: Vec<(u64, u64)> =
        syncs.iter().map(|(begin_ns, took_ns)| ((begin_ns - BEGIN_NS) / MS, took_ns / MS)).collect();
    // A pause of the machine of 400 ms in the middle of a delay is no later sync.
    assert_eq!(syncs, [(0, 24), (1024, 24), (2048, 24), (3072, 24), (4096, 24)]);
}

#[test]
fn each_sync_is_told_once_where_it_ended() {
    let (lines, _) = climb("{nThreads:1,fileSizeMB:16,mmf:1,r:1,w:1,syncDelay:1}", 3, 8, None);
    let sync = format!("{}mmf sync took 24 ms", " ".repeat(53));
    let (sync, second) = (sync.as_str(), "100 ops/sec ");
    assert_eq!(lines[2..], [sync, second, sync, second, sync, second]);
}
