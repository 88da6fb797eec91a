//! Spikes of known size in simulated latency: the rates of detection and of false alarms of each path.
//!
//! The grid of docs/methods.md#periodic-spikes: latency with 17 % noise and lag-1 correlation 0, 0.5 and 0.8 over ten checkpoints, each
//! of which adds 0 to 0.6 to the logarithm for about 6 s; every 60 s exactly, or 60 s after the last one
//! ended, as WiredTiger does. The table is printed; `docs/known-truth.md` holds a copy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

use fathom_stats::{EventVerdict, LatencyReading, SeededRandom, find_period, paired_events};

const CHECKPOINTS: usize = 10;
/// Gives +16 % at a correlation of 0.5 the power that an earlier simulation measured: 0.77 to 0.83 of the event path.
const NOISE: f64 = 0.17;
const ALPHA: f64 = 0.01;

/// The parameters of a simulated run.
#[derive(Clone, Copy)]
struct World {
    rho: f64,
    /// Added to the logarithm of latency inside a checkpoint.
    height: f64,
    drifting: bool,
    interval_s: f64,
    /// A decoy of the same height every 60 s, this long after the checkpoint's start in the first minute.
    decoy_s: Option<f64>,
}

struct Run {
    readings: Vec<LatencyReading>,
    checkpoints: Vec<(f64, f64)>,
}

impl World {
    const PLAIN: World = World { rho: 0.0, height: 0.0, drifting: false, interval_s: 60.0, decoy_s: None };

    fn run(self, stream: &mut SeededRandom) -> Run {
        let duration_s = self.interval_s / 10.0;
        let first_s = 25.0 + 10.0 * stream.uniform();
        let mut checkpoints = Vec::new();
        let mut begin_s = first_s;
        let count = CHECKPOINTS * (60.0 / self.interval_s) as usize;
        while checkpoints.len() < count {
            let lasts_s =
                if self.drifting { duration_s * (0.33 + 1.33 * stream.uniform()) } else { duration_s };
            checkpoints.push((begin_s, begin_s + lasts_s));
            begin_s += self.interval_s + if self.drifting { lasts_s } else { 0.0 };
        }
        let decoys: Vec<(f64, f64)> = self.decoy_s.map_or(vec![], |after_s| {
            let begins = (-1..11).map(|k| first_s + after_s + 60.0 * f64::from(k));
            begins.map(|begin_s| (begin_s, begin_s + 6.0)).collect()
        });
        let high = if self.decoy_s.is_some() { &decoys } else { &checkpoints };
        let mut noise = NOISE * stream.normal();
        let mut reading = |second: usize| {
            let (begin_s, end_s) = (second as f64, second as f64 + 1.0);
            let overlap = |event: &(f64, f64)| (event.1.min(end_s) - event.0.max(begin_s)).max(0.0);
            let inside: f64 = high.iter().map(overlap).sum();
            noise = self.rho * noise + NOISE * (1.0 - self.rho * self.rho).sqrt() * stream.normal();
            let mean = 2.0 * (noise + self.height * inside).exp();
            LatencyReading { begin_s, end_s, mean, operations: 1000.0 }
        };
        let seconds = begin_s.ceil() as usize - 20;
        Run { readings: (0..seconds).map(&mut reading).collect(), checkpoints }
    }

    /// The number of runs in which the event path blames the checkpoint at 1 %.
    fn blamed(self, runs: u64) -> u64 {
        let blamed = |index: &u64| {
            let mut stream = SeededRandom::from_seed(44).split(*index);
            let run = self.run(&mut stream);
            matches!(paired_events(&run.readings, &run.checkpoints, &mut stream),
                EventVerdict::Judged(effect) if effect.p <= ALPHA)
        };
        (0..runs).filter(blamed).count() as u64
    }

