//! Merges the measurements of the loops: each second over all loops, and the whole run.
//!
//! The loops sum up the number of operations under way over time, independently of all latencies, so that Little's law can be
//! checked; if a driver hides the number, it is sampled. The collector also notices what a single loop cannot: that the run
//! makes no progress any more, or that a stop is requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fathom_stats::{Histogram, MAX_CLIENT_CPU_SHARE, SeededRandom};

use super::arrivals::Arrivals;
use super::plan::{DrivingPlan, LoopsState};
use super::recorder::{FailuresByKind, LatencyPoint, LoopGauge, LoopMessage, LoopSecond, merge};
use crate::generators::KeyDraws;
use crate::measurements::OperationMeasurements;
use crate::source::{Source, all_metrics};

/// The share of the loops' time above which the preparation of requests limits what the client can do, if it consists of draws.
const MAX_PREPARING_SHARE: f64 = 0.25;
/// The draws of a key above which the preparation of requests consists of draws.
const MAX_DRAWS_PER_KEY: u64 = 8;
/// The average interval between samples of operations under way. The times are random: evenly spaced ones could always fall on
/// the same phase of a server's own rhythm.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
const SECOND_NS: f64 = 1e9;

/// The measurements of one second, over all loops.
#[derive(Debug)]
pub struct SecondMeasurements<'a> {
    /// The second's number, counted from when measuring began; negative during the warm-up.
    pub second: i64,
    /// Measurements by kind of operation; those that did not occur are left out.
    pub metrics: &'a [(String, OperationMeasurements)],
    /// The same for what only YCSB's report has, as it is no operation: `CLEANUP`, `SCAN-LATENCY-PER-RECORD`.
    pub report_only: &'a [(String, OperationMeasurements)],
    /// Individual latencies, if the plan asks for them; [`LatencyPoint::metric`] is a place in [`SecondMeasurements::names`].
    pub points: &'a [LatencyPoint],
    /// The names of all metrics.
    pub names: &'a [String],
    /// Operations that ended in this second; 0 during the warm-up.
    pub operations: u64,
    /// All operations that ended since measuring began.
    pub total_operations: u64,
    /// The delay of operations, from when they were due to when they were sent; empty in a closed loop.
    pub lag: &'a Histogram,
    /// Processor time of the loops, as a share of the time of their threads, 0 to 1.
    pub cpu_share: f64,
    /// Operations under way, on average.
    pub in_flight: f64,
    /// The planned number of connections.
    pub connections: usize,
    /// BSON bytes of inserted documents and of updates that were sent.
    pub user_bytes: u64,
}

/// A receiver of a run's seconds.
pub trait Observer {
    /// Receives a second that is over. Called at most about a second later, in order.
    fn second(&mut self, interval: &SecondMeasurements<'_>);

    /// Whether the run is to stop now.
    fn stop_asked(&mut self) -> bool;
}

/// The reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All operations are done.
    Done,
    /// Its time is over.
    TimeOver,
    /// The observer or a signal stopped it.
    Stopped,
    /// No operation ended for this time.
    NoProgress(Duration),
    /// It cannot go on.
    GaveUp(String),
}

/// The result of a run.
#[derive(Debug)]
pub struct LoadResult {
    /// Measurements by kind of operation; those that did not occur are left out.
    pub metrics: Vec<(String, OperationMeasurements)>,
    /// The same for what only YCSB's report has.
    pub report_only: Vec<(String, OperationMeasurements)>,
    /// Operations that ended, and documents of batches.
    pub operations: u64,
    /// Failed operations, and documents of batches, that were sent again; each attempt has its own measurement.
    pub retries: u64,
    /// The time that was measured.
    pub elapsed: Duration,
    /// The delay of operations, from when they were due to when they were sent; empty in a closed loop.
    pub lag: Histogram,
    /// Processor time of the loops' threads while measured.
    pub cpu: Duration,
    /// Time in which the loops prepared requests: they drew keys and wrote documents, and read no reply.
    pub preparing: Duration,
    /// How the keys of operations were drawn.
    pub draws: KeyDraws,
    /// The number of loops.
    pub loops: usize,
    /// Operations under way, on average.
    pub in_flight: f64,
    /// The failures of the run, by kind.
    pub failures: FailuresByKind,
    /// Connections that were opened again.
    pub reconnects: u64,
    /// Operations that were under way when the run ended and are not counted.
    pub abandoned: u64,
    pub end: End,
}

