//! Implements `--sustain`: tests whether the rate at the knee lasts. One shape is driven second by second until its rate falls and
//! has stayed low, or the time is over; rests then show how fast a bucket refills, and how much it holds.
//!
//! A step down is looked for after each second (`fathom_stats::find_step_down`). All requests since the probe began count for the
//! size of the bucket, including the search for the knee. The layout of the file does not: it writes few large requests.

use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_host::View;
use fathom_record::burst_allowance::{BucketRest, BurstLevel};
use fathom_record::disk::{Entry, Step};
use fathom_stats::{mean, missing_tokens};
use fathom_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::judge::{self, AllowanceLimit, DeviceClass, MAX_BURST_END_SHARE, RateReadings};
use crate::ladder::LadderPlan;
use crate::rate_watch::RateWatch;
use crate::schedule::StepSum;
use crate::session::{ProbeSecond, ProbeSession, StepOutcome};
use crate::shape::{Job, MAX_DEPTH, WindowPlan};

/// The phase of the drive.
pub(crate) const SUSTAIN: &str = "sustain";
/// The phase of a drive after a rest.
const AFTER_REST: &str = "after a rest";
/// A rung of the ladder before the drive is brief: it uses up the bucket too.
const RUNG_TIME: Nanos = Nanos::millis(500);
/// A part of the time is kept for a rest and the drive after it, within these bounds.
const RESERVE_SHARE: u64 = 10;
const RESERVE: (f64, f64) = (4.0, 40.0);
/// The part of the reserve that is a rest.
const REST_SHARE: f64 = 0.7;
/// The shortest and the longest rest, in seconds.
const REST: (f64, f64) = (2.0, 60.0);
/// The factor by which a rest that should fill a bucket exceeds the time that the known part of the bucket takes.
const REST_TO_FILL_TIME: f64 = 1.4;
const MAX_RESTS: usize = 4;
/// A drive after a rest ends when three intervals in a row are this close to the lowest rate.
const MAX_RATIO_TO_LOWEST: f64 = 1.1;
/// Time for the work between drives, seconds.
const SLACK_S: f64 = 4.0;

/// The shape to drive, and the time limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SustainPlan {
    /// The job at its depth.
    pub job: Job,
    /// Look for the knee first, and drive at twice its depth.
    pub finds_knee: bool,
    /// The time for the whole plan.
    pub time: Nanos,
}

/// The readings of a drive.
struct DriveReadings {
    outcome: StepOutcome,
    steps: Vec<usize>,
    fell: bool,
}

