//! A cell's recording: one load over pairs of windows with the fault and without it, cut to the windows with it.
//!
//! Where the fault is in the load itself, each window is a run of its own. A control has windows without a fault only, and the same load on a file
//! system in memory tells what the fastest storage would bring.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fathom_record::disk::Entry;
use fathom_record::load::Load as LoadResult;
use fathom_record::{Manifest, Point, Reading, Run, RunWriter, State};
use fathom_stats::SeededRandom;
use fathom_testkit::{Fathom, Guest, RunningProgram, Scratch, assert, with_disturbance};

use super::cell::{Cell, Fault, Load, Operations, Rate, Set};
use super::faults::{inject, settle};
use super::guest;
use super::rig::Rig;
use super::scoring::Truth;
use crate::faults::study::{PROGRAM, only_entry};

/// A window's beginning, which is not judged: what the window before left ends in it.
const SETTLE: Duration = Duration::from_secs(6);
/// The judged part of a window.
const JUDGED: Duration = Duration::from_secs(30);
/// Windows of each kind.
const PAIRS: usize = 3;
/// Before the first window; the last ten seconds tell what the throttle counts without the fault.
const WARM_UP: Duration = Duration::from_secs(16);
const MEASURED: Duration = Duration::from_secs(10);
/// After the last window, so that the run's end is no part of it.
const TAIL: Duration = Duration::from_secs(4);
/// Bursts of a load: their period, and how long each lasts.
const BURST_PERIOD: Duration = Duration::from_secs(10);
const BURST: Duration = Duration::from_secs(3);

/// When the fault was there, or not, in a run.
struct Span {
    /// The place of its run among all of the recording.
    run: usize,
    /// Seconds since midnight; since the run's start once that is known.
    begin_s: f64,
    end_s: f64,
    has_fault: bool,
}

/// Runs, and the windows in them.
struct Session {
    rate: Rate,
    runs: Vec<Run>,
    spans: Vec<Span>,
}

/// Records a cell, and keeps the windows with its fault (of a control all) as a bundle.
pub(crate) fn record(cell: &Cell, bundle: &Path) -> Truth {
    if matches!(cell.fault, Fault::ClockStep(_)) && !Guest::is_here() {
        return guest::record(bundle);
    }
    let scratch = Scratch::new().unwrap();
    let order = order(cell);
    let (session, disturbance) =
        with_disturbance(|| session(cell, &Rig::new, &order, &scratch.path().join("runs")));
    // A set's members are on several storages, and an idle server has no time that could be shorter.
    let has_fastest = cell.server.set == Set::Standalone && cell.load.operations != Operations::Nothing;
    let fastest = (cell.is_control() && has_fastest)
        .then(|| self::session(cell, &Rig::in_memory, &[false], &scratch.path().join("fastest")));
    let truth = truth(cell, &session, fastest.as_ref(), &format!("{disturbance:?}"));
    let wanted: Vec<&Span> =
        session.spans.iter().filter(|span| span.has_fault || cell.is_control()).collect();
    let cut = cut(&session, &wanted, cell, &scratch.path().join("cut"));
    let _ = fs::remove_file(bundle);
    let export = Fathom::new(PROGRAM).args(["runs", "export"]).arg(&cut).arg("--output").arg(bundle);
    export.run().expect_code(0);
    truth
}

