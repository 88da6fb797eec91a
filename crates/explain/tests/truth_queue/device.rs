//! A device with several servers behind a queue with a cap, and the readings that samplers would take of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fathom_explain::Evidence;
use fathom_record::disk::{DeviceView, Entry, Latency, Operations, Step, Stream};
use fathom_record::{Point, SeriesSet};
use fathom_stats::SeededRandom;

/// The distribution of service times around their mean.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    Fixed,
    Uniform,
    Exponential,
}

/// The device: its servers, the mean time of one, and the share that each other request in service adds to that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) parallel: usize,
    pub(crate) mean_us: f64,
    pub(crate) growth: f64,
    pub(crate) spread: Spread,
}

impl Device {
    fn service_us(&self, busy: usize, random: &mut SeededRandom) -> f64 {
        let mean_us = self.mean_us * (1.0 + self.growth * busy as f64);
        match self.spread {
            Spread::Fixed => mean_us,
            Spread::Uniform => mean_us * (0.5 + random.uniform()),
            Spread::Exponential => random.exponential(mean_us),
        }
    }
}

/// The result of one run: per second the requests that ended, the time they took from their entry into the queue and from their
/// arrival, and samples of how many were in the queue.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) seconds: Vec<(f64, f64, f64)>,
    pub(crate) in_flight: Vec<(f64, usize)>,
}

impl Trace {
    /// Mean time of a request from its arrival, in microseconds.
    pub(crate) fn mean_us(&self) -> f64 {
        let (count, _, time) = self.sums();
        time / count
    }

    fn sums(&self) -> (f64, f64, f64) {
        self.seconds.iter().fold((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
    }
}

struct State<'r> {
    device: Device,
    cap: usize,
    random: &'r mut SeededRandom,
    above: VecDeque<f64>,
    /// In the queue, not in service: the times at which they arrived and entered.
    queued: VecDeque<(f64, f64)>,
    /// In service: the end of each, in nanoseconds so that they can be ordered; its arrival, and its entry.
    serving: BinaryHeap<Reverse<(u64, u64, u64)>>,
}

impl State<'_> {
    fn in_flight(&self) -> usize {
        self.queued.len() + self.serving.len()
    }

