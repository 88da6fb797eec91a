//! The gain of a deeper queue, forecast from one run and then simulated.

use fathom_explain::judge;
use fathom_record::queue::QueueLadder;
use fathom_stats::SeededRandom;

use crate::device::{Device, Gaps, Spread, bursts, ladder, seen};

/// The time for which `fathom explain` watches a server by default.
const SECONDS: usize = 120;
/// The length of runs that are only simulated, not judged.
const TRUTH_SECONDS: usize = 25;

/// The ladder that a run is judged to have, and whether `queue-cap` was found.
fn judged(
    device: Device,
    cap: usize,
    burst: usize,
    gaps: Gaps,
    random: &mut SeededRandom,
) -> (QueueLadder, bool, f64) {
    let trace = bursts(device, cap, burst, gaps, SECONDS, random);
    let probe = ladder(device, &mut random.split(9));
    let judgement = judge(&seen(&trace, cap, probe));
    let found = judgement.findings.iter().any(|finding| finding.id == "queue-cap");
    for rival in ["capped-by-throttle", "looks-capped"] {
        assert!(judgement.findings.iter().all(|finding| finding.id != rival), "{:#?}", judgement.findings);
    }
    let full = judgement.findings.iter().any(|finding| finding.id == "device-saturated");
    assert!(!(found && full), "either its queue or the device: {:#?}", judgement.findings);
    (judgement.ladders.into_iter().next().unwrap(), found, trace.mean_us())
}

/// Time between bursts such that a cap of `cap` is busy about a quarter of the time.
fn gap_us(device: Device, cap: usize, burst: usize) -> f64 {
    let at_once = cap.min(device.parallel) as f64;
    4.0 * burst as f64 / at_once * device.mean_us * (1.0 + device.growth * at_once)
}

/// The figures of docs/methods.md#queues-and-what-a-deeper-one-would-bring: bursts of 120 on a device of 64, at five caps.
#[test]
fn bursts_of_120_on_a_device_of_64() {
    const PAGE: [(usize, f64); 5] = [(8, 964.0), (16, 517.0), (32, 315.0), (64, 223.0), (128, 223.0)];
    // A device whose time grows by 0.87 % for each other request gives the page's five figures.
    let device = Device { parallel: 64, mean_us: 118.8, growth: 0.008_66, spread: Spread::Exponential };
    for (cap, page_us) in PAGE {
        let mut random = SeededRandom::from_seed(100 + cap as u64);
        let alone = bursts(device, cap, 120, Gaps::Spaced(20_000.0), SECONDS, &mut random).mean_us();
        assert!((alone / page_us - 1.0).abs() < 0.10, "{cap}: {alone} for {page_us}");
        let gaps = Gaps::Spaced(gap_us(device, cap, 120));
        let (ladder, found, _) =
            judged(device, cap, 120, gaps, &mut SeededRandom::from_seed(200 + cap as u64));
        assert_eq!(found, cap < 64, "gains end at the device's own parallelism: {cap}, {ladder:#?}");
        let mut row = format!("| {cap} | {page_us} | {alone:.0} |");
        let options = ladder.forecast.map_or_else(Vec::new, |forecast| forecast.options);
        for (other, _) in PAGE {
            let Some(option) = options.iter().find(|option| option.cap == other as f64) else {
                row.push_str(" |");
                continue;
            };
            let mut random = SeededRandom::from_seed(300 + cap as u64);
            let truth = bursts(device, other, 120, gaps, TRUTH_SECONDS, &mut random).mean_us();
            let error = option.mean_us / truth - 1.0;
            row.push_str(&format!(" {:.0} ({:+.0} %) |", option.mean_us, 100.0 * error));
            assert!(error.abs() < 0.15, "from {cap} to {other}: {} for {truth}", option.mean_us);
        }
        println!("{row} {} |", if found { "named" } else { "-" });
    }
}

