//! Searches on simulated servers whose capacity is known: queues, throttles, journals and checkpoints.

use fathom_stats::SeededRandom;

use super::*;

/// The step that a load at a rate would measure, from the times in seconds at which operations were due, began and ended.
fn step(rate: f64, seconds: f64, operations: impl Iterator<Item = (f64, f64, f64)>) -> SearchStep {
    let (mut responses, mut done) = (Vec::new(), 0_u64);
    let mut lag = vec![(0.0, 0_u64); seconds as usize];
    for (due, begin, end) in operations {
        responses.push(((end - due) * 1e9) as u64);
        done += u64::from(end <= seconds);
        if let Some((sum, count)) = lag.get_mut(due as usize) {
            *sum += (begin - due) * 1e3;
            *count += 1;
        }
    }
    responses.sort_unstable();
    let slow = responses.iter().filter(|ns| **ns >= 10_000_000).count();
    SearchStep {
        offered_per_s: rate,
        achieved_per_s: done as f64 / seconds,
        seconds,
        quantile_ns: responses.get(responses.len() * 99 / 100).copied(),
        slow_share: (!responses.is_empty()).then(|| slow as f64 / responses.len() as f64),
        failed_share: 0.0,
        lag_ms: lag.iter().map(|(sum, count)| sum / (*count).max(1) as f64).collect(),
        client_cpu_share: 0.1,
    }
}

/// The times at which operations are due, at random at a rate.
fn arrivals(rate: f64, seconds: f64, random: &mut SeededRandom) -> Vec<f64> {
    let next = |now: &f64| Some(now + random.exponential(1.0 / rate)).filter(|next| *next < seconds);
    std::iter::successors(Some(0.0), next).skip(1).collect()
}

/// A queue with one server of exponential service.
fn queue(capacity_per_s: f64, stall: bool, seconds: f64, random: &mut SeededRandom, rate: f64) -> SearchStep {
    let mut free = 0.0_f64;
    let due = arrivals(rate, seconds, random);
    let served = |due: f64| {
        let mut begin = free.max(due);
        // A checkpoint of 0.2 s every 4 s.
        if stall && begin % 4.0 < 0.2 {
            begin += 0.2 - begin % 4.0;
        }
        free = begin + random.exponential(1.0 / capacity_per_s);
        (due, begin, free)
    };
    // Objectives of this model differ.
    SearchStep { slow_share: None, ..step(rate, seconds, due.into_iter().map(served)) }
}

/// The rate at which the 99th percentile of an M/M/1 queue is 50 ms: ln(100) / (capacity - rate) = 0.05.
fn knee(capacity_per_s: f64) -> f64 {
    capacity_per_s - 100.0_f64.ln() / 0.05
}

#[test]
fn the_knee_of_a_known_queue_is_found() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    for (capacity, seed) in [(2000.0, 1), (5000.0, 2), (20_000.0, 3)] {
        let mut random = SeededRandom::from_seed(seed);
        let run = |rate, _| Ok(Some(queue(capacity, false, 60.0, &mut random, rate)));
        let found = find_max(capacity, &SearchRates::default(), &slo, run).unwrap();
        let rate = found.rate_per_s.unwrap();
        assert!((rate / knee(capacity) - 1.0).abs() < 0.03, "{rate} for {}", knee(capacity));
        assert!(rate < capacity && found.broken_per_s.unwrap() > rate);
    }
}

#[test]
fn stalls_lower_what_is_sustained() {
    let slo: Slo = "p99<100ms".parse().unwrap();
    let mut random = SeededRandom::from_seed(4);
    let run = |rate, _| Ok(Some(queue(5000.0, true, 60.0, &mut random, rate)));
    let found = find_max(5000.0, &SearchRates::default(), &slo, run).unwrap();
    assert!(found.rate_per_s.is_none_or(|rate| rate < 0.95 * 5000.0), "{:?}", found.rate_per_s);
    assert!(found.steps.iter().any(|(_, verdict)| *verdict == StepVerdict::TooSlow));
}

