//! What is read beside the latencies at the start and end of a window: devices, CPUs, our own threads.

use fathom_host::View;
use fathom_host::diskstats::Sample;
use fathom_host::rates::Rates;
use fathom_host::sched::{self, CpuTimes};
use fathom_record::Reading;
use fathom_record::disk::DeviceView;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::now_ns;
use crate::session::Session;

/// One reading of all meters.
#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) taken_ns: u64,
    /// Time our threads stood ready without a CPU.
    pub(crate) waited_ns: Option<u64>,
    /// CPU time of this process.
    pub(crate) cpu_ns: u64,
    cpus: Option<CpuTimes>,
    disks: Option<Sample>,
    leaves: Vec<String>,
    volatile: Vec<String>,
}

impl Meters {
    /// Reads them all; what a machine does not offer is absent.
    pub(crate) fn read(session: &mut Session<'_>) -> Meters {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Meters {
            disks: session.sampler.as_mut().and_then(|sampler| sampler.sample().ok()),
            cpus: CpuTimes::read(&View::live()).ok(),
            waited_ns: sched::process_wait().map(|stat| stat.waited_ns),
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            leaves: session.target.place().leaves.clone(),
            volatile: session.volatile.clone(),
            taken_ns: now_ns(),
        }
    }

    /// The devices' own view of the time between two readings.
    pub(crate) fn devices_since(&self, before: &Meters) -> Vec<DeviceView> {
        let view = |name: &String| {
            let (from, to) = (before.disks.as_ref()?, self.disks.as_ref()?);
            let interval_ns = to.taken_ns.saturating_sub(from.taken_ns);
            let rates = Rates::between(from.by_name(name)?, to.by_name(name)?, interval_ns);
            // A flush on a volatile cache is counted as a write of nothing too (disk.md 2).
            let corrected = rates.corrected_writes_per_s.filter(|_| self.volatile.contains(name));
            Some(DeviceView {
                name: name.clone(),
                reads_per_s: rates.read.per_s,
                writes_per_s: corrected.unwrap_or(rates.write.per_s),
                flushes_per_s: rates.flush.as_ref().map(|flush| flush.per_s),
                r_await_ms: rates.read.await_ms,
                w_await_ms: rates.write.await_ms,
                f_await_ms: rates.flush.as_ref().and_then(|flush| flush.await_ms),
                aqu_sz: rates.aqu_sz,
                util_pct: rates.util_pct,
            })
        };
        self.leaves.iter().filter_map(view).collect()
    }

    /// Busy share of all CPUs since `before`, percent, steal included.
    pub(crate) fn busy_pct_since(&self, before: &Meters) -> Option<f64> {
        let shares = self.cpus.as_ref()?.shares_since(before.cpus.as_ref()?);
        Some(100.0 - shares.idle_pct - shares.iowait_pct)
    }

    /// The series of one interval.
    pub(crate) fn readings_since(&self, before: &Meters, window_ns: (u64, u64)) -> Vec<Reading> {
        let mut readings = Vec::new();
        for device in self.devices_since(before) {
            let mut add = |what: &str, unit: &str, value: Option<f64>| {
                let name = format!("device.{}.{what}", device.name);
                readings.extend(value.map(|value| Reading::new(name, unit, window_ns, value)));
            };
            add("reads_per_s", "1/s", Some(device.reads_per_s));
            add("writes_per_s", "1/s", Some(device.writes_per_s));
            add("flushes_per_s", "1/s", device.flushes_per_s);
            add("r_await_ms", "ms", device.r_await_ms);
            add("w_await_ms", "ms", device.w_await_ms);
            add("f_await_ms", "ms", device.f_await_ms);
            add("aqu_sz", "requests", Some(device.aqu_sz));
            add("util_pct", "%", Some(device.util_pct));
        }
        readings.extend(
            self.busy_pct_since(before).map(|busy| Reading::new("host.busy_pct", "%", window_ns, busy)),
        );
        readings
    }
}