impl LoadResult {
    /// The processor time of the loops, as a share of the time of their threads.
    pub fn cpu_share(&self) -> f64 {
        self.share_of_loops(self.cpu)
    }

    /// The time in which requests were prepared, as a share of the loops' time.
    pub fn preparing_share(&self) -> f64 {
        self.share_of_loops(self.preparing)
    }

    fn share_of_loops(&self, time: Duration) -> f64 {
        time.as_secs_f64() / (self.elapsed.as_secs_f64() * self.loops as f64).max(1e-9)
    }

    /// Whether the loops had so much to do that the server may be able to do more: they were busy, or drew again and again.
    pub fn is_client_limited(&self) -> bool {
        let draws_often = self.draws.draws > MAX_DRAWS_PER_KEY.saturating_mul(self.draws.keys);
        self.cpu_share() > MAX_CLIENT_CPU_SHARE || draws_often && self.preparing_share() > MAX_PREPARING_SHARE
    }

    /// Whether an operation failed, and not only an attempt that was followed by another.
    pub fn has_failures(&self) -> bool {
        let failures: u64 = self.metrics.iter().map(|(_, measured)| measured.failures()).sum();
        failures > self.retries
    }
}

/// A second that not all loops have reported yet.
#[derive(Debug, Default)]
struct PartialSecond {
    told: usize,
    metrics: Vec<Option<Box<OperationMeasurements>>>,
    points: Vec<LatencyPoint>,
    lag: Histogram,
    operations: u64,
    in_flight_ns: u64,
    user_bytes: u64,
    cpu_ns: u64,
    preparing_ns: u64,
}

pub(super) struct Collector {
    shared: Arc<LoopsState>,
    words: Receiver<LoopMessage>,
    names: Vec<String>,
    /// The first of the metrics that only YCSB's report has.
    first_report_only: usize,
    gauges: Vec<Arc<LoopGauge>>,
    seconds: BTreeMap<i64, PartialSecond>,
    /// The sum and the number of the samples in this second and in all.
    sampled: (u64, u64),
    sampled_all: (u64, u64),
    whole: Vec<OperationMeasurements>,
    lag: Histogram,
    operations: u64,
    in_flight_ns: u64,
    cpu_ns: u64,
    preparing_ns: u64,
    draws: KeyDraws,
    retries: u64,
    failures: FailuresByKind,
    reconnects: u64,
    running: usize,
    connections: usize,
    abandoned: u64,
    no_progress: Option<Duration>,
    operations_wanted: Option<u64>,
    open_loop: bool,
    random: SeededRandom,
}

impl Collector {
    pub(super) fn new(
        shared: &Arc<LoopsState>,
        plan: &DrivingPlan,
        words: Receiver<LoopMessage>,
    ) -> Collector {
        Collector {
            shared: Arc::clone(shared),
            words,
            names: Vec::new(),
            first_report_only: 0,
            gauges: Vec::new(),
            seconds: BTreeMap::new(),
            sampled: (0, 0),
            sampled_all: (0, 0),
            whole: Vec::new(),
            lag: Histogram::new(),
            operations: 0,
            in_flight_ns: 0,
            cpu_ns: 0,
            preparing_ns: 0,
            draws: KeyDraws::default(),
            retries: 0,
            failures: FailuresByKind::new(),
            reconnects: 0,
            running: 0,
            connections: plan.connections,
            abandoned: 0,
            no_progress: plan.no_progress,
            operations_wanted: plan.operations,
            open_loop: plan.arrivals != Arrivals::Closed,
            random: SeededRandom::from_seed(plan.seed).split(u64::MAX),
        }
    }