impl ProbeSession<'_> {
    /// Drives, rests, and reports the burst allowance. Returns the first operation that failed.
    ///
    /// # Errors
    /// When a window could not begin, or the sink returned an error.
    pub fn sustain(&mut self, plan: &SustainPlan) -> Result<Option<Error>> {
        let begin_ns = self.now_ns();
        let deadline_ns = begin_ns.saturating_add(plan.time.get());
        self.schedule.rest = StepSum::repeated(&self.drive_window(&plan.job, deadline_ns), 1);
        let mut job = plan.job.clone();
        let (mut earlier, mut class) = (None, self.device_class(&job, None));
        if plan.finds_knee {
            let climb = self.climb(&knee_plan(&plan.job))?;
            if climb.error.is_some() || self.interrupted() {
                return Ok(climb.error);
            }
            let resembles = climb
                .knee
                .as_ref()
                .and_then(|knee| judge::nearest(knee.throughput_max_per_s, knee.latency_at_one_ns / 1e6));
            class = self.device_class(&job, resembles);
            earlier = climb.steps.iter().max_by(|a, b| a.per_s().total_cmp(&b.per_s())).map(rung_level);
            job.depth = self.depth_beyond_knee(&climb.steps, &job);
        }
        self.schedule.rest = StepSum::default();
        let limit = class.as_ref().map_or(AllowanceLimit::Unknown, |class| class.limit);
        let seen = self.drive(&job, earlier.as_ref().map_or(0.0, |level| level.per_s), limit, deadline_ns)?;
        self.conclude(&job, seen, earlier, class.as_ref(), (begin_ns, deadline_ns))
    }

    fn device_class(&self, job: &Job, resembles: Option<&judge::StorageClass>) -> Option<DeviceClass> {
        judge::device_class(&View::live(), &self.target.place().leaves, job.pattern.writes(), resembles)
    }

    /// Twice the fewest requests in flight that gave 90 % of the maximum: the device then never waits for us.
    fn depth_beyond_knee(&self, steps: &[Step], job: &Job) -> u32 {
        let most = steps.iter().map(Step::per_s).fold(0.0, f64::max);
        let enough = steps.iter().filter(|step| step.per_s() >= 0.9 * most);
        let depth = enough.filter_map(|step| step.streams.first().map(|stream| stream.depth)).min();
        depth.unwrap_or(1).saturating_mul(2).min(MAX_DEPTH).min(self.depth_max(job)).max(1)
    }

    /// The window of the drive: the remaining time less the reserve.
    fn drive_window(&self, job: &Job, deadline_ns: u64) -> WindowPlan {
        let left_ns = deadline_ns.saturating_sub(self.now_ns());
        let length = Nanos(left_ns.saturating_sub(reserve_ns(left_ns)).max(1_000_000_000));
        WindowPlan { phase: SUSTAIN.to_owned(), jobs: vec![job.clone()], length, warm_up: Nanos(0) }
    }

    fn drive(
        &mut self,
        job: &Job,
        earlier_per_s: f64,
        limit: AllowanceLimit,
        deadline_ns: u64,
    ) -> Result<DriveReadings> {
        let window = self.drive_window(job, deadline_ns);
        let interval_s = (window.length.get() as f64 / 4e9).min(1.0);
        let mut watch = RateWatch::new(earlier_per_s, limit, interval_s);
        let outcome = self.measure_step_until(&window, &mut |rates| watch.is_over(rates))?;
        let steps = watch.steps(&outcome.step.per_interval);
        Ok(DriveReadings { outcome, steps, fell: watch.fell() })
    }

    /// Rests as far as the time allows, and reports the overall result.
    fn conclude(
        &mut self,
        job: &Job,
        seen: DriveReadings,
        earlier: Option<BurstLevel>,
        class: Option<&DeviceClass>,
        (begin_ns, deadline_ns): (u64, u64),
    ) -> Result<Option<Error>> {
        let DriveReadings { outcome, steps, fell } = seen;
        let StepOutcome { step, mut error, .. } = outcome;
        let window_ns = (step.begin_ns, step.end_ns);
        let levels = judge::levels(&step.per_interval, window_ns, &steps);
        let Some(lowest) = levels.last().map(|level| level.per_s).filter(|per_s| *per_s > 0.0) else {
            return Ok(error);
        };
        let empty_ns = levels.last().map_or(window_ns.0, empty_ns);
        let missing = missing_tokens(&self.passages.passages_until(empty_ns), lowest);
        let highest = levels.first().map(|level| level.per_s).unwrap_or(lowest);
        let earlier = earlier.filter(|_| fell && steps.is_empty());
        let highest = earlier.as_ref().map_or(highest, |level| level.per_s);
        let mut rests = RestPlan { highest, lowest, missing, deadline_ns, rests: Vec::new(), higher: None };
        let is_settled = class.is_some_and(|class| class.limit == AllowanceLimit::None);
        if error.is_none() && (fell || !is_settled) {
            error = self.rests(job, fell, &mut rests)?;
        }
        let shows = |rest: &BucketRest| judge::shows_bucket(rest.requests, rest.seconds, lowest);
        let is_burst = !steps.is_empty() || (rests.higher.is_some() && rests.rests.iter().any(shows));
        let higher = rests.higher.or(earlier).filter(|_| is_burst && steps.is_empty());
        let drive = RateReadings {
            rates: &step.per_interval,
            window_ns,
            steps: &steps,
            higher,
            missing,
            rests: if is_burst { rests.rests } else { Vec::new() },
            class,
            requests: self.passages.total(),
            seconds: self.now_ns().saturating_sub(begin_ns) as f64 / 1e9,
            cpu_wait_share: step.cpu_wait_share(),
        };
        if let Some(allowance) = judge::burst(drive) {
            self.sink.result(&Entry::BurstAllowance(Box::new(allowance)))?;
        }
        Ok(error)
    }

    /// Rests and drives until a rest has filled the bucket, or the time does not suffice for another. If the rate never fell, one
    /// rest shows whether a bucket was empty from the start.
    fn rests(&mut self, job: &Job, fell: bool, rests: &mut RestPlan) -> Result<Option<Error>> {
        while rests.rests.len() < MAX_RESTS && !self.interrupted() {
            let Some(seconds) = rests.next_s(fell, self.now_ns()) else { break };
            let error = self.rest_and_drive(job, seconds, rests)?;
            let is_over = rests.rests.last().is_none_or(|rest| rest.is_full);
            if error.is_some() || is_over || !fell {
                return Ok(error);
            }
        }
        Ok(None)
    }

    fn rest_and_drive(&mut self, job: &Job, seconds: f64, rests: &mut RestPlan) -> Result<Option<Error>> {
        let before = self.passages.total();
        let rest_s = self.rest(Nanos((seconds * 1e9) as u64))?;
        if self.interrupted() {
            return Ok(None);
        }
        let begin_ns = self.now_ns();
        let left_s = rests.deadline_ns.saturating_sub(begin_ns) as f64 / 1e9;
        // A drive that ends a second late is better than a wasted rest.
        let drive_s = (rests.drive_s(rest_s) + SLACK_S).min(left_s + 1.0);
        let length = Nanos((drive_s * 1e9) as u64);
        let window =
            WindowPlan { phase: AFTER_REST.to_owned(), jobs: vec![job.clone()], length, warm_up: Nanos(0) };
        let lowest = rests.lowest;
        let is_low = |rates: &[f64]| {
            let last = rates.len().checked_sub(3).and_then(|from| rates.get(from..)).and_then(mean);
            last.is_some_and(|rate| rate <= MAX_RATIO_TO_LOWEST * lowest)
        };
        let outcome = self.measure_step_until(&window, &mut |rates| is_low(rates))?;
        if outcome.interrupted || outcome.error.is_some() {
            return Ok(outcome.error);
        }
        let driven_s = self.now_ns().saturating_sub(begin_ns) as f64 / 1e9;
        let requests = ((self.passages.total() - before) as f64 - lowest * driven_s).max(0.0);
        let is_full = rests.is_full(requests, rest_s);
        let higher = burst_of(&outcome.step, lowest);
        if rests.higher.is_none() {
            rests.higher = higher;
        }
        rests.rests.push(BucketRest { seconds: rest_s, requests, is_full });
        Ok(None)
    }

    /// Sends no requests for a time, or until a signal. Returns the duration in seconds.
    fn rest(&mut self, time: Nanos) -> Result<f64> {
        let window =
            WindowPlan { phase: "rest".to_owned(), jobs: Vec::new(), length: time, warm_up: Nanos(0) };
        let step = self.schedule.begin(&window);
        self.sink.step_begins(&step)?;
        let begin_ns = self.now_ns();
        let mut told_ns = begin_ns;
        while self.now_ns() < begin_ns + time.get() && !self.interrupted() {
            let left = (begin_ns + time.get()).saturating_sub(self.now_ns());
            std::thread::sleep(Duration::from_nanos(left).min(Duration::from_millis(20)));
            let now_ns = self.now_ns();
            if now_ns >= told_ns + 1_000_000_000 {
                let interval = ProbeSecond { window_ns: (told_ns, now_ns), readings: &[], latencies: &[] };
                self.sink.interval(&interval)?;
                told_ns = now_ns;
            }
        }
        Ok((self.now_ns() - begin_ns) as f64 / 1e9)
    }
}