#[test]
fn a_busy_client_gives_no_answer_and_a_stop_ends_it() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    let mut random = SeededRandom::from_seed(5);
    let busy = |rate: f64, _| {
        Ok(Some(SearchStep {
            client_cpu_share: rate / 1000.0,
            ..queue(5000.0, false, 20.0, &mut random, rate)
        }))
    };
    let found = find_max(2000.0, &SearchRates::default(), &slo, busy).unwrap();
    assert!(found.client_limited && found.rate_per_s.is_none());
    let stopped = find_max(2000.0, &SearchRates::default(), &slo, |_, _| Ok(None)).unwrap();
    assert!(stopped.interrupted && stopped.steps.is_empty());
}

/// Simulates a server: rate a second, length in seconds, randomness.
type ServerModel = fn(f64, f64, &mut SeededRandom) -> SearchStep;

/// Of 200 statements, how many are too high and how many too low: 0.9 of what was stated must hold, and 1.2 must not. The server on which
/// that is tried is up to `drift` faster or slower.
fn false_statements(
    rates: &SearchRates,
    (short_s, long_s): (f64, f64),
    drift: f64,
    (closed_per_s, serve): (f64, ServerModel),
) -> (usize, usize) {
    let slo: Slo = "p99<10ms".parse().unwrap();
    let (mut low, mut high) = (0, 0);
    for seed in 0..200 {
        let mut random = SeededRandom::from_seed(seed);
        let run = |rate, pass| {
            let seconds = if pass == SearchPass::Bracket { short_s } else { long_s };
            Ok(Some(serve(rate, seconds, &mut random)))
        };
        let found = find_max(closed_per_s, rates, &slo, run).unwrap();
        let held = found.rate_per_s.unwrap() / rates.margin;
        // A wide bracket is stated as two rates, a narrow one as the lower.
        let broken = found.broken_per_s.map(|rate| rate * rates.margin);
        let upper = broken.filter(|broken| *broken > 1.2 * held).unwrap_or(held);
        let mut holds = |rate: f64| {
            let slowness = 1.0 + drift * (2.0 * random.uniform() - 1.0);
            judge(&serve(slowness * rate, 20.0, &mut random), &slo) == StepVerdict::Sustained
        };
        low += usize::from(!holds(0.9 * held));
        high += usize::from(holds(1.2 * upper));
    }
    println!("{low} of 200 stated too high, {high} too low");
    (low, high)
}

/// Steps of a few seconds judge a rate by chance: what a search states must be true all the same.
#[test]
fn what_short_steps_state_is_true() {
    // Under the throttle an operation takes 1 or 40 ms; behind a journal the percentile rises slowly with the rate.
    let throttle: (f64, ServerModel) = (300.0, |rate, seconds, random| slices(300.0, seconds, random, rate));
    let journal: (f64, ServerModel) =
        (20_000.0, |rate, seconds, random| group_commits(seconds, random, rate));
    for server in [throttle, journal] {
        for (rates, lengths_s, drift) in
            [(SearchRates::confirmed(1.1), (2.0, 10.0), 0.1), (SearchRates::coarse(), (2.0, 5.0), 0.4)]
        {
            let (low, high) = false_statements(&rates, lengths_s, drift, server);
            assert!(low + high <= 10, "{low} too high, {high} too low with {rates:?}");
        }
    }
}

/// A stall in each checkpoint's cycle makes about as many operations slow at any rate, so a single step cannot decide.
#[test]
fn what_is_stated_beside_checkpoints_is_true() {
    let checkpoints: (f64, ServerModel) =
        (2400.0, |rate, seconds, random| capped_checkpoints(seconds, random, rate));
    let rates = SearchRates::confirmed(1.1);
    let (low, high) = false_statements(&rates, (10.0, 10.0), 0.1, checkpoints);
    assert!(low + high <= 20, "{low} too high, {high} too low");
    let rates = SearchRates { share_factor: 1.0, ..rates };
    let (low, high) = false_statements(&rates, (10.0, 10.0), 0.1, checkpoints);
    assert!(low + high > 20, "{low} too high, {high} too low without the factor");
}

