//! A probing session on one target: the state that all windows share, the sink of events, and the last step of `--verify`, which
//! reads the whole file back in order and checks every stamp.

use std::time::Instant;

use fathom_errors::{Error, Result};
use fathom_host::diskstats::{DiskSampler, NO_COUNTERS, no_counters_of};
use fathom_host::{BlockTree, View};
use fathom_process::Signals;
use fathom_record::Reading;
use fathom_record::disk::{Entry, Layout, ProbeSubject, Step};
use fathom_stats::{Histogram, SeededRandom};

use crate::buffer::AlignedBuffer;
use crate::file::BlockFile;
use crate::layout::{self, LayoutPlan};
use crate::passage_log::PassageLog;
use crate::schedule::{StepProgress, StepSchedule};
use crate::stamp::{FIRST_GENERATION, Generations, Stamper};
use crate::target::ProbeTarget;
use crate::tracks::Tracks;

/// The result of one interval of about a second.
pub struct ProbeSecond<'a> {
    /// Begin and end, nanoseconds since the run's start.
    pub window_ns: (u64, u64),
    pub readings: &'a [Reading],
    /// Its latencies: log name and histogram.
    pub latencies: &'a [(String, &'a Histogram)],
}

/// The result of a window.
#[derive(Debug)]
pub struct StepOutcome {
    pub step: Step,
    /// The whole distributions, per job.
    pub tracks: Vec<Tracks>,
    /// The first operation that failed; the window ended there.
    pub error: Option<Error>,
    /// Whether a signal cut the window short.
    pub interrupted: bool,
}

/// A receiver of results: the terminal, the run folder, a test. An error from it ends the probe.
pub trait Sink {
    /// Progress of the layout pass: bytes done, bytes in all.
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) -> Result<()>;
    fn step_begins(&mut self, step: &StepProgress) -> Result<()>;
    /// Called at the end of each interval.
    fn interval(&mut self, interval: &ProbeSecond<'_>) -> Result<()>;
    /// Called with each final result.
    fn result(&mut self, entry: &Entry) -> Result<()>;
    /// Called when a step ended, with its whole distributions, for formats that need more than the record's figures.
    fn step(&mut self, outcome: &StepOutcome) -> Result<()>;
}

/// The state of one probing.
pub struct ProbeSession<'a> {
    pub(crate) target: ProbeTarget,
    pub(crate) stamper: Stamper,
    pub(crate) generations: Option<Generations>,
    pub(crate) seed: SeededRandom,
    pub(crate) windows: u64,
    pub(crate) schedule: StepSchedule,
    pub(crate) passages: PassageLog,
    pub(crate) signals: Signals,
    pub(crate) sampler: Option<DiskSampler>,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) zero: Instant,
    pub(crate) cpus: u32,
    /// The kernel's names of devices whose cache is volatile (`write back`).
    pub(crate) volatile: Vec<String>,
}

impl<'a> ProbeSession<'a> {
    /// A session on `target`; `verify` stamps checksums and checks every read; times count from `zero`.
    pub fn new(
        target: ProbeTarget,
        seed: u64,
        verify: bool,
        signals: Signals,
        zero: Instant,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let view = View::live();
        let initial = if target.is_reused() { 0 } else { FIRST_GENERATION };
        let generations = verify.then(|| Generations::new(seed, target.size().get(), initial));
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        ProbeSession {
            stamper: Stamper::new(seed, verify),
            generations,
            seed: SeededRandom::from_seed(seed),
            windows: 0,
            schedule: StepSchedule::default(),
            passages: PassageLog::default(),
            signals,
            // Without counters, as in a container that hides them, the probe still works.
            sampler: DiskSampler::open(&view).ok(),
            sink,
            zero,
            cpus,
            volatile: volatile_devices(&view, &target),
            target,
        }
    }

    /// The target, for facts about it.
    pub fn target(&self) -> &ProbeTarget {
        &self.target
    }

    /// Whether a signal asked the probe to end.
    pub fn interrupted(&self) -> bool {
        self.signals.stopped()
    }