/// The rests so far, and the data that the next one depends on.
struct RestPlan {
    highest: f64,
    lowest: f64,
    /// Tokens that the bucket lacked when it was empty, as far as known.
    missing: f64,
    deadline_ns: u64,
    rests: Vec<BucketRest>,
    /// The rate after a rest.
    higher: Option<BurstLevel>,
}

impl RestPlan {
    /// The length of the next rest; `None` if the time does not suffice.
    fn next_s(&self, fell: bool, now_ns: u64) -> Option<f64> {
        let left_s = self.deadline_ns.saturating_sub(now_ns) as f64 / 1e9;
        if !fell {
            let rest_s = REST_SHARE * left_s.min(RESERVE.1);
            return (rest_s >= REST.0).then_some(rest_s);
        }
        // The rest and the drive after it.
        let longest_s = (left_s - SLACK_S) / (1.0 + self.drive_s(1.0));
        let Some(refill) = self.refill_per_s() else {
            // Half of the missing tokens: the refill shows, and the bucket does not become full.
            let rest_s = (0.5 * self.missing / self.lowest).clamp(REST.0, REST.1).min(longest_s);
            return (rest_s >= 0.5 * REST.0).then_some(rest_s);
        };
        // A bucket that does not refill within a minute cannot be filled by a rest.
        let most = self.rests.iter().map(|rest| rest.requests).fold(self.missing, f64::max);
        let rest_s = REST_TO_FILL_TIME * most / refill;
        (judge::shows_bucket(refill, 1.0, self.lowest) && rest_s <= longest_s).then_some(rest_s)
    }

    /// The refill a second during the first rest.
    fn refill_per_s(&self) -> Option<f64> {
        self.rests.first().map(|rest| rest.requests / rest.seconds)
    }

