//! Measures the cost of events: latency inside each of them against the calm on both its sides, the event path of
//! docs/methods.md#periodic-spikes.
//!
//! Each event (a checkpoint, a flush) is its own comparison, so that neither a drifting period nor the memory of the series passes
//! for an effect. Guards separate the event from its calm, because queues build up and drain; the calm of neighbours never
//! overlaps. It refuses a verdict under [`MIN_EVENTS`] comparisons, and if events fill more than half of the time, because then
//! there is no calm. It cannot distinguish the event from something else that always happens with it.

use crate::distribution::bootstrap_expansion;
use crate::summary::{bootstrap_mean, median, percentile_interval};
use crate::{Interval, SeededRandom, sign_flip};

/// Fewer comparisons cannot reach p = 0.4 %.
pub const MIN_EVENTS: usize = 8;
/// Calm on each side of an event.
const CALM_S: f64 = 17.0;
/// Guard between an event and its calm; a quarter of the gap between events if that is shorter.
const GUARD_S: f64 = 3.0;
/// The fewest readings on each side.
const MIN_CALM_READINGS: usize = 2;
const FLIPS: usize = 1999;
const RESAMPLES: usize = 1000;
const CONFIDENCE: f64 = 0.95;

/// Mean latency of the operations that ended in one window, about a second, in any unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyReading {
    /// Start of the window, in seconds.
    pub begin_s: f64,
    /// End of the window, in seconds.
    pub end_s: f64,
    pub mean: f64,
    /// The number of operations; readings without any are skipped.
    pub operations: f64,
}

/// One event against its calm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventCycle {
    /// Begin and end of the event, in seconds.
    pub event_s: (f64, f64),
    /// Mean log latency inside less that of the calm: D_k.
    pub difference: f64,
    /// The additional waiting of operations compared with the calm, summed over those that ended in a reading that touches the
    /// event or in the guard after it: delayed operations end when the queue has drained.
    pub excess: f64,
    /// The waiting of all operations from the middle before this event to the middle after it.
    pub waiting: f64,
}

/// The effect of the events of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct EventEffect {
    pub cycles: Vec<EventCycle>,
    /// Median time from the start of one event to the next, in seconds.
    pub period_s: f64,
    /// Median duration, in seconds.
    pub duration_s: f64,
    /// The chance of differences this high without an effect: one-sided sign-flip over cycles.
    pub p: f64,
    /// The smallest p that this many cycles can give.
    pub smallest_p: f64,
    /// The rise of latency inside, as a share of the calm: exp(mean D) - 1.
    pub effect: f64,
    /// 95 % interval of it, by resampling cycles.
    pub effect_interval: Interval,
    /// The share of all waiting, inside or not, that the events cause: excess times operations over latency times
    /// operations.
    pub share: f64,
    /// 95 % interval of it, by resampling cycles.
    pub share_interval: Interval,
}

/// The verdict on events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventVerdict {
    /// Too few of them have calm and readings on both sides.
    TooFew {
        cycles: Vec<EventCycle>,
    },
    /// They last longer than half of their interval, so that there is no calm to compare with.
    Continuous {
        /// The median share of the interval from begin to begin that an event fills.
        busy_share: f64,
    },
    Judged(EventEffect),
}

