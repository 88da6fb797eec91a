//! Tests that latencies are truthful: response time shows a stopped server and service time hides it, and
//! the reported rate, latency and operations under way are consistent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bson::rawdoc;
use fathom_client::{Address, Connection, ConnectionParts, Target};
use fathom_errors::Error;
use fathom_load::binding::Binding;
use fathom_load::core_workload::{CoreShared, CoreSource, CoreWorkload, Phase, Retry};
use fathom_load::driving::{self, Arrivals, DrivingPlan, End, LoadResult, Observer, SecondMeasurements};
use fathom_load::measurements::OperationMeasurements;
use fathom_load::properties::Properties;
use fathom_stats::{Histogram, LittleCheck};
use fathom_testkit::{
    DisturbanceLimit, Manner, NullResponder, assert, assert_eq, test, undisturbed, with_disturbance,
};

/// An observer that ignores everything.
struct SilentObserver;

impl Observer for SilentObserver {
    fn second(&mut self, _interval: &SecondMeasurements<'_>) {}

    fn stop_asked(&mut self) -> bool {
        false
    }
}

/// Few connections, so that a stall delays less than one operation in a hundred.
const CONNECTIONS: usize = 4;

fn plan(arrivals: Arrivals, time: Duration) -> DrivingPlan {
    DrivingPlan {
        connections: CONNECTIONS,
        loops: 2,
        depth: 1,
        operations: None,
        time: Some(time),
        warmup: Duration::ZERO,
        arrivals,
        deadline: Some(Duration::from_secs(10)),
        no_progress: Some(Duration::from_secs(10)),
        batch: 1,
        seed: 7,
        points: false,
    }
}

type PartsResult = Result<ConnectionParts, Error>;

/// The same, where `open` makes each connection by its number and with what connects.
fn drive_opened(
    manner: Manner,
    plan: &DrivingPlan,
    open: impl Fn(usize, &dyn Fn() -> PartsResult) -> PartsResult + Send + Sync + 'static,
) -> LoadResult {
    let responder = NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, manner).unwrap();
    let mut properties = Properties::default();
    for pair in ["workload=CoreWorkload", "recordcount=1000", "readproportion=1", "updateproportion=0"] {
        properties.add_flag(pair).unwrap();
    }
    let workload = CoreWorkload::from_properties(&properties, Phase::Run, None).unwrap();
    let (binding, _) = Binding::from_properties(&properties).unwrap();
    let shared = Arc::new(CoreShared::new(workload, binding, Retry::default(), 1000));
    let target = Target::at(Address::new("127.0.0.1", responder.port()));
    let connect = move || -> PartsResult { Ok(Connection::connect(&target)?.into_parts()?) };
    let opener = move |number: usize| open(number, &connect);
    let source = |number: usize| CoreSource::new(&shared, plan.seed, number as u64);
    driving::run(plan, opener, source, &mut SilentObserver).unwrap()
}

