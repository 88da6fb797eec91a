//! Computes what other operations of a server lose while some operations run: the cost of those, which is never their own time.
//!
//! Two ways lead to it (docs/methods.md#whose-work-it-is). The mean time of the other operations while the culprit runs is compared with
//! their mean at other times: by the clock of a load that was watched, else by the server's. If the culprit always runs, the waits of the
//! other connections' threads for a processor are counted.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::verdict::{Cost, LatencyClock, MIN_COST_SHARE};
use fathom_record::{OperationGroup, ServerWork};
use fathom_stats::{SeededRandom, bootstrap_mean, quantile};
use fathom_units::{Nanos, count};

use crate::Evidence;
use crate::client::{ClientLoads, points};
use crate::server_work::{WorkTable, WorkUse, kind_in_top, work_readings};
use crate::windows::{Window, overlap};

/// The parts of a culprit's usual rate (its 90th percentile) from which it counts as active, and up to which as at rest.
const MIN_ACTIVE_PART: f64 = 0.25;
const MAX_REST_PART: f64 = 0.05;
/// The fewest readings with the culprit, seconds without it, and other operations in either.
const MIN_READINGS: usize = 5;
const MIN_REST_S: f64 = 5.0;
const MIN_OPERATIONS: f64 = 50.0;
/// The time around a sighting that is not counted as one without the culprit: readings are a second apart, so it may have run just before or after.
const SIGHTING_MARGIN_NS: u64 = 2_000_000_000;
/// The fewest other operations a second that can lose anything.
const MIN_OTHERS_PER_S: f64 = 1.0;
/// An interval that begins below this share and ends above [`MIN_COST_SHARE`] says nothing.
const MIN_INTERVAL_BEGIN: f64 = 0.01;
const RESAMPLES: usize = 1000;

/// The operations whose cost to the others is asked for.
pub(crate) struct Culprit<'c> {
    /// Whether operations that were seen are its own.
    owns: &'c dyn Fn(&OperationGroup) -> bool,
    /// Its collections and kinds in `top`. Other operations of these cannot be distinguished from its own.
    classes: BTreeSet<OperationClass>,
    /// Whether some of the operations are those of a load of this program.
    is_load: bool,
}

/// The driver in the metadata of this program's clients; also the application that it names where a load uses another driver.
const LOAD_CLIENT: &str = "fathom";

/// A collection, and a kind of operation in `top`.
type OperationClass = (String, String);

impl<'c> Culprit<'c> {
    /// The culprit of a server, from the operations that were seen.
    pub(crate) fn new(
        evidence: &Evidence,
        member: &str,
        owns: &'c dyn Fn(&OperationGroup) -> bool,
    ) -> Culprit<'c> {
        let number = member.parse().unwrap_or(usize::MAX);
        let work = work_readings(&evidence.results, number, evidence.window_ns);
        let own: Vec<&OperationGroup> =
            work.iter().flat_map(|work| &work.operations).filter(|group| owns(group)).collect();
        let class = |group: &&OperationGroup| (group.namespace.clone(), kind_in_top(&group.kind).to_owned());
        let is_load = |group: &&OperationGroup| match group.application.as_deref() {
            Some(application) => application == LOAD_CLIENT,
            None => group.driver.as_deref().is_some_and(|driver| driver.starts_with(LOAD_CLIENT)),
        };
        Culprit { owns, classes: own.iter().map(class).collect(), is_load: own.iter().any(is_load) }
    }

    fn has(&self, namespace: &str, kind: &str) -> bool {
        self.classes.iter().any(|(one, other)| one == namespace && other == kind)
    }

    /// Whether other operations are frequent enough to lose anything, as `top` counts those of other collections and kinds.
    pub(crate) fn has_others(&self, table: &WorkTable, seconds: f64) -> bool {
        let others = table.collections.iter().filter(|used| !self.has(&used.namespace, &used.kind));
        let counted: u64 = others.map(|used| used.count).sum();
        counted as f64 >= MIN_OTHERS_PER_S * seconds
    }
}

