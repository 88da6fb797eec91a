//! A cell's recording: one load over pairs of windows with the fault and without it, cut to the windows with it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fathom_record::disk::Entry;
use fathom_record::load::Load as LoadResult;
use fathom_record::{Manifest, Point, Reading, Run, RunWriter, State};
use fathom_stats::Seeded;
use fathom_testkit::{Fathom, Scratch, assert, with_disturbance};

use super::cells::{Cell, Load, Operations};
use super::faults::Rig;
use super::scoring::Truth;
use crate::faults::study::{PROGRAM, only_entry};

/// A window's beginning, which is not judged: what the window before left ends in it.
const SETTLE: Duration = Duration::from_secs(6);
/// The judged part of a window.
const JUDGED: Duration = Duration::from_secs(30);
/// Windows of each kind.
const PAIRS: usize = 3;
/// Before the first window, of which the last ten seconds tell what the device does without the fault.
const WARM_UP: Duration = Duration::from_secs(16);
const MEASURED: Duration = Duration::from_secs(10);

/// When the fault was there, or not: seconds since the run's start, and which.
struct Span {
    begin_s: f64,
    end_s: f64,
    has_fault: bool,
}

/// Records a cell, and keeps the windows with its fault (of a control all) as a bundle.
pub(crate) fn record(cell: &Cell, bundle: &Path) -> Truth {
    let rig = Rig::new(cell);
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let order = order(cell.name);
    let seconds = WARM_UP + (SETTLE + JUDGED) * u32::try_from(order.len()).unwrap() + Duration::from_secs(4);
    let words = words(&cell.load);
    let load = rig.loaded.watched(rig.port(), seconds.as_secs(), &words).arg("--runs").arg(&runs);
    let (spans, disturbance) = with_disturbance(|| {
        let running = load.spawn();
        let spans = windows(&rig, &order);
        let output = running.wait();
        assert!(output.code <= 1, "{}\n{}", output.stdout, output.stderr);
        spans
    });
    let run = Run::open(only_entry(&runs)).unwrap();
    let start_s = second_of_day(&run.manifest.started);
    // A run lasts minutes, so the day alone is left out.
    let since_start_s = |at_s: f64| (at_s - start_s).rem_euclid(86_400.0);
    let spans: Vec<Span> = spans
        .into_iter()
        .map(|span| Span { begin_s: since_start_s(span.begin_s), end_s: since_start_s(span.end_s), ..span })
        .collect();
    let truth = truth(cell, &run, &spans, &format!("{disturbance:?}"));
    let kept: Vec<&Span> =
        spans.iter().filter(|span| span.has_fault || cell.is_control()).take(PAIRS).collect();
    let cut = cut(&run, &kept, cell, &scratch.path().join("cut"));
    let _ = fs::remove_file(bundle);
    let export = Fathom::new(PROGRAM).args(["runs", "export"]).arg(&cut).arg("--output").arg(bundle);
    export.run().expect_code(0);
    rig.loaded.stop();
    truth
}

