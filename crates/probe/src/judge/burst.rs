//! Judges whether the rates of a drive last: computes the levels, the bucket, and the answer in words.

use fathom_record::burst_allowance::{Bucket, BucketRest, BurstAllowance, BurstLevel, BurstVerdict};
use fathom_record::disk::Step;
use fathom_stats::{SeededRandom, bootstrap_mean, mean, median};
use fathom_units::{count, hours};

use super::allowance_limit::{AllowanceLimit, MAX_BURST_END_SHARE, excluded_requests};
use super::device_class::DeviceClass;

/// The draws for an interval, and the most parts of a level to draw from: adjacent seconds are not independent.
const DRAWS: usize = 2000;
const MAX_PARTS: usize = 30;
/// A rest that restores less than this share of what the refill would restore filled the bucket.
const MAX_FULL_SHARE: f64 = 0.85;
/// A rest that restores less than this share of what the lowest rate would restore shows no bucket.
const MAX_NO_BUCKET_SHARE: f64 = 0.3;
/// The CPU did not cause a fall of the rate if its wait accounts for less than this share of the fall.
const MAX_CPU_SHARE_OF_FALL: f64 = 0.5;

/// The readings of a rate.
pub(crate) struct RateReadings<'a> {
    /// Requests a second in each interval.
    pub(crate) rates: &'a [f64],
    /// Its begin and end, in nanoseconds since the run's start.
    pub(crate) window_ns: (u64, u64),
    /// The first intervals of the lower levels.
    pub(crate) steps: &'a [usize],
    /// A higher rate seen before the drive or after a rest, with its begin and end.
    pub(crate) higher: Option<BurstLevel>,
    /// The tokens that were missing when the last level began, from a bucket that was full at the start.
    pub(crate) missing: f64,
    pub(crate) rests: Vec<BucketRest>,
    /// The class of the device.
    pub(crate) class: Option<&'a DeviceClass>,
    /// All requests of the probe, and their duration.
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// The share of the last drive's time for which the CPU may have kept requests from the disk.
    pub(crate) cpu_wait_share: f64,
}

impl RateReadings<'_> {
    /// Whether the CPU set the pace: its wait exceeds the limit, and is not far too short to explain the fall between the levels.
    ///
    /// In a closed loop a rate falls by no more than the share of the time that requests wait elsewhere (Little's law). All of the
    /// wait may lie in the intervals after the first step.
    fn is_cpu_bound(&self, levels: &[BurstLevel]) -> bool {
        let lower_intervals = self.rates.len() - self.steps.first().copied().unwrap_or(0);
        let lower_share = lower_intervals as f64 / self.rates.len().max(1) as f64;
        let fall = match levels {
            [high, .., low] => 1.0 - low.per_s / high.per_s,
            _ => 0.0,
        };
        self.cpu_wait_share > Step::MAX_RUN_QUEUE_WAIT_PCT / 100.0
            && self.cpu_wait_share / lower_share > MAX_CPU_SHARE_OF_FALL * fall
    }
}

/// The levels of a drive, each lower than the one before it.
pub(crate) fn levels(rates: &[f64], window_ns: (u64, u64), steps: &[usize]) -> Vec<BurstLevel> {
    let interval_ns = (window_ns.1 - window_ns.0) as f64 / rates.len().max(1) as f64;
    let at_ns = |index: usize| window_ns.0 + (interval_ns * index as f64) as u64;
    let ends = steps.iter().copied().chain([rates.len()]);
    let begins = [0].into_iter().chain(steps.iter().copied());
    let level = |(begin, end): (usize, usize)| {
        // The level changed within the last interval before a step or the first interval after it.
        let whole = rates.get(begin..end)?;
        let from = usize::from(begin > 0 && whole.len() > 2);
        let to = whole.len() - usize::from(end < rates.len() && whole.len() > from + 2);
        level_of(whole.get(from..to)?, (at_ns(begin), at_ns(end)))
    };
    begins.zip(ends).filter_map(level).collect()
}

/// A level of these rates.
pub(crate) fn level_of(rates: &[f64], (begin_ns, end_ns): (u64, u64)) -> Option<BurstLevel> {
    let parts: Vec<f64> = rates.chunks(rates.len().div_ceil(MAX_PARTS).max(1)).filter_map(mean).collect();
    let interval = bootstrap_mean(&parts, 0.95, DRAWS, &mut SeededRandom::from_seed(42));
    Some(BurstLevel {
        begin_ns,
        end_ns,
        per_s: mean(rates)?,
        interval_per_s: interval.map(|one| (one.low, one.high)),
    })
}

/// Whether the bucket was full again before the end of a rest.
pub(crate) fn is_full(requests: f64, seconds: f64, refill_per_s: f64) -> bool {
    requests < MAX_FULL_SHARE * refill_per_s * seconds
}