/// Pairs in random order, the same for a cell each time; of a control three windows.
fn order(cell: &Cell) -> Vec<bool> {
    if cell.is_control() {
        return vec![false; PAIRS];
    }
    let seed =
        cell.name.bytes().fold(17u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut stream = SeededRandom::from_seed(seed);
    (0..PAIRS)
        .flat_map(|_| {
            let first = stream.uniform() < 0.5;
            [first, !first]
        })
        .collect()
}

fn words(load: &Load, connections: u32, rate: Rate) -> String {
    let operations = match load.operations {
        Operations::Nothing => "",
        Operations::Reads => "-p readproportion=1 -p updateproportion=0",
        Operations::Updates => "-p readproportion=0 -p updateproportion=1",
        Operations::JournaledUpdates => {
            "-p readproportion=0 -p updateproportion=1 -p mongodb.writeConcern=journaled"
        }
        Operations::MajorityUpdates => {
            "-p readproportion=0 -p updateproportion=1 -p mongodb.writeConcern=majority"
        }
        Operations::Mixed => {
            "-p readproportion=0.5 -p updateproportion=0.5 -p mongodb.writeConcern=journaled"
        }
        Operations::UnjournaledMixed => "-p readproportion=0.5 -p updateproportion=0.5",
        Operations::Inserts => "-p readproportion=0 -p updateproportion=0 -p insertproportion=1",
        Operations::Scans => {
            "-p readproportion=0 -p updateproportion=0 -p scanproportion=1 -p maxscanlength=100"
        }
    };
    let rate = match rate {
        Rate::Closed | Rate::ShareOfCapacity(_) => String::new(),
        Rate::Target(per_s) | Rate::Bursts(per_s, _) => format!(" -target {per_s}"),
        Rate::Open(per_s) => format!(" -target {per_s} -p arrivals=poisson"),
    };
    format!("-threads {connections} -p requestdistribution=uniform {operations}{rate}")
}

/// A server under its load, with windows in `order`; its runs lie in `folder`.
fn session(cell: &Cell, make: &dyn Fn(&Cell) -> Rig, order: &[bool], folder: &Path) -> Session {
    let rig = make(cell);
    let rate = rate(&rig);
    let session = match cell.has_load_of_its_own() {
        true => by_runs(&rig, order, rate, folder),
        false => by_windows(&rig, order, rate, folder),
    };
    rig.stop();
    session
}

/// The rate of the load, a share of the capacity being measured first.
fn rate(rig: &Rig) -> Rate {
    let load = &rig.cell.load;
    let Rate::ShareOfCapacity(share) = load.rate else { return load.rate };
    let words = words(load, load.connections, Rate::Closed) + " --no-record --json";
    let output = rig.loaded.load(rig.port(), MEASURED.as_secs(), &words).run().expect_code(0).json();
    let per_s = output["parts"][0]["per_s"].as_f64();
    Rate::Target((per_s.expect("the rate of a closed loop") * share) as u32)
}

/// One run, in whose windows the fault is made and lifted.
fn by_windows(rig: &Rig, order: &[bool], rate: Rate, folder: &Path) -> Session {
    let time = WARM_UP + (SETTLE + JUDGED) * u32::try_from(order.len()).unwrap() + TAIL;
    let load = &rig.cell.load;
    let call = match load.operations {
        Operations::Nothing => rig.loaded.explained(time.as_secs()),
        _ => rig.watched(time, &words(load, load.connections, rate)),
    };
    let clock = DayClock::new();
    let running = rig.start(call.arg("--runs").arg(folder));
    let spans = windows(rig, order, &clock);
    finish(running);
    let run = Run::open(only_entry(folder)).unwrap();
    let start_s = second_of_day(&run.manifest.started);
    let spans = spans.into_iter().map(|span| Span {
        begin_s: since(start_s, span.begin_s),
        end_s: since(start_s, span.end_s),
        ..span
    });
    Session { rate, spans: spans.collect(), runs: vec![run] }
}

/// A run for each window.
fn by_runs(rig: &Rig, order: &[bool], rate: Rate, folder: &Path) -> Session {
    let load = &rig.cell.load;
    let mut session = Session { rate, runs: Vec::new(), spans: Vec::new() };
    for (at, has_fault) in order.iter().copied().enumerate() {
        let connections = match rig.cell.fault {
            Fault::FewConnections(few) if has_fault => few,
            _ => load.connections,
        };
        let folder = folder.join(at.to_string());
        let words = words(load, connections, rate);
        finish(rig.start(rig.watched(SETTLE + JUDGED + TAIL, &words).arg("--runs").arg(&folder)));
        session.runs.push(Run::open(only_entry(&folder)).unwrap());
        let (begin_s, end_s) = (SETTLE.as_secs_f64(), (SETTLE + JUDGED).as_secs_f64());
        session.spans.push(Span { run: at, begin_s, end_s, has_fault });
    }
    session
}

fn finish(running: RunningProgram) {
    let output = running.wait();
    // "Cannot tell" is a result of its own.
    assert!([0, 1, 4].contains(&output.code), "{}\n{}", output.stdout, output.stderr);
}

/// Makes and lifts the fault, window by window. Times are of the machine's clock.
fn windows(rig: &Rig, order: &[bool], clock: &DayClock) -> Vec<Span> {
    thread::sleep(WARM_UP - MEASURED);
    settle(rig);
    let calm = rig.calm_rates(MEASURED);
    let mut next = Instant::now();
    let mut spans = Vec::new();
    let mut faults = 0;
    for has_fault in order.iter().copied() {
        let lift = has_fault.then(|| inject(rig, calm, faults));
        faults += usize::from(has_fault);
        let begin_s = clock.now_s() + SETTLE.as_secs_f64();
        next += SETTLE + JUDGED;
        bursts(rig, next);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        spans.push(Span { run: 0, begin_s, end_s: clock.now_s(), has_fault });
        lift.into_iter().for_each(|lift| lift());
    }
    spans
}

/// The bursts of a load until a time.
fn bursts(rig: &Rig, until: Instant) {
    let Rate::Bursts(_, more) = rig.cell.load.rate else { return };
    let load = &rig.cell.load;
    let words = words(load, load.connections, Rate::Target(more)) + " --no-record";
    while Instant::now() + BURST_PERIOD < until {
        let begun = Instant::now();
        finish(rig.loaded.load(rig.port(), BURST.as_secs(), &words).spawn());
        thread::sleep(BURST_PERIOD.saturating_sub(begun.elapsed()));
    }
}

/// The machine's clock without the steps that it is made to take.
struct DayClock {
    begun: Instant,
    begun_s: f64,
}

impl DayClock {
    fn new() -> DayClock {
        let begun_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        DayClock { begun: Instant::now(), begun_s }
    }

    fn now_s(&self) -> f64 {
        self.begun_s + self.begun.elapsed().as_secs_f64()
    }
}

/// A run lasts minutes, so the day alone is left out.
fn since(start_s: f64, at_s: f64) -> f64 {
    (at_s - start_s).rem_euclid(86_400.0)
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

/// Mean microseconds of an operation and operations a second, by the response clock where the load has a rate.
fn means(cell: &Cell, session: &Session, has_fault: bool) -> (f64, f64) {
    let clock = if cell.load.has_rate() { "response" } else { "service" };
    let (mut time_us, mut count, mut seconds) = (0.0, 0.0, 0.0);
    for span in session.spans.iter().filter(|span| span.has_fault == has_fault) {
        let series = session.runs[span.run].series().unwrap();
        seconds += span.end_s - span.begin_s;
        for operation in ["read", "update", "insert", "scan"] {
            let of = |name: &str| series.get(&format!("client.{operation}.{name}"));
            let Some((means, rates)) = of(&format!("{clock}.mean_ns")).zip(of("per_s")) else { continue };
            for rate in rates.points.iter().filter(|point| is_within(point, span)) {
                let ended = rate.value * (rate.end_ns - rate.begin_ns) as f64 / 1e9;
                let mean = means.points.iter().find(|mean| mean.end_ns == rate.end_ns);
                if let Some(mean) = mean.filter(|mean| mean.value.is_finite()) {
                    time_us += mean.value / 1000.0 * ended;
                    count += ended;
                }
            }
        }
    }
    assert!(count > 0.0 || cell.load.operations == Operations::Nothing, "{}: no operation ended", cell.name);
    if count > 0.0 { (time_us / count, count / seconds) } else { (0.0, 0.0) }
}

/// What clients waited in each kind of window; of a control on the fastest storage, and on its own.
fn truth(cell: &Cell, session: &Session, fastest: Option<&Session>, disturbance: &str) -> Truth {
    let (calm, faulty) = match (cell.is_control(), fastest) {
        (true, Some(fastest)) => (means(cell, fastest, false), means(cell, session, false)),
        (true, None) => (means(cell, session, false), means(cell, session, false)),
        (false, _) => (means(cell, session, false), means(cell, session, true)),
    };
    Truth {
        cell: cell.name.to_owned(),
        repeat: 0,
        calm_us: calm.0,
        faulty_us: faulty.0,
        calm_per_s: calm.1,
        faulty_per_s: faulty.1,
        disturbance: disturbance.to_owned(),
        said: None,
    }
}

/// A run folder of these windows alone, one after another.
fn cut(session: &Session, spans: &[&Span], cell: &Cell, parent: &Path) -> PathBuf {
    let run = &session.runs[spans.first().map_or(0, |span| span.run)];
    let mut readings: Vec<Reading> = Vec::new();
    let mut end_ns = 0;
    for span in spans {
        let series = session.runs[span.run].series().unwrap();
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
    let per_s = match session.rate {
        Rate::Target(per_s) | Rate::Open(per_s) | Rate::Bursts(per_s, _) => Some(f64::from(per_s)),
        Rate::Closed | Rate::ShareOfCapacity(_) => None,
    };
    let load = per_s.map(|per_s| Entry::Load(offered(cell, per_s, end_ns as f64 / 1e9)));
    copy_run(run, parent, readings, load.as_slice())
}

/// A run folder with the facts of a run, and with these readings and results.
pub(crate) fn copy_run(run: &Run, parent: &Path, mut readings: Vec<Reading>, results: &[Entry]) -> PathBuf {
    let mut manifest = Manifest::new(&run.manifest.verb, &run.manifest.fathom_version, Vec::new());
    manifest.environment = run.manifest.environment.clone();
    manifest.seed = run.manifest.seed;
    let mut writer = RunWriter::create(parent, manifest).unwrap();
    readings.sort_by_key(|reading| reading.end_ns);
    writer.readings(&readings).unwrap();
    results.iter().for_each(|result| writer.result(result).unwrap());
    writer.finish(State::Complete, None).unwrap()
}

/// The offered load; the achieved one is in the series.
fn offered(cell: &Cell, per_s: f64, seconds: f64) -> LoadResult {
    LoadResult {
        server: cell.server.engine.to_owned(),
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