/// The loss of the other operations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OthersLoss {
    pub(crate) cost: Cost,
    /// The loss in a sentence.
    pub(crate) words: String,
    /// The times in which the culprit ran, as far as the loss was compared with other times.
    pub(crate) windows: Vec<Window>,
}

impl OthersLoss {
    /// Whether the interval decides between a loss that matters and one that does not.
    pub(crate) fn is_known(&self) -> bool {
        let (low, high) = self.cost.interval;
        low >= MIN_INTERVAL_BEGIN || high < MIN_COST_SHARE
    }

    /// Whether the others lose less than what matters.
    pub(crate) fn is_small(&self) -> bool {
        self.cost.share < MIN_COST_SHARE && self.is_known()
    }
}

/// Time and number of operations.
#[derive(Clone, Copy, Debug, Default)]
struct OperationTime {
    us: f64,
    count: f64,
}

impl OperationTime {
    fn add(&mut self, other: OperationTime) {
        self.us += other.us;
        self.count += other.count;
    }

    fn mean_us(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.us / self.count)
    }
}

/// The growth of `top` between two readings.
struct TopReading {
    window_ns: Window,
    own_us_per_s: f64,
    is_seen: bool,
    others: BTreeMap<OperationClass, OperationTime>,
}

impl TopReading {
    fn new(work: &ServerWork, culprit: &Culprit<'_>) -> TopReading {
        let seconds = work.end_ns.saturating_sub(work.begin_ns) as f64 / 1e9;
        let mut reading = TopReading {
            window_ns: (work.begin_ns, work.end_ns),
            own_us_per_s: 0.0,
            is_seen: work.operations.iter().any(culprit.owns),
            others: BTreeMap::new(),
        };
        for used in &work.collections {
            let timed = OperationTime { us: used.time_us as f64, count: used.count as f64 };
            let class = (used.namespace.clone(), used.kind.clone());
            if culprit.has(&class.0, &class.1) {
                reading.own_us_per_s += timed.us / seconds.max(1e-3);
            } else if series_of(&class.1).is_some() {
                reading.others.entry(class).or_default().add(timed);
            }
        }
        reading
    }
}

/// The counters of the server that count a kind of `top` too.
fn series_of(kind: &str) -> Option<&'static str> {
    match kind {
        "queries" | "getmore" => Some("reads"),
        "insert" | "update" | "remove" => Some("writes"),
        _ => None,
    }
}

/// The loss of the others while the culprit runs. `None` if they are too few, if the culprit always runs, or if neither `top` nor a client was
/// read.
pub(crate) fn loss_by_comparison(
    evidence: &Evidence,
    member: &str,
    culprit: &Culprit<'_>,
) -> Option<OthersLoss> {
    let work = work_readings(&evidence.results, member.parse().ok()?, evidence.window_ns);
    let read: Vec<TopReading> = work
        .iter()
        .filter(|work| !work.collections.is_empty())
        .map(|work| TopReading::new(work, culprit))
        .collect();
    let usual = quantile(&read.iter().map(|one| one.own_us_per_s).collect::<Vec<_>>(), 0.9).unwrap_or(0.0);
    let is_active =
        |one: &&TopReading| one.is_seen || usual > 0.0 && one.own_us_per_s >= MIN_ACTIVE_PART * usual;
    let active: Vec<&TopReading> = read.iter().filter(is_active).collect();
    let seen = work.iter().filter(|work| work.operations.iter().any(culprit.owns));
    let active_ns: Vec<Window> =
        seen.map(|work| (work.begin_ns, work.end_ns)).chain(active.iter().map(|one| one.window_ns)).collect();
    let widen = |(begin_ns, end_ns): &Window| {
        (begin_ns.saturating_sub(SIGHTING_MARGIN_NS), end_ns.saturating_add(SIGHTING_MARGIN_NS))
    };
    let busy: Vec<Window> = active_ns.iter().map(widen).collect();
    let loss = loss_of_clients(evidence, culprit, &active_ns, &busy).or_else(|| {
        let rest: Vec<&TopReading> =
            read.iter().filter(|one| !one.is_seen && one.own_us_per_s <= MAX_REST_PART * usual).collect();
        let calm = CalmTimes::new(evidence, member, culprit, &read, &rest, &busy);
        let losses: Vec<ReadingLoss> = active.iter().filter_map(|one| calm.loss(one)).collect();
        compared(evidence.seed, LatencyClock::Server, calm.all(), &losses)
    });
    loss.map(|loss| OthersLoss { windows: joined(busy), ..loss })
}