    /// A sentence on counters of devices that are missing here, or that do not come from `/proc/diskstats`.
    pub fn counter_note(&mut self) -> Option<String> {
        let Some(sampler) = &mut self.sampler else { return Some(NO_COUNTERS.to_owned()) };
        let sample = sampler.sample().ok()?;
        if sample.lines.is_empty() {
            return Some(NO_COUNTERS.to_owned());
        }
        let leaves = self.target.place().leaves.iter().map(String::as_str);
        let missing: Vec<&str> = leaves.filter(|leaf| sample.by_name(leaf).is_none()).collect();
        if missing.is_empty() { sampler.note() } else { Some(no_counters_of(&missing)) }
    }

    /// Whether the device under the target has a volatile cache that a flush must empty.
    pub fn cache_is_volatile(&self) -> Option<bool> {
        (!self.target.place().leaves.is_empty()).then_some(!self.volatile.is_empty())
    }

    /// Nanoseconds since the run's start.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reports the subject of the probe, and lays the file out unless its content already exists.
    pub fn begin(&mut self, plan: &LayoutPlan, writes: bool) -> Result<Option<Layout>> {
        let laid_out = self.lay_out(plan, writes);
        // Also after a failure: the record of a device that accepts no file must name that device.
        let announced = self.announce();
        let layout = laid_out?;
        announced?;
        if let Some(layout) = &layout {
            self.sink.result(&Entry::Layout(layout.clone()))?;
        }
        Ok(layout)
    }

    fn lay_out(&mut self, plan: &LayoutPlan, writes: bool) -> Result<Option<Layout>> {
        if self.target.place().is_device && !writes {
            return Ok(None);
        }
        if self.target.is_reused() && !self.target.place().is_device {
            let bytes = self.target.size().get();
            let (seconds, mib_per_s) = (0.0, 0.0);
            return Ok(Some(Layout {
                bytes,
                seconds,
                mib_per_s,
                rewritten: None,
                reused: true,
                cut_short: false,
            }));
        }
        let (sink, signals) = (&mut *self.sink, &self.signals);
        let generations = self.generations.as_ref();
        let layout = layout::lay_out(&mut self.target, &self.stamper, generations, plan, |done, total| {
            sink.layout_progress(done, total)?;
            Ok(!signals.stopped())
        })?;
        Ok(Some(layout))
    }

    fn announce(&mut self) -> Result<()> {
        let place = self.target.place();
        let subject = ProbeSubject {
            directory: place.path.display().to_string(),
            file_system: place.file_system.clone(),
            device: place.device_names(),
            size_bytes: self.target.size().get(),
            direct: self.target.is_direct(),
            alignment_bytes: self.target.alignment(),
        };
        self.sink.result(&Entry::Subject(subject))
    }

    /// Ends the session: removes its files, or keeps the data file if `keep`.
    pub fn close(self, keep: bool) -> Result<()> {
        self.target.close(keep)
    }
}

fn volatile_devices(view: &View, target: &ProbeTarget) -> Vec<String> {
    let tree = BlockTree::read(view);
    let leaves = target.place().leaves.iter();
    let volatile = |name: &&String| tree.by_name(name).is_some_and(|device| device.has_volatile_cache(view));
    leaves.filter(volatile).cloned().collect()
}

const STRIDE: u64 = 1 << 20;

impl ProbeSession<'_> {
    /// Reads the data file back; returns how many 4 KiB blocks were checked, 0 when not verifying.
    ///
    /// # Errors
    /// [`fathom_errors::Kind::Corruption`] at the first block that is not what was written.
    pub fn recheck(&mut self) -> Result<u64> {
        let Some(generations) = &self.generations else { return Ok(0) };
        let size = self.target.size().get();
        let mut buffer = AlignedBuffer::new(STRIDE as usize)?;
        let (mut at, mut checked) = (0, 0);
        while at < size && !self.signals.stopped() {
            let len = usize::try_from(STRIDE.min(size - at)).unwrap_or(0);
            let stride = buffer.as_mut_slice().get_mut(..len).unwrap_or_default();
            self.target
                .file()
                .read_at(stride, at)
                .map_err(|e| Error::io("read back", self.target.path(), e))?;
            checked += self.stamper.verify(stride, at, |offset| generations.expected(offset))?;
            at += len as u64;
        }
        Ok(checked)
    }
}