#[test]
fn a_margin_and_a_tolerance_are_needed() {
    let journal: (f64, ServerModel) =
        (20_000.0, |rate, seconds, random| group_commits(seconds, random, rate));
    for (rates, lengths_s, drift) in [
        (SearchRates { margin: 1.0, ..SearchRates::coarse() }, (2.0, 5.0), 0.4),
        (SearchRates { tolerance: 0.0, share_factor: 1.0, ..SearchRates::confirmed(1.1) }, (2.0, 10.0), 0.1),
    ] {
        let (low, high) = false_statements(&rates, lengths_s, drift, journal);
        assert!(low + high > 10, "{low} too high, {high} too low with {rates:?}");
    }
}

/// Journaled writes under a cap of 300 requests a second, two for each group of writers, and a checkpoint that fills the rest of a slice
/// every 10 s: it makes up to one write in a hundred slow at any rate. Stalls of 26 to 97 ms were measured.
fn capped_checkpoints(seconds: f64, random: &mut SeededRandom, rate: f64) -> SearchStep {
    const GROUPS: usize = 15;
    let mut checkpoint = 10.0 * random.uniform();
    let (mut slice, mut passed, mut operations) = (0_u64, 0, Vec::new());
    let due = arrivals(rate, seconds, random);
    let (mut free, mut at) = (0.0_f64, 0);
    while at < due.len() {
        let mut begin = free.max(due[at]);
        if begin > checkpoint {
            begin = begin.max(checkpoint + 0.03 + 0.06 * random.uniform());
            checkpoint += 10.0;
        }
        let current = (begin * 10.0) as u64;
        if current > slice {
            (slice, passed) = (current, 0);
        } else if passed == GROUPS {
            (slice, passed) = (slice + 1, 0);
        }
        passed += 1;
        begin = begin.max(slice as f64 / 10.0);
        let group = due[at..].iter().take_while(|time| **time <= begin).count();
        free = begin + 0.000_5;
        operations.extend(due[at..at + group].iter().map(|time| (*time, begin, free)));
        at += group;
    }
    step(rate, seconds, operations.into_iter())
}

/// A journal whose sync takes 1 to 3 ms, longer with more to write, and 25 ms longer once in 5 s. Writes that arrive during a sync share the
/// next one.
fn group_commits(seconds: f64, random: &mut SeededRandom, rate: f64) -> SearchStep {
    let due = arrivals(rate, seconds, random);
    let (mut now, mut at, mut operations) = (0.0_f64, 0, Vec::new());
    let mut stall = 5.0 * random.uniform();
    while at < due.len() {
        let begin = now.max(due[at]);
        let group = due[at..].iter().take_while(|time| **time <= begin).count();
        let mut sync = 0.001 + 0.002 * random.uniform() + 0.000_15 * group as f64;
        if begin > stall {
            (sync, stall) = (sync + 0.025, stall + 5.0);
        }
        now = begin + sync;
        operations.extend(due[at..at + group].iter().map(|time| (*time, begin, now)));
        at += group;
    }
    step(rate, seconds, operations.into_iter())
}

/// A throttle that lets so many requests a second pass, in slices of 100 ms, in front of a disk of 1 ms.
fn slices(cap_per_s: f64, seconds: f64, random: &mut SeededRandom, rate: f64) -> SearchStep {
    let quota = (cap_per_s / 10.0) as usize;
    let (mut slice, mut passed) = (0_u64, 0);
    let served = |due: f64| {
        let arrival = (due * 10.0) as u64;
        if arrival > slice {
            (slice, passed) = (arrival, 0);
        } else if passed == quota {
            (slice, passed) = (slice + 1, 0);
        }
        passed += 1;
        let begin = due.max(slice as f64 / 10.0);
        (due, begin, begin + 0.001)
    };
    step(rate, seconds, arrivals(rate, seconds, random).into_iter().map(served))
}