    /// Admits the requests that may enter and serves those that can be served.
    fn advance(&mut self, now_us: f64) {
        while self.in_flight() < self.cap
            && let Some(arrived) = self.above.pop_front()
        {
            self.queued.push_back((arrived, now_us));
        }
        // Requests that begin together slow each other.
        let busy = (self.serving.len() + self.queued.len()).min(self.device.parallel);
        while self.serving.len() < self.device.parallel
            && let Some((arrived, entered)) = self.queued.pop_front()
        {
            let end = now_us + self.device.service_us(busy, self.random);
            let ns = |us: f64| (us * 1e3) as u64;
            self.serving.push(Reverse((ns(end), ns(arrived), ns(entered))));
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Gaps {
    /// This far apart, in microseconds, give or take half of that: they do not overlap.
    Spaced(f64),
    /// At random times, this far apart on average: some overlap.
    Random(f64),
}

impl Gaps {
    fn draw(self, random: &mut SeededRandom) -> f64 {
        match self {
            Gaps::Spaced(gap_us) => gap_us * (0.5 + random.uniform()),
            Gaps::Random(gap_us) => random.exponential(gap_us),
        }
    }
}

/// Bursts of `burst` requests for so many seconds.
pub(crate) fn bursts(
    device: Device,
    cap: usize,
    burst: usize,
    gaps: Gaps,
    seconds: usize,
    random: &mut SeededRandom,
) -> Trace {
    let end_us = seconds as f64 * 1e6;
    let mut trace = Trace { seconds: vec![(0.0, 0.0, 0.0); seconds], in_flight: Vec::new() };
    let mut clock = random.split(1);
    let mut samples = random.split(2);
    let mut state = State {
        device,
        cap,
        random,
        above: VecDeque::new(),
        queued: VecDeque::new(),
        serving: BinaryHeap::new(),
    };
    let mut next_burst = gaps.draw(&mut clock);
    let mut next_sample = 25_000.0;
    loop {
        let next_end = state.serving.peek().map_or(f64::INFINITY, |Reverse((ns, ..))| *ns as f64 / 1e3);
        let now = next_burst.min(next_sample).min(next_end);
        if now >= end_us {
            return trace;
        }
        if now == next_sample {
            trace.in_flight.push((now, state.in_flight()));
            // A sampler wakes up a little late, by a varying time.
            next_sample += 45_000.0 + 10_000.0 * samples.uniform();
        } else if now == next_burst {
            state.above.extend(std::iter::repeat_n(now, burst));
            next_burst += gaps.draw(&mut clock);
            state.advance(now);
        } else if let Some(Reverse((end, arrived, entered))) = state.serving.pop() {
            let second = &mut trace.seconds[(now / 1e6) as usize];
            second.0 += 1.0;
            second.1 += (end - entered) as f64 / 1e3;
            second.2 += (end - arrived) as f64 / 1e3;
            state.advance(now);
        }
    }
}

/// Throughput and mean time with `depth` requests always in flight, which a probe measures.
pub(crate) fn probed(device: Device, depth: usize, random: &mut SeededRandom) -> (f64, f64) {
    const COUNT: usize = 20_000;
    let mut state = State {
        device,
        cap: usize::MAX,
        random,
        above: std::iter::repeat_n(0.0, depth).collect(),
        queued: VecDeque::new(),
        serving: BinaryHeap::new(),
    };
    state.advance(0.0);
    let (mut time_us, mut now_us) = (0.0, 0.0);
    for _ in 0..COUNT {
        let Some(Reverse((end, arrived, _))) = state.serving.pop() else { break };
        now_us = end as f64 / 1e3;
        time_us += (end - arrived) as f64 / 1e3;
        state.above.push_back(now_us);
        state.advance(now_us);
    }
    (COUNT as f64 / now_us * 1e6, time_us / COUNT as f64)
}

/// The probe's ladder as results of a run.
pub(crate) fn ladder(device: Device, random: &mut SeededRandom) -> Vec<Entry> {
    (0..9)
        .map(|power| {
            let depth = 1u32 << power;
            let (per_s, mean_us) = probed(device, depth as usize, random);
            step(depth, per_s, mean_us * 1e3)
        })
        .collect()
}

fn step(depth: u32, per_s: f64, mean_ns: f64) -> Entry {
    let at = mean_ns as u64;
    let latency = Latency { mean_ns, min_ns: 1, p50_ns: at, p99_ns: None, p999_ns: None, max_ns: at };
    let reads =
        Operations { kind: "read".into(), count: 20_000, per_s, mib_per_s: 0.0, latency, response: None };
    let stream = Stream {
        pattern: "randread".into(),
        block_bytes: 4096,
        engine: "io_uring".into(),
        depth,
        durable: "none".into(),
        rate_per_s: None,
        operations: vec![reads],
        little_gap: None,
        verified: 0,
    };
    let view = DeviceView {
        name: "sdb".into(),
        reads_per_s: per_s,
        writes_per_s: 0.0,
        flushes_per_s: None,
        r_await_ms: Some(mean_ns / 1e6),
        w_await_ms: None,
        f_await_ms: None,
        aqu_sz: f64::from(depth),
        util_pct: 100.0,
    };
    Entry::Step(Step {
        phase: "random reads".into(),
        begin_ns: 0,
        end_ns: 1,
        streams: vec![stream],
        run_queue_wait_pct: Some(0.0),
        cpu_us_per_operation: None,
        machine_busy_pct: None,
        generator_busy_pct: None,
        ready_after_ns: None,
        devices: vec![view],
        per_interval: Vec::new(),
    })
}

/// The series that samplers would have recorded of a trace: diskstats and the server's counters each second, requests in flight at 20 Hz.
pub(crate) fn seen(trace: &Trace, cap: usize, results: Vec<Entry>) -> Evidence {
    let mut series = SeriesSet::default();
    for (second, (count, within_us, whole_us)) in trace.seconds.iter().enumerate() {
        let begin_ns = second as u64 * 1_000_000_000;
        let end_ns = begin_ns + 1_000_000_000;
        let mut put = |name: &str, value: f64| series.add(name, "1", Point { begin_ns, end_ns, value });
        put("device.sdb.reads", *count);
        put("device.sdb.writes", 0.0);
        put("device.sdb.read_ms", within_us / 1e3);
        put("device.sdb.queue.requests", cap as f64);
        put("server.0.wait.page_read_us", *whole_us);
        put("server.0.reads.operations", *count);
        // A tenth of a millisecond of processor time in addition to the page.
        put("server.0.reads.latency_us", whole_us + 100.0 * count);
        put("client.read.per_s", *count);
        put("client.read.service.mean_ns", (whole_us / count + 150.0) * 1e3);
        put("client.read.response.mean_ns", (whole_us / count + 150.0) * 1e3);
    }
    for (at_us, value) in &trace.in_flight {
        let end_ns = (at_us * 1e3) as u64;
        series.add("device.sdb.in_flight", "1", Point { begin_ns: end_ns - 1, end_ns, value: *value as f64 });
    }
    let window_ns = (0, trace.seconds.len() as u64 * 1_000_000_000);
    Evidence { series, results, window_ns, seed: 7, ..Evidence::default() }
}