/// Pairs in random order, the same for a cell each time.
fn order(name: &str) -> Vec<bool> {
    let seed = name.bytes().fold(17u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut stream = Seeded::from_seed(seed);
    (0..PAIRS)
        .flat_map(|_| {
            let first = stream.uniform() < 0.5;
            [first, !first]
        })
        .collect()
}

fn words(load: &Load) -> String {
    let operations = match load.operations {
        Operations::ReadsPastMemory | Operations::ReadsInMemory => {
            "-p readproportion=1 -p updateproportion=0"
        }
        Operations::Updates => "-p readproportion=0 -p updateproportion=1",
        Operations::JournaledUpdates => {
            "-p readproportion=0 -p updateproportion=1 -p mongodb.writeConcern=journaled"
        }
        Operations::Mixed => {
            "-p readproportion=0.5 -p updateproportion=0.5 -p mongodb.writeConcern=journaled"
        }
    };
    let target = load.target_per_s.map_or_else(String::new, |per_s| format!(" -target {per_s}"));
    format!("-threads {} -p requestdistribution=uniform {operations}{target}", load.connections)
}

/// Makes and lifts the fault, window by window. Times are of the machine's clock.
fn windows(rig: &Rig, order: &[bool]) -> Vec<Span> {
    thread::sleep(WARM_UP - MEASURED);
    let before = rig.device_totals();
    thread::sleep(MEASURED);
    let after = rig.device_totals();
    let calm = [0, 1, 2].map(|at| (after[at] - before[at]) / MEASURED.as_secs_f64());
    let mut next = Instant::now();
    let mut spans = Vec::new();
    for has_fault in order {
        let injection = has_fault.then(|| rig.inject(calm));
        let begin_s = now_s() + SETTLE.as_secs_f64();
        next += SETTLE + JUDGED;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        spans.push(Span { begin_s, end_s: now_s(), has_fault: *has_fault });
        injection.into_iter().for_each(|injection| rig.lift(injection));
    }
    spans
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The second of the day of a time as a manifest has it: `2026-11-26T02:44:45.123Z`.
fn second_of_day(time: &str) -> f64 {
    let clock = time.split_once('T').unwrap().1.trim_end_matches('Z');
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    3600.0 * parts[0] + 60.0 * parts[1] + parts[2]
}

fn is_within(point: &Point, span: &Span) -> bool {
    point.begin_ns as f64 >= span.begin_s * 1e9 && point.end_ns as f64 <= span.end_s * 1e9
}

/// What clients waited in each kind of window, by the response clock where the load has a rate.
fn truth(cell: &Cell, run: &Run, spans: &[Span], disturbance: &str) -> Truth {
    let series = run.series().unwrap();
    let clock = if cell.load.target_per_s.is_some() { "response" } else { "service" };
    // Microseconds, operations and seconds of windows without the fault, and with it.
    let mut sums = [[0.0; 3]; 2];
    for span in spans {
        let sums = &mut sums[usize::from(span.has_fault)];
        sums[2] += span.end_s - span.begin_s;
        for operation in ["read", "update"] {
            let of = |name: &str| series.get(&format!("client.{operation}.{name}"));
            let Some((means, rates)) = of(&format!("{clock}.mean_ns")).zip(of("per_s")) else { continue };
            for rate in rates.points.iter().filter(|point| is_within(point, span)) {
                let ended = rate.value * (rate.end_ns - rate.begin_ns) as f64 / 1e9;
                let mean = means.points.iter().find(|mean| mean.end_ns == rate.end_ns);
                if let Some(mean) = mean.filter(|mean| mean.value.is_finite()) {
                    sums[0] += mean.value / 1000.0 * ended;
                    sums[1] += ended;
                }
            }
        }
    }
    let [calm, faulty] = sums.map(|[time_us, count, seconds]| {
        assert!(count > 0.0, "{}: no operation ended", cell.name);
        (time_us / count, count / seconds)
    });
    Truth {
        cell: cell.name.to_owned(),
        calm_us: calm.0,
        faulty_us: faulty.0,
        calm_per_s: calm.1,
        faulty_per_s: faulty.1,
        disturbance: disturbance.to_owned(),
    }
}

/// A run folder of these windows alone, one after another.
fn cut(run: &Run, spans: &[&Span], cell: &Cell, parent: &Path) -> std::path::PathBuf {
    let mut manifest = Manifest::new(&run.manifest.verb, &run.manifest.fathom_version, Vec::new());
    manifest.environment = run.manifest.environment.clone();
    manifest.seed = run.manifest.seed;
    let mut writer = RunWriter::create(parent, manifest).unwrap();
    let series = run.series().unwrap();
    let mut readings: Vec<Reading> = Vec::new();
    let mut end_ns = 0;
    for span in spans {
        let begin_ns = (span.begin_s * 1e9) as u64;
        for (name, series) in series.iter() {
            for point in series.points.iter().filter(|point| is_within(point, span)) {
                let at = |ns: u64| ns - begin_ns + end_ns;
                let window_ns = (at(point.begin_ns), at(point.end_ns));
                readings.push(Reading::new(name, &series.unit, window_ns, point.value));
            }
        }
        end_ns += ((span.end_s - span.begin_s) * 1e9) as u64;
    }
    readings.sort_by_key(|reading| reading.end_ns);
    writer.readings(&readings).unwrap();
    if let Some(per_s) = cell.load.target_per_s {
        writer.result(&Entry::Load(offered(cell, f64::from(per_s), end_ns as f64 / 1e9))).unwrap();
    }
    writer.finish(State::Complete, None).unwrap()
}

/// The offered load; the achieved one is in the series.
fn offered(cell: &Cell, per_s: f64, seconds: f64) -> LoadResult {
    LoadResult {
        server: cell.engine.to_owned(),
        workload: cell.name.to_owned(),
        connections: u64::from(cell.load.connections),
        seconds,
        operations: 0,
        per_s: 0.0,
        offered_per_s: Some(per_s),
        by_operation: Vec::new(),
        client_cpu_share: 0.0,
        client_limited: false,
    }
}