/// Joins windows that overlap, the earliest first.
fn joined(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_unstable();
    let mut joined: Vec<Window> = Vec::new();
    for (begin_ns, end_ns) in windows {
        match joined.last_mut().filter(|last| begin_ns <= last.1) {
            Some(last) => last.1 = last.1.max(end_ns),
            None => joined.push((begin_ns, end_ns)),
        }
    }
    joined
}

/// The loss of the load that was watched, by its own clock; it includes what the server cannot see. `None` without such a load, or if the
/// culprit is that load.
fn loss_of_clients(
    evidence: &Evidence,
    culprit: &Culprit<'_>,
    active: &[Window],
    busy: &[Window],
) -> Option<OthersLoss> {
    let client = ClientLoads::from_evidence(evidence).filter(|_| !culprit.is_load)?;
    let has = |clock: &str| client.operations.iter().all(|operation| operation.has_clock(evidence, clock));
    let (clock, name) = [(LatencyClock::Response, "response"), (LatencyClock::Service, "service")]
        .into_iter()
        .find(|(_, name)| has(name))?;
    let whole = client.windows(evidence);
    let is_whole = |one: &Window| whole.iter().any(|whole| overlap(*whole, *one));
    let mut calm = OperationTime::default();
    let mut losses: BTreeMap<u64, ReadingLoss> = BTreeMap::new();
    for operation in &client.operations {
        let (counts, times_us) = (operation.counts(evidence), operation.times_us(evidence, name));
        let timed: Vec<(Window, OperationTime)> = counts
            .iter()
            .zip(&times_us)
            .map(|(count, us)| {
                ((count.begin_ns, count.end_ns), OperationTime { us: us.value, count: count.value })
            })
            .filter(|(window_ns, _)| is_whole(window_ns))
            .collect();
        let at_rest = timed.iter().filter(|(window_ns, _)| !busy.iter().any(|one| overlap(*one, *window_ns)));
        let (mut usual, mut rest_s) = (OperationTime::default(), 0.0);
        for (window_ns, timed) in at_rest {
            usual.add(*timed);
            rest_s += length_s(*window_ns);
        }
        let enough = rest_s >= MIN_REST_S && usual.count >= MIN_OPERATIONS;
        let Some(usual_us) = usual.mean_us().filter(|_| enough) else { continue };
        calm.add(usual);
        let is_active = |(begin_ns, end_ns): Window| {
            let middle_ns = begin_ns + end_ns.saturating_sub(begin_ns) / 2;
            active.iter().any(|(begin_ns, end_ns)| (*begin_ns..*end_ns).contains(&middle_ns))
        };
        for (window_ns, timed) in timed.iter().filter(|(window_ns, _)| is_active(*window_ns)) {
            losses.entry(window_ns.1).or_default().add(*timed, usual_us);
        }
    }
    let losses: Vec<ReadingLoss> = losses.into_values().collect();
    compared(evidence.seed, clock, calm, &losses)
}

/// The times of other operations while the culprit is at rest, by class.
struct CalmTimes {
    by_class: BTreeMap<OperationClass, OperationTime>,
}

