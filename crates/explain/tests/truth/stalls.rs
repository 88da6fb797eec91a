//! Stops of a whole server: reported if they dominate the mean, and not reported if nothing stopped.

use fathom_explain::{Evidence, judge};
use fathom_record::{Finding, Point, Severity};
use fathom_stats::SeededRandom;

use crate::seconds::Seconds;

const SECONDS: usize = 30;
const PLACES: usize = 8;

fn simulate(rate_per_s: f64, service_us: f64, stops_us: &[(f64, f64)], seed: u64) -> Evidence {
    simulate_with(rate_per_s, service_us, (0.0, 0.0), stops_us, seed)
}

/// Arrivals at a rate (Poisson) for as many places as a client has connections. Each operation takes a random time (exponential), a part of them a
/// long time, and each takes longer by the stops that it meets, in microseconds.
fn simulate_with(
    rate_per_s: f64,
    service_us: f64,
    (long_part, long_us): (f64, f64),
    stops_us: &[(f64, f64)],
    seed: u64,
) -> Evidence {
    let mut stream = SeededRandom::from_seed(seed);
    let mut seconds = Seconds::default();
    let mut free_us = [0.0_f64; PLACES];
    let mut due_us = 0.0;
    loop {
        due_us += stream.exponential(1e6 / rate_per_s);
        if due_us >= SECONDS as f64 * 1e6 {
            return seconds.evidence(SECONDS, &[]);
        }
        let place = free_us.iter_mut().min_by(|one, other| one.total_cmp(other)).unwrap();
        let begun_us = place.max(due_us);
        let is_long = stream.uniform() < long_part;
        let mut ended_us = begun_us + if is_long { long_us } else { stream.exponential(service_us) };
        for (from_us, to_us) in stops_us {
            if ended_us > *from_us && begun_us < *to_us {
                ended_us += to_us - begun_us.max(*from_us);
            }
        }
        *place = ended_us;
        seconds.client_late("read", ended_us, ended_us - begun_us, ended_us - due_us);
    }
}

fn stalls(evidence: &Evidence) -> Option<Finding> {
    judge(evidence).findings.into_iter().find(|finding| finding.id == "stalls")
}

/// The host's samplers: one reading each second, one of them late by this time.
fn put_host(evidence: &mut Evidence, late_at: usize, late_ns: u64) {
    let mut begin_ns = 0;
    for second in 0..SECONDS {
        let late_ns = if second == late_at { late_ns } else { 0 };
        let end_ns = (second as u64 + 1) * 1_000_000_000 + late_ns;
        evidence.series.add("host.cpu.idle_pct", "%", Point { begin_ns, end_ns, value: 80.0 });
        begin_ns = end_ns;
    }
}

#[test]
fn one_stop_of_half_a_second_is_found_where_it_was() {
    for seed in 1..=200 {
        let at_us = 8e6 + 50_000.0 * seed as f64;
        let evidence = simulate(400.0, 2000.0, &[(at_us, at_us + 600_000.0)], seed);
        let finding = stalls(&evidence).unwrap();
        // One stop that makes most of what was waited holds the system back.
        assert_eq!(finding.severity, Severity::Warning, "{finding:#?}");
        let cost = finding.cost.as_ref().unwrap();
        assert!(cost.share >= 0.5 && cost.share < 1.0, "{finding:#?}");
        let [(begin_ns, end_ns)] = finding.windows_ns[..] else { panic!("{finding:#?}") };
        let stop_ns = ((at_us * 1000.0) as u64, ((at_us + 600_000.0) * 1000.0) as u64);
        // Operations are counted where they end, which is after the stop.
        assert!(begin_ns <= stop_ns.1 + 100_000_000 && stop_ns.0 <= end_ns, "{stop_ns:?} {finding:#?}");
        assert!(end_ns - begin_ns <= 2_000_000_000, "{finding:#?}");
    }
}