/// Whether the requests restored by a rest show a bucket.
pub(crate) fn shows_bucket(requests: f64, seconds: f64, lowest_per_s: f64) -> bool {
    requests > MAX_NO_BUCKET_SHARE * lowest_per_s * seconds
}

/// The judgement of a drive; `None` if it has no rate.
pub(crate) fn judge(drive: RateReadings<'_>) -> Option<BurstAllowance> {
    let mut levels = levels(drive.rates, drive.window_ns, drive.steps);
    let was_empty = drive.steps.is_empty() && drive.higher.is_some();
    levels.splice(..0, drive.higher.clone());
    let lowest = levels.last()?.per_s;
    let is_burst = levels.len() > 1;
    let excluded = excluded_requests(drive.requests as f64);
    let bucket = is_burst.then(|| bucket(drive.missing, lowest, drive.rests.clone()));
    let (verdict, mut words) = if let (true, Some(bucket)) = (is_burst, &bucket) {
        (BurstVerdict::Burst, burst_words(&levels, bucket, was_empty))
    } else if let Some((early, late)) = fall(drive.rates) {
        let words = format!(
            "Whether the rate lasts cannot be determined: it fell without a step from {} to {} requests a second within {}, and has not settled.",
            count(early),
            count(late),
            hours(drive.seconds)
        );
        (BurstVerdict::CannotTell, words)
    } else {
        lasting(&drive, lowest, excluded)
    };
    let verdict = match (verdict, drive.is_cpu_bound(&levels)) {
        (verdict, false) => verdict,
        (BurstVerdict::Burst | BurstVerdict::CannotTell, true) => {
            words = format!(
                "Whether the rate lasts cannot be determined: the CPU and not the disk set the pace. Repeat on an idle machine. Seen: {words}"
            );
            BurstVerdict::CannotTell
        }
        (verdict, true) => {
            words.push_str(" The CPU set the pace: the disk may give more, for how long is unknown.");
            verdict
        }
    };
    Some(BurstAllowance {
        verdict,
        words,
        seconds: drive.seconds,
        requests: drive.requests,
        excluded_requests: (!is_burst).then_some(excluded),
        bucket,
        levels,
        device_class: drive.class.map(|class| class.name.clone()),
    })
}

/// The bucket whose refill is the lowest rate, from the tokens missing when it was empty and from the rests.
fn bucket(missing: f64, lowest: f64, rests: Vec<BucketRest>) -> Bucket {
    let full = rests.iter().find(|rest| rest.is_full).map(|rest| rest.requests);
    let most = rests.iter().map(|rest| rest.requests).fold(missing, f64::max);
    // A first rest that restored as much as one that filled the bucket filled it too, and gives no refill.
    let is_partial = |rest: &&BucketRest| full.is_none_or(|full| rest.requests < MAX_FULL_SHARE * full);
    let refill = rests.first().filter(is_partial).map(|rest| rest.requests / rest.seconds);
    Bucket {
        requests: full.unwrap_or(most),
        is_least: full.is_none(),
        refill_per_s: refill.unwrap_or(lowest),
        rests,
    }
}

/// A slow fall: the rates of the first and of the last tenth.
fn fall(rates: &[f64]) -> Option<(f64, f64)> {
    let tenth = rates.len() / 10;
    let (early, late) = (median(rates.get(..tenth)?)?, median(rates.get(rates.len() - tenth..)?)?);
    (late <= MAX_BURST_END_SHARE * early).then_some((early, late))
}

fn burst_words(levels: &[BurstLevel], bucket: &Bucket, was_empty: bool) -> String {
    let rate = |level: &BurstLevel| count(level.per_s);
    let seconds = |level: &BurstLevel| hours((level.end_ns - level.begin_ns) as f64 / 1e9);
    let mut words = match levels {
        [high, low] if was_empty => match bucket.rests.first() {
            Some(rest) => format!(
                "In burst after a rest: {} requests a second, and {} when its bucket is empty, as it was when this drive began. After a rest of {} {} requests came at the higher rate.",
                rate(high),
                rate(low),
                hours(rest.seconds),
                count(rest.requests)
            ),
            None => format!(
                "In burst: {} requests a second at first, and {} since its bucket is empty.",
                rate(high),
                rate(low)
            ),
        },
        [first, between @ .., last] => {
            let mut words = format!("In burst: {} requests a second for {}", rate(first), seconds(first));
            for level in between {
                words.push_str(&format!(", then {} for {}", rate(level), seconds(level)));
            }
            format!("{words}, then {}.", rate(last))
        }
        _ => String::new(),
    };
    let least = if bucket.is_least { "at least" } else { "about" };
    let lowest = levels.last().map_or(0.0, |level| level.per_s);
    words.push_str(&format!(" The bucket holds {least} {} requests", count(bucket.requests)));
    words.push_str(&match bucket.rests.first() {
        Some(rest) if !shows_bucket(bucket.refill_per_s, 1.0, lowest) => {
            format!("; a rest of {} brought {} of them back.", hours(rest.seconds), count(rest.requests))
        }
        _ => format!(" and refills with {} a second.", count(bucket.refill_per_s)),
    });
    words
}

