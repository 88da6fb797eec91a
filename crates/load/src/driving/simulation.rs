//! The driving loop in simulated time: one loop on the test's thread, a manual clock, and a server at the other end of socket pairs
//! that answers at computed times. Latencies, rates and deadlines are therefore exact.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bson::{RawDocument, rawdoc};
use fathom_client::{Address, ConnectionParts, Transport};
use fathom_stats::{Histogram, LittleCheck, SeededRandom, Slo};
use fathom_wire::{Codec, Header, OpMsgWriter};

use super::collector::Collector;
use super::connector::ConnectionQueue;
use super::event_loop::{ClientLoop, LoopContext};
use super::link::whole_frame;
use super::plan::{LoadClock, LoopsState, SimulatedPeer};
use super::recorder::LoopGauge;
use super::{Arrivals, DrivingPlan, End, LoadResult, Observer, SecondMeasurements};
use crate::binding::Binding;
use crate::core_workload::{CoreShared, CoreSource, CoreState, CoreWorkload, Phase, Retry};
use crate::find_max::{SearchStep, find_max};
use crate::measurements::{OperationMeasurements, Status};
use crate::properties::Properties;
use crate::search_rates::SearchRates;
use crate::source::{OperationStart, ReplyOutcome, Source};

const MS: u64 = 1_000_000;
/// Few connections, so that a stall delays less than one operation in a hundred.
const CONNECTIONS: usize = 4;
const RATE: f64 = 500.0;
const STALL_PERIOD_NS: u64 = 2000 * MS;
const STALL_BEGIN_NS: u64 = 850 * MS;
const STALL_NS: u64 = 300 * MS;
const STALLED_SHARE: f64 = 0.15;

/// The time at which a server answers a request that arrives at a time; `None` for never.
type Answer = fn(arrival_ns: u64) -> Option<u64>;

/// A tenth of a millisecond, but in a part of every two seconds nothing before its end.
fn with_stalls(arrival_ns: u64) -> Option<u64> {
    let place_ns = arrival_ns % STALL_PERIOD_NS;
    let left_ns = (STALL_BEGIN_NS + STALL_NS).saturating_sub(place_ns);
    let is_stalled = place_ns >= STALL_BEGIN_NS && left_ns > 0;
    Some(arrival_ns + if is_stalled { left_ns } else { MS / 10 })
}

/// A server behind socket pairs, and the clock that it advances while the loop waits.
struct SimulatedServer {
    clock_ns: &'static AtomicU64,
    answer: Answer,
    sockets: Vec<(UnixStream, Vec<u8>)>,
    /// The answers to come: when, at which socket, and to which request.
    due: Vec<(u64, usize, i32)>,
}