    /// Whether the bucket was full again before the end of a rest: the rest restored less than the first rest predicts.
    fn is_full(&self, requests: f64, rest_s: f64) -> bool {
        self.refill_per_s().is_some_and(|refill| judge::is_full(requests, rest_s, refill))
    }

    /// The duration of the drive after a rest until the bucket is empty again.
    fn drive_s(&self, rest_s: f64) -> f64 {
        let highest = self.highest.max(self.lowest / MAX_BURST_END_SHARE);
        rest_s * self.lowest / (highest - self.lowest)
    }
}

/// A time at which the bucket is empty: a little after the last step, so that the interval of the change is included.
fn empty_ns(last: &BurstLevel) -> u64 {
    last.begin_ns + 2_000_000_000
}

/// The time that a drive reserves for a rest.
fn reserve_ns(time_ns: u64) -> u64 {
    let (least, most) = RESERVE;
    (time_ns / RESERVE_SHARE).clamp((least * 1e9) as u64, (most * 1e9) as u64)
}

/// The ladder that finds the knee.
fn knee_plan(job: &Job) -> LadderPlan {
    LadderPlan {
        phase: job.pattern.word().to_owned(),
        job: job.clone(),
        depth_min: 1,
        depth_max: MAX_DEPTH,
        step: RUNG_TIME,
        complete: false,
        factor: 4,
        is_brief: true,
    }
}

/// A rung as a level.
fn rung_level(step: &Step) -> BurstLevel {
    BurstLevel { begin_ns: step.begin_ns, end_ns: step.end_ns, per_s: step.per_s(), interval_per_s: None }
}

/// The initial rate of a drive after a rest, if it was above the lowest.
fn burst_of(step: &Step, lowest: f64) -> Option<BurstLevel> {
    let rates = &step.per_interval;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let middle = (highest + lowest) / 2.0;
    let high: Vec<f64> = rates.iter().copied().take_while(|rate| *rate > middle).collect();
    // The bucket ran dry within the last of them.
    let whole = high.get(..high.len().saturating_sub(1).max(1))?;
    let interval_ns = (step.end_ns - step.begin_ns) / rates.len().max(1) as u64;
    let level = judge::level_of(whole, (step.begin_ns, step.begin_ns + interval_ns * whole.len() as u64))?;
    (level.per_s * MAX_BURST_END_SHARE >= lowest).then_some(level)
}

#[cfg(test)]
mod tests {
    use fathom_record::burst_allowance::{BurstAllowance, BurstVerdict};

    use super::*;
    use crate::passage_log::PassageLog;

    fn rests(missing: f64, deadline_s: u64) -> RestPlan {
        RestPlan {
            highest: 2000.0,
            lowest: 500.0,
            missing,
            deadline_ns: deadline_s * 1_000_000_000,
            rests: Vec::new(),
            higher: None,
        }
    }

    #[test]
    fn the_first_rest_fills_half_and_the_next_all() {
        let mut rests = rests(9000.0, 600);
        assert_eq!(rests.next_s(true, 0), Some(9.0));
        assert!((rests.drive_s(9.0) - 3.0).abs() < 1e-9, "4,500 tokens at 1,500 a second");
        assert!(!rests.is_full(100.0, 9.0), "the first rest has nothing to compare with");
        rests.rests.push(BucketRest { seconds: 9.0, requests: 4500.0, is_full: false });
        assert_eq!(rests.next_s(true, 0), Some(REST_TO_FILL_TIME * 18.0));
        assert_eq!(rests.next_s(true, 570_000_000_000), None, "there is no time for that");
        assert!(
            rests.is_full(9100.0, REST_TO_FILL_TIME * 18.0)
                && !rests.is_full(12_000.0, REST_TO_FILL_TIME * 18.0)
        );
    }

    /// A disk behind a token bucket that is full at first, and a drive that keeps it busy.
    struct SimulatedDisk {
        burst_per_s: f64,
        refill_per_s: f64,
        size: f64,
        tokens: f64,
        passages: PassageLog,
        now_ns: u64,
    }

    impl SimulatedDisk {
        fn new(burst_per_s: f64, refill_per_s: f64, size: f64) -> SimulatedDisk {
            let mut passages = PassageLog::default();
            passages.add(0, 0);
            SimulatedDisk { burst_per_s, refill_per_s, size, tokens: size, passages, now_ns: 0 }
        }

        fn pass(&mut self, seconds: f64, requests: f64) {
            self.now_ns += (seconds * 1e9) as u64;
            self.passages.add(self.now_ns, requests.round() as u64);
        }

