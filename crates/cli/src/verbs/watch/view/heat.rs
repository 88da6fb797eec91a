//! The heat strip: the distribution of operations' latencies second by second, in half decades.
//!
//! A watched client provides the median and the 99th percentile of each kind of operation; a server provides its mean of each
//! kind, for all operations of that second. Colours or characters show the share of a second's operations.

use super::reading::{EvidenceView, SECOND_NS};

/// Half decades from 10 us to 100 s.
pub(crate) const STEPS: usize = 14;
/// Seconds that are kept; the screen shows the last that fit.
pub(crate) const COLUMNS: usize = 240;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Heat {
    /// For each second, the oldest first, the share of operations in each half decade, the fastest first.
    pub(crate) columns: Vec<[f64; STEPS]>,
    /// Whether a checkpoint ran in that second.
    pub(crate) checkpoint: Vec<bool>,
    /// Whether the user has marked the second.
    pub(crate) marked: Vec<bool>,
}

impl Heat {
    /// Whether the strip has any content.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.iter().all(|column| column.iter().all(|share| *share == 0.0))
    }
}

/// The step of a latency.
fn step(latency_us: f64) -> usize {
    let halves = (latency_us.max(10.0).log10() * 2.0).floor() as usize;
    halves.saturating_sub(2).min(STEPS - 1)
}

/// The lower end of a whole decade that begins with a step.
pub(crate) fn label(step: usize) -> &'static str {
    match step / 2 {
        0 => "10us",
        1 => "100us",
        2 => "1ms",
        3 => "10ms",
        4 => "100ms",
        5 => "1s",
        _ => "10s",
    }
}

/// The strip of the last minutes.
pub(super) fn strip(look: EvidenceView<'_>) -> Heat {
    let newest = look.now_ns / SECOND_NS;
    let first = newest.saturating_sub(COLUMNS as u64 - 1).max(look.evidence.window_ns.0 / SECOND_NS);
    let count = usize::try_from(newest + 1 - first.min(newest)).unwrap_or(COLUMNS).min(COLUMNS);
    let mut heat = Heat {
        columns: vec![[0.0; STEPS]; count],
        checkpoint: vec![false; count],
        marked: vec![false; count],
    };
    let column = |end_ns: u64| {
        let second = end_ns.saturating_sub(1) / SECOND_NS;
        usize::try_from(second.checked_sub(first)?).ok().filter(|at| *at < count)
    };
    let client = look.named("client.", ".service.p99_ns");
    if client.is_empty() {
        servers(look, &mut heat, &column);
    } else {
        for operation in client {
            // Most operations are counted at the median; one in a hundred is beyond the 99th percentile.
            for (quantile, weight) in [("p50_ns", 0.98), ("p99_ns", 0.02)] {
                let rates = rates(look, &format!("client.{operation}.per_s"));
                for point in look.since(&format!("client.{operation}.service.{quantile}"), u64::MAX) {
                    let rate = rates(point.end_ns).unwrap_or(0.0);
                    put(&mut heat, column(point.end_ns), point.value / 1000.0, weight * rate);
                }
            }
        }
    }
    for shares in &mut heat.columns {
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().filter(|_| sum > 0.0).for_each(|share| *share /= sum);
    }
    for member in look.evidence.members() {
        for point in look.since(&format!("server.{member}.checkpoint.running"), u64::MAX) {
            flag(&mut heat.checkpoint, column(point.end_ns), point.value > 0.0);
        }
    }
    look.since("watch.mark", u64::MAX)
        .iter()
        .for_each(|point| flag(&mut heat.marked, column(point.end_ns), true));
    heat
}

fn servers(look: EvidenceView<'_>, heat: &mut Heat, column: &dyn Fn(u64) -> Option<usize>) {
    for member in look.evidence.members() {
        for kind in ["reads", "writes"] {
            let counts = rates(look, &format!("server.{member}.{kind}.operations"));
            for point in look.since(&format!("server.{member}.{kind}.latency_us"), u64::MAX) {
                if let Some(count) = counts(point.end_ns).filter(|count| *count > 0.0) {
                    put(heat, column(point.end_ns), point.value / count, count);
                }
            }
        }
    }
}

/// The value of a series in the window with that end.
fn rates<'e>(look: EvidenceView<'e>, name: &str) -> impl Fn(u64) -> Option<f64> + use<'e> {
    let points = look.series(name).map_or(&[][..], |series| &series.points);
    move |end_ns| {
        let at = points.partition_point(|point| point.end_ns < end_ns);
        points.get(at).filter(|point| point.end_ns == end_ns).map(|point| point.value)
    }
}

fn put(heat: &mut Heat, column: Option<usize>, latency_us: f64, weight: f64) {
    let cell = column.and_then(|at| heat.columns.get_mut(at)).and_then(|one| one.get_mut(step(latency_us)));
    if let Some(cell) = cell {
        *cell += weight;
    }
}

fn flag(flags: &mut [bool], column: Option<usize>, on: bool) {
    if let Some(flag) = column.and_then(|at| flags.get_mut(at)) {
        *flag |= on;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_find_their_half_decades() {
        assert_eq!([1.0, 10.0, 40.0, 1000.0, 3500.0, 1e9].map(step), [0, 0, 1, 4, 5, 13]);
        assert_eq!((label(4), label(5), label(13)), ("1ms", "1ms", "10s"));
    }
}
