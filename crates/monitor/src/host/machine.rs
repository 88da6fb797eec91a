//! Samplers of the whole machine: processors, memory, network, and the time that tasks were stalled for lack of them.
//!
//! Each source has its own sampler, since a kernel may lack any of them.

use fathom_errors::{Error, Kind, Result};
use fathom_host::sched::CpuTimes;
use fathom_host::{View, memory, network, pressure, run_queue};

use super::Edge;
use crate::sampler::Notes;
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
            let mut put = |what: &str, unit: &str, value: f64| {
                batch.put(format!("host.{what}"), unit, window_ns, value);
            };
            put("cpu.count", "1", run_queue::processors(&stat) as f64);
            if let Some(shares) = times.shares_since(&last) {
                put("cpu.user_pct", "%", shares.user_pct + shares.nice_pct);
                put("cpu.system_pct", "%", shares.system_pct);
                put("cpu.iowait_pct", "%", shares.iowait_pct);
                put("cpu.steal_pct", "%", shares.steal_pct);
                put("cpu.idle_pct", "%", shares.idle_pct);
            }
            // The reading thread is runnable too, but is not part of the load that is watched.
            if let Some(runnable) = run_queue::runnable(&self.view) {
                put("runnable", "1", runnable.saturating_sub(1) as f64);
            }
        }
        self.last = Some(times);
        match run_queue::waited_ns(&self.view) {
            Some(waited_ns) => {
                self.sums.put(batch, "host.run_wait_us", "us", at_ns, waited_ns as f64 / 1e3);
            }
            None => self.notes.once(batch, "This kernel does not tell how long all tasks waited for a processor (/proc/schedstat); without it a shortage of processors shows only in pressure and in the waits of watched threads."),
        }
        Ok(())
    }
}

/// Reads memory figures from `/proc/meminfo`.
pub(crate) struct MemoryPages {
    view: View,
    edge: Edge,
}

impl MemoryPages {
    pub(crate) fn new(view: &View) -> MemoryPages {
        MemoryPages { view: view.clone(), edge: Edge::default() }
    }
}

impl Sampler for MemoryPages {
    fn name(&self) -> String {
        "memory".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let memory = memory::read(&self.view)
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no /proc/meminfo"))?;
        let Some(window_ns) = self.edge.window_to(batch.clock.now_ns()) else { return Ok(()) };
        for (what, bytes) in [
            ("available", memory.available_bytes),
            ("dirty", memory.dirty_bytes),
            ("writeback", memory.writeback_bytes),
        ] {
            if let Some(bytes) = bytes {
                batch.put(format!("host.memory.{what}_bytes"), "bytes", window_ns, bytes as f64);
            }
        }
        Ok(())
    }
}

/// Reads `/proc/net/dev` and `/proc/net/snmp`.
pub(crate) struct NetworkSampler {
    view: View,
    sums: Sums,
}

impl NetworkSampler {
    pub(crate) fn new(view: &View) -> NetworkSampler {
        NetworkSampler { view: view.clone(), sums: Sums::default() }
    }
}

impl Sampler for NetworkSampler {
    fn name(&self) -> String {
        "network".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        if let Some(segments) = network::retransmits(&self.view) {
            let at_ns = batch.clock.now_ns();
            self.sums.put(batch, "host.network.retransmits", "1", at_ns, segments as f64);
        }
        let traffic = network::traffic(&self.view)
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no /proc/net/dev"))?;
        let at_ns = batch.clock.now_ns();
        let (received, sent) = (traffic.received_bytes as f64, traffic.sent_bytes as f64);
        self.sums.put(batch, "host.network.received_bytes", "bytes", at_ns, received);
        self.sums.put(batch, "host.network.sent_bytes", "bytes", at_ns, sent);
        Ok(())
    }
}

/// Reads stall times from `/proc/pressure`.
pub(crate) struct Pressures {
    view: View,
    sums: Sums,
    notes: Notes,
}

impl Pressures {
    pub(crate) fn new(view: &View) -> Pressures {
        Pressures { view: view.clone(), sums: Sums::default(), notes: Notes::default() }
    }
}

impl Sampler for Pressures {
    fn name(&self) -> String {
        "pressure".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        for resource in ["cpu", "io", "memory"] {
            let Some(pressure) = pressure::read(&self.view, resource) else {
                self.notes.once(batch, "This kernel does not tell pressure (psi=1 on its command line turns it on); without it there is one witness less that tasks waited for I/O or a processor.");
                continue;
            };
            let at_ns = batch.clock.now_ns();
            let mut put = |what: &str, total_us: u64| {
                let name = format!("host.pressure.{resource}.{what}_us");
                self.sums.put(batch, &name, "us", at_ns, total_us as f64);
            };
            put("some", pressure.some.total_us);
            if let Some(full) = pressure.full.filter(|_| resource == "io") {
                put("full", full.total_us);
            }
        }
        Ok(())
    }
}
