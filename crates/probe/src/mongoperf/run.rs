//! One run: lay the file out, ramp the threads up, tell each second.

use std::thread::{Builder, Scope};

use fathom_errors::{Error, Kind, Result};
use fathom_process::Signals;
use fathom_record::disk::Layout;
use fathom_stats::Seeded;
use fathom_units::{Bytes, Nanos};

use super::config::Options;
use super::figures::{Second, Step, Sync};
use super::ramp::Ramp;
use super::worker::{self, Medium, Shared};
use crate::engine::mapping::Mapping;
use crate::layout::{self, LayoutPlan};
use crate::stamp::Stamper;
use crate::target::{Access, Target};

/// A thread needs a shallow stack: its buffer is mapped apart.
const STACK_BYTES: usize = 128 << 10;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The options of the document.
    pub options: Options,
    /// When to end, counted from the first thread; `None` for never.
    pub seconds: Option<Nanos>,
    /// Seconds between two doublings of the threads.
    pub step_ticks: u32,
    /// Seed of places and data.
    pub seed: u64,
}

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// The layout pass goes on.
    Layout {
        /// Bytes written.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// The file stands; threads are about to start.
    Testing,
    /// So many threads run now.
    Threads(u32),
    /// A second is over.
    Second(&'a Second),
    /// A background sync of the mapping ended.
    Sync(Sync),
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Run {
    /// The layout pass; absent where a kept file was used.
    pub layout: Option<Layout>,
    /// Each number of threads.
    pub steps: Vec<Step>,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// The first operation that failed; the run ended there.
    pub error: Option<Error>,
}

/// Runs `plan` on `target` and tells `tell` what happens; an error from it ends the run.
///
/// # Errors
/// When the run could not begin or go on. An operation that failed is in [`Run::error`].
pub fn run(
    target: &mut Target,
    plan: &Plan,
    signals: &Signals,
    tell: &mut dyn FnMut(&Event<'_>) -> Result<()>,
) -> Result<Run> {
    let stamper = Stamper::new(plan.seed, false);
    let mut run = Run::default();
    if !target.is_reused() {
        let plan = LayoutPlan { budget_ns: None, second_pass: Bytes(0) };
        run.layout = Some(layout::lay_out(target, &stamper, None, &plan, |done_bytes, total_bytes| {
            tell(&Event::Layout { done_bytes, total_bytes })?;
            Ok(!signals.stopped())
        })?);
    }
    run.interrupted = signals.stopped();
    if run.interrupted {
        return Ok(run);
    }
    tell(&Event::Testing)?;
    let options = &plan.options;
    let direct = target.is_direct() && !options.mapped;
    let file = target.reopen(Access { direct, dsync: false, read_only: false })?;
    let size = options.file_bytes.get();
    let mapping = options.mapped.then(|| Mapping::new(&file, size, options.writes)).transpose()?;
    let medium = mapping.as_ref().map_or(Medium::Direct(&file), Medium::Mapped);
    let shared = Shared::new(options, medium, target.path(), &stamper, target.alignment());
    let mut ramp = Ramp::new(&shared, plan, signals, tell);
    let seed = Seeded::from_seed(plan.seed);
    let climbed = std::thread::scope(|scope| {
        let syncs = options.mapped && options.sync_delay_s > 0;
        let syncer = if syncs { spawn(scope, &shared, || worker::sync(&shared, &file)) } else { Ok(()) };
        let shared = &shared;
        let start = |index| {
            let random = seed.split(u64::from(index));
            spawn(scope, shared, move || worker::work(shared, index, random))
        };
        let climbed = syncer.and_then(|()| ramp.climb(start));
        shared.stop();
        climbed
    });
    climbed?;
    ramp.tell_syncs()?;
    run.steps = ramp.steps;
    run.interrupted = signals.stopped();
    run.error = shared.take_error();
    Ok(run)
}

fn spawn<'s>(
    scope: &'s Scope<'s, '_>,
    shared: &'s Shared<'s>,
    work: impl FnOnce() -> Result<()> + Send + 's,
) -> Result<()> {
    let work = move || work().unwrap_or_else(|error| shared.fail(error));
    let spawned = Builder::new().name("mongoperf".into()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
    spawned.map(drop).map_err(|e| {
        Error::new(Kind::Unsupported, "cannot start another thread")
            .because(e)
            .advise("raise 'ulimit -u' and the cgroup's pids.max, or take a smaller nThreads")
    })
}