impl SimulatedPeer for SimulatedServer {
    /// Reads what was sent, moves the clock on by `left_ns` at most, to the next answer, and sends what is due.
    fn wait(&mut self, left_ns: u64) {
        let now_ns = self.clock_ns.load(Ordering::Relaxed);
        for (place, (socket, input)) in self.sockets.iter_mut().enumerate() {
            let mut piece = [0; 4096];
            loop {
                match socket.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => input.extend_from_slice(&piece[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            while let Some(length) = whole_frame(input).unwrap() {
                let request_id = Header::from_frame(input).unwrap().request_id;
                self.due.extend((self.answer)(now_ns).map(|due_ns| (due_ns, place, request_id)));
                input.drain(..length);
            }
        }
        let next_ns = self.due.iter().map(|due| due.0).min().unwrap_or(u64::MAX);
        let then_ns = next_ns.min(now_ns + left_ns).max(now_ns);
        self.clock_ns.store(then_ns, Ordering::Relaxed);
        for (_, place, request_id) in self.due.extract_if(.., |due| due.0 <= then_ns) {
            // A connection that the loop has given up is closed.
            let _ = self.sockets[place].0.write_all(&reply_to(request_id));
        }
    }
}

fn reply_to(request_id: i32) -> Vec<u8> {
    let document = rawdoc! { "_id": "user1", "field0": "x" };
    let cursor = rawdoc! { "firstBatch": [document], "id": 0_i64, "ns": "ycsb.usertable" };
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, request_id);
    message.raw_body(&rawdoc! { "cursor": cursor, "ok": 1.0 });
    message.finish().unwrap();
    frame
}

/// A connection's two ends.
fn pair() -> (ConnectionParts, UnixStream) {
    let (client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let parts = ConnectionParts {
        // Reading and writing are the same for both kinds of stream sockets.
        transport: Transport::Plain(TcpStream::from(OwnedFd::from(client))),
        codec: Codec::default(),
        compressor: None,
        request_id: 0,
        address: Address::new("simulated", 27017),
        hello: rawdoc! { "ok": 1.0 },
    };
    (parts, server)
}

/// The mean schedule lag of each second, in milliseconds.
#[derive(Default)]
struct LagSeries(Vec<f64>);

impl Observer for LagSeries {
    fn second(&mut self, interval: &SecondMeasurements<'_>) {
        self.0.push(interval.lag.mean_ns().unwrap_or(0.0) / 1e6);
    }

    fn stop_asked(&mut self) -> bool {
        false
    }
}

fn plan(arrivals: Arrivals, seconds: u64) -> DrivingPlan {
    DrivingPlan {
        connections: CONNECTIONS,
        loops: 1,
        depth: 1,
        operations: None,
        time: Some(Duration::from_secs(seconds)),
        warmup: Duration::ZERO,
        arrivals,
        deadline: Some(Duration::from_secs(10)),
        no_progress: None,
        batch: 1,
        seed: 7,
        points: false,
    }
}

/// Drives reads of one record against a simulated server.
fn simulate(answer: Answer, plan: &DrivingPlan) -> LoadResult {
    simulate_seconds(answer, plan, &mut LagSeries::default())
}

fn simulate_seconds(answer: Answer, plan: &DrivingPlan, seconds: &mut LagSeries) -> LoadResult {
    simulate_source(answer, plan, seconds, |source, _| source)
}

/// Reads of one record, by a source that `wrap` makes of one that takes no time, and of the clock.
fn simulate_source<S: Source>(
    answer: Answer,
    plan: &DrivingPlan,
    seconds: &mut LagSeries,
    wrap: impl FnOnce(CoreSource, &'static AtomicU64) -> S,
) -> LoadResult {
    // A loop's clock is copied into its state; a few bytes for each test are not freed.
    let clock_ns: &'static AtomicU64 = Box::leak(Box::default());
    let mut properties = Properties::default();
    for pair in ["workload=CoreWorkload", "recordcount=1000", "readproportion=1", "updateproportion=0"] {
        properties.add_flag(pair).unwrap();
    }
    let workload = CoreWorkload::from_properties(&properties, Phase::Run, None).unwrap();
    let (binding, _) = Binding::from_properties(&properties).unwrap();
    let source = CoreSource::new(&Arc::new(CoreShared::new(workload, binding, Retry::default(), 1000)), 7, 0);
    let source = wrap(source, clock_ns);

    let shared = LoopsState::with_clock(plan, LoadClock::Manual(clock_ns));
    let (words, heard) = mpsc::channel();
    let (wishes, _wished) = mpsc::channel();
    let mut collector = Collector::new(&shared, plan, heard);
    let gauge = Arc::new(LoopGauge::default());
    collector.add(&gauge, &source);
    let (parts, sockets): (Vec<_>, Vec<_>) = (0..plan.connections).map(|_| pair()).unzip();
    let sockets = sockets.into_iter().map(|socket| (socket, Vec::new())).collect();
    let context = LoopContext {
        shared: Arc::clone(&shared),
        words,
        wishes,
        mailbox: Arc::new(ConnectionQueue::new().unwrap()),
        gauge,
        schedule: plan.arrivals.schedule(1.0, 0.0, SeededRandom::from_seed(plan.seed)),
        first_connection: 0,
        simulated: Some(Box::new(SimulatedServer { clock_ns, answer, sockets, due: Vec::new() })),
    };
    ClientLoop::new(context, source, parts).unwrap().run();
    collector.collect(seconds)
}

fn read(ended: &LoadResult) -> &OperationMeasurements {
    ended.metrics.iter().find(|(name, _)| *name == "READ").map(|(_, measured)| measured).unwrap()
}

/// A quantile in milliseconds.
fn at(histogram: &Histogram, quantile: f64) -> f64 {
    histogram.quantile_ns(quantile).unwrap() as f64 / 1e6
}

fn slower_than(histogram: &Histogram, limit_ms: u64) -> u64 {
    histogram.buckets().filter(|(highest, _)| *highest > limit_ms * MS).map(|(_, count)| count).sum()
}

/// Both latencies of a load whose server stalls three times, against those that follow from the stalls.
fn assert_the_stall_is_seen(arrivals: Arrivals, tolerance_ms: f64) {
    let ended = simulate(with_stalls, &plan(arrivals, 6));
    assert_eq!((ended.end.clone(), ended.abandoned), (End::TimeOver, 0), "{:?}", ended.failures);
    let latencies = &read(&ended).succeeded;
    for quantile in [0.5, 0.8, 0.9, 0.95, 0.99] {
        // During a stall the waits of operations are evenly distributed between zero and its length; others do not wait.
        let expected_ms = (STALL_NS as f64 / 1e6) * (1.0 - (1.0 - quantile) / STALLED_SHARE);
        let response_ms = at(&latencies.response, quantile);
        assert!(
            (response_ms - expected_ms.max(0.0)).abs() < tolerance_ms,
            "{quantile}: {response_ms} ms, not {expected_ms}"
        );
        let service_ms = at(&latencies.service, quantile);
        assert!((service_ms - 0.1).abs() < 0.01, "service time at {quantile}: {service_ms} ms");
    }
    // Only what was under way when one of the three stalls began saw it.
    assert_eq!(slower_than(&latencies.service, 1), 3 * CONNECTIONS as u64);
    let longest_ms = at(&latencies.service, 1.0);
    assert!((290.0..=302.0).contains(&longest_ms), "{longest_ms}");
    assert!(at(&ended.lag, 0.99) > 200.0, "the schedule's lag shows where response time comes from");
}

#[test]
fn a_target_rate_sees_the_stall() {
    assert_the_stall_is_seen(Arrivals::Uniform(RATE), 6.0);
}

#[test]
fn an_open_loop_sees_the_stall() {
    assert_the_stall_is_seen(Arrivals::Poisson(RATE), 20.0);
}

/// The omission that the other two avoid: while the server is stopped, a closed loop sends nothing, so no operation
/// is late. docs/ycsb.md says so.
#[test]
fn a_closed_loop_is_blind_to_the_stall() {
    let ended = simulate(with_stalls, &plan(Arrivals::Closed, 4));
    let latencies = &read(&ended).succeeded;
    for histogram in [&latencies.service, &latencies.response] {
        assert!(at(histogram, 0.99) < 0.11, "{}", at(histogram, 0.99));
        assert!((298.0..=302.0).contains(&at(histogram, 1.0)), "{}", at(histogram, 1.0));
        assert_eq!(slower_than(histogram, 1), 2 * CONNECTIONS as u64);
    }
    assert!(ended.lag.is_empty());
}

/// Little's law holds between the three measured values: the number under way is the arrivals a second times the time of each.
#[test]
fn littles_law_holds() {
    for (arrivals, in_flight) in [(Arrivals::Closed, 64.0), (Arrivals::Uniform(2000.0), 40.0)] {
        let plan = DrivingPlan { connections: 64, ..plan(arrivals, 4) };
        let ended = simulate(|arrival_ns| Some(arrival_ns + 20 * MS), &plan);
        let service = &read(&ended).succeeded.service;
        let check = LittleCheck {
            in_flight: ended.in_flight,
            throughput_per_s: service.len() as f64 / ended.elapsed.as_secs_f64(),
            mean_latency_ns: service.mean_ns().unwrap(),
        };
        assert!(check.relative_gap() < 0.002, "{arrivals:?}: {check:?}");
        // At the end the last operations are waited for.
        assert!((ended.in_flight / in_flight - 1.0).abs() < 0.01, "{arrivals:?}: {}", ended.in_flight);
    }
}

fn at_once(arrival_ns: u64) -> Option<u64> {
    Some(arrival_ns + MS / 10)
}

#[test]
fn a_rate_is_kept_to_the_operation_for_the_time_of_the_run() {
    let ended = simulate(at_once, &plan(Arrivals::Uniform(400.0), 2));
    assert_eq!((ended.operations, ended.end.clone()), (800, End::TimeOver));
    assert!((2.0..2.02).contains(&ended.elapsed.as_secs_f64()), "{:?}", ended.elapsed);
    assert!(at(&read(&ended).succeeded.response, 1.0) < 0.2, "no operation is late");
    let poisson = simulate(at_once, &plan(Arrivals::Poisson(400.0), 20)).operations as f64;
    assert!((poisson / 8000.0 - 1.0).abs() < 0.03, "{poisson}");
}

#[test]
fn operations_of_the_warm_up_are_none_of_those_that_count() {
    let warmup = Duration::from_secs(1);
    let timed = DrivingPlan { warmup, ..plan(Arrivals::Uniform(400.0), 2) };
    assert_eq!(simulate(at_once, &timed).operations, 800);
    let counted = DrivingPlan { warmup, operations: Some(500), time: None, ..plan(Arrivals::Closed, 0) };
    let ended = simulate(at_once, &counted);
    assert_eq!((ended.operations, ended.end.clone()), (500, End::Done));
    let elapsed_ms = ended.elapsed.as_secs_f64() * 1e3;
    assert!((500.0 / 4.0 * 0.1 - elapsed_ms).abs() < 0.3, "{elapsed_ms} ms after the warm-up");
}

#[test]
fn an_operation_without_a_reply_is_lost_at_its_deadline() {
    let deadline = Some(Duration::from_millis(500));
    let plan = DrivingPlan { operations: Some(CONNECTIONS as u64), deadline, ..plan(Arrivals::Closed, 60) };
    let ended = simulate(|_| None, &plan);
    let lost = &ended.failures["no reply"];
    assert_eq!((lost.count, lost.first.as_str()), (CONNECTIONS as u64, "no reply within 500ms"));
    let failed = &read(&ended).failed[&Status::Error].service;
    assert_eq!(failed.len(), CONNECTIONS as u64);
    assert!(at(failed, 0.01) >= 500.0 && at(failed, 1.0) <= 515.0, "noticed at the next tick of 10 ms");
}

/// A source that takes a millisecond to prepare each request.
struct SlowSource {
    source: CoreSource,
    clock_ns: &'static AtomicU64,
}

impl Source for SlowSource {
    type State = CoreState;

    fn metrics(&self) -> Vec<String> {
        self.source.metrics()
    }

    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<OperationStart<CoreState>> {
        self.clock_ns.fetch_add(MS, Ordering::Relaxed);
        self.source.begin(most, message)
    }

    fn answer(
        &mut self,
        state: &mut CoreState,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        self.source.answer(state, reply, message)
    }

    fn again(&mut self, state: &mut CoreState, message: &mut OpMsgWriter<'_>) {
        self.source.again(state, message);
    }

    fn take_user_bytes(&mut self) -> u64 {
        self.source.take_user_bytes()
    }

    fn lost(&mut self, state: &mut CoreState) -> ReplyOutcome {
        self.source.lost(state)
    }
}

/// A reply that arrives while requests are prepared is read before the next is begun: without that, the time of an operation has the
/// preparation of three others in it.
#[test]
fn the_time_of_an_operation_has_no_queue_of_preparations_in_it() {
    let plan = plan(Arrivals::Closed, 2);
    let ended = simulate_source(at_once, &plan, &mut LagSeries::default(), |source, clock_ns| SlowSource {
        source,
        clock_ns,
    });
    let service = &read(&ended).succeeded.service;
    assert!(service.len() > 1900, "{}", service.len());
    assert!(at(service, 0.99) < 1.2, "{} ms, one preparation at most", at(service, 0.99));
    assert!(ended.preparing_share() > 0.9, "{}", ended.preparing_share());
}

#[test]
fn each_connection_is_closed_once_and_counts_as_no_operation() {
    let ended = simulate(at_once, &DrivingPlan { operations: Some(20), ..plan(Arrivals::Closed, 60) });
    let closed: Vec<_> = ended
        .report_only
        .iter()
        .map(|(name, measured)| (name.as_str(), measured.returned(Status::Ok)))
        .collect();
    assert_eq!(closed, [("CLEANUP", CONNECTIONS as u64)]);
    assert!(ended.operations == 20 && ended.metrics.iter().all(|(name, _)| name == "READ"));
}

/// At the end of a period of 20 ms: for four connections, 200 times a second at most.
fn at_periods(arrival_ns: u64) -> Option<u64> {
    Some(arrival_ns - arrival_ns % (20 * MS) + 20 * MS)
}

/// A step of a search, as a load in simulated time measures it.
fn search_step(rate_per_s: f64, slo: &Slo) -> SearchStep {
    const SECONDS: u64 = 20;
    let plan = DrivingPlan { seed: rate_per_s.to_bits(), ..plan(Arrivals::Poisson(rate_per_s), SECONDS) };
    let mut lag = LagSeries::default();
    let ended = simulate_seconds(at_periods, &plan, &mut lag);
    let response = &read(&ended).succeeded.response;
    SearchStep {
        offered_per_s: rate_per_s,
        achieved_per_s: ended.operations as f64 / SECONDS as f64,
        seconds: SECONDS as f64,
        quantile_ns: slo.quantile_ns(response),
        slow_share: slo.slow_share(response),
        failed_share: 0.0,
        lag_ms: lag.0,
        client_cpu_share: 0.0,
    }
}

#[test]
fn the_highest_rate_of_a_slow_server_is_found() {
    let closed = simulate(at_periods, &plan(Arrivals::Closed, 5));
    let closed_per_s = closed.operations as f64 / 5.0;
    assert!((closed_per_s - 200.0).abs() < 1.0, "{closed_per_s}");
    let slo: Slo = "p95<120ms".parse().unwrap();
    let run = |rate_per_s, _| Ok(Some(search_step(rate_per_s, &slo)));
    let found = find_max(closed_per_s, &SearchRates::default(), &slo, run).unwrap();
    let ends = (found.rate_per_s.unwrap(), found.broken_per_s.unwrap());
    assert!(ends.0 > 170.0 && ends.1 < 200.0 && ends.1 / ends.0 < 1.04, "{ends:?}");
}
