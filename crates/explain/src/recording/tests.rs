//! Recordings with a known truth: the number of false incidents on a day without one, and the share of incidents that are missed.

use fathom_record::{Point, SeriesSet};
use fathom_stats::SeededRandom;

use super::bins::{BIN_NS, Bins};
use super::database_disk::DatabaseDisk;
use super::detection::excesses;
use super::incident_finder;
use super::signals::SIGNALS;

/// The seed of the simulations, fixed before their first scoring.
const SEED: u64 = 27;
const BINS_A_DAY: usize = 8640;

/// Means of ten seconds of a server over a day: hours differ by half, neighbouring means are similar, and operations arrive at random.
fn day(number: u64, spread: f64, memory: f64) -> Vec<Option<(f64, f64)>> {
    let mut random = SeededRandom::from_seed(SEED).split(number);
    let phase = random.uniform();
    let mut state = 0.0;
    (0..BINS_A_DAY)
        .map(|bin| {
            state = memory * state + (1.0 - memory * memory).sqrt() * random.normal();
            let hour = std::f64::consts::TAU * (bin as f64 / BINS_A_DAY as f64 + phase);
            let mean_us = 1000.0 * (0.25 * hour.sin() + spread * state).exp();
            Some((mean_us, 5000.0))
        })
        .collect()
}

/// Runs of bins that were found.
fn incidents(means_us: &[Option<(f64, f64)>]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for excess in excesses(&SIGNALS[0], means_us) {
        match found.last_mut().filter(|(_, end)| excess.bin - *end <= 3) {
            Some((_, end)) => *end = excess.bin,
            None => found.push((excess.bin, excess.bin)),
        }
    }
    found
}

/// Spread of a mean of ten seconds as a logarithm, and the part of its deviation that remains in the next mean.
const SERVERS: [(f64, f64); 3] = [(0.03, 0.3), (0.06, 0.5), (0.08, 0.7)];

#[test]
fn a_day_without_an_incident_has_at_most_one() {
    let days = 20;
    let false_alarms: usize = SERVERS
        .iter()
        .enumerate()
        .map(|(server, (spread, memory))| {
            (0..days)
                .map(|number| incidents(&day(1000 * server as u64 + number, *spread, *memory)).len())
                .sum::<usize>()
        })
        .sum();
    let all_days = days as usize * SERVERS.len();
    println!("{false_alarms} false incidents in {all_days} days");
    assert!(false_alarms <= all_days, "{false_alarms} false incidents in {all_days} days");
}

#[test]
fn half_as_slow_again_for_half_a_minute_is_found() {
    let (mut missed, mut all) = (0, 0);
    for (server, (spread, memory)) in SERVERS.iter().enumerate() {
        for number in 0..4 {
            let mut means_us = day(5000 + 1000 * server as u64 + number, *spread, *memory);
            let mut random = SeededRandom::from_seed(SEED).split(9000 + number);
            let begins: Vec<usize> =
                (0..20).map(|one| 200 + one * 400 + random.below(100) as usize).collect();
            for begin in &begins {
                for mean in means_us.iter_mut().skip(*begin).take(3).flatten() {
                    mean.0 *= 1.5;
                }
            }
            let found = incidents(&means_us);
            all += begins.len();
            missed += begins
                .iter()
                .filter(|begin| !found.iter().any(|(from, to)| *from <= **begin + 2 && *to >= **begin))
                .count();
        }
    }
    println!("{missed} of {all} incidents missed");
    assert!(missed * 20 <= all, "{missed} of {all} incidents missed");
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
