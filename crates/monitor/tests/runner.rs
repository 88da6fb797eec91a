//! Tests the runner with samplers that fail, panic, hang or are late.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_monitor::table::Lane;
use fathom_monitor::{Batch, Clock, Monitor, Sampler, SamplerPlan, SamplingCost};

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
    stop_took: Duration,
}

fn run(samplers: Vec<SamplerPlan>, length: Duration) -> MonitorOutput {
    let (sink, batches) = channel();
    let monitor = Monitor::start(samplers, Clock::since(Instant::now()), sink);
    std::thread::sleep(length);
    let began = Instant::now();
    let cost = monitor.stop();
    let stop_took = began.elapsed();
    let all: Vec<Batch> = batches.try_iter().collect();
    let notes = all.iter().flat_map(|batch| batch.notes.clone()).collect();
    let readings = all.iter().flat_map(|batch| batch.readings.iter());
    let readings = readings.map(|reading| (reading.name.clone(), reading.begin_ns, reading.value)).collect();
    MonitorOutput { cost, notes, batches, readings, stop_took }
}

impl MonitorOutput {
    fn count(&self, name: &str) -> usize {
        self.readings.iter().filter(|(of, ..)| of == name).count()
    }

    fn sampler(&self, name: &str) -> &fathom_monitor::SamplerCost {
        self.cost.samplers.iter().find(|one| one.name == name).unwrap()
    }
}

#[test]
fn deadlines_are_multiples_of_the_period_and_do_not_drift() {
    let seen = run(vec![scheduled("a", 50, Lane::Fast, steady)], Duration::from_millis(1300));
    let late_ms: Vec<f64> = seen
        .readings
        .iter()
        .filter(|(name, ..)| name == "steady")
        .skip(1)
        .map(|(_, at_ns, _)| (at_ns % 50_000_000) as f64 / 1e6)
        .collect();
    let on_time = late_ms.iter().filter(|late| **late < 25.0).count();
    println!("{} samples, {on_time} of them less than 25 ms after their tick", late_ms.len());
    assert!(on_time * 2 > late_ms.len());
    let one = seen.sampler("a");
    assert!(one.samples + one.missed >= 24, "{one:?}");
    assert!(seen.count("monitor.a.cpu_us") >= 2 && seen.count("monitor.a.missed") >= 2);
    assert!(seen.cost.cpu_share() < 0.05, "{}", seen.cost.sentence());
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
    let seen = run(vec![scheduled("a", 10, Lane::Fast, failing)], Duration::from_secs(2));
    assert_eq!(seen.notes, ["a could not be read: cannot open the thing; without it there is less to say."]);
    assert!(seen.count("steady") > 0);
}

#[test]
fn a_panic_ends_one_sampler_only() {
    let broken = |_: &mut Batch| -> Result<()> { panic!("meant to") };
    let samplers =
        vec![scheduled("broken", 10, Lane::Fast, broken), scheduled("whole", 10, Lane::Fast, steady)];
    // To write a panic down with its stack takes a busy machine a second.
    let seen = run(samplers, Duration::from_secs(3));
    assert_eq!(seen.notes.len(), 1);
    assert!(seen.notes[0].starts_with("broken is no longer read"), "{:?}", seen.notes);
    assert!(seen.count("steady") > 5);
    assert_eq!(seen.sampler("broken").samples, 1);
}

#[test]
fn one_that_hangs_stalls_nobody_and_is_left_behind() {
    let hang = |_: &mut Batch| {
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    };
    let samplers =
        vec![scheduled("hangs", 1000, Lane::Own, hang), scheduled("whole", 10, Lane::Fast, steady)];
    let seen = run(samplers, Duration::from_secs(1));
    println!("stop took {:?}", seen.stop_took);
    assert!(seen.stop_took < Duration::from_secs(3));
    assert!(seen.count("steady") > 5);
    assert_eq!(seen.cost.left_behind, ["hangs"]);
    assert_eq!(seen.notes, ["hangs did not answer at the end; its last samples are missing."]);
    assert!(seen.batches.recv().is_err(), "a thread left behind holds no sink");
}

#[test]
fn missed_ticks_are_counted_and_not_made_up_for() {
    let slow = |_: &mut Batch| {
        std::thread::sleep(Duration::from_millis(55));
        Ok(())
    };
    let seen = run(vec![scheduled("slow", 10, Lane::Fast, slow)], Duration::from_millis(700));
    let one = seen.sampler("slow");
    println!("{one:?}");
    assert!(one.samples <= 13, "{one:?}");
    assert!(one.missed >= one.samples * 3, "{one:?}");
    assert!(seen.cost.sentence().contains("skipped"));
}
