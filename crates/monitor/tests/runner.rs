//! Tests the runner with samplers that fail or panic, and in `timed` on a real machine.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_monitor::table::Lane;
use fathom_monitor::{Batch, Clock, Monitor, Sampler, SamplerPlan, SamplingCost};
use fathom_testkit::TIMEOUT;

/// A sampler made of a function.
struct FunctionSampler<F>(&'static str, F);

impl<F: FnMut(&mut Batch) -> Result<()> + Send> Sampler for FunctionSampler<F> {
    fn name(&self) -> String {
        self.0.into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        self.1(batch)
    }
}

fn scheduled<F>(name: &'static str, period_ms: u64, lane: Lane, sample: F) -> SamplerPlan
where
    F: FnMut(&mut Batch) -> Result<()> + Send + 'static,
{
    let sampler = Box::new(FunctionSampler(name, sample));
    let period = Duration::from_millis(period_ms);
    SamplerPlan { sampler, period, lane, without: "less to say".into() }
}

/// A gauge that is always 1.
fn steady(batch: &mut Batch) -> Result<()> {
    let at_ns = batch.clock.now_ns();
    batch.put("steady", "1", (at_ns, at_ns + 1), 1.0);
    Ok(())
}

struct MonitorOutput {
    cost: SamplingCost,
    notes: Vec<String>,
    batches: Receiver<Batch>,
    readings: Vec<(String, u64, f64)>,
}

/// Runs samplers until `is_enough` of the output so far.
fn run_until(samplers: Vec<SamplerPlan>, is_enough: impl Fn(&MonitorOutput) -> bool) -> MonitorOutput {
    let (sink, batches) = channel();
    let monitor = Monitor::start(samplers, Clock::since(Instant::now()), sink);
    let (notes, readings) = (Vec::new(), Vec::new());
    let mut output = MonitorOutput { cost: SamplingCost::default(), notes, batches, readings };
    while !is_enough(&output) {
        let batch = output.batches.recv().unwrap();
        output.add(batch);
    }
    output.cost = monitor.stop_within(TIMEOUT);
    while let Ok(batch) = output.batches.try_recv() {
        output.add(batch);
    }
    output
}

impl MonitorOutput {
    fn add(&mut self, batch: Batch) {
        self.notes.extend(batch.notes);
        let readings = batch.readings.into_iter();
        self.readings.extend(readings.map(|reading| (reading.name, reading.begin_ns, reading.value)));
    }

    fn count(&self, name: &str) -> usize {
        self.readings.iter().filter(|(of, ..)| of == name).count()
    }

    fn sampler(&self, name: &str) -> &fathom_monitor::SamplerCost {
        self.cost.samplers.iter().find(|one| one.name == name).unwrap()
    }
}

#[test]
fn each_second_the_cost_of_a_sampler_is_a_reading() {
    let samplers = vec![scheduled("a", 50, Lane::Fast, steady)];
    let seen = run_until(samplers, |seen| seen.count("monitor.a.cpu_us") >= 2);
    assert!(seen.count("monitor.a.missed") >= 2 && seen.count("steady") > 0);
    let one = seen.sampler("a");
    assert_eq!(seen.count("steady") as u64, one.samples, "{one:?}");
    assert!(seen.batches.recv().is_err(), "the sink is let go");
}

#[test]
fn a_sampler_that_fails_is_noted_once_and_asked_again() {
    let mut calls = 0;
    let failing = move |batch: &mut Batch| {
        calls += 1;
        if calls < 5 {
            return Err(Error::new(Kind::Permission, "cannot open the thing"));
        }
        steady(batch)
    };
    let samplers = vec![scheduled("a", 10, Lane::Fast, failing)];
    let seen = run_until(samplers, |seen| seen.count("steady") > 0);
    assert_eq!(seen.notes, ["a could not be read: cannot open the thing; without it there is less to say."]);
}

#[test]
fn a_panic_ends_one_sampler_only() {
    let broken = |_: &mut Batch| -> Result<()> { panic!("meant to") };
    let samplers =
        vec![scheduled("broken", 10, Lane::Fast, broken), scheduled("whole", 10, Lane::Fast, steady)];
    let seen = run_until(samplers, |seen| !seen.notes.is_empty() && seen.count("steady") > 5);
    assert_eq!(seen.notes.len(), 1);
    assert!(seen.notes[0].starts_with("broken is no longer read"), "{:?}", seen.notes);
    assert_eq!(seen.sampler("broken").samples, 1);
}

/// Ticks, lateness, missed ticks and the wait of a stop have exact tests in simulated time (`lane_tests`, `runner`).
mod timed {
    use super::*;

    #[test]
    fn ticks_are_kept_and_cost_little() {
        let samplers = vec![scheduled("a", 50, Lane::Fast, steady)];
        let seen = run_until(samplers, |seen| seen.count("monitor.a.cpu_us") >= 2);
        let steady = seen.readings.iter().filter(|(name, ..)| name == "steady").skip(1);
        let late_ms: Vec<f64> = steady.map(|(_, at_ns, _)| (at_ns % 50_000_000) as f64 / 1e6).collect();
        let on_time = late_ms.iter().filter(|late| **late < 25.0).count();
        println!("{} samples, {on_time} of them less than 25 ms after their tick", late_ms.len());
        assert!(on_time * 2 > late_ms.len());
        assert!(seen.cost.cpu_share() < 0.05, "{}", seen.cost.sentence());
    }

    #[test]
    fn a_stop_does_not_wait_for_one_that_hangs() {
        let (release, hung) = channel::<()>();
        let hang = move |_: &mut Batch| {
            let _ = hung.recv();
            Ok(())
        };
        let (sink, _batches) = channel();
        let samplers = vec![scheduled("hangs", 1000, Lane::Own, hang)];
        let monitor = Monitor::start(samplers, Clock::since(Instant::now()), sink);
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        assert_eq!(monitor.stop().left_behind, ["hangs"]);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        drop(release);
    }
}
