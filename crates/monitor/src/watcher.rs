//! How long the samplers' own threads waited for a processor, and how long a quota held this process back: samples of a starved watcher are late and
//! prove little, and a load that it makes comes late.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::cgroup::Cgroups;
use fathom_host::sched::{SchedStat, thread_wait};

use crate::notes::Notes;
use crate::runner::Shared;
use crate::sums::Sums;
use crate::{Batch, Sampler};

/// Reads the samplers' threads. It gives the share of the one that waited most, since one late thread is enough to mislead.
pub(crate) struct Watcher {
    /// Weak, because what is shared holds the sink.
    shared: Weak<Shared>,
    last_ns: Option<u64>,
    last: HashMap<i32, SchedStat>,
    sums: Sums,
    notes: Notes,
}

impl Watcher {
    pub(crate) fn new(shared: &Arc<Shared>) -> Watcher {
        Watcher {
            shared: Arc::downgrade(shared),
            last_ns: None,
            last: HashMap::new(),
            sums: Sums::default(),
            notes: Notes::default(),
        }
    }
}

impl Sampler for Watcher {
    fn name(&self) -> String {
        "watcher".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let at_ns = batch.clock.now_ns();
        let now: HashMap<i32, SchedStat> = shared
            .threads()
            .into_iter()
            .filter_map(|thread| Some((thread, thread_wait(Some(thread))?)))
            .collect();
        if now.is_empty() {
            self.notes.once(batch, "This kernel does not say how long threads wait for a processor; without it there is no guard against samples that were taken late.");
        }
        let waits =
            now.iter().filter_map(|(thread, stat)| Some(stat.since(*self.last.get(thread)?).waited_ns));
        if let (Some(most_ns), Some(begin_ns)) =
            (waits.max(), self.last_ns.filter(|begin_ns| *begin_ns < at_ns))
        {
            let share = 100.0 * most_ns as f64 / (at_ns - begin_ns) as f64;
            batch.put("monitor.run_wait_pct", "%", (begin_ns, at_ns), share.min(100.0));
        }
        (self.last, self.last_ns) = (now, Some(at_ns));
        if let Some(throttled_us) = Cgroups::of(&View::live(), None).cpu_throttled_us() {
            self.sums.put(batch, "monitor.throttled_us", "us", at_ns, throttled_us as f64);
        }
        Ok(())
    }
}