#[test]
fn forecasts_hold_over_a_grid_of_devices() {
    let mut cases = 0;
    for spread in [Spread::Fixed, Spread::Uniform, Spread::Exponential] {
        let (mut worst, mut count): (f64, u32) = (0.0, 0);
        for parallel in [16usize, 64, 128] {
            for (burst, growth) in [(40usize, 0.0), (120, 0.0), (120, 0.005), (300, 0.0)] {
                let device = Device { parallel, mean_us: 150.0, growth, spread };
                let cap = parallel / 4;
                if burst <= 2 * cap {
                    continue;
                }
                cases += 1;
                let gaps = Gaps::Spaced(gap_us(device, cap, burst));
                let (ladder, found, now_us) =
                    judged(device, cap, burst, gaps, &mut SeededRandom::from_seed(1000 + cases));
                let what = format!("{device:?}, bursts of {burst}, cap {cap}");
                assert!(found, "{what}: {ladder:#?}");
                let forecast = ladder.forecast.unwrap();
                assert!(
                    (forecast.mean_us / now_us - 1.0).abs() < 0.15,
                    "{what}: {} for {now_us}",
                    forecast.mean_us
                );
                for option in &forecast.options {
                    let mut random = SeededRandom::from_seed(5000 + cases);
                    let truth = bursts(device, option.cap as usize, burst, gaps, TRUTH_SECONDS, &mut random)
                        .mean_us();
                    let error = option.mean_us / truth - 1.0;
                    assert!(error.abs() < 0.15, "{what}, to {}: {} for {truth}", option.cap, option.mean_us);
                    worst = if error.abs() > worst.abs() { error } else { worst };
                    count += 1;
                }
            }
        }
        println!("| {spread:?} | {count} | {:+.1} % |", 100.0 * worst);
    }
}

/// Bursts at random times overlap, and overlap less when they are served faster. The forecast, which assumes an unchanged backlog, then
/// promises too little, never too much.
#[test]
fn bursts_that_meet_are_never_promised_too_much() {
    let mut worst: f64 = 0.0;
    for (seed, (parallel, burst)) in [(16, 120), (64, 120), (64, 300), (128, 200)].into_iter().enumerate() {
        let device = Device { parallel, mean_us: 150.0, growth: 0.0, spread: Spread::Exponential };
        let cap = parallel / 4;
        let gaps = Gaps::Random(gap_us(device, cap, burst));
        let (ladder, found, now_us) =
            judged(device, cap, burst, gaps, &mut SeededRandom::from_seed(seed as u64));
        assert!(found, "{device:?}: {ladder:#?}");
        for option in &ladder.forecast.unwrap().options {
            let mut random = SeededRandom::from_seed(7000 + seed as u64);
            let truth =
                bursts(device, option.cap as usize, burst, gaps, TRUTH_SECONDS, &mut random).mean_us();
            let promised = option.share - (1.0 - truth / now_us);
            assert!(promised < 0.05, "{device:?} to {}: {option:?} for {truth} of {now_us}", option.cap);
            worst = worst.max((option.mean_us / truth - 1.0).abs());
        }
    }
    println!("| bursts that meet | | at most {:.0} % off, too little promised |", 100.0 * worst);
}

/// A queue that is deep enough, or a device that is full itself, never gives the finding on a queue's cap.
#[test]
fn no_cap_is_found_where_there_is_none() {
    let mut false_alarms = 0;
    for (seed, (parallel, cap, burst)) in [
        (64, 128, 40),
        (64, 128, 100),
        (16, 128, 60),
        (64, 256, 120),
        (16, 32, 120),
        (8, 16, 12),
        (64, 64, 120),
    ]
    .into_iter()
    .enumerate()
    {
        let device = Device { parallel, mean_us: 150.0, growth: 0.0, spread: Spread::Exponential };
        let gaps = Gaps::Random(gap_us(device, cap, burst));
        let (_, found, _) = judged(device, cap, burst, gaps, &mut SeededRandom::from_seed(seed as u64));
        false_alarms += u32::from(found);
    }
    println!("| runs without a cap that matters | 7 | {false_alarms} called capped |");
    assert_eq!(false_alarms, 0);
}
