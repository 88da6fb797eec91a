//! One probing of one target: what all windows share, who is told what happens, and the last act of `--verify`, which
//! reads the whole file back in order and checks every stamp.

use std::time::Instant;

use fathom_errors::{Error, Result};
use fathom_host::diskstats::DiskSampler;
use fathom_host::{BlockTree, View};
use fathom_process::Signals;
use fathom_record::Reading;
use fathom_record::disk::{Entry, Layout, Step, Subject};
use fathom_stats::{Histogram, Seeded};

use crate::buffer::AlignedBuffer;
use crate::file::BlockFile;
use crate::layout::{self, LayoutPlan};
use crate::stamp::{FIRST_GENERATION, Generations, Stamper};
use crate::target::Target;
use crate::tracks::Tracks;

/// What one interval of about a second brought.
pub struct Interval<'a> {
    /// Begin and end, nanoseconds since the run's start.
    pub window_ns: (u64, u64),
    /// Its readings.
    pub readings: &'a [Reading],
    /// Its latencies: log name and histogram.
    pub latencies: &'a [(String, &'a Histogram)],
}

/// What a window brought.
#[derive(Debug)]
pub struct Outcome {
    /// The figures.
    pub step: Step,
    /// The whole distributions, per job.
    pub tracks: Vec<Tracks>,
    /// The first operation that failed; the window ended there.
    pub error: Option<Error>,
    /// Whether a signal cut the window short.
    pub interrupted: bool,
}

/// Whoever wants to know: the terminal, the run folder, a test. An error from it ends the probe.
pub trait Sink {
    /// The layout pass goes on: bytes done, bytes in all.
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) -> Result<()>;
    /// An interval ended.
    fn interval(&mut self, interval: &Interval<'_>) -> Result<()>;
    /// A result stands.
    fn result(&mut self, entry: &Entry) -> Result<()>;
    /// A step ended; its whole distributions, for formats that want more than the record's figures.
    fn step(&mut self, outcome: &Outcome) -> Result<()>;
}

/// The state of one probing.
pub struct Session<'a> {
    pub(crate) target: Target,
    pub(crate) stamper: Stamper,
    pub(crate) generations: Option<Generations>,
    pub(crate) seed: Seeded,
    pub(crate) windows: u64,
    pub(crate) signals: Signals,
    pub(crate) sampler: Option<DiskSampler>,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) zero: Instant,
    pub(crate) cpus: u32,
    /// The kernel's names of devices whose cache is volatile (`write back`).
    pub(crate) volatile: Vec<String>,
}

impl<'a> Session<'a> {
    /// A session on `target`; `verify` stamps checksums and checks every read; times count from `zero`.
    pub fn new(
        target: Target,
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
        Session {
            stamper: Stamper::new(seed, verify),
            generations,
            seed: Seeded::from_seed(seed),
            windows: 0,
            signals,
            // Without counters (a container without /proc/diskstats) the probe still probes.
            sampler: DiskSampler::open(&view).ok(),
            sink,
            zero,
            cpus,
            volatile: volatile_devices(&view, &target),
            target,
        }
    }

    /// The target, for facts about it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether a signal asked us to end.
    pub fn interrupted(&self) -> bool {
        self.signals.stopped()
    }

    /// Whether the device under the target has a volatile cache that a flush must empty.
    pub fn cache_is_volatile(&self) -> Option<bool> {
        (!self.target.place().leaves.is_empty()).then_some(!self.volatile.is_empty())
    }

    /// Nanoseconds since the run's start.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Tells what is probed, and lays the file out unless its content is there already.
    pub fn begin(&mut self, plan: &LayoutPlan, writes: bool) -> Result<Option<Layout>> {
        let laid_out = self.lay_out(plan, writes);
        // Also where it failed: the record of a device that takes no file must say which device that is.
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
        let subject = Subject {
            directory: place.path.display().to_string(),
            file_system: place.file_system.clone(),
            device: place.device.clone(),
            size_bytes: self.target.size().get(),
            direct: self.target.is_direct(),
            alignment_bytes: self.target.alignment(),
        };
        self.sink.result(&Entry::Subject(subject))
    }

    /// Ends the session: its files go, or the data file stays when `keep`.
    pub fn close(self, keep: bool) -> Result<()> {
        self.target.close(keep)
    }
}

fn volatile_devices(view: &View, target: &Target) -> Vec<String> {
    let tree = BlockTree::read(view);
    let leaves = target.place().leaves.iter();
    let volatile = |name: &&String| tree.by_name(name).is_some_and(|device| device.has_volatile_cache(view));
    leaves.filter(volatile).cloned().collect()
}

const STRIDE: u64 = 1 << 20;

impl Session<'_> {
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
