//! One window: runs jobs concurrently for a while, and collects all data about it together.
//!
//! The order matters. All workers are up before the first request; requests that end during warm-up are discarded; device counters,
//! CPU times and latencies are read at the same two moments; requests in flight at the end do not count.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_record::Reading;

use crate::clock::{now_ns, sleep_until};
use crate::engine::mapping::Mapping;
use crate::engine::{threads, uring, workers};
use crate::file::BlockFile;
use crate::session::{ProbeSecond, ProbeSession, StepOutcome};
use crate::shape::{IoEngine, Job, Pattern, WindowPlan};
use crate::summary;
use crate::summary::Meters;
use crate::target::FileAccess;
use crate::tracks::{Track, Tracks};
use crate::worker_context::{StartSchedule, Starter, WorkerContext};

/// The interval between readings; a short window has four readings, so that each step has replicates.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Below this a reading is noise.
const MIN_INTERVAL_NS: u64 = 200_000_000;
/// The time by which a window may exceed its plan while no operation has ended in it.
const OVERRUN_TIMEOUT_NS: u64 = 5_000_000_000;
/// The interval at which a window checks for signals and errors.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A worker needs only a small stack: its buffer is mapped separately.
const STACK_BYTES: usize = 128 << 10;

impl ProbeSession<'_> {
    /// Runs `plan` and reports to the sink.
    ///
    /// # Errors
    /// When the window could not begin, or the sink returned an error. A failed operation is in [`StepOutcome::error`].
    pub fn run(&mut self, plan: &WindowPlan) -> Result<StepOutcome> {
        self.run_until(plan, &mut |_| false)
    }

    /// Runs `plan` until it is over or `is_over` says so, which is called after each interval with the rates of all intervals so far.
    pub(crate) fn run_until(
        &mut self,
        plan: &WindowPlan,
        is_over: &mut dyn FnMut(&[f64]) -> bool,
    ) -> Result<StepOutcome> {
        for job in &plan.jobs {
            self.check(job)?;
        }
        let files = plan.jobs.iter().map(|job| self.files_for(job)).collect::<Result<Vec<_>>>()?;
        let starter = Starter::default();
        self.windows += 1;
        let seed = self.seed.split(self.windows);
        let mut crews: Vec<WorkerContext<'_>> = Vec::new();
        // The borrow of stamper and generations must not block `self`, whose sink is called in between.
        let (stamper, generations) = (self.stamper.clone(), self.generations.take());
        for (job, index) in plan.jobs.iter().zip(0u64..) {
            let workers = u64::from(workers(job, self.cpus));
            let (size, journal) = (self.target.size().get(), self.target.journal_bytes());
            let seed = seed.split(index);
            crews.push(WorkerContext::new(
                job,
                workers,
                size,
                journal,
                seed,
                &stamper,
                generations.as_ref(),
                &starter,
            ));
        }
        self.passages.add(self.now_ns(), 0);
        let outcome = self.run_crews(plan, &files, &mut crews, &starter, is_over);
        // Requests in flight at the end passed through the device too.
        let (mut rest, mut spare) = (Tracks::default(), Tracks::default());
        for crew in &crews {
            crew.shards.drain(&mut rest, &mut spare);
            self.passages.add(self.now_ns(), summary::operations_ended(crew.job, &rest));
            rest.clear();
        }
        drop(crews);
        self.generations = generations;
        let outcome = outcome?;
        self.sink.step(&outcome)?;
        Ok(outcome)
    }

    /// Refuses a job that cannot run on this target. Asked before the layout pass too, which may take minutes.
    ///
    /// # Errors
    /// [`Kind::Usage`], with what to change.
    pub fn check(&self, job: &Job) -> Result<()> {
        job.check()?;
        let (align, size) = (self.target.alignment(), self.target.size());
        if job.engine != IoEngine::Mmap && !job.block.get().is_multiple_of(align) {
            let what = format!(
                "a block of {} does not suit direct I/O here, which needs multiples of {align} bytes",
                job.block
            );
            return Err(Error::usage(what).advise(format!("take --block {align} or more")));
        }
        if job.depth > self.depth_max(job) || size.get() / job.block.get() < 2 {
            let what =
                format!("a file of {size} has too few blocks of {} for a depth of {}", job.block, job.depth);
            return Err(Error::usage(what)
                .with_id("file-too-small")
                .advise("take a larger --size, a smaller --block or a smaller --depth"));
        }
        let ragged =
            !job.block.get().is_multiple_of(crate::stamp::CHUNK as u64) && job.pattern != Pattern::Append;
        if ragged && self.generations.is_some() {
            return Err(Error::usage("--verify needs a block that is a multiple of 4K"));
        }
        if ragged && job.pattern.writes() && self.target.is_kept() {
            let what = "a block that is not a multiple of 4K would damage the stamps of the kept file";
            return Err(Error::usage(what).advise("take another --block, or remove the kept file"));
        }
        Ok(())
    }

    /// The most requests in flight for which the file has enough blocks; when verifying, two blocks for each.
    pub(crate) fn depth_max(&self, job: &Job) -> u32 {
        let blocks = self.target.size().get() / job.block.get().max(1);
        let blocks = if self.generations.is_some() { blocks / 2 } else { blocks };
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    fn files_for(&mut self, job: &Job) -> Result<(PathBuf, File)> {
        let access = FileAccess {
            direct: self.target.is_direct() && job.engine != IoEngine::Mmap,
            dsync: job.durable == crate::shape::WriteSync::Dsync,
            read_only: !job.pattern.writes(),
        };
        if job.pattern == Pattern::Append {
            return self.target.journal(access);
        }
        Ok((self.target.path().to_owned(), self.target.reopen(access)?))
    }

    fn run_crews(
        &mut self,
        plan: &WindowPlan,
        files: &[(PathBuf, File)],
        crews: &mut [WorkerContext<'_>],
        starter: &Starter,
        is_over: &mut dyn FnMut(&[f64]) -> bool,
    ) -> Result<StepOutcome> {
        let mappings = map_files(files, crews)?;
        let began = now_ns();
        for crew in crews.iter_mut() {
            crew.arrivals = crew.job.rate_per_s.map(|rate| {
                let random = crew.seed.split(u64::MAX);
                StartSchedule::new(rate, began + 20_000_000, random)
            });
        }
        let crews = &*crews;
        std::thread::scope(|scope| {
            let mut spawned = 0;
            for ((crew, (path, file)), mapping) in crews.iter().zip(files).zip(&mappings) {
                for index in 0..crew.workers {
                    let spawn = match mapping {
                        Some(mapping) => spawn_threads(scope, mapping, path, crew, index),
                        None if crew.job.engine == IoEngine::IoUring => {
                            spawn_ring(scope, file, path, crew, index)
                        }
                        None => spawn_threads(scope, file, path, crew, index),
                    };
                    if let Err(error) = spawn {
                        crew.fail(error);
                        break;
                    }
                    spawned += 1;
                }
            }
            while starter.ready() < spawned && !starter.stopping() {
                std::thread::sleep(Duration::from_micros(200));
            }
            let ready_after_ns = now_ns() - began;
            starter.start();
            let measured = self.measure(plan, crews, starter, ready_after_ns, is_over);
            starter.stop();
            crews.iter().for_each(|crew| crew.rally.wake());
            measured
        })
    }

    /// Watches a running window from its warm-up to its end.
    fn measure(
        &mut self,
        plan: &WindowPlan,
        crews: &[WorkerContext<'_>],
        starter: &Starter,
        ready_after_ns: u64,
        is_over: &mut dyn FnMut(&[f64]) -> bool,
    ) -> Result<StepOutcome> {
        let mut spare = Tracks::default();
        let mut total: Vec<Tracks> = vec![Tracks::default(); crews.len()];
        let interrupted = self.pass_time(now_ns() + plan.warm_up.get(), starter);
        for crew in crews {
            let mut warm_up = Tracks::default();
            crew.shards.drain(&mut warm_up, &mut spare);
            self.passages.add(self.now_ns(), summary::operations_ended(crew.job, &warm_up));
        }
        let begin = Meters::read(self);
        let mut last = begin.clone();
        let end_ns = begin.taken_ns + plan.length.get();
        let mut per_interval = Vec::new();
        let interval_ns = (plan.length.get() / 4).clamp(MIN_INTERVAL_NS, INTERVAL_NS);
        let (mut interrupted, mut over) = (interrupted, false);
        loop {
            // A window in which no operation ended carries no information: it is extended until one has.
            let something = total.iter().any(|tracks| !tracks.is_empty());
            let end_ns = if something { end_ns } else { end_ns + OVERRUN_TIMEOUT_NS };
            if last.taken_ns >= end_ns || interrupted || over || starter.stopping() {
                break;
            }
            interrupted = self.pass_time((last.taken_ns + interval_ns).min(end_ns), starter);
            let mut interval: Vec<Tracks> = Vec::new();
            for (crew, total) in crews.iter().zip(&mut total) {
                let mut tracks = Tracks::default();
                crew.shards.drain(&mut tracks, &mut spare);
                total.merge(&tracks);
                self.passages.add(self.now_ns(), summary::operations_ended(crew.job, &tracks));
                interval.push(tracks);
            }
            let now = Meters::read(self);
            // A short remainder at the end would only add noise to the per-second list.
            if now.taken_ns - last.taken_ns > interval_ns / 2 || per_interval.is_empty() {
                per_interval.push(summary::operations_per_s(
                    &plan.jobs,
                    &interval,
                    now.taken_ns - last.taken_ns,
                ));
                over = is_over(&per_interval);
            }
            self.tell_interval(plan, &interval, &last, &now)?;
            last = now;
        }
        starter.stop();
        let verified = crews.iter().map(|crew| crew.verified.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let mut step = summary::step(plan, &total, &begin, &last, &verified, self, per_interval);
        step.ready_after_ns = Some(ready_after_ns);
        let error = crews.iter().find_map(WorkerContext::take_error);
        Ok(StepOutcome { step, tracks: total, error, interrupted })
    }

    /// Waits until `deadline_ns`, a signal (true) or a worker's error.
    fn pass_time(&self, deadline_ns: u64, starter: &Starter) -> bool {
        while now_ns() < deadline_ns && !starter.stopping() {
            if self.signals.stopped() {
                return true;
            }
            sleep_until(deadline_ns.min(now_ns() + CHECK_INTERVAL.as_nanos() as u64));
        }
        self.signals.stopped()
    }

    fn tell_interval(
        &mut self,
        plan: &WindowPlan,
        interval: &[Tracks],
        from: &Meters,
        to: &Meters,
    ) -> Result<()> {
        let elapsed_ns = to.taken_ns - from.taken_ns;
        let end = self.now_ns();
        let window_ns = (end.saturating_sub(elapsed_ns), end);
        let mut readings: Vec<Reading> = Vec::new();
        let mut latencies = Vec::new();
        for (job, tracks) in plan.jobs.iter().zip(interval) {
            let label = summary::label(&plan.phase, job);
            for track in Track::ALL {
                let histogram = tracks.get(track);
                if histogram.is_empty() {
                    continue;
                }
                let name = format!("{label}-{}", track.name());
                let per_s = histogram.len() as f64 * 1e9 / elapsed_ns as f64;
                readings.push(Reading::new(format!("probe.{name}.per_s"), "1/s", window_ns, per_s));
                latencies.push((name, histogram));
            }
        }
        readings.extend(to.readings_since(from, window_ns));
        self.sink.interval(&ProbeSecond { window_ns, readings: &readings, latencies: &latencies })
    }
}

fn map_files<'f>(
    files: &'f [(PathBuf, File)],
    crews: &[WorkerContext<'_>],
) -> Result<Vec<Option<Mapping<'f>>>> {
    let map = |((_, file), crew): (&'f (PathBuf, File), &WorkerContext<'_>)| {
        let size = crew.file_bytes();
        (crew.job.engine == IoEngine::Mmap)
            .then(|| Mapping::new(file, size, crew.job.pattern.writes()))
            .transpose()
    };
    files.iter().zip(crews).map(map).collect()
}

fn spawn_threads<'s, F: BlockFile>(
    scope: &'s Scope<'s, '_>,
    file: &'s F,
    path: &'s Path,
    crew: &'s WorkerContext<'s>,
    index: u64,
) -> Result<()> {
    let work = move || {
        if crew.job.engine == IoEngine::Mmap {
            give_way();
        }
        threads::work(file, path, crew, index).unwrap_or_else(|error| crew.fail(error));
    };
    spawn(scope, work)
}

/// Gives priority to the thread that reads clocks and signals. Loads from cached memory never wait, and a thousand threads of them
/// delayed the end of a half-second window by a minute.
fn give_way() {
    // If the kernel refuses, the window merely ends late.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
}

fn spawn_ring<'s>(
    scope: &'s Scope<'s, '_>,
    file: &'s File,
    path: &'s Path,
    crew: &'s WorkerContext<'s>,
    index: u64,
) -> Result<()> {
    let work = move || uring::work(file, path, crew, index).unwrap_or_else(|error| crew.fail(error));
    spawn(scope, work)
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) -> Result<()> {
    let spawned = Builder::new().name("probe".into()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
    spawned.map(drop).map_err(|e| {
        let what = "cannot start another thread";
        Error::new(Kind::Unsupported, what)
            .because(e)
            .advise("raise 'ulimit -u' and the cgroup's pids.max, or take a smaller --depth")
    })
}