/// Compares latency inside `events` (begin and end, in seconds; they may overlap and come in any order) with the
/// calm around them.
pub fn paired_events(
    readings: &[LatencyReading],
    events: &[(f64, f64)],
    stream: &mut SeededRandom,
) -> EventVerdict {
    let events = merged(events);
    let starts: Vec<f64> = events.iter().map(|event| event.0).collect();
    let periods: Vec<f64> = starts.windows(2).map(|pair| pair.iter().fold(0.0, |a, b| b - a)).collect();
    let durations: Vec<f64> = events.iter().map(|event| event.1 - event.0).collect();
    let busy: Vec<f64> =
        durations.iter().zip(&periods).map(|(duration_s, period_s)| duration_s / period_s).collect();
    if let Some(busy_share) = median(&busy).filter(|share| *share > 0.5) {
        return EventVerdict::Continuous { busy_share };
    }
    let used: Vec<LatencyReading> =
        readings.iter().filter(|reading| reading.mean > 0.0 && reading.operations > 0.0).copied().collect();
    let cycles: Vec<EventCycle> =
        (0..events.len()).filter_map(|index| cycle(&used, &events, index)).collect();
    let total: f64 = used.iter().map(|reading| reading.mean * reading.operations).sum();
    let typical = median(&periods).zip(median(&durations)).filter(|_| cycles.len() >= MIN_EVENTS);
    let effect = typical.and_then(|typical| effect(&cycles, typical, total, stream));
    effect.map_or(EventVerdict::TooFew { cycles }, EventVerdict::Judged)
}

/// The events in order, with those that touch merged.
fn merged(events: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut ordered: Vec<(f64, f64)> = events.iter().copied().filter(|event| event.1 > event.0).collect();
    ordered.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut merged: Vec<(f64, f64)> = Vec::with_capacity(ordered.len());
    for event in ordered {
        match merged.last_mut() {
            Some(last) if event.0 <= last.1 => last.1 = last.1.max(event.1),
            _ => merged.push(event),
        }
    }
    merged
}

/// One event against the calm between it and the middles of the gaps to its neighbours.
fn cycle(readings: &[LatencyReading], events: &[(f64, f64)], index: usize) -> Option<EventCycle> {
    let (begin_s, end_s) = *events.get(index)?;
    let previous_s = index.checked_sub(1).and_then(|before| events.get(before)).map(|event| event.1);
    let next_s = events.get(index + 1).map(|event| event.0);
    let far_s = 2.0 * (CALM_S + GUARD_S);
    let gap_before_s = previous_s.map_or(far_s, |previous_s| begin_s - previous_s);
    let gap_after_s = next_s.map_or(far_s, |next_s| next_s - end_s);
    let guard = |gap_s: f64| GUARD_S.min(gap_s / 4.0);
    let reach = |gap_s: f64| (guard(gap_s) + CALM_S).min(gap_s / 2.0);
    let before = between(readings, begin_s - reach(gap_before_s), begin_s - guard(gap_before_s));
    let after = between(readings, end_s + guard(gap_after_s), end_s + reach(gap_after_s));
    if before.len().min(after.len()) < MIN_CALM_READINGS {
        return None;
    }
    let log_mean = |calm: &[LatencyReading]| {
        calm.iter().map(|reading| reading.mean.ln()).sum::<f64>() / calm.len() as f64
    };
    let calm_log = f64::midpoint(log_mean(before), log_mean(after));
    let sum = |of: fn(&LatencyReading) -> f64, calm: &[LatencyReading]| calm.iter().map(of).sum::<f64>();
    let waiting = |reading: &LatencyReading| reading.mean * reading.operations;
    let operations = sum(|reading| reading.operations, before) + sum(|reading| reading.operations, after);
    let calm_mean = (sum(waiting, before) + sum(waiting, after)) / operations;
    let from = readings.partition_point(|reading| reading.end_s <= begin_s);
    let inside = from..readings.partition_point(|reading| reading.begin_s < end_s).max(from);
    let drained_s = end_s + guard(gap_after_s);
    let drained = readings.partition_point(|reading| middle_s(reading) < drained_s).max(inside.end);
    // A mean counts by the part of its reading that lies inside.
    let (mut weight, mut logs) = (0.0, 0.0);
    for reading in readings.get(inside).unwrap_or(&[]) {
        let overlap_s = reading.end_s.min(end_s) - reading.begin_s.max(begin_s);
        weight += overlap_s;
        logs += overlap_s * reading.mean.ln();
    }
    // A sum counts whole: the calm part of a reading adds nothing to it.
    let held_up = readings.get(from..drained).unwrap_or(&[]);
    let excess = held_up.iter().map(|reading| (reading.mean - calm_mean) * reading.operations).sum();
    let around = between(readings, begin_s - gap_before_s / 2.0, end_s + gap_after_s / 2.0);
    (weight > 0.0).then(|| EventCycle {
        event_s: (begin_s, end_s),
        difference: logs / weight - calm_log,
        excess,
        waiting: sum(waiting, around),
    })
}

