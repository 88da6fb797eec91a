//! Computes the figures of a step, from histograms and from the counters that are read at the start and end of a window: devices,
//! CPUs, our own threads.

use fathom_host::View;
use fathom_host::diskstats::Sample;
use fathom_host::rates::Rates;
use fathom_host::sched::{self, CpuTimes};
use fathom_record::Reading;
use fathom_record::disk::{DeviceView, Latency, Operations, Step, Stream};
use fathom_stats::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::now_ns;
use crate::engine::workers;
use crate::session::ProbeSession;
use crate::shape::{Job, Pattern, WindowPlan, WriteSync};
use crate::tracks::{Track, Tracks};

/// A name for files and series: phase, pattern, block and depth.
pub(crate) fn label(phase: &str, job: &Job) -> String {
    let phase: String = phase.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let block_kib = job.block.get() as f64 / 1024.0;
    let load = match job.rate_per_s {
        Some(rate) => format!("r{rate:.0}"),
        None => format!("d{}", job.depth),
    };
    format!("{phase}-{}-{block_kib}k-{load}", job.pattern)
}

/// The tracks that count as operations of a job: a durable write, a plain read or write.
pub(crate) fn headline(job: &Job) -> &'static [Track] {
    match (job.pattern, job.durable) {
        (Pattern::Checkpoint, _) | (_, WriteSync::None) => &[Track::Read, Track::Write],
        _ => &[Track::Read, Track::Durable],
    }
}

/// Operations of a job that ended.
pub(crate) fn operations_ended(job: &Job, tracks: &Tracks) -> u64 {
    headline(job).iter().map(|track| tracks.get(*track).len()).sum()
}

/// Operations per second of all jobs.
pub(crate) fn operations_per_s(jobs: &[Job], tracks: &[Tracks], elapsed_ns: u64) -> f64 {
    let ended = jobs.iter().zip(tracks).map(|(job, tracks)| operations_ended(job, tracks));
    ended.sum::<u64>() as f64 * 1e9 / elapsed_ns.max(1) as f64
}

/// The figures of a window.
pub(crate) fn step(
    plan: &WindowPlan,
    tracks: &[Tracks],
    begin: &Meters,
    end: &Meters,
    verified: &[u64],
    session: &ProbeSession<'_>,
    per_interval: Vec<f64>,
) -> Step {
    let elapsed_ns = end.taken_ns.saturating_sub(begin.taken_ns).max(1);
    let threads: u32 = plan.jobs.iter().map(|job| workers(job, session.cpus)).sum();
    let end_ns = session.now_ns();
    let operations = operations_per_s(&plan.jobs, tracks, elapsed_ns) * elapsed_ns as f64 / 1e9;
    let waited = end.waited_ns.zip(begin.waited_ns).map(|(end, begin)| end.saturating_sub(begin) as f64);
    let streams = plan.jobs.iter().zip(tracks).zip(verified);
    Step {
        phase: plan.phase.clone(),
        begin_ns: end_ns.saturating_sub(elapsed_ns),
        end_ns,
        streams: streams
            .map(|((job, tracks), verified)| stream(job, tracks, elapsed_ns, *verified))
            .collect(),
        run_queue_wait_pct: waited
            .map(|waited| 100.0 * waited / (elapsed_ns as f64 * f64::from(threads.max(1)))),
        cpu_us_per_operation: (operations > 0.0)
            .then(|| (end.cpu_ns - begin.cpu_ns) as f64 / 1e3 / operations),
        machine_busy_pct: end.busy_pct_since(begin),
        generator_busy_pct: Some(
            100.0 * (end.cpu_ns - begin.cpu_ns) as f64
                / (elapsed_ns as f64 * f64::from(threads.clamp(1, session.cpus))),
        ),
        ready_after_ns: None,
        devices: end.devices_since(begin),
        per_interval,
    }
}

fn stream(job: &Job, tracks: &Tracks, elapsed_ns: u64, verified: u64) -> Stream {
    let kinds = [
        ("read", Track::Read, Some(Track::ReadResponse)),
        ("write", Track::Write, (job.durable == WriteSync::None).then_some(Track::WriteResponse)),
        ("sync", Track::Sync, None),
        ("durable", Track::Durable, Some(Track::WriteResponse)),
    ];
    let operations = kinds.into_iter().filter_map(|(kind, track, response)| {
        let bytes = match (kind, job.pattern) {
            ("sync", _) => 0,
            ("durable", Pattern::Checkpoint) => job.burst_requests() * job.block.get(),
            _ => job.block.get(),
        };
        operations(kind, tracks.get(track), response.map(|response| tracks.get(response)), bytes, elapsed_ns)
    });
    Stream {
        pattern: job.pattern.to_string(),
        block_bytes: job.block.get(),
        engine: job.engine.to_string(),
        depth: job.depth,
        durable: job.durable.to_string(),
        rate_per_s: job.rate_per_s,
        operations: operations.collect(),
        little_gap: little_gap(job, tracks, elapsed_ns),
        verified,
    }
}

fn operations(
    kind: &str,
    histogram: &Histogram,
    response: Option<&Histogram>,
    bytes: u64,
    elapsed_ns: u64,
) -> Option<Operations> {
    let per_s = histogram.len() as f64 * 1e9 / elapsed_ns as f64;
    Some(Operations {
        kind: kind.to_owned(),
        count: histogram.len(),
        per_s,
        mib_per_s: per_s * bytes as f64 / f64::from(1u32 << 20),
        latency: Latency::from_histogram(histogram)?,
        response: response.and_then(Latency::from_histogram),
    })
}

/// The gap of Little's law, as a check on the probe (docs/methods.md#littles-law): the total time of all requests per unit of time
/// is the number in flight. Meaningless for an open loop, whose number in flight varies, and for bursts, which have gaps.
fn little_gap(job: &Job, tracks: &Tracks, elapsed_ns: u64) -> Option<f64> {
    if job.rate_per_s.is_some() || job.pattern == Pattern::Checkpoint {
        return None;
    }
    let total_ns =
        |track: &Track| tracks.get(*track).mean_ns().map(|mean| mean * tracks.get(*track).len() as f64);
    let spent: Vec<f64> = headline(job).iter().filter_map(total_ns).collect();
    let in_flight = spent.iter().sum::<f64>() / elapsed_ns as f64;
    (!spent.is_empty()).then(|| (in_flight - f64::from(job.depth)).abs() / f64::from(job.depth))
}

/// One reading of all meters.
#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) taken_ns: u64,
    /// Time that our threads were runnable without a CPU.
    pub(crate) waited_ns: Option<u64>,
    /// CPU time of this process.
    pub(crate) cpu_ns: u64,
    cpus: Option<CpuTimes>,
    disks: Option<Sample>,
    leaves: Vec<String>,
    volatile: Vec<String>,
}

impl Meters {
    /// Reads all meters; those that a machine does not provide are absent.
    pub(crate) fn read(session: &mut ProbeSession<'_>) -> Meters {
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
            // A flush of a volatile cache is also counted as an empty write (docs/methods.md#device-counters).
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
        let shares = self.cpus.as_ref()?.shares_since(before.cpus.as_ref()?)?;
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