/// A rate without a step.
fn lasting(drive: &RateReadings<'_>, per_s: f64, excluded: f64) -> (BurstVerdict, String) {
    let (rate, time) = (count(per_s), hours(drive.seconds));
    let highest = drive.rates.iter().copied().fold(0.0, f64::max);
    if let Some(class) = drive.class.filter(|class| class.limit.is_exceeded(drive.requests as f64, highest)) {
        let why = match class.limit {
            AllowanceLimit::None => {
                format!("The device is {}, which has no burst allowance for reads.", class.name)
            }
            _ => format!(
                "No bucket of up to {} requests is there, and no {} has a larger one.",
                count(excluded),
                class.name.trim_start_matches("an ").trim_start_matches("a ")
            ),
        };
        return (
            BurstVerdict::Sustained,
            format!("Sustained: {rate} requests a second, seen for {time}. {why}"),
        );
    }
    let words = format!(
        "Sustained for {time}: {rate} requests a second. No bucket of up to {} requests is there; a larger one cannot be excluded.",
        count(excluded)
    );
    (BurstVerdict::NoStep, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn drive<'a>(rates: &'a [f64], steps: &'a [usize]) -> RateReadings<'a> {
        let total: f64 = rates.iter().sum();
        RateReadings {
            rates,
            window_ns: (0, rates.len() as u64 * SECOND_NS),
            steps,
            higher: None,
            missing: 0.0,
            rests: Vec::new(),
            class: None,
            requests: total as u64,
            seconds: rates.len() as f64,
            cpu_wait_share: 0.0,
        }
    }

    fn rest(seconds: f64, requests: f64, is_full: bool) -> BucketRest {
        BucketRest { seconds, requests, is_full }
    }

    #[test]
    fn levels_leave_out_the_interval_of_the_change() {
        let rates = [2000.0, 2010.0, 1990.0, 700.0, 500.0, 505.0, 495.0, 500.0];
        let [high, low] = levels(&rates, (SECOND_NS, 9 * SECOND_NS), &[4]).try_into().unwrap();
        assert_eq!((high.per_s, high.begin_ns, high.end_ns), (2000.0, SECOND_NS, 5 * SECOND_NS));
        assert_eq!(low.per_s, 500.0);
        let (least, most) = low.interval_per_s.unwrap();
        assert!(least < 500.0 && most > 500.0 && most < 520.0, "{low:?}");
    }

    #[test]
    fn a_bucket_is_told_with_its_size_and_refill() {
        let rates = [vec![2000.0; 6], vec![500.0; 20]].concat();
        let steps = [6];
        let found =
            RateReadings { missing: 9000.0, rests: vec![rest(8.0, 3990.0, false)], ..drive(&rates, &steps) };
        let told = judge(found).unwrap();
        assert_eq!(
            told.words,
            "In burst: 2,000 requests a second for 6.00 s, then 500. The bucket holds at least 9,000 requests and refills with 499 a second."
        );
        assert_eq!((told.verdict, told.excluded_requests), (BurstVerdict::Burst, None));
        // A rest that filled the bucket gives its size, whatever was missing before.
        let rests = vec![rest(8.0, 3990.0, false), rest(30.0, 10_100.0, true)];
        let told = judge(RateReadings { missing: 9000.0, rests, ..drive(&rates, &steps) }).unwrap();
        let bucket = told.bucket.unwrap();
        assert_eq!((bucket.requests, bucket.is_least, bucket.refill_per_s), (10_100.0, false, 498.75));
        let rests = vec![rest(20.0, 9900.0, false), rest(30.0, 10_100.0, true)];
        let bucket = judge(RateReadings { rests, ..drive(&rates, &steps) }).unwrap().bucket.unwrap();
        assert_eq!(bucket.refill_per_s, 500.0, "the first rest filled it too");
        let told = judge(RateReadings {
            missing: 9e6,
            rests: vec![rest(60.0, 900.0, false)],
            ..drive(&rates, &steps)
        });
        let words = told.unwrap().words;
        assert!(
            words.ends_with("at least 9,000,000 requests; a rest of 60.0 s brought 900 of them back."),
            "{words}"
        );
    }

    #[test]
    fn a_busy_cpu_withholds_only_what_it_can_explain() {
        let rates = [vec![2000.0; 6], vec![500.0; 20]].concat();
        let steps = [6];
        let told = |cpu_wait_share| judge(RateReadings { cpu_wait_share, ..drive(&rates, &steps) }).unwrap();
        let withheld = told(0.4);
        assert_eq!(withheld.verdict, BurstVerdict::CannotTell);
        assert!(withheld.words.contains("the CPU and not the disk"), "{}", withheld.words);
        // A wait of 0.13 of the time after the step cannot lower a rate by three quarters.
        assert_eq!(told(0.1).verdict, BurstVerdict::Burst);
        // It can lower one by a fifth.
        let rates = [vec![2000.0; 6], vec![1600.0; 20]].concat();
        let told =
            |cpu_wait_share| judge(RateReadings { cpu_wait_share, ..drive(&rates, &steps) }).unwrap().verdict;
        assert_eq!((told(0.04), told(0.1)), (BurstVerdict::Burst, BurstVerdict::CannotTell));
        let steady = vec![3000.0; 540];
        let told = judge(RateReadings { cpu_wait_share: 0.1, ..drive(&steady, &[]) }).unwrap();
        assert_eq!(told.verdict, BurstVerdict::NoStep);
        assert!(told.words.ends_with("for how long is unknown."), "{}", told.words);
    }

    #[test]
    fn several_steps_are_told_in_their_order() {
        let rates = [vec![5000.0; 20], vec![3000.0; 40], vec![500.0; 60]].concat();
        let told = judge(RateReadings { missing: 1e5, ..drive(&rates, &[20, 60]) }).unwrap();
        assert!(
            told.words.starts_with(
                "In burst: 5,000 requests a second for 20.0 s, then 3,000 for 40.0 s, then 500."
            ),
            "{}",
            told.words
        );
        assert_eq!(told.levels.len(), 3);
    }

    #[test]
    fn sustained_is_said_only_where_no_bucket_can_be() {
        let rates = vec![3000.0; 540];
        let told = |class: Option<(&str, AllowanceLimit)>| {
            let class = class.map(|(name, limit)| DeviceClass { name: name.to_owned(), limit });
            let told = judge(RateReadings { class: class.as_ref(), ..drive(&rates, &[]) }).unwrap();
            (told.verdict, told.words)
        };
        let (verdict, words) = told(None);
        assert_eq!(verdict, BurstVerdict::NoStep);
        assert_eq!(
            words,
            "Sustained for 9 min: 3,000 requests a second. No bucket of up to 324,000 requests is there; a larger one cannot be excluded."
        );
        let limit = AllowanceLimit::Bucket { requests: 5.4e6, seconds: 1800.0 };
        assert_eq!(told(Some(("an EBS volume", limit))).0, BurstVerdict::NoStep);
        let (verdict, words) = told(Some(("a local NVMe drive", AllowanceLimit::None)));
        assert_eq!(verdict, BurstVerdict::Sustained);
        assert!(
            words.starts_with("Sustained: 3,000") && words.ends_with("no burst allowance for reads."),
            "{words}"
        );
        let small = AllowanceLimit::Bucket { requests: 3e5, seconds: 300.0 };
        let (verdict, words) = told(Some(("an EBS volume", small)));
        assert_eq!(verdict, BurstVerdict::Sustained);
        assert!(
            words.contains("up to 324,000 requests is there, and no EBS volume has a larger one"),
            "{words}"
        );
    }

    #[test]
    fn a_slow_fall_is_neither_a_bucket_nor_sustained() {
        let rates: Vec<f64> = (0..600).map(|second| 3000.0 - 2.0 * f64::from(second)).collect();
        let told = judge(drive(&rates, &[])).unwrap();
        assert_eq!(told.verdict, BurstVerdict::CannotTell);
        assert!(told.words.contains("without a step from 2,941 to 1,861"), "{}", told.words);
        assert!(judge(drive(&[], &[])).is_none());
    }

    #[test]
    fn a_bucket_that_was_empty_at_the_start_shows_after_a_rest() {
        let rates = vec![500.0; 60];
        let higher = level_of(&[2000.0, 2000.0], (70 * SECOND_NS, 72 * SECOND_NS));
        let rests = vec![rest(8.0, 3990.0, false)];
        let told = judge(RateReadings { higher, rests, ..drive(&rates, &[]) }).unwrap();
        assert_eq!((told.verdict, told.levels.len()), (BurstVerdict::Burst, 2));
        assert!(
            told.words.starts_with("In burst after a rest: 2,000 requests a second, and 500 when"),
            "{}",
            told.words
        );
        assert!(shows_bucket(3990.0, 8.0, 500.0) && !is_full(3990.0, 8.0, 500.0));
        assert!(!shows_bucket(700.0, 8.0, 500.0) && is_full(3000.0, 8.0, 500.0));
    }
}
