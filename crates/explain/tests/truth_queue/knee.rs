//! The highest rate that a queue with known capacity sustains: found by the load's search, against theory and long simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fathom_load::find_max::{SearchStep, find_max};
use fathom_load::search_rates::SearchRates;
use fathom_stats::{SeededRandom, Slo};

/// A server of `servers` with exponential times, and periodic stalls of so many seconds.
#[derive(Clone, Copy, Debug)]
struct Server {
    servers: usize,
    capacity_per_s: f64,
    stall: Option<(f64, f64)>,
}

impl Server {
    /// Its highest throughput; nothing ends during stalls.
    fn capacity(&self) -> f64 {
        self.capacity_per_s * self.stall.map_or(1.0, |(length, every)| 1.0 - length / every)
    }
}

/// One step at a rate: random arrivals, first come first served.
fn step(server: Server, rate: f64, seconds: usize, quantile: f64, random: &mut SeededRandom) -> SearchStep {
    let mean = server.servers as f64 / server.capacity_per_s;
    let ns = |s: f64| (s * 1e9) as u64;
    let mut free: BinaryHeap<Reverse<u64>> = std::iter::repeat_n(Reverse(0), server.servers).collect();
    let mut lag = vec![(0.0, 0u64); seconds];
    let (mut responses, mut done, mut now) = (Vec::new(), 0u64, 0.0);
    loop {
        now += random.exponential(1.0 / rate);
        if now >= seconds as f64 {
            break;
        }
        let Some(Reverse(free_ns)) = free.pop() else { break };
        let mut begin = (free_ns as f64 / 1e9).max(now);
        if let Some((length, every)) = server.stall
            && begin % every < length
        {
            begin += length - begin % every;
        }
        let end = begin + random.exponential(mean);
        free.push(Reverse(ns(end)));
        responses.push(ns(end - now));
        done += u64::from(end <= seconds as f64);
        let (sum, count) = &mut lag[now as usize];
        *sum += (begin - now) * 1e3;
        *count += 1;
    }
    let place = ((responses.len() as f64 * quantile) as usize).min(responses.len() - 1);
    let (_, value, _) = responses.select_nth_unstable(place);
    SearchStep {
        offered_per_s: rate,
        achieved_per_s: done as f64 / seconds as f64,
        seconds: seconds as f64,
        quantile_ns: Some(*value),
        slow_share: None,
        failed_share: 0.0,
        lag_ms: lag.iter().map(|(sum, count)| sum / (*count).max(1) as f64).collect(),
        client_cpu_share: 0.1,
    }
}

/// P(response > t) of M/M/c at a rate (Erlang's C, then the convolution of the wait with the service).
fn tail(server: Server, rate: f64, t: f64) -> f64 {
    let c = server.servers as f64;
    let mu = server.capacity_per_s / c;
    let offered = rate / mu;
    // Erlang's B by its recursion, then C.
    let blocked =
        (1..=server.servers).fold(1.0, |blocked, n| offered * blocked / (n as f64 + offered * blocked));
    let waits = blocked / (1.0 - (1.0 - blocked) * offered / c);
    let delta = c * mu - rate;
    let both = if (delta - mu).abs() < 1e-9 * mu {
        (1.0 + mu * t) * (-mu * t).exp()
    } else {
        (delta * (-mu * t).exp() - mu * (-delta * t).exp()) / (delta - mu)
    };
    (1.0 - waits) * (-mu * t).exp() + waits * both
}

/// The rate between `low` and `high` at which `holds` ends, by bisection.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

fn found(server: Server, slo: &Slo, seconds: usize, seed: u64) -> f64 {
    let mut random = SeededRandom::from_seed(seed);
    let run = |rate, _| Ok(Some(step(server, rate, seconds, 0.99, &mut random)));
    find_max(0.9 * server.capacity(), &SearchRates::default(), slo, run).unwrap().rate_per_s.expect("a rate")
}

#[test]
fn the_knee_of_many_servers_agrees_with_theory() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    for (servers, capacity_per_s) in [(1, 2000.0), (4, 4000.0), (16, 8000.0), (64, 8000.0)] {
        let server = Server { servers, capacity_per_s, stall: None };
        let truth = bisect(1.0, 0.9999 * capacity_per_s, |rate| tail(server, rate, 0.05) <= 0.01);
        let rate = found(server, &slo, 60, 40 + servers as u64);
        let error = rate / truth - 1.0;
        println!("| M/M/{servers} | {capacity_per_s} | {truth:.0} | {rate:.0} | {:+.1} % |", 100.0 * error);
        assert!(error.abs() < 0.03 && rate < capacity_per_s, "{server:?}: {rate} for {truth}");
    }
}

/// Stalls of 0.2 s every 4 s, as of a checkpoint: steps of two minutes hold 30 of them.
#[test]
fn stalls_are_part_of_the_knee() {
    let slo: Slo = "p99<400ms".parse().unwrap();
    for servers in [1, 8] {
        let server = Server { servers, capacity_per_s: 4000.0, stall: Some((0.2, 4.0)) };
        let mut random = SeededRandom::from_seed(77);
        let truth = {
            let (mut low, mut high) = (0.5 * server.capacity(), server.capacity());
            for _ in 0..9 {
                let middle = (low + high) / 2.0;
                let p99 = step(server, middle, 1200, 0.99, &mut random).quantile_ns.unwrap();
                if p99 <= 400_000_000 { low = middle } else { high = middle }
            }
            low
        };
        let rate = found(server, &slo, 120, 60 + servers as u64);
        let error = rate / truth - 1.0;
        println!(
            "| M/M/{servers}, stalls of 0.2 s every 4 s | {} | {truth:.0} | {rate:.0} | {:+.1} % |",
            server.capacity(),
            100.0 * error
        );
        assert!(error.abs() < 0.03 && rate < server.capacity(), "{server:?}: {rate} for {truth}");
    }
}

/// A client that is busy from 1,500 a second on never reports a knee of the server's 4,000.
#[test]
fn a_slow_client_gives_no_knee() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    let server = Server { servers: 4, capacity_per_s: 4000.0, stall: None };
    for seed in 0..5 {
        let mut random = SeededRandom::from_seed(seed);
        let run = |rate: f64, _| {
            let seen = step(server, rate.min(2100.0), 20, 0.99, &mut random);
            Ok(Some(SearchStep { offered_per_s: rate, client_cpu_share: (rate / 2100.0).min(1.0), ..seen }))
        };
        let found = find_max(2000.0, &SearchRates::default(), &slo, run).unwrap();
        assert!(found.client_limited && found.rate_per_s.is_none(), "{found:?}");
    }
    println!("| a client of half the speed | 4000 | none | none | 0 of 5 reported |");
}
