//! Recordings with a known truth: the number of false incidents on a day without one, and the share of incidents that are missed.

use fathom_record::verdict::Outcome;
use fathom_record::{Point, SeriesSet};
use fathom_stats::SeededRandom;

use super::bins::{BIN_NS, Bins};
use super::change_points::change_points;
use super::database_disk::DatabaseDisk;
use super::detection::{excesses, logs};
use super::incident_finder;
use super::signals::{CHECKPOINT, QUEUE, SIGNALS, Signal};
use super::{RecordedFacts, RecordedStretch, RecordingJudge, RecordingJudgement, StretchEnd};

/// The seed of the simulations, fixed before their first scoring.
const SEED: u64 = 27;
const BINS_A_DAY: usize = 8640;

/// Means of ten seconds of a server over a day: hours differ by half, neighbouring means are similar, and operations arrive at random.
fn day(number: u64, spread: f64, memory: f64) -> Vec<Option<(f64, f64)>> {
    scaled_day(number, (spread, memory), (1000.0, 1))
}

/// The same for a figure with this usual mean, which is known in one of so many bins.
fn scaled_day(
    number: u64,
    (spread, memory): (f64, f64),
    (usual_us, every): (f64, usize),
) -> Vec<Option<(f64, f64)>> {
    let mut random = SeededRandom::from_seed(SEED).split(number);
    let phase = random.uniform();
    let mut state = 0.0;
    (0..BINS_A_DAY)
        .map(|bin| {
            state = memory * state + (1.0 - memory * memory).sqrt() * random.normal();
            let hour = std::f64::consts::TAU * (bin as f64 / BINS_A_DAY as f64 + phase);
            let mean_us = usual_us * (0.25 * hour.sin() + spread * state).exp();
            (bin % every == 0).then_some((mean_us, 5000.0))
        })
        .collect()
}

/// Runs of bins that were found.
fn incidents(signal: &Signal, means_us: &[Option<(f64, f64)>]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for excess in excesses(signal, means_us) {
        match found.last_mut().filter(|(_, end)| excess.bin - *end <= 3) {
            Some((_, end)) => *end = excess.bin,
            None => found.push((excess.bin, excess.bin)),
        }
    }
    found
}

/// Spread of a mean of ten seconds as a logarithm, and the part of its deviation that remains in the next mean.
const SERVERS: [(f64, f64); 3] = [(0.03, 0.3), (0.06, 0.5), (0.08, 0.7)];

/// A signal's usual mean, the bins between two values of it, and the factor of its incidents: the least that counts as one.
struct SignalTruth {
    words: &'static str,
    usual_us: f64,
    every: usize,
    factor: f64,
    /// Days of each server.
    days: u64,
}

const fn truth(words: &'static str, usual_us: f64, factor: f64) -> SignalTruth {
    SignalTruth { words, usual_us, every: 1, factor, days: 5 }
}

const TRUTHS: [SignalTruth; 5] = [
    SignalTruth { days: 20, ..truth("a read within the server", 1000.0, 1.5) },
    truth("a write within the server", 1000.0, 1.5),
    truth("a sync of the journal", 20_000.0, 2.5),
    truth("a read of a page", 1000.0, 2.5),
    SignalTruth { every: 6, ..truth(CHECKPOINT, 8e6, 4.0) },
];

impl SignalTruth {
    fn signal(&self) -> &'static Signal {
        SIGNALS.iter().find(|signal| signal.words == self.words).unwrap()
    }

    fn day(&self, number: u64, server: usize) -> Vec<Option<(f64, f64)>> {
        scaled_day(1000 * server as u64 + number, SERVERS[server], (self.usual_us, self.every))
    }

    /// False incidents on days without one, and the number of days.
    fn false_incidents(&self) -> (usize, u64) {
        let days = (0..SERVERS.len()).flat_map(|server| (0..self.days).map(move |number| (server, number)));
        let false_ones =
            days.map(|(server, number)| incidents(self.signal(), &self.day(number, server)).len());
        (false_ones.sum(), self.days * SERVERS.len() as u64)
    }

    /// Incidents of half a minute that are missed, and the number of them. Of a figure that is known in fewer bins, one value is too high.
    fn missed(&self) -> (usize, usize) {
        let (mut missed, mut all) = (0, 0);
        for server in 0..SERVERS.len() {
            for number in 0..4 {
                let mut means_us = self.day(5000 + number, server);
                let mut random = SeededRandom::from_seed(SEED).split(9000 + number);
                let length = self.every.max(3);
                let begins: Vec<usize> =
                    (0..20).map(|one| 200 + one * 400 + random.below(100) as usize).collect();
                for begin in &begins {
                    for mean in means_us.iter_mut().skip(*begin).take(length).flatten() {
                        mean.0 *= self.factor;
                    }
                }
                let found = incidents(self.signal(), &means_us);
                let is_missed = |begin: &&usize| {
                    !found.iter().any(|(from, to)| *from < **begin + length && *to >= **begin)
                };
                all += begins.len();
                missed += begins.iter().filter(is_missed).count();
            }
        }
        (missed, all)
    }
}

