//! What servers wrote in each step of a heat map: bars below it on the same time, so that a slow second is seen beside its flush.

use fathom_record::{Point, SeriesSet};

use super::chart::{Chart, Line, Plan};
use super::grid::seconds;
use super::svg;

/// What is written, and what its series are called behind the server's number.
const WRITTEN: [(&str, &str); 4] = [
    ("journal", "journal.written_bytes"),
    ("checkpoints", "engine.checkpoint_bytes"),
    ("flushes", "flush.written_bytes"),
    ("compaction", "compaction.written_bytes"),
];
const SECOND_NS: u64 = 1_000_000_000;
const MIB: f64 = 1_048_576.0;

/// The bars below the heat map of `operation`, which has steps of `step_s` up to `end_s`; none where no server was seen to write.
pub(super) fn below(
    operation: &str,
    (step_s, end_s): (u64, u64),
    series: &SeriesSet,
    bands: &[(f64, f64)],
) -> Option<Chart> {
    let members = series.words_after("server.");
    let mut readings = 0;
    let mut lines = Vec::new();
    for (name, last) in WRITTEN {
        let of = |member: &&str| series.get(&format!("server.{member}.{last}"));
        let points: Vec<Point> =
            members.iter().filter_map(of).flat_map(|one| one.points.iter().copied()).collect();
        let values = sums(&points, step_s, end_s);
        if values.iter().flatten().any(|value| *value > 0.0) {
            readings += points.len();
            lines.push(Line { name: name.to_owned(), values });
        }
    }
    let together = if members.len() > 1 { " Of all servers together." } else { "" };
    let behind = if bands.is_empty() { "" } else { " Bands: a checkpoint ran." };
    let plan = Plan {
        id: format!("written-{operation}"),
        title: format!("What servers wrote meanwhile: {operation}"),
        unit: "MiB",
        across: seconds((1..=end_s / step_s.max(1)).map(|step| (step * step_s) as f64)),
        lines,
        is_log: false,
        readings,
        window: format!("0 to {end_s} s, in steps of {step_s} s"),
        how: format!(
            "Bytes that the engine's counters grew by in each step of the map above, by when they were read.{together}{behind}"
        ),
        bands: bands.to_vec(),
    };
    let svg = svg::bars(&plan.title, &plan.across, &plan.lines, bands);
    Some(Chart { svg, kind: "bars", ..plan.draw()? })
}

/// The sum of what was read in each step, in MiB; none where nothing was read.
fn sums(points: &[Point], step_s: u64, end_s: u64) -> Vec<Option<f64>> {
    let mut sums: Vec<Option<f64>> = vec![None; usize::try_from(end_s / step_s.max(1)).unwrap_or(0)];
    for point in points.iter().filter(|point| point.value.is_finite()) {
        let step = point.end_ns.saturating_sub(1) / SECOND_NS / step_s.max(1);
        if let Some(sum) = usize::try_from(step).ok().and_then(|step| sums.get_mut(step)) {
            *sum = Some(sum.unwrap_or(0.0) + point.value / MIB);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(series: &mut SeriesSet, name: &str, second: u64, mib: f64) {
        let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        series.add(name, "bytes", Point { begin_ns, end_ns, value: mib * MIB });
    }

    #[test]
    fn bytes_of_each_step_are_summed_over_servers_and_gaps_stay() {
        let mut series = SeriesSet::default();
        for second in [0, 1, 2, 3, 6, 7, 9] {
            add(&mut series, "server.0.journal.written_bytes", second, 1.0);
            add(&mut series, "server.1.journal.written_bytes", second, 0.5);
            add(
                &mut series,
                "server.0.engine.checkpoint_bytes",
                second,
                if second == 3 { 40.0 } else { 0.0 },
            );
            add(&mut series, "server.0.flush.written_bytes", second, 0.0);
        }
        let chart = below("read", (2, 8), &series, &[(2.0, 4.0)]).unwrap();
        assert_eq!(chart.csv, "second,journal (MiB),checkpoints (MiB)\n2,3,0\n4,3,40\n6,,\n8,3,0");
        assert_eq!((chart.id.as_str(), chart.kind), ("written-read", "bars"));
        assert!(chart.how.contains("all servers together") && chart.how.contains("Bands"), "{}", chart.how);
        assert_eq!(chart.svg.matches("class=\"area").count(), 2);
        assert_eq!(chart.svg.matches("class=\"band\"").count(), 1);
        assert!(below("read", (2, 8), &SeriesSet::default(), &[]).is_none(), "nothing was watched");
    }
}