impl CalmTimes {
    fn new(
        evidence: &Evidence,
        member: &str,
        culprit: &Culprit<'_>,
        read: &[TopReading],
        rest: &[&TopReading],
        busy: &[Window],
    ) -> CalmTimes {
        let rest_s: f64 = rest.iter().map(|one| length_s(one.window_ns)).sum();
        let mut by_class: BTreeMap<OperationClass, OperationTime> = BTreeMap::new();
        for (class, timed) in rest.iter().flat_map(|one| &one.others).filter(|_| rest_s >= MIN_REST_S) {
            by_class.entry(class.clone()).or_default().add(*timed);
        }
        // The server is not asked for `top` while it is at rest, and its own counters go on.
        for series in ["reads", "writes"] {
            let counted = only_class(series, read, culprit)
                .and_then(|class| Some((class, calm_series(evidence, member, series, busy)?)));
            if let Some((class, timed)) = counted {
                let known = by_class.entry(class.clone()).or_default();
                *known = if timed.count > known.count { timed } else { *known };
            }
        }
        by_class.retain(|_, timed| timed.count >= MIN_OPERATIONS);
        CalmTimes { by_class }
    }

    /// The loss of the other operations of a reading whose usual mean is known.
    fn loss(&self, reading: &TopReading) -> Option<ReadingLoss> {
        let mut loss = ReadingLoss::default();
        for (class, timed) in &reading.others {
            let Some(usual_us) = self.by_class.get(class).and_then(|calm| calm.mean_us()) else { continue };
            loss.add(*timed, usual_us);
        }
        (loss.took.count > 0.0).then_some(loss)
    }

    fn all(&self) -> OperationTime {
        let mut all = OperationTime::default();
        self.by_class.values().for_each(|timed| all.add(*timed));
        all
    }
}

/// The class whose operations alone the server's counter of reads or of writes holds while the culprit is at rest; `None` if there are several.
fn only_class<'r>(series: &str, read: &'r [TopReading], culprit: &Culprit<'_>) -> Option<&'r OperationClass> {
    let is_its = |kind: &str| series_of(kind) == Some(series);
    let others = read.iter().flat_map(|one| one.others.keys()).filter(|(_, kind)| is_its(kind));
    let others: BTreeSet<&OperationClass> = others.collect();
    let is_shared = culprit.classes.iter().any(|(_, kind)| is_its(kind));
    others.first().copied().filter(|_| others.len() == 1 && !is_shared)
}

/// The time and number of reads or writes in the seconds without the culprit; `None` if these are few.
fn calm_series(evidence: &Evidence, member: &str, series: &str, busy: &[Window]) -> Option<OperationTime> {
    let sum = |tail: &str| -> (f64, f64) {
        let points = points(evidence, &format!("server.{member}.{series}.{tail}"));
        let calm = points
            .iter()
            .filter(|point| point.value.is_finite())
            .filter(|point| !busy.iter().any(|one| overlap(*one, (point.begin_ns, point.end_ns))));
        calm.fold((0.0, 0.0), |(sum, seconds), point| {
            (sum + point.value, seconds + length_s((point.begin_ns, point.end_ns)))
        })
    };
    let ((count, seconds), (us, _)) = (sum("operations"), sum("latency_us"));
    (seconds >= MIN_REST_S).then_some(OperationTime { us, count })
}

fn length_s((begin_ns, end_ns): Window) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e9
}

/// The other operations of a reading, and by how much longer they took than usual.
#[derive(Default)]
struct ReadingLoss {
    took: OperationTime,
    lost_us: f64,
}

impl ReadingLoss {
    fn add(&mut self, took: OperationTime, usual_us: f64) {
        self.took.add(took);
        self.lost_us += took.us - took.count * usual_us;
    }
}