        /// The requests of the next second.
        fn drive(&mut self) -> f64 {
            let drain_per_s = self.burst_per_s - self.refill_per_s;
            let burst_s = (self.tokens / drain_per_s).min(1.0);
            self.tokens -= drain_per_s * burst_s;
            let requests = self.burst_per_s * burst_s + self.refill_per_s * (1.0 - burst_s);
            self.pass(1.0, requests);
            requests
        }

        fn rest(&mut self, seconds: f64) {
            self.tokens = (self.tokens + self.refill_per_s * seconds).min(self.size);
            self.pass(seconds, 0.0);
        }
    }

    /// A drive of a simulated disk with one rest, as `sustain` runs it, and its judgement.
    fn sustained(disk: &mut SimulatedDisk) -> BurstAllowance {
        let mut watch = RateWatch::new(0.0, AllowanceLimit::Unknown, 1.0);
        let mut rates = Vec::new();
        while rates.len() < 120 {
            rates.push(disk.drive());
            if watch.is_over(&rates) {
                break;
            }
        }
        let (steps, window_ns) = (watch.steps(&rates), (0, disk.now_ns));
        let levels = judge::levels(&rates, window_ns, &steps);
        let (first, last) = (levels.first().unwrap(), levels.last().unwrap());
        let missing = missing_tokens(&disk.passages.passages_until(empty_ns(last)), last.per_s);
        let mut rests = RestPlan {
            highest: first.per_s,
            lowest: last.per_s,
            missing,
            deadline_ns: u64::MAX,
            rests: Vec::new(),
            higher: None,
        };
        let seconds = rests.next_s(watch.fell(), disk.now_ns).unwrap();
        disk.rest(seconds);
        let drive_s = rests.drive_s(seconds).ceil();
        let driven: f64 = (0..drive_s as usize).map(|_| disk.drive()).sum();
        let requests = driven - last.per_s * drive_s;
        rests.rests.push(BucketRest { seconds, requests, is_full: rests.is_full(requests, seconds) });
        judge::burst(RateReadings {
            rates: &rates,
            window_ns,
            steps: &steps,
            higher: None,
            missing,
            rests: if watch.fell() { rests.rests } else { Vec::new() },
            class: None,
            requests: disk.passages.total(),
            seconds: disk.now_ns as f64 / 1e9,
            cpu_wait_share: 0.0,
        })
        .unwrap()
    }

    #[test]
    fn simulated_buckets_are_emptied_and_measured() {
        let is_near = |figure: f64, truth: f64| (figure / truth - 1.0).abs() < 0.05;
        for burst_per_s in [900.0, 1250.0, 3000.0] {
            for (refill_share, burst_s) in [(0.2, 3.0), (0.4, 3.0), (0.4, 7.0), (0.6, 5.5)] {
                let refill_per_s = burst_per_s * refill_share;
                let size = (burst_per_s - refill_per_s) * burst_s;
                let told = sustained(&mut SimulatedDisk::new(burst_per_s, refill_per_s, size));
                assert_eq!(told.verdict, BurstVerdict::Burst, "{told:#?}");
                let [high, low] = told.levels.as_slice() else { panic!("{told:#?}") };
                let bucket = told.bucket.as_ref().unwrap();
                assert!(is_near(high.per_s, burst_per_s) && is_near(low.per_s, refill_per_s), "{told:#?}");
                assert!(is_near(bucket.requests, size), "{size}: {bucket:#?}");
                assert!(is_near(bucket.refill_per_s, refill_per_s), "{refill_per_s}: {bucket:#?}");
            }
        }
    }

    #[test]
    fn a_simulated_disk_without_a_bucket_has_no_step() {
        let mut disk = SimulatedDisk::new(1000.0, 999.0, 1e9);
        let told = sustained(&mut disk);
        assert_eq!((told.verdict, told.bucket), (BurstVerdict::NoStep, None), "{}", told.words);
        assert!(told.words.starts_with("Sustained for "), "{}", told.words);
    }

    #[test]
    fn what_does_not_come_back_is_not_waited_for() {
        let mut rests = rests(9000.0, 6000);
        rests.rests.push(BucketRest { seconds: 9.0, requests: 300.0, is_full: false });
        assert_eq!(rests.next_s(true, 0), None);
    }

    #[test]
    fn a_large_bucket_gets_a_rest_that_is_affordable() {
        assert_eq!(rests(5.4e6, 600).next_s(true, 0), Some(60.0));
        let short = rests(5.4e6, 12).next_s(true, 0).unwrap();
        assert!((short - 6.0).abs() < 1e-9, "{short}");
        assert_eq!(rests(5.4e6, 4).next_s(true, 0), None);
        assert_eq!(rests(0.0, 40).next_s(false, 0), Some(28.0));
    }
}
