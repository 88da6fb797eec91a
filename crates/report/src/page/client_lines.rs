//! What the load's client saw, over time: a chart of each load's rates and one of its latencies, a line for each kind of operation.

use std::collections::BTreeMap;

use fathom_record::{Point, SeriesSet};

use super::chart::{Line, Plan};
use super::grid::Grid;

/// What a chart of a load shows: its name, what its series end with, title, unit, factor, whether by decades, how.
const SHOWN: [(&str, &str, &str, &str, f64, bool, &str); 4] = [
    (
        "rate",
        ".per_s",
        "Operations of the client",
        "1/s",
        1.0,
        false,
        "Operations that succeeded, per second.",
    ),
    (
        "response-p99",
        ".response.p99_ns",
        "99th percentile of the client's response time",
        "µs",
        1e-3,
        true,
        "Of the operations that ended in a second, from when each was due: what a user waits. Steps longer than a second show the \
         mean of their seconds' percentiles.",
    ),
    (
        "response-mean",
        ".response.mean_ns",
        "Mean response time of the client",
        "µs",
        1e-3,
        true,
        "From when each operation was due: what a user waits.",
    ),
    (
        "service-mean",
        ".service.mean_ns",
        "Mean service time of the client",
        "µs",
        1e-3,
        true,
        "From the send: what the network and the server took.",
    ),
];

/// The charts; none where no client was recorded.
pub(super) fn plans(series: &SeriesSet, grid: Grid) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (id, ending, title, unit, factor, is_log, how) in SHOWN {
        let mut loads: BTreeMap<&str, Vec<(&str, &[Point])>> = BTreeMap::new();
        for (name, one) in series.starting("client.") {
            let Some(operation) = name.strip_suffix(ending) else { continue };
            let (load, operation) = operation.rsplit_once('.').unwrap_or(("", operation));
            if !operation.is_empty() && operation != "failed" {
                loads.entry(load).or_default().push((operation, &one.points));
            }
        }
        for (load, operations) in loads {
            let mut readings = 0;
            let mut lines = Vec::new();
            for (operation, points) in operations {
                readings += points.len();
                let scaled = points.iter().map(|point| Point { value: point.value * factor, ..*point });
                lines.push(Line { name: operation.to_owned(), values: grid.means(scaled) });
            }
            let (id, title) = match load {
                "" => (format!("client-{id}"), title.to_owned()),
                load => (format!("client-{id}-{load}"), format!("{title}: {load}")),
            };
            plans.push(Plan {
                id,
                title,
                unit,
                across: grid.across(),
                lines,
                is_log,
                readings,
                window: grid.window(),
                how: how.to_owned(),
                bands: Vec::new(),
            });
        }
    }
    plans
}