fn compared(
    seed: u64,
    clock: LatencyClock,
    calm: OperationTime,
    losses: &[ReadingLoss],
) -> Option<OthersLoss> {
    let mut took = OperationTime::default();
    losses.iter().for_each(|one| took.add(one.took));
    if losses.len() < MIN_READINGS || took.count < MIN_OPERATIONS || calm.count < MIN_OPERATIONS {
        return None;
    }
    let lost: Vec<f64> = losses.iter().map(|one| one.lost_us).collect();
    let interval = bootstrap_mean(&lost, 0.95, RESAMPLES, &mut SeededRandom::from_seed(seed))?;
    let (all_us, all) = (took.us + calm.us, took.count + calm.count);
    let share = |lost_us: f64| (lost_us / all_us).clamp(0.0, 1.0);
    let lost_us: f64 = lost.iter().sum();
    let times = lost.len() as f64;
    let (subject, source) = match clock {
        LatencyClock::Server => (
            "Other operations",
            "other operations while it runs, compared with their mean at other times (top, opLatencies)",
        ),
        _ => (
            "Operations of the watched load",
            "watched load's operations while it runs, compared with their mean at other times",
        ),
    };
    let cost = Cost {
        clock,
        share: share(lost_us),
        interval: (share(times * interval.low), share(times * interval.high)),
        mean_us: lost_us.max(0.0) / all,
        p99_us: None,
        unserved_per_s: None,
        basis: format!("The mean of the {source}."),
    };
    let words = format!(
        "{subject} take {} on average while it runs, and {} for the same operations at other times.",
        time(took.us / took.count),
        time((took.us - lost_us).max(0.0) / took.count)
    );
    Some(OthersLoss { cost, words, windows: Vec::new() })
}

/// The wait of the others for a processor, as far as the culprit can cause it: between its own share of the processor time and all of it.
/// `None` if threads were not read, or if no other operation was counted.
pub(crate) fn loss_by_run_waits(
    evidence: &Evidence,
    member: &str,
    table: &WorkTable,
    culprit: &Culprit<'_>,
    own: ProcessorUse,
) -> Option<OthersLoss> {
    let mut witnesses = OperationTime::default();
    let mut all = 0.0;
    for used in &table.collections {
        let timed = OperationTime { us: used.time_us as f64, count: used.count as f64 };
        all += timed.count;
        if !culprit.has(&used.namespace, &used.kind) {
            witnesses.add(timed);
        }
    }
    let mean_us = witnesses.mean_us().filter(|_| witnesses.count >= MIN_OPERATIONS)?;
    let waits = |used: &WorkUse| used.run_wait_us.unwrap_or(0.0);
    let listed_us: f64 = table.rows.iter().map(|row| waits(&row.used)).sum::<f64>()
        + waits(&table.unattributed)
        - waits(&table.engine)
        - own.run_wait_us;
    // Threads beyond those that are listed wait too.
    let process_us = evidence.sum(&format!("server.{member}.process.run_wait_us")).unwrap_or(0.0);
    let most_us = listed_us.max(process_us - own.run_wait_us).max(0.0);
    let listed_us = listed_us.max(0.0);
    let share = |waited_us: f64, count: f64| (waited_us / count / mean_us).clamp(0.0, 1.0);
    let interval = (share(own.share * listed_us, all), share(most_us, witnesses.count));
    let likely = share(listed_us, all).clamp(interval.0, interval.1);
    let cost = Cost {
        clock: LatencyClock::Server,
        share: likely,
        interval,
        mean_us: likely * mean_us,
        p99_us: None,
        unserved_per_s: None,
        basis: "The waits of the other connections' threads for a processor; at least the culprit's share of the processor time of them.".to_owned(),
    };
    let words = format!(
        "Threads of other connections waited {} for a processor while {} other operations ended, which took {} each.",
        time(listed_us),
        count(witnesses.count),
        time(mean_us)
    );
    Some(OthersLoss { cost, words, windows: Vec::new() })
}

/// The culprit's use of the processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessorUse {
    /// Its share of the processor time of the server, at least.
    pub(crate) share: f64,
    /// The waits of its own threads.
    pub(crate) run_wait_us: f64,
}

fn time(us: f64) -> Nanos {
    Nanos((us.max(0.0) * 1e3).round() as u64)
}
