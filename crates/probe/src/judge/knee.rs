//! Describes the knee in words: R1, Xmax, N* = Xmax R1 (docs/methods.md#the-knee-of-a-disk), and the model of throughput that fits.

use fathom_record::disk::{Knee, Step};
use fathom_stats::{Level, fit};
use fathom_units::{Nanos, count};

use crate::ladder::levels;

/// The verdict over a ladder's steps; `None` without a step at depth 1.
///
/// Steps in which the probe itself lacked CPU time are left out. If these steps would have shown the plateau, the verdict is
/// withheld with that reason: the remaining steps give a lower bound.
pub fn knee(phase: &str, steps: &[Step]) -> Option<Knee> {
    let clean: Vec<Step> = steps.iter().filter(|step| !step.cpu_bound()).cloned().collect();
    let starved: Vec<&Step> = steps.iter().filter(|step| step.cpu_bound()).collect();
    let trusted = if depths(&clean).any(|depth| depth == 1) { &clean } else { steps };
    let bounds = fathom_stats::knee(&levels(trusted))?;
    let replicates: Vec<Level> = trusted.iter().flat_map(replicates).collect();
    let models = fit(&replicates).ok();
    let withheld = withheld(&clean, &starved, bounds.plateau_reached);
    let rivals = models.as_ref().map_or_else(Vec::new, |models| {
        let mut rivals: Vec<_> =
            models.fits.iter().map(|fit| (fit.model.name().to_owned(), fit.aicc, fit.residual_sd)).collect();
        rivals.sort_by(|a, b| a.1.total_cmp(&b.1));
        rivals
    });
    let top = depths(trusted).max().unwrap_or(1);
    let needed = depth_for_90_pct(trusted, bounds.throughput_max_per_s).filter(|_| bounds.plateau_reached);
    let peak = models.as_ref().and_then(|models| models.peak.as_ref()).map(|peak| peak.concurrency);
    let words = words(&bounds, needed, peak, top, withheld.is_some());
    Some(Knee {
        phase: phase.to_owned(),
        latency_at_one_ns: bounds.latency_at_one_ns,
        throughput_max_per_s: bounds.throughput_max_per_s,
        concurrency: bounds.concurrency_at_knee,
        depth_for_90_pct: needed,
        model: models.map_or_else(|| "too few steps".to_owned(), |models| models.best.name().to_owned()),
        rivals,
        words,
        withheld,
    })
}

fn depths(steps: &[Step]) -> impl Iterator<Item = u32> + '_ {
    steps.iter().filter_map(|step| step.streams.first().map(|stream| stream.depth))
}

/// A step's intervals as replicates of its level.
fn replicates(step: &Step) -> Vec<Level> {
    let Some(concurrency) = step.streams.first().map(|stream| f64::from(stream.depth)) else {
        return Vec::new();
    };
    let level = |throughput: &f64| Level { concurrency, throughput: *throughput };
    step.per_interval.iter().filter(|per_s| **per_s > 0.0).map(level).collect()
}

fn withheld(clean: &[Step], starved: &[&Step], plateau_reached: bool) -> Option<String> {
    let first = starved.first()?;
    let depth = first.streams.first()?.depth;
    if plateau_reached && !clean.is_empty() && depths(clean).any(|depth| depth == 1) {
        return None;
    }
    let why = match first.run_queue_wait_pct.filter(|pct| *pct > Step::MAX_RUN_QUEUE_WAIT_PCT) {
        Some(pct) => format!("the probe waited {pct:.0} % of its time for a CPU"),
        None => {
            format!(
                "the probe used {:.0} % of the CPU it can have",
                first.generator_busy_pct.unwrap_or(100.0)
            )
        }
    };
    let from = match depth {
        1 => "even with one request in flight".to_owned(),
        _ => format!("from {depth} in flight on"),
    };
    Some(format!("the CPU and not the disk set the pace: {why}, {from}; repeat on an idle machine"))
}

/// The fewest requests in flight that gave 90 % of the plateau.
fn depth_for_90_pct(steps: &[Step], most_per_s: f64) -> Option<u32> {
    let enough = steps.iter().filter(|step| step.per_s() >= 0.9 * most_per_s);
    enough.filter_map(|step| step.streams.first().map(|stream| stream.depth)).min()
}

fn words(
    bounds: &fathom_stats::KneeEstimate,
    needed: Option<u32>,
    peak: Option<f64>,
    top: u32,
    withheld: bool,
) -> String {
    let (r1, most) = (Nanos(bounds.latency_at_one_ns as u64), count(bounds.throughput_max_per_s));
    if withheld || !bounds.plateau_reached {
        return format!(
            "One request at a time takes {r1}; throughput still grew at {top} in flight, so the disk does at least \
             {most} per second."
        );
    }
    let reached = match needed {
        Some(1) => "one request at a time already reaches 90 % of that".to_owned(),
        Some(depth) => format!("90 % of that needs {depth} in flight"),
        None => "no depth gave it steadily".to_owned(),
    };
    let mut words = format!(
        "One request at a time takes {r1}; the disk does about {most} per second (fitted), and {reached}. Requests \
         beyond that only wait: latency is then the number in flight / {most} per second."
    );
    if let Some(peak) = peak {
        words.push_str(&format!(" Beyond {} in flight throughput falls again.", count(peak)));
    }
    words
}