#[test]
fn a_day_without_an_incident_has_at_most_one() {
    for truth in &TRUTHS {
        let (false_ones, days) = truth.false_incidents();
        println!("{}: {false_ones} false incidents in {days} days", truth.words);
        assert!(false_ones as u64 <= days, "{}: {false_ones} false incidents in {days} days", truth.words);
    }
}

#[test]
fn half_a_minute_above_normal_is_found() {
    for truth in &TRUTHS {
        let (missed, all) = truth.missed();
        println!("{}: {missed} of {all} incidents missed", truth.words);
        assert!(missed * 20 <= all, "{}: {missed} of {all} incidents missed", truth.words);
    }
}

/// Ten samples of each bin see how many operations wait; usually it is one in twenty samples.
#[test]
fn a_queue_of_half_a_minute_is_found_and_single_waits_are_not() {
    let queue = SIGNALS.iter().find(|signal| signal.words == QUEUE).unwrap();
    let (mut false_ones, mut missed, mut all) = (0, 0, 0);
    for number in 0..10 {
        let mut random = SeededRandom::from_seed(SEED).split(50_000 + number);
        let mut series = SeriesSet::default();
        let begins: Vec<usize> = (0..20).map(|one| 200 + one * 400 + random.below(100) as usize).collect();
        for bin in 0..BINS_A_DAY {
            let point = |value: f64| Point {
                begin_ns: bin as u64 * BIN_NS,
                end_ns: (bin as u64 + 1) * BIN_NS,
                value,
            };
            let waiting = (0..10).filter(|_| random.uniform() < 0.05).count() as f64 / 10.0;
            let is_queue = begins.iter().any(|begin| (*begin..begin + 3).contains(&bin));
            let more = if is_queue { 4.0 } else { 0.0 };
            series.extend("server.0.queue.readers", "1", [point(waiting + more)]);
            series.extend("server.0.reads.operations", "1", [point(5000.0)]);
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        let found = incidents(queue, &queue.means_us(&bins, 0));
        let hits = |begin: &usize| found.iter().any(|(from, to)| *from <= begin + 2 && to >= begin);
        all += begins.len();
        missed += begins.iter().filter(|begin| !hits(begin)).count();
        false_ones += found.len() - begins.iter().filter(|begin| hits(begin)).count();
    }
    assert!(
        missed * 20 <= all && false_ones <= 10,
        "{missed} of {all} missed, {false_ones} false in 10 days"
    );
}

#[test]
fn a_day_is_cut_where_its_level_changes_and_nowhere_else() {
    let (mut false_cuts, mut missed, mut days) = (0, 0, 0);
    for (server, (spread, memory)) in SERVERS.iter().enumerate() {
        for number in 0..20 {
            let mut means_us = day(70_000 + 1000 * server as u64 + number, *spread, *memory);
            false_cuts += change_points(&logs(&means_us)).len();
            // An incident of half an hour is no change, and neither is one of ten times the usual.
            means_us.iter_mut().skip(1000).take(180).flatten().for_each(|mean| mean.0 *= 3.0);
            means_us.iter_mut().skip(7000).take(30).flatten().for_each(|mean| mean.0 *= 10.0);
            let change = 3000 + 100 * number as usize;
            let factor = if number % 2 == 0 { 1.5 } else { 1.0 / 1.5 };
            means_us.iter_mut().skip(change).flatten().for_each(|mean| mean.0 *= factor);
            let found = change_points(&logs(&means_us));
            let hits = found.iter().filter(|one| one.bin.abs_diff(change) <= 6).count();
            days += 1;
            missed += usize::from(hits == 0);
            false_cuts += found.len() - hits;
        }
    }
    println!("{false_cuts} false cuts in {} days, {missed} of {days} changes missed", 2 * days);
    assert!(
        false_cuts * 20 <= 2 * days && missed * 20 <= days,
        "{false_cuts} false, {missed} of {days} missed"
    );
}

#[test]
fn a_lasting_change_is_no_incident_and_hides_none() {
    let mut means_us = day(90_000, 0.03, 0.3);
    means_us.iter_mut().skip(4000).flatten().for_each(|mean| mean.0 *= 1.6);
    means_us.iter_mut().skip(4100).take(3).flatten().for_each(|mean| mean.0 *= 1.5);
    let found = incidents(&SIGNALS[0], &means_us);
    assert!(matches!(found.as_slice(), [(4100, 4102)]), "{found:?}");
}

/// Reads with these means, in the form of a recording.
fn bins_of_reads(means_us: &[Option<(f64, f64)>]) -> Bins {
    let known = || means_us.iter().enumerate().filter_map(|(bin, mean)| Some((bin as u64, (*mean)?)));
    let point = |bin: u64, value: f64| Point { begin_ns: bin * BIN_NS, end_ns: (bin + 1) * BIN_NS, value };
    let mut series = SeriesSet::default();
    series.extend("server.0.reads.operations", "1", known().map(|(bin, (_, count))| point(bin, count)));
    let times = known().map(|(bin, (us, count))| point(bin, us * count));
    series.extend("server.0.reads.latency_us", "us", times);
    let mut bins = Bins::default();
    bins.add(&series, &|_| true);
    bins
}

#[test]
fn what_an_incident_costs_lies_within_its_interval() {
    let (mut within, mut all) = (0, 0);
    for (server, (spread, memory)) in SERVERS.iter().enumerate() {
        for number in 0..4 {
            let mut means_us = day(20_000 + 1000 * server as u64 + number, *spread, *memory);
            let mut random = SeededRandom::from_seed(SEED).split(30_000 + number);
            let mut truth = Vec::new();
            for one in 0..20 {
                let begin = 200 + one * 400 + random.below(100) as usize;
                let length = [3, 6, 12, 30][one % 4];
                let mut lost_s = 0.0;
                for mean in means_us.iter_mut().skip(begin).take(length).flatten() {
                    lost_s += mean.0 * mean.1 / 1e6;
                    mean.0 *= 2.0;
                }
                truth.push((begin, begin + length, lost_s));
            }
            let found =
                incident_finder::incidents(&bins_of_reads(&means_us), 0, &DatabaseDisk::NoneRecorded, &[]);
            for (begin, end, lost_s) in truth {
                let bin = |ms: i64| (ms as u64 * 1_000_000 / BIN_NS) as usize;
                let of_truth = found.iter().find(|one| bin(one.begin_ms) < end && bin(one.end_ms) > begin);
                let Some((low_s, high_s)) = of_truth.and_then(|one| one.lost_range_s) else { continue };
                all += 1;
                within += usize::from((low_s..=high_s).contains(&lost_s));
            }
        }
    }
    println!("{within} of {all} costs lie within their intervals");
    assert!(all >= 200 && within * 10 >= all * 9, "{within} of {all} costs lie within their intervals");
}

/// The judgement of six hours with these means of reads in bins of ten seconds. `up` is 0 in a bin in which another process began, and `None`
/// in one without a sample.
fn judged(mean_us: &dyn Fn(u64) -> f64, up: &dyn Fn(u64) -> Option<f64>) -> RecordingJudgement {
    const FIRST: u64 = 170_000_000;
    let mut judge = RecordingJudge::new(0);
    let mut last_ns = FIRST * BIN_NS;
    for segment in 0..36_u64 {
        let mut series = SeriesSet::default();
        for bin in segment * 60..(segment + 1) * 60 {
            let Some(is_up) = up(bin) else { continue };
            // The first sample after a gap has all of it as its window.
            let (begin_ns, end_ns) = (last_ns, (FIRST + bin + 1) * BIN_NS);
            last_ns = end_ns;
            let mut put = |name: &str, value: f64| {
                series.extend(&format!("server.0.{name}"), "1", [Point { begin_ns, end_ns, value }]);
            };
            put("up", is_up);
            if is_up > 0.0 {
                put("reads.operations", 5000.0);
                put("reads.latency_us", 5000.0 * mean_us(bin));
            }
        }
        let window_ns = ((FIRST + segment * 60) * BIN_NS, (FIRST + (segment + 1) * 60) * BIN_NS);
        judge.add_segment(RecordedFacts::default(), series, window_ns);
    }
    judge.finish().unwrap()
}

/// Ends of stretches in bins from the begin, with the reasons.
fn ends(judgement: &RecordingJudgement) -> Vec<(i64, StretchEnd)> {
    let bin = |ms: i64| (ms - judgement.begin_ms) / (BIN_NS / 1_000_000) as i64;
    judgement.stretches.iter().map(|one| (bin(one.end_ms), one.ends_by)).collect()
}

#[test]
fn a_change_of_level_is_a_sentence_and_ends_a_stretch() {
    let mut random = SeededRandom::from_seed(SEED).split(95_000);
    let noise: Vec<f64> = (0..2160).map(|_| (0.03 * random.normal()).exp()).collect();
    let level = |bin: u64| if bin < 1080 { 1000.0 } else { 1600.0 };
    let judgement = judged(&|bin| level(bin) * noise[bin as usize], &|_| Some(1.0));
    let sentence = judgement.verdict.reasons.iter().find(|reason| reason.contains("usually took"));
    assert_eq!(
        sentence.map(String::as_str),
        Some(
            "From 3.0 h after the begin of the recording on, a read within the server usually took 1.60 ms (998 µs in the two hours before)."
        ),
        "{:?}",
        judgement.verdict.reasons
    );
    assert_eq!(ends(&judgement), [(1080, StretchEnd::Change), (2160, StretchEnd::End)]);
    let [before, after] = judgement.stretches.as_slice() else { panic!("{:?}", judgement.stretches) };
    assert_eq!((before.changed.as_slice(), after.changed.len()), (&["a read within the server"][..], 0));
    let near = |stretch: &RecordedStretch, us: f64| (stretch.operation_us / us - 1.0).abs() < 0.02;
    assert!(near(before, 1000.0) && near(after, 1600.0), "{:?}", judgement.stretches);
    assert!(
        (before.operations_per_s - 500.0).abs() < 1.0 && before.signals[0].of == "a read within the server"
    );
    // Without a change there is one stretch, and no sentence.
    let calm = judged(&|bin| 1000.0 * noise[bin as usize], &|_| Some(1.0));
    assert_eq!(ends(&calm), [(2160, StretchEnd::End)]);
    assert!(!calm.verdict.reasons.iter().any(|reason| reason.contains("usually took")));
}

#[test]
fn restarts_and_long_gaps_end_stretches() {
    let up = |bin: u64| match bin {
        500 => Some(0.0),
        1000..1012 => None,
        _ => Some(1.0),
    };
    let judgement = judged(&|bin| if bin < 1012 { 1000.0 } else { 2000.0 }, &up);
    let expected = [(501, StretchEnd::Restart), (1000, StretchEnd::Gap), (2160, StretchEnd::End)];
    assert_eq!(ends(&judgement), expected, "{:?}", judgement.stretches);
    let changed: Vec<usize> = judgement.stretches.iter().map(|one| one.changed.len()).collect();
    assert_eq!(changed, [0, 1, 0], "{:?}", judgement.stretches);
    assert_eq!(judgement.stretches[2].begin_ms - judgement.begin_ms, 10_130_000);
}

#[test]
fn an_idle_server_has_no_operations_and_no_sign() {
    let mut series = SeriesSet::default();
    for bin in 0..60 {
        let (begin_ns, end_ns) = ((170_000_000 + bin) * BIN_NS, (170_000_001 + bin) * BIN_NS);
        series.extend("server.0.up", "1", [Point { begin_ns, end_ns, value: 1.0 }]);
        series.extend("server.0.reads.operations", "1", [Point { begin_ns, end_ns, value: 0.0 }]);
    }
    let mut judge = RecordingJudge::new(0);
    judge.add_segment(RecordedFacts::default(), series, (170_000_000 * BIN_NS, 170_000_060 * BIN_NS));
    let judgement = judge.finish().unwrap();
    assert_eq!(
        judgement.verdict.sentence,
        "Not examined: the server was idle, with 0.00 operations a second (1 at least are needed)."
    );
    for figure in [judgement.operations, judgement.operation_s, judgement.storage_s] {
        assert!(figure == 0.0 && figure.is_sign_positive(), "{figure}");
    }
}

/// One client scans, so for three seconds of six no operation ends. That is no fault, however many hours it takes.
#[test]
fn a_client_that_scans_holds_nothing_back() {
    const BEGIN_S: u64 = 1_700_000_000;
    let mut judge = RecordingJudge::new(0);
    for segment in 0..8_u64 {
        let mut series = SeriesSet::default();
        let begin_s = BEGIN_S + 600 * segment;
        for second in begin_s..begin_s + 600 {
            let mut put = |name: &str, value: f64| {
                let point =
                    Point { begin_ns: second * 1_000_000_000, end_ns: (second + 1) * 1_000_000_000, value };
                series.extend(&format!("server.0.{name}"), "1", [point]);
            };
            let operations = if second % 6 < 3 { 40.0 } else { 0.0 };
            put("up", 1.0);
            put("clients.readers", 1.0);
            put("clients.writers", 0.0);
            put("reads.operations", operations);
            put("reads.latency_us", 100.0 * operations);
            put("writes.operations", 0.0);
            put("writes.latency_us", 0.0);
        }
        let window_ns = (begin_s * 1_000_000_000, (begin_s + 600) * 1_000_000_000);
        judge.add_segment(RecordedFacts::default(), series, window_ns);
    }
    let verdict = judge.finish().unwrap().verdict;
    assert_eq!((verdict.outcome, verdict.cause), (Outcome::NotHeldBack, None), "{}", verdict.sentence);
}

/// The judgement of an hour of a server with these facts and these series in each bin of ten seconds.
fn judged_hour(
    facts: &RecordedFacts,
    figures: &dyn Fn(u64) -> Vec<(&'static str, f64)>,
) -> RecordingJudgement {
    const FIRST: u64 = 170_000_000;
    let mut series = SeriesSet::default();
    for bin in 0..360 {
        let (begin_ns, end_ns) = ((FIRST + bin) * BIN_NS, (FIRST + bin + 1) * BIN_NS);
        for (name, value) in figures(bin).into_iter().chain([("up", 1.0)]) {
            series.extend(&format!("server.0.{name}"), "1", [Point { begin_ns, end_ns, value }]);
        }
    }
    let mut judge = RecordingJudge::new(0);
    judge.add_segment(facts.clone(), series, (FIRST * BIN_NS, (FIRST + 360) * BIN_NS));
    judge.finish().unwrap()
}

#[test]
fn a_server_without_times_of_operations_is_judged_by_its_engine_alone() {
    let verdict = |slow: std::ops::Range<u64>| {
        let sync_us = move |bin: u64| if slow.contains(&bin) { 200_000.0 } else { 5000.0 };
        let figures = |bin: u64| vec![("journal.syncs", 100.0), ("journal.sync_us", 100.0 * sync_us(bin))];
        judged_hour(&RecordedFacts::default(), &figures).verdict
    };
    let slow = verdict(200..206);
    assert_eq!(slow.outcome, Outcome::CannotTell, "{slow:#?}");
    let sentence = "By the engine's counters storage was slower than usual for 60.0 s of 60 min.";
    assert!(slow.sentence.ends_with(sentence), "{slow:#?}");
    let calm = verdict(0..0);
    assert_eq!(calm.outcome, Outcome::NotExamined, "{calm:#?}");
    assert_eq!(calm.reasons, ["By the engine's counters storage was as fast as usual throughout."]);
    // Another engine does not count that.
    let other = judged_hour(&RecordedFacts::default(), &|_| Vec::new()).verdict;
    assert_eq!((other.outcome, other.reasons), (Outcome::NotExamined, Vec::new()));
}

#[test]
fn a_router_is_not_judged_by_storage() {
    let facts = RecordedFacts { is_router: true, ..RecordedFacts::default() };
    let figures = |_: u64| vec![("reads.operations", 5000.0), ("reads.latency_us", 5e6)];
    let judgement = judged_hour(&facts, &figures);
    let verdict = &judgement.verdict;
    assert_eq!(verdict.outcome, Outcome::NotExamined, "{verdict:#?}");
    assert!(verdict.sentence.starts_with("Not examined: a mongos keeps no data"), "{verdict:#?}");
    assert!(!judgement.missing.iter().any(|one| one.contains("storage")), "{:?}", judgement.missing);
}