/// The first connection to be reopened hangs, like one to a dead machine.
#[test]
fn a_connection_that_hangs_delays_neither_the_others_nor_the_end_of_the_run() {
    let (release, hung) = mpsc::channel::<()>();
    let (hung, opened, returned) = (Mutex::new(hung), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let over = Arc::clone(&returned);
    let open = move |_: usize, connect: &dyn Fn() -> PartsResult| {
        if opened.fetch_add(1, Ordering::Relaxed) == CONNECTIONS {
            let _ = hung.lock().unwrap().recv();
            over.fetch_add(1, Ordering::Relaxed);
        }
        connect()
    };
    // Each connection breaks at its hundredth reply. No limit of time ends the run.
    let plan = DrivingPlan {
        operations: Some(2000),
        time: None,
        deadline: None,
        no_progress: None,
        ..plan(Arrivals::Closed, Duration::ZERO)
    };
    let ended = drive_opened(Manner::Cuts(100), &plan, open);
    assert_eq!(returned.load(Ordering::Relaxed), 0, "the run has waited for the connection that hangs");
    assert!(ended.reconnects > 5, "{} connections were made again", ended.reconnects);
    assert_eq!(ended.end, End::Done);
    drop(release);
}

/// The same in simulated time: src/driving/simulation.rs.
mod timed {
    use fathom_testkit::{assert, assert_eq, test};

    use super::*;

    const RATE: f64 = 500.0;
    /// The second in ten, scaled down.
    const STALLS: Manner =
        Manner::Stalls { period: Duration::from_secs(2), pause: Duration::from_millis(300) };
    const STALLED_SHARE: f64 = 0.15;
    const PAUSE_MS: f64 = 300.0;

    /// Reads of one record from a responder, on a machine that does not stand still meanwhile.
    fn drive(manner: Manner, plan: &DrivingPlan) -> LoadResult {
        let limit = DisturbanceLimit { standstill: Duration::from_millis(50), wait_share: 1.0 };
        undisturbed(limit, || with_disturbance(|| drive_once(manner, plan)))
    }

    fn drive_once(manner: Manner, plan: &DrivingPlan) -> LoadResult {
        let ended = drive_opened(manner, plan, |_, connect| connect());
        assert_eq!((ended.end.clone(), ended.abandoned), (End::TimeOver, 0), "{:?}", ended.failures);
        ended
    }

    fn read(ended: &LoadResult) -> &OperationMeasurements {
        ended.metrics.iter().find(|(name, _)| *name == "READ").map(|(_, measured)| measured).unwrap()
    }

    /// A quantile in milliseconds.
    fn at(histogram: &Histogram, quantile: f64) -> f64 {
        histogram.quantile_ns(quantile).unwrap() as f64 / 1e6
    }

    /// The wait of operations during a stall is evenly distributed between zero and its length; other operations do not wait.
    fn expected_ms(quantile: f64) -> f64 {
        PAUSE_MS * (1.0 - (1.0 - quantile) / STALLED_SHARE)
    }

    fn assert_the_stall_is_seen(arrivals: Arrivals) {
        let begun = Instant::now();
        let ended = drive(STALLS, &plan(arrivals, Duration::from_secs(6)));
        let latencies = &read(&ended).succeeded;
        let (service, response) = (&latencies.service, &latencies.response);
        println!("{arrivals:?} in {:?}: {} operations", begun.elapsed(), ended.operations);
        for quantile in [0.5, 0.8, 0.9, 0.95, 0.99] {
            let (service, response) = (at(service, quantile), at(response, quantile));
            let expected = expected_ms(quantile).max(0.0);
            println!(
                "  p{}: service {service:.1} ms, response {response:.1} ms, expected {expected:.0} ms",
                quantile * 100.0
            );
            assert!(
                (response - expected).abs() < 40.0,
                "response time at {quantile}: {response} ms, not {expected}"
            );
            assert!(service < 40.0, "service time at {quantile}: {service} ms");
        }
        // Only what was under way when a stall began saw it.
        let stalled = service.len() as f64 * (1.0 - service_share_below(service, 100_000_000));
        assert!(stalled <= (3 * CONNECTIONS) as f64 + 0.5, "{stalled}");
        assert!((at(service, 1.0) - PAUSE_MS).abs() < 60.0, "{}", at(service, 1.0));
        let rate = ended.operations as f64 / ended.elapsed.as_secs_f64();
        assert!((rate / RATE - 1.0).abs() < 0.1, "{rate}");
        assert!(at(&ended.lag, 0.99) > 200.0, "the schedule's lag shows where response time comes from");
    }

    fn service_share_below(histogram: &Histogram, limit_ns: u64) -> f64 {
        let below: u64 =
            histogram.buckets().filter(|(highest, _)| *highest <= limit_ns).map(|(_, count)| count).sum();
        below as f64 / histogram.len() as f64
    }

    #[test]
    fn a_target_rate_sees_the_stall() {
        assert_the_stall_is_seen(Arrivals::Uniform(RATE));
    }

    #[test]
    fn an_open_loop_sees_the_stall() {
        assert_the_stall_is_seen(Arrivals::Poisson(RATE));
    }

    /// The omission that the other two avoid: while the server is stopped, a closed loop sends nothing, so no operation
    /// is late. docs/ycsb.md says so.
    #[test]
    fn a_closed_loop_is_blind_to_it() {
        let ended = drive(STALLS, &plan(Arrivals::Closed, Duration::from_secs(4)));
        let latencies = &read(&ended).succeeded;
        for histogram in [&latencies.service, &latencies.response] {
            assert!(at(histogram, 0.99) < 40.0, "{}", at(histogram, 0.99));
            assert!((at(histogram, 1.0) - PAUSE_MS).abs() < 60.0, "{}", at(histogram, 1.0));
        }
        assert!(ended.lag.is_empty());
    }

    /// Little's law holds between the three measured values: the number under way is the arrivals a second times the time of each.
    #[test]
    fn littles_law_holds() {
        // A few milliseconds for each operation: the client's own time between two of them is small in comparison.
        let slow =
            Manner::Stalls { period: Duration::from_micros(20_300), pause: Duration::from_micros(20_000) };
        for (arrivals, seconds) in [(Arrivals::Closed, 3), (Arrivals::Uniform(2000.0), 4)] {
            let mut plan = plan(arrivals, Duration::from_secs(seconds));
            plan.connections = 64;
            let ended = drive(slow, &plan);
            let service = &read(&ended).succeeded.service;
            let check = LittleCheck {
                in_flight: ended.in_flight,
                throughput_per_s: service.len() as f64 / ended.elapsed.as_secs_f64(),
                mean_latency_ns: service.mean_ns().unwrap(),
            };
            let (gap, implied) = (check.relative_gap(), check.implied_in_flight());
            println!(
                "{arrivals:?}: {:.3} under way, {implied:.3} implied, {:.2} % apart",
                ended.in_flight,
                gap * 100.0
            );
            assert!(gap < 0.02, "{arrivals:?}: {gap}");
        }
    }
}
