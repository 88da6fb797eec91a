//! The points of `measurementtype=timeseries`, put together second by second.
//!
//! YCSB has points of any number of milliseconds. Here they are of whole seconds: that is how latencies come from the loops.

use std::collections::BTreeMap;

use super::metrics::metrics;
use super::points::Series;
use super::settings::{ReportSettings, Shape};
use crate::measurements::Measured;

/// Means of each metric over time; nothing where no report shows them.
#[derive(Debug, Default)]
pub struct Means {
    /// By metric and point: the sum of the latencies in microseconds, and how many they are.
    sums: BTreeMap<String, BTreeMap<u64, (f64, u64)>>,
}

impl Means {
    /// Takes note of a second, counted from when measuring began.
    pub fn add(&mut self, settings: &ReportSettings, second: u64, measured: &[(String, Measured)]) {
        if settings.shape != Shape::TimeSeries {
            return;
        }
        let width_ms = settings.granularity_ms();
        let point_ms = second.saturating_mul(1000) / width_ms * width_ms;
        for metric in metrics(settings, measured, false) {
            let count = metric.latencies.len();
            let Some(mean_ns) = metric.latencies.mean_ns() else { continue };
            let point = self.sums.entry(metric.name).or_default().entry(point_ms).or_default();
            point.0 += mean_ns / 1000.0 * count as f64;
            point.1 += count;
        }
    }

    /// The points, as the report takes them.
    pub fn series(&self) -> Vec<Series> {
        let mean = |(point_ms, (sum, count)): (&u64, &(f64, u64))| (*point_ms, sum / *count as f64);
        let series = |(metric, points): (&String, &BTreeMap<u64, (f64, u64)>)| Series {
            metric: metric.clone(),
            points: points.iter().map(mean).collect(),
        };
        self.sums.iter().map(series).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Status;
    use crate::properties::Properties;

    #[test]
    fn seconds_are_put_together_into_points() {
        let mut properties = Properties::default();
        for pair in ["measurementtype=timeseries", "timeseries.granularity=2000", "measurement.interval=both"]
        {
            properties.add_flag(pair).unwrap();
        }
        let (settings, _) = ReportSettings::of(&properties).unwrap();
        let mut means = Means::default();
        for (second, service_ns) in [(0, 1000), (1, 3000), (2, 8000)] {
            let mut measured = Measured::default();
            measured.record(Status::Ok, service_ns, 2 * service_ns);
            means.add(&settings, second, &[("READ".to_owned(), measured)]);
        }
        let series = means.series();
        assert_eq!(series[0].metric, "Intended-READ");
        assert_eq!(series[1].points, [(0, 2.0), (2000, 8.0)]);
    }
}