    /// Runs in which the blind path sees a rhythm at 1 %, those where echoes confirm it, and those of these whose
    /// period is right within 10 %.
    fn seen(self, runs: u64) -> [u64; 3] {
        let mut counts = [0; 3];
        for index in 0..runs {
            let mut stream = SeededRandom::from_seed(45).split(index);
            let run = self.run(&mut stream);
            let logs: Vec<f64> = run.readings.iter().map(|reading| reading.mean.ln()).collect();
            let found = find_period(&logs, 99, &mut stream).unwrap();
            let rhythm = found.rhythm.filter(|rhythm| rhythm.confirmed);
            let expected_s = self.interval_s * if self.drifting { 1.1 } else { 1.0 };
            let right =
                rhythm.as_ref().is_some_and(|rhythm| (rhythm.period_s / expected_s - 1.0).abs() < 0.1);
            let steps = [true, rhythm.is_some(), right];
            counts.iter_mut().zip(steps).for_each(|(count, is)| *count += u64::from(is && found.p <= ALPHA));
        }
        counts
    }
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / of as f64)
}

/// At a true rate of 2 %, more than 24 of 600 or 18 of 400 are seen with probability below 0.001.
fn grid(rho: f64) {
    let mut table = String::new();
    for height in [0.0, 0.15, 1.3f64.ln(), 0.3, 0.6] {
        for drifting in [false, true] {
            let world = World { rho, height, drifting, ..World::PLAIN };
            let (runs, blind_runs) = if height == 0.0 { (600, 400) } else { (200, 40) };
            let (blamed, [seen, confirmed, right]) = (world.blamed(runs), world.seen(blind_runs));
            let period = if drifting { "drifting" } else { "fixed" };
            let row = [(blamed, runs), (seen, blind_runs), (confirmed, blind_runs), (right, blind_runs)];
            let row = row.map(|(count, of)| percent(count, of)).join(" | ");
            table +=
                &format!("| {rho} | {height:.2} ({:+.0} %) | {period} | {row} |\n", 100.0 * height.exp_m1());
            if height == 0.0 {
                assert!(blamed <= 24 && seen <= 18, "rho {rho}, {period}: {blamed} and {seen}");
            }
            if height >= 0.26 {
                assert!(blamed * 100 >= 95 * runs, "rho {rho}, {period}, {height}: {blamed} of {runs}");
            }
        }
    }
    println!(
        "| rho | in the logarithm | period | event path | blind path | confirmed | period right |\n{table}"
    );
}

#[test]
fn in_noise_without_memory_spikes_are_found_and_noise_is_not() {
    grid(0.0);
}

#[test]
fn in_noise_with_memory_spikes_are_found_and_noise_is_not() {
    grid(0.5);
}

#[test]
fn in_noise_with_long_memory_spikes_are_found_and_noise_is_not() {
    grid(0.8);
}

/// Short intervals leave little calm, which neighbours share the noise of: a checkpoint every 12 s.
#[test]
fn short_intervals_do_not_make_spikes_of_noise() {
    println!("| rho | every 12 s, nothing | every 12 s, +30 % |");
    println!("| --- | --- | --- |");
    for rho in [0.0, 0.5, 0.8] {
        let world = World { rho, interval_s: 12.0, ..World::PLAIN };
        let (quiet, loud) = (world.blamed(300), World { height: 1.3f64.ln(), ..world }.blamed(100));
        println!("| {rho} | {} | {} |", percent(quiet, 300), percent(loud, 100));
        assert!(quiet <= 14 && loud >= 95, "rho {rho}: {quiet} of 300, {loud} of 100");
    }
}

/// Spikes of +82 % every 60 s with another phase than the checkpoint's are not blamed on it.
#[test]
fn decoys_of_another_phase_are_not_blamed_on_the_checkpoint() {
    println!(
        "| decoy after the checkpoint's begin | checkpoints every 60 s | 60 s after the last one's end |"
    );
    println!("| --- | --- | --- |");
    for decoy_s in [9.0, 15.0, 22.0, 30.0, 38.0, 46.0] {
        let world = World { rho: 0.5, height: 0.6, decoy_s: Some(decoy_s), ..World::PLAIN };
        let (fixed, drifting) = (world.blamed(200), World { drifting: true, ..world }.blamed(200));
        println!("| {decoy_s} s | {} | {} |", percent(fixed, 200), percent(drifting, 200));
        // At a true rate of 2 %, more than 11 of 200 are seen with probability below 0.001.
        assert!(fixed <= 11 && drifting <= 11, "{decoy_s} s: {fixed} and {drifting} of 200");
    }
}