/// Nothing ends in the middle of the stop, so there is no reading.
#[test]
fn a_stop_of_several_seconds_is_told_from_its_begin() {
    for seed in 1..=50 {
        let finding = stalls(&simulate(400.0, 2000.0, &[(9.3e6, 13.6e6)], seed)).unwrap();
        let [(begin_ns, end_ns)] = finding.windows_ns[..] else { panic!("{finding:#?}") };
        let (begin_s, end_s) = (begin_ns as f64 / 1e9, end_ns as f64 / 1e9);
        assert!((9.0..=10.0).contains(&begin_s) && (14.0..=15.0).contains(&end_s), "{finding:#?}");
    }
}

#[test]
fn stops_that_come_again_are_an_alarm() {
    let stops_us: Vec<(f64, f64)> = [5.1e6, 13.2e6, 22.3e6].map(|at_us| (at_us, at_us + 400_000.0)).to_vec();
    let finding = stalls(&simulate(400.0, 500.0, &stops_us, 3)).unwrap();
    assert_eq!((finding.severity, finding.windows_ns.len()), (Severity::Warning, 3), "{finding:#?}");
    assert!(finding.claim.contains("3 times"), "{finding:#?}");
}

/// From an idle server to one at nine tenths of its capacity; the last has long queues of its own.
#[test]
fn nothing_is_said_where_nothing_stopped() {
    for seed in 1..=200 {
        for (rate_per_s, service_us) in [(5.0, 2000.0), (400.0, 100.0), (400.0, 10_000.0), (400.0, 18_000.0)]
        {
            let found = stalls(&simulate(rate_per_s, service_us, &[], seed));
            assert!(found.is_none(), "{rate_per_s} {service_us} {seed} {found:#?}");
        }
    }
}

/// Rare scans, misses or locks: they dominate the mean, and delay no others.
#[test]
fn a_few_slow_operations_are_no_stop() {
    for seed in 1..=200 {
        for (rate_per_s, service_us, long) in
            [(5.0, 500.0, (0.02, 30e3)), (20.0, 300.0, (0.005, 100e3)), (100.0, 200.0, (0.0005, 1e6))]
        {
            let found = stalls(&simulate_with(rate_per_s, service_us, long, &[], seed));
            assert!(found.is_none(), "{rate_per_s} {long:?} {seed} {found:#?}");
        }
    }
}

/// A stop that is short compared with ordinary operations does not matter.
#[test]
fn a_stop_that_does_not_make_the_mean_is_not_told() {
    assert!(stalls(&simulate(400.0, 10_000.0, &[(9e6, 9.1e6)], 5)).is_none());
}

#[test]
fn whether_the_host_stood_still_too_is_said_where_it_can_be_told() {
    let said = |stop_s: f64, late_ns: u64| {
        let mut evidence = simulate(400.0, 2000.0, &[(9.3e6, 9.3e6 + stop_s * 1e6)], 5);
        put_host(&mut evidence, 9, late_ns);
        stalls(&evidence).unwrap().evidence.join(" ")
    };
    let late = said(0.6, 500_000_000);
    assert!(late.contains("late in 1 of them too, by up to 0.5 s"), "{late}");
    assert!(said(0.6, 0).contains("may fall between two of their moments"), "{}", said(0.6, 0));
    assert!(said(4.3, 0).contains("the host itself did not stop"), "{}", said(4.3, 0));
}

/// One checkpoint ran over the stop, and one elsewhere: the finding says how often one runs in any case.
#[test]
fn a_checkpoint_in_a_stop_is_told_with_how_often_one_runs_anyway() {
    let mut evidence = simulate(400.0, 2000.0, &[(9.3e6, 9.9e6)], 5);
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second as u64 * 1_000_000_000, (second as u64 + 1) * 1_000_000_000);
        let running = f64::from(u8::from((8..11).contains(&second) || (20..26).contains(&second)));
        evidence.series.add("server.0.checkpoint.running", "1", Point { begin_ns, end_ns, value: running });
    }
    let said = stalls(&evidence).unwrap().evidence.join(" ");
    assert!(said.contains("A checkpoint ran in 1 of them; one ran in 30 % of the whole time."), "{said}");
}
