//! Builds one series of a recording: a counter's growth from sample to sample, or the value of a gauge.

use fathom_record::catalog::{Additivity, kind_of};
use fathom_record::{Point, SeriesSet};

/// A series, the total at the last sample, and the points since the last segment.
#[derive(Debug)]
pub(super) struct CounterTrack {
    name: String,
    unit: &'static str,
    kind: Additivity,
    /// The sample and its value.
    last: Option<(u64, f64)>,
    points: Vec<Point>,
}

impl CounterTrack {
    /// Makes the track of a series of the catalog; `None` for a name that is not in the catalog.
    pub(super) fn new(name: String) -> Option<CounterTrack> {
        let kind = kind_of(&name)?;
        Some(CounterTrack { name, unit: kind.unit, kind: kind.kind, last: None, points: Vec::new() })
    }

    /// Adds the value of a sample. A counter's point is its growth since the previous sample; it has no point if it fell, since it was
    /// reset or wrapped around.
    pub(super) fn add(&mut self, sample: u64, window_ns: Option<(u64, u64)>, value: f64) {
        let before = self.last.replace((sample, value));
        let added = match self.kind {
            Additivity::Gauge => Some(value),
            Additivity::Sum => before
                .filter(|(number, _)| number + 1 == sample)
                .map(|(_, before)| value - before)
                .filter(|added| *added >= 0.0),
        };
        if let (Some((begin_ns, end_ns)), Some(value)) = (window_ns, added) {
            self.points.push(Point { begin_ns, end_ns, value });
        }
    }

    /// Moves the points to a set of series.
    pub(super) fn drain_into(&mut self, series: &mut SeriesSet) {
        let next = Vec::with_capacity(self.points.len());
        series.extend(&self.name, self.unit, std::mem::replace(&mut self.points, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_from_sample_to_sample_and_a_gauge_is_as_read() {
        let window = |second: u64| Some((second * 10, second * 10 + 10));
        let values = |name: &str, samples: &[(u64, f64)]| {
            let mut track = CounterTrack::new(name.to_owned()).unwrap();
            samples.iter().for_each(|(number, value)| track.add(*number, window(*number), *value));
            let mut series = SeriesSet::default();
            track.drain_into(&mut series);
            let points = series.get(name).map(|series| series.points.clone()).unwrap_or_default();
            points.into_iter().map(|point| (point.begin_ns / 10, point.value)).collect::<Vec<_>>()
        };
        // The third value is of a counter that was set back, the fifth follows a sample that lacks it.
        let samples = [(0, 5.0), (1, 8.0), (2, 1.0), (3, 4.0), (5, 9.0), (6, 9.0)];
        assert_eq!(values("server.0.journal.syncs", &samples), [(1, 3.0), (3, 3.0), (6, 0.0)]);
        assert_eq!(values("host.runnable", &samples[..2]), [(0, 5.0), (1, 8.0)]);
        assert!(CounterTrack::new("no.such.series".to_owned()).is_none());
    }
}
