//! The processors: how many, what they did, how many tasks wanted them and how long those waited.

use fathom_errors::{Error, Kind, Result};
use fathom_host::sched::CpuTimes;
use fathom_host::{View, run_queue};

use super::Edge;
use crate::notes::Notes;
use crate::{Batch, Sampler, Sums};

/// Reads `/proc/stat`, `/proc/loadavg` and `/proc/schedstat`.
pub(crate) struct Cpu {
    view: View,
    edge: Edge,
    last: Option<CpuTimes>,
    sums: Sums,
    notes: Notes,
}

impl Cpu {
    pub(crate) fn new(view: &View) -> Cpu {
        Cpu {
            view: view.clone(),
            edge: Edge::default(),
            last: None,
            sums: Sums::default(),
            notes: Notes::default(),
        }
    }
}

impl Sampler for Cpu {
    fn name(&self) -> String {
        "cpu".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let stat = self.view.required("proc/stat")?;
        let at_ns = batch.clock.now_ns();
        let window_ns = self.edge.window_to(at_ns);
        let times = CpuTimes::parse(&stat)
            .ok_or_else(|| Error::new(Kind::Malformed, "/proc/stat has no line of processor times"))?;
        if let (Some(window_ns), Some(last)) = (window_ns, self.last) {
            let shares = times.shares_since(&last);
            let mut put = |what: &str, unit: &str, value: f64| {
                batch.put(format!("host.{what}"), unit, window_ns, value);
            };
            put("cpu.count", "1", run_queue::processors(&stat) as f64);
            put("cpu.user_pct", "%", shares.user_pct + shares.nice_pct);
            put("cpu.system_pct", "%", shares.system_pct);
            put("cpu.iowait_pct", "%", shares.iowait_pct);
            put("cpu.steal_pct", "%", shares.steal_pct);
            put("cpu.idle_pct", "%", shares.idle_pct);
            // The thread that reads runs too, and is no part of what is watched.
            if let Some(runnable) = run_queue::runnable(&self.view) {
                put("runnable", "1", runnable.saturating_sub(1) as f64);
            }
        }
        self.last = Some(times);
        match run_queue::waited_ns(&self.view) {
            Some(waited_ns) => {
                self.sums.put(batch, "host.run_wait_us", "us", at_ns, waited_ns as f64 / 1e3);
            }
            None => self.notes.once(batch, "This kernel does not tell how long all tasks waited for a processor (/proc/schedstat); without it the guard against a short processor rests on pressure and on the threads that are watched."),
        }
        Ok(())
    }
}