#[test]
fn a_rate_that_broke_by_chance_is_tried_again() {
    let slo: Slo = "p99<10ms".parse().unwrap();
    let rates = SearchRates {
        first_share: 0.6,
        bracket: 1.35,
        is_retried: true,
        confirmations: 0,
        ..SearchRates::default()
    };
    let mut steps = 0;
    let run = |rate, _| {
        steps += 1;
        let step = slices(3000.0, 3.0, &mut SeededRandom::from_seed(8), rate);
        // A hiccup in the first step.
        Ok(Some(if steps == 1 { SearchStep { quantile_ns: Some(50_000_000), ..step } } else { step }))
    };
    let found = find_max(1000.0, &rates, &slo, run).unwrap();
    assert!(found.rate_per_s.unwrap() > 2000.0, "{found:?}");
}

/// Rates that the first pass saw break by far are not tried again on the way from a rate that holds to the closed loop.
#[test]
fn the_second_pass_goes_up_in_small_steps() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    for closed_per_s in [9000.0, 10_000.0, 11_000.0, 12_000.0, 13_000.0] {
        let mut random = SeededRandom::from_seed(9);
        let mut highest = 0.0_f64;
        let run = |rate, pass| {
            if pass == SearchPass::Confirmation {
                highest = highest.max(rate);
            }
            Ok(Some(queue(5000.0, false, 20.0, &mut random, rate)))
        };
        let found = find_max(closed_per_s, &SearchRates::confirmed(1.1), &slo, run).unwrap();
        assert!(highest < 1.3 * knee(5000.0), "{highest} of {closed_per_s}");
        let ends = (found.rate_per_s.unwrap(), found.broken_per_s.unwrap());
        assert!(ends.1 / ends.0 < 1.12, "{ends:?} of {closed_per_s}");
    }
}

/// A throttle on a host that stops for a quarter of a second once in 100 s. The operations that come during a stop are slow: 2.4 % of a step of ten
/// seconds, at any rate.
fn slices_with_stops(seconds: f64, random: &mut SeededRandom, rate: f64) -> SearchStep {
    const STOP_S: f64 = 0.25;
    let stop = random.exponential(100.0);
    let calm = slices(300.0, seconds, random, rate);
    if stop > seconds - STOP_S {
        return calm;
    }
    let late = |due: f64| if (stop..stop + STOP_S).contains(&due) { stop + STOP_S } else { due + 0.001 };
    let stopped = arrivals(rate, seconds, random).into_iter().map(|due| (due, due, late(due)));
    let stopped = step(rate, seconds, stopped);
    let is_worse = stopped.quantile_ns > calm.quantile_ns;
    if is_worse { stopped } else { calm }
}

#[test]
fn a_break_of_few_operations_is_tried_again() {
    let throttle: (f64, ServerModel) =
        (300.0, |rate, seconds, random| slices_with_stops(seconds, random, rate));
    let (_, high) = false_statements(&SearchRates::confirmed(1.1), (2.0, 10.0), 0.02, throttle);
    assert!(high <= 2, "{high} too low");
}

