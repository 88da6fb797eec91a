//! The noise of a figure within its own run: the same figure over parts of the run, as a Hodges-Lehmann estimate with its interval.
//!
//! Throughput comes from the counts of the latency logs, so that a second in which nothing ended counts as one. A percentile of a part is
//! that of the part's whole histogram. Fewer than six parts allow no interval. The interval does not include the difference between two runs.

use fathom_record::Run;
use fathom_record::comparison::RunNoise;
use fathom_record::disk::{Entry, Step};
use fathom_record::figure::{Figure, load_subject, step_subject};
use fathom_record::load::Load;
use fathom_stats::{Histogram, SeededRandom, hodges_lehmann};

/// The number of parts of a run; more parts would not be independent of their neighbours.
const PARTS: usize = 12;
/// Fewer parts cannot reject anything at 95 %.
const MIN_PARTS: usize = 6;

/// One log: windows with their histograms.
type HistogramLog = Vec<((u64, u64), Histogram)>;

/// The noise of a figure within its run; `None` if its parts are not available.
pub(crate) fn run_noise(run: &Run, results: &[Entry], figure: &Figure) -> Option<RunNoise> {
    if !figure.parts.is_empty() {
        return of_parts(&blocks(&figure.parts));
    }
    of_parts(&of_load(run, results, figure).or_else(|| of_step(run, results, figure))?)
}

fn of_parts(parts: &[f64]) -> Option<RunNoise> {
    if parts.len() < MIN_PARTS {
        return None;
    }
    let shift = hodges_lehmann(parts, 0.95, 999, &mut SeededRandom::from_seed(1))?;
    let interval = shift.interval?;
    Some(RunNoise { parts: parts.len(), estimate: shift.estimate, low: interval.low, high: interval.high })
}

/// Means of neighbouring values, at most [`PARTS`] of them.
fn blocks(values: &[f64]) -> Vec<f64> {
    let size = values.len().div_ceil(PARTS).max(1);
    // A short remainder would weigh as much as a whole part.
    values.chunks_exact(size).filter_map(fathom_stats::mean).collect()
}

fn of_load(run: &Run, results: &[Entry], figure: &Figure) -> Option<Vec<f64>> {
    let loads: Vec<&Load> = results
        .iter()
        .filter_map(|entry| if let Entry::Load(load) = entry { Some(load) } else { None })
        .collect();
    let alike = || loads.iter().filter(|load| load_subject(load) == figure.subject);
    let load = alike().next().filter(|_| alike().count() == 1)?;
    let prefix = if loads.len() == 1 { String::new() } else { tag(load) };
    if figure.metric == "throughput" {
        let logs = load.by_operation.iter().filter_map(|one| log(run, &prefix, &one.name.to_lowercase()));
        return rates(&logs.collect::<Vec<_>>());
    }
    let (operation, what) = figure.metric.rsplit_once(' ')?;
    latencies(&log(run, &prefix, operation)?, what)
}

/// Latencies of a step of one stream, from the one log of its depth and kind whose intervals all lie within the step.
fn of_step(run: &Run, results: &[Entry], figure: &Figure) -> Option<Vec<f64>> {
    let (kind, what) = figure.metric.rsplit_once(' ')?;
    let steps =
        results.iter().filter_map(|entry| if let Entry::Step(step) = entry { Some(step) } else { None });
    let mut alike = steps.filter(|step| step_subject(step) == figure.subject);
    let (Some(step), None) = (alike.next(), alike.next()) else { return None };
    let ([stream], None) = (step.streams.as_slice(), step.streams.iter().find_map(|one| one.rate_per_s))
    else {
        return None;
    };
    let end = format!("-d{}-{kind}", stream.depth);
    let names = run.latency_names().ok()?;
    let named = names.iter().filter(|name| name.contains(&stream.pattern) && name.ends_with(&end));
    let mut logs =
        named.filter_map(|name| run.latency_intervals(name).ok()).filter(|log| lies_within(log, step));
    let (Some(log), None) = (logs.next(), logs.next()) else { return None };
    latencies(&log, what)
}

fn lies_within(log: &HistogramLog, step: &Step) -> bool {
    // Logs count in milliseconds, rounded down.
    const SLACK_NS: u64 = 5_000_000;
    let (begin_ns, end_ns) = (step.begin_ns.saturating_sub(SLACK_NS), step.end_ns.saturating_add(SLACK_NS));
    !log.is_empty() && log.iter().all(|((begin, end), _)| *begin >= begin_ns && *end <= end_ns)
}

/// The prefix of the logs of one load among several (`loading.rs` of the command line).
fn tag(load: &Load) -> String {
    let plain = |text: &str| -> String {
        text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    };
    format!("{}.{}.", plain(&load.server), plain(&load.workload))
}