    /// Registers a loop with the metrics of its source.
    pub(super) fn add(&mut self, gauge: &Arc<LoopGauge>, source: &impl Source) {
        self.gauges.push(Arc::clone(gauge));
        self.names = all_metrics(source);
        self.first_report_only = source.metrics().len();
        self.running += 1;
    }

    /// Listens until all loops have ended.
    pub(super) fn collect(mut self, observer: &mut dyn Observer) -> LoadResult {
        let mut stopped = None;
        let mut moved = Instant::now();
        let mut sample_at = Instant::now() + self.random_pause();
        while self.running > 0 {
            match self.words.recv_timeout(sample_at.saturating_duration_since(Instant::now())) {
                Ok(LoopMessage::LoopSecond(second, piece)) => {
                    if piece.answered > 0 {
                        moved = Instant::now();
                    }
                    self.gather(second, *piece);
                }
                Ok(LoopMessage::Ended(abandoned)) => {
                    self.running -= 1;
                    self.abandoned += abandoned;
                }
                Err(RecvTimeoutError::Timeout) => {
                    sample_at = Instant::now() + self.random_pause();
                    self.sample();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.hand_out(observer, false);
            if stopped.is_none() {
                if self.open_loop && !self.gauges.iter().any(|one| one.is_waiting()) {
                    // A slow schedule may be idle for a long time.
                    moved = Instant::now();
                }
                stopped = self.reason_to_stop(observer, moved);
                if stopped.is_some() {
                    self.shared.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        // The threads that connect stop too.
        self.shared.stop.store(true, Ordering::Relaxed);
        self.hand_out(observer, true);
        self.end(stopped)
    }

    fn random_pause(&mut self) -> Duration {
        SAMPLE_INTERVAL.mul_f64(2.0 * self.random.uniform())
    }

    fn sample(&mut self) {
        if self.shared.clock.now_ns() < self.shared.warm_ns || self.shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let now: u64 = self.gauges.iter().map(|one| one.in_flight.load(Ordering::Relaxed)).sum();
        for (sum, count) in [&mut self.sampled, &mut self.sampled_all] {
            *sum += now;
            *count += 1;
        }
    }

    fn reason_to_stop(&self, observer: &mut dyn Observer, moved: Instant) -> Option<End> {
        if observer.stop_asked() {
            return Some(End::Stopped);
        }
        let limit = self.no_progress?;
        (moved.elapsed() > limit).then_some(End::NoProgress(limit))
    }

    fn gather(&mut self, second: i64, piece: LoopSecond) {
        merge(&mut self.failures, piece.failures);
        self.reconnects += piece.reconnects;
        self.retries += piece.retries;
        self.draws.merge(piece.draws);
        let gathered = self.seconds.entry(second).or_default();
        gathered.told += 1;
        gathered.points.extend(piece.points);
        gathered.lag.merge(&piece.lag);
        gathered.operations += piece.operations;
        gathered.in_flight_ns += piece.in_flight_ns;
        gathered.user_bytes += piece.user_bytes;
        gathered.cpu_ns += piece.cpu_ns;
        gathered.preparing_ns += piece.preparing_ns;
        for (place, measured) in piece.metrics.into_iter().enumerate() {
            let Some(measured) = measured else { continue };
            if gathered.metrics.len() <= place {
                gathered.metrics.resize_with(place + 1, || None);
            }
            match gathered.metrics.get_mut(place) {
                Some(Some(known)) => known.merge(&measured),
                Some(empty) => *empty = Some(measured),
                None => {}
            }
        }
    }

    /// Passes on the complete seconds: all loops have reported them, or a later one. At the end, passes on all.
    fn hand_out(&mut self, observer: &mut dyn Observer, all: bool) {
        while let Some((&second, gathered)) = self.seconds.first_key_value() {
            let late = self.seconds.keys().next_back().is_some_and(|last| last - second > 2);
            if !all && !late && gathered.told < self.gauges.len() {
                return;
            }
            let Some((second, gathered)) = self.seconds.pop_first() else { return };
            self.tell(second, gathered, observer);
        }
    }

    fn tell(&mut self, second: i64, gathered: PartialSecond, observer: &mut dyn Observer) {
        if self.whole.len() < gathered.metrics.len() {
            self.whole.resize_with(gathered.metrics.len(), OperationMeasurements::default);
        }
        let (mut metrics, mut report_only) = (Vec::new(), Vec::new());
        let measured = self.whole.iter_mut().zip(gathered.metrics).zip(&self.names);
        for (place, ((whole, measured), name)) in measured.enumerate() {
            if let Some(measured) = measured {
                whole.merge(&measured);
                let list = if place < self.first_report_only { &mut metrics } else { &mut report_only };
                list.push((name.clone(), *measured));
            }
        }
        self.operations += gathered.operations;
        if second >= 0 {
            self.lag.merge(&gathered.lag);
            self.in_flight_ns += gathered.in_flight_ns;
            self.cpu_ns += gathered.cpu_ns;
            self.preparing_ns += gathered.preparing_ns;
        }
        let (sum, count) = std::mem::take(&mut self.sampled);
        observer.second(&SecondMeasurements {
            second,
            metrics: &metrics,
            report_only: &report_only,
            points: &gathered.points,
            names: &self.names,
            operations: gathered.operations,
            total_operations: self.operations,
            lag: &gathered.lag,
            cpu_share: gathered.cpu_ns as f64 / (SECOND_NS * self.gauges.len().max(1) as f64),
            in_flight: in_flight(gathered.in_flight_ns, SECOND_NS, (sum, count)),
            connections: self.connections,
            user_bytes: gathered.user_bytes,
        });
    }

    fn end(self, stopped: Option<End>) -> LoadResult {
        let elapsed_ns = self.shared.clock.now_ns().saturating_sub(self.shared.warm_ns);
        let gave_up = self.shared.stopped_by.lock().take().map(End::GaveUp);
        let done = self.operations_wanted.is_some_and(|wanted| self.operations >= wanted);
        let end = gave_up.or(stopped).unwrap_or(match self.shared.end_ns {
            Some(_) if !done => End::TimeOver,
            _ => End::Done,
        });
        let (sum, count) = self.sampled_all;
        let mut metrics: Vec<_> = self.names.into_iter().zip(self.whole).collect();
        let mut report_only = metrics.split_off(self.first_report_only.min(metrics.len()));
        for list in [&mut metrics, &mut report_only] {
            list.retain(|(_, measured)| !measured.is_empty());
        }
        LoadResult {
            metrics,
            report_only,
            operations: self.operations,
            retries: self.retries,
            elapsed: Duration::from_nanos(elapsed_ns),
            lag: self.lag,
            cpu: Duration::from_nanos(self.cpu_ns),
            preparing: Duration::from_nanos(self.preparing_ns),
            draws: self.draws,
            loops: self.gauges.len(),
            in_flight: in_flight(self.in_flight_ns, elapsed_ns as f64, (sum, count)),
            failures: self.failures,
            reconnects: self.reconnects,
            abandoned: self.abandoned,
            end,
        }
    }
}

/// The average number of operations under way: from the sum over a time, or else from the samples' sum and number.
fn in_flight(in_flight_ns: u64, time_ns: f64, (sum, count): (u64, u64)) -> f64 {
    match in_flight_ns {
        0 if count == 0 => 0.0,
        0 => sum as f64 / count as f64,
        in_flight_ns => in_flight_ns as f64 / time_ns.max(1.0),
    }
}