fn middle_s(reading: &LatencyReading) -> f64 {
    f64::midpoint(reading.begin_s, reading.end_s)
}

/// The readings whose middles lie between two times.
fn between(readings: &[LatencyReading], begin_s: f64, end_s: f64) -> &[LatencyReading] {
    let from = readings.partition_point(|reading| middle_s(reading) < begin_s);
    let to = readings.partition_point(|reading| middle_s(reading) < end_s);
    readings.get(from..to).unwrap_or(&[])
}

fn effect(
    cycles: &[EventCycle],
    (period_s, duration_s): (f64, f64),
    total_waiting: f64,
    stream: &mut SeededRandom,
) -> Option<EventEffect> {
    let differences: Vec<f64> = cycles.iter().map(|cycle| cycle.difference).collect();
    let test = sign_flip(&differences, FLIPS, stream)?;
    let logs = bootstrap_mean(&differences, CONFIDENCE, RESAMPLES, stream)?;
    let ratio = |cycles: &mut dyn Iterator<Item = EventCycle>| {
        let (excess, waiting) = cycles
            .fold((0.0, 0.0), |(excess, waiting), cycle| (excess + cycle.excess, waiting + cycle.waiting));
        excess / waiting
    };
    // Operations outside of all cycles wait too.
    let covered = cycles.iter().map(|cycle| cycle.waiting).sum::<f64>() / total_waiting;
    let share = covered * ratio(&mut cycles.iter().copied());
    let expansion = bootstrap_expansion(cycles.len(), cycles.len() - 1, CONFIDENCE);
    let draws = (0..RESAMPLES).map(|_| {
        let drawn = covered * ratio(&mut (0..cycles.len()).filter_map(|_| stream.pick(cycles)));
        share + expansion * (drawn - share)
    });
    Some(EventEffect {
        share_interval: percentile_interval(draws.collect(), CONFIDENCE)?,
        p: test.p_upward,
        smallest_p: test.smallest_p,
        effect: test.mean.exp_m1(),
        effect_interval: Interval { low: logs.low.exp_m1(), high: logs.high.exp_m1() },
        share,
        period_s,
        duration_s,
        cycles: cycles.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 operations a second of 2 ms, and 3 ms inside the events.
    fn stepped(events: &[(f64, f64)], seconds: usize) -> Vec<LatencyReading> {
        let inside = |s: f64| events.iter().any(|event| event.0 <= s && s < event.1);
        (0..seconds)
            .map(|second| {
                let begin_s = second as f64;
                let mean = if inside(begin_s) { 3.0 } else { 2.0 };
                LatencyReading { begin_s, end_s: begin_s + 1.0, mean, operations: 1000.0 }
            })
            .collect()
    }

    fn every(period_s: f64, duration_s: f64, count: usize) -> Vec<(f64, f64)> {
        (0..count)
            .map(|k| 25.0 + k as f64 * period_s)
            .map(|begin_s| (begin_s, begin_s + duration_s))
            .collect()
    }

    /// 10 events of 6 s: +50 %, 60 000 excess ms of 600 s * 1000 * 2 ms + 60 000 ms.
    #[test]
    fn effect_and_share_without_noise_are_exact() {
        let events = every(60.0, 6.0, 10);
        let verdict = paired_events(&stepped(&events, 600), &events, &mut SeededRandom::from_seed(1));
        let EventVerdict::Judged(effect) = verdict else { panic!("{verdict:?}") };
        assert_eq!((effect.cycles.len(), effect.period_s, effect.duration_s), (10, 60.0, 6.0));
        assert!(
            (effect.effect - 0.5).abs() < 1e-9 && (effect.share - 60.0 / 1260.0).abs() < 1e-9,
            "{effect:?}"
        );
        assert!((effect.p - 1.0 / 1024.0).abs() < 1e-12 && effect.p == effect.smallest_p);
        let near = |interval: Interval, value: f64| {
            (interval.low - value).abs().max((interval.high - value).abs()) < 1e-9
        };
        assert!(
            near(effect.effect_interval, 0.5) && effect.share_interval.contains(effect.share),
            "{effect:?}"
        );
    }

    /// Events of a third of a second cost all that their second adds, and the second in which what they held up ends.
    #[test]
    fn short_events_are_seen_in_the_second_they_fall_in() {
        let whole = every(12.0, 1.0, 40);
        let short: Vec<(f64, f64)> = whole.iter().map(|event| (event.0 + 0.4, event.0 + 0.7)).collect();
        let verdict = paired_events(&stepped(&whole, 520), &short, &mut SeededRandom::from_seed(1));
        let EventVerdict::Judged(effect) = verdict else { panic!("{verdict:?}") };
        assert!((effect.effect - 0.5).abs() < 1e-9 && effect.p <= 0.001 && effect.cycles.len() == 40);
        assert!((effect.share - 40.0 / 1080.0).abs() < 1e-9, "{effect:?}");
        let mut drained = stepped(&whole, 520);
        whole.iter().for_each(|event| drained[event.1 as usize].mean = 4.0);
        let verdict = paired_events(&drained, &short, &mut SeededRandom::from_seed(1));
        let EventVerdict::Judged(effect) = verdict else { panic!("{verdict:?}") };
        assert!((effect.share - 120.0 / 1160.0).abs() < 1e-9, "{effect:?}");
    }

    #[test]
    fn too_few_events_and_continuous_ones_are_refused() {
        let mut stream = SeededRandom::from_seed(1);
        let few = every(60.0, 6.0, 7);
        let verdict = paired_events(&stepped(&few, 600), &few, &mut stream);
        assert!(matches!(verdict, EventVerdict::TooFew { cycles } if cycles.len() == 7));
        let long = every(60.0, 40.0, 9);
        let verdict = paired_events(&stepped(&long, 600), &long, &mut stream);
        assert!(
            matches!(verdict, EventVerdict::Continuous { busy_share } if (busy_share - 2.0 / 3.0).abs() < 1e-9)
        );
        assert_eq!(paired_events(&[], &[], &mut stream), EventVerdict::TooFew { cycles: vec![] });
        assert_eq!(merged(&[(5.0, 6.0), (1.0, 3.0), (2.0, 4.0), (9.0, 9.0)]), [(1.0, 4.0), (5.0, 6.0)]);
    }

    /// The effect's and the share's 95 % intervals over 300 experiments of 12 noisy events: 95 % stays above 266
    /// with probability 0.9999, 100 % of coverage would mean useless intervals.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let (events, mut stream) = (every(40.0, 5.0, 12), SeededRandom::from_seed(7));
        let (mut effects, mut shares) = (0, 0);
        for _ in 0..300 {
            let mut readings = stepped(&events, 520);
            readings.iter_mut().for_each(|reading| reading.mean *= (0.1 * stream.normal()).exp());
            let EventVerdict::Judged(effect) = paired_events(&readings, &events, &mut stream) else {
                panic!()
            };
            effects += i32::from(effect.effect_interval.contains(0.5));
            shares += i32::from(effect.share_interval.contains(60.0 / 1100.0));
        }
        assert!((267..=298).contains(&effects) && (267..=299).contains(&shares), "{effects} {shares}");
    }
}