fn log(run: &Run, prefix: &str, operation: &str) -> Option<HistogramLog> {
    let read = |clock: &str| run.latency_intervals(&format!("{prefix}{operation}.{clock}")).ok();
    read("response").or_else(|| read("service")).filter(|intervals| !intervals.is_empty())
}

/// Begin and length of the parts of the time that intervals cover.
fn grid<'i>(
    intervals: impl Iterator<Item = &'i ((u64, u64), Histogram)> + Clone,
) -> Option<(u64, u64, usize)> {
    let begin_ns = intervals.clone().map(|((begin_ns, _), _)| *begin_ns).min()?;
    let end_ns = intervals.clone().map(|((_, end_ns), _)| *end_ns).max()?;
    let longest_ns = intervals.map(|((begin, end), _)| end.saturating_sub(*begin)).max()?.max(1);
    let seconds = end_ns.saturating_sub(begin_ns) / longest_ns;
    let parts = usize::try_from(seconds).unwrap_or(usize::MAX).min(PARTS);
    // Parts are whole intervals; a remainder at the end is not a part.
    let length_ns = longest_ns * (seconds / parts.max(1) as u64);
    (parts > 0).then_some((begin_ns, length_ns, parts))
}

fn part_of(window_ns: (u64, u64), begin_ns: u64, length_ns: u64) -> usize {
    // Assigned by its middle: windows begin a little late.
    let middle_ns = window_ns.0 / 2 + window_ns.1 / 2;
    usize::try_from(middle_ns.saturating_sub(begin_ns) / length_ns.max(1)).unwrap_or(usize::MAX)
}

fn rates(logs: &[HistogramLog]) -> Option<Vec<f64>> {
    let (begin_ns, length_ns, parts) = grid(logs.iter().flatten())?;
    let mut counts = vec![0u64; parts];
    for (window_ns, histogram) in logs.iter().flatten() {
        if let Some(count) = counts.get_mut(part_of(*window_ns, begin_ns, length_ns)) {
            *count += histogram.len();
        }
    }
    Some(counts.into_iter().map(|count| count as f64 / (length_ns as f64 / 1e9)).collect())
}

fn latencies(log: &HistogramLog, what: &str) -> Option<Vec<f64>> {
    let (begin_ns, length_ns, parts) = grid(log.iter())?;
    let mut merged = vec![Histogram::new(); parts];
    for (window_ns, histogram) in log {
        if let Some(part) = merged.get_mut(part_of(*window_ns, begin_ns, length_ns)) {
            part.merge(histogram);
        }
    }
    let value = |histogram: &Histogram| match what {
        "mean" => histogram.mean_ns(),
        "p50" => histogram.quantile_ns(0.5).map(|ns| ns as f64),
        "p99" => histogram.supported_quantile(0.99).map(|ns| ns.get() as f64),
        "p99.9" => histogram.supported_quantile(0.999).map(|ns| ns.get() as f64),
        _ => None,
    };
    merged.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn second(number: u64, count: u64, latency_ns: u64) -> ((u64, u64), Histogram) {
        let mut histogram = Histogram::new();
        (0..count).for_each(|_| histogram.record(latency_ns));
        ((number * SECOND_NS, (number + 1) * SECOND_NS), histogram)
    }

    /// Seconds 6 to 11 of 24 are missing: nothing ended in them.
    #[test]
    fn a_stalled_second_counts_as_one() {
        let log: HistogramLog =
            (0..24).filter(|n| !(6..12).contains(n)).map(|n| second(n, 100, 1000)).collect();
        let rates = rates(std::slice::from_ref(&log)).unwrap();
        assert_eq!(rates.len(), 12);
        assert_eq!(rates.iter().filter(|rate| **rate == 0.0).count(), 3);
        assert!((rates[0] - 100.0).abs() < 1e-9);
        assert_eq!(latencies(&log, "p50"), None, "a part without operations has no median");
    }

    #[test]
    fn parts_have_their_own_percentiles_and_few_bear_no_interval() {
        let log: HistogramLog = (0..30).map(|n| second(n, 2000, 1000 * (n + 1))).collect();
        let medians = latencies(&log, "p50").unwrap();
        assert_eq!(medians.len(), 12);
        assert!(medians.windows(2).all(|pair| pair[0] < pair[1]), "{medians:?}");
        let noise = of_parts(&medians).unwrap();
        assert!(noise.low < noise.estimate && noise.estimate < noise.high, "{noise:?}");
        assert_eq!(of_parts(&medians[..5]), None);
        assert_eq!(blocks(&[1.0; 30]).len(), 10);
    }
}