/// Above 100 a second, the share of slow operations is never far from what the objective allows.
#[test]
fn a_rate_that_never_decides_is_left() {
    let slo: Slo = "p99<10ms".parse().unwrap();
    let undecided = |rate: f64, _| {
        let step = slices(100_000.0, 10.0, &mut SeededRandom::from_seed(10), rate);
        let slow = SearchStep { quantile_ns: Some(60_000_000), slow_share: Some(0.015), ..step.clone() };
        Ok(Some(if rate > 100.0 { slow } else { SearchStep { quantile_ns: Some(1_000_000), ..step } }))
    };
    for closed_per_s in [1000.0, 2400.0, 20_000.0] {
        let found = find_max(closed_per_s, &SearchRates::confirmed(1.1), &slo, undecided).unwrap();
        let rates: Vec<f64> = found.steps.iter().map(|(step, _)| step.offered_per_s).collect();
        assert!(rates.len() <= 30, "{rates:?}");
        for rate in rates.iter().filter(|rate| **rate > 100.0) {
            let tried = rates.iter().filter(|one| *one == rate).count();
            // Twice by the first pass, and once by the second.
            assert!(tried <= 3, "{rate} a second was tried {tried} times: {rates:?}");
        }
        assert!((60.0..=100.0).contains(&found.rate_per_s.unwrap()), "{:?} of {rates:?}", found.rate_per_s);
    }
}

/// A step near the rate of a closed loop holds by chance, so none is tried.
#[test]
fn no_rate_near_that_of_a_closed_loop_is_stated() {
    let slo: Slo = "p99<10ms".parse().unwrap();
    let calm = |rate, _| {
        let step = slices(10_000.0, 3.0, &mut SeededRandom::from_seed(7), rate);
        Ok(Some(SearchStep { quantile_ns: Some(1_000_000), ..step }))
    };
    for rates in [SearchRates::coarse(), SearchRates::confirmed(1.1)] {
        let found = find_max(1000.0, &rates, &slo, calm).unwrap();
        assert!(found.steps.iter().all(|(step, _)| step.offered_per_s < 900.0), "{found:?}");
        assert_eq!(found.broken_per_s, Some(1000.0));
    }
}

#[test]
fn a_rate_of_a_few_operations_is_not_tried() {
    let slo: Slo = "p99<10ms".parse().unwrap();
    let rates = SearchRates { first_share: 0.6, descent: 1.6, ..SearchRates::default() };
    // A disk on which each operation takes 14 ms.
    let run = |rate, _| {
        let step = slices(1000.0, 3.0, &mut SeededRandom::from_seed(6), rate);
        Ok(Some(SearchStep { quantile_ns: Some(14_000_000), ..step }))
    };
    let found = find_max(70.0, &rates, &slo, run).unwrap();
    assert_eq!(found.rate_per_s, None);
    let lowest = found.steps.iter().map(|(step, _)| step.offered_per_s).fold(f64::MAX, f64::min);
    assert!((16.0..42.0).contains(&lowest), "{lowest}");
}

#[test]
fn steps_are_judged_by_all_that_counts() {
    let slo: Slo = "p99<50ms".parse().unwrap();
    let fine = SearchStep {
        offered_per_s: 1000.0,
        achieved_per_s: 998.0,
        seconds: 30.0,
        quantile_ns: Some(10_000_000),
        slow_share: Some(0.0),
        failed_share: 0.0,
        lag_ms: vec![0.1; 30],
        client_cpu_share: 0.2,
    };
    assert_eq!(judge(&fine, &slo), StepVerdict::Sustained);
    let grows = (0..30).map(|second| f64::from(second) * 2.0).collect();
    for (step, verdict) in [
        (SearchStep { achieved_per_s: 900.0, ..fine.clone() }, StepVerdict::FallsBehind),
        (SearchStep { lag_ms: grows, ..fine.clone() }, StepVerdict::LagGrows),
        (SearchStep { quantile_ns: Some(60_000_000), ..fine.clone() }, StepVerdict::TooSlow),
        (SearchStep { quantile_ns: None, ..fine.clone() }, StepVerdict::TooSlow),
        (SearchStep { failed_share: 0.01, ..fine.clone() }, StepVerdict::Fails),
        (SearchStep { client_cpu_share: 0.9, ..fine.clone() }, StepVerdict::ClientLimited),
    ] {
        assert_eq!(judge(&step, &slo), verdict);
    }
}
