//! Series of readings: one reading with its name, unit, window and value, and all series of a run by name, in which rules look up
//! their input.
//!
//! During a run readings are JSON lines, because a Parquet file without its footer cannot be read at all
//! and a killed run must be readable. [`crate::seal`] turns them into Parquet files, part by part. Points are in the order of their windows'
//! ends. No values are interpolated: a value that was not read is absent.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One value of one series over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The name of the reading (`disk.read.per_s`, `device.vda.r_await_ms`).
    pub name: String,
    /// Its unit (`1/s`, `ns`, `MiB/s`, `%`).
    pub unit: String,
    /// Start of the window, nanoseconds since the run's start.
    pub begin_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// The value; a reading that is not a number is not written at all.
    pub value: f64,
}

impl Reading {
    /// A reading over a window.
    pub fn new(name: impl Into<String>, unit: &str, window_ns: (u64, u64), value: f64) -> Self {
        Reading {
            name: name.into(),
            unit: unit.to_owned(),
            begin_ns: window_ns.0,
            end_ns: window_ns.1,
            value,
        }
    }
}

/// One value over one window, in nanoseconds since the run's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Start of the window.
    pub begin_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    pub value: f64,
}

impl Point {
    /// The value of a sum over the seconds of its window, or `None` for a window without length.
    pub fn per_s(&self) -> Option<f64> {
        let seconds = self.end_ns.checked_sub(self.begin_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        Some(self.value / seconds)
    }
}

/// The points of two series that were read together: those whose windows end at the same time.
pub fn read_together<'p>(
    points: &'p [Point],
    others: &'p [Point],
) -> impl Iterator<Item = (&'p Point, &'p Point)> {
    let mut others = others.iter().peekable();
    points.iter().filter_map(move |point| {
        while others.next_if(|other| other.end_ns < point.end_ns).is_some() {}
        let other = others.peek().filter(|other| other.end_ns == point.end_ns)?;
        Some((point, *other))
    })
}

/// The points of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The unit of its values.
    pub unit: String,
    /// Its points, by the ends of their windows.
    pub points: Vec<Point>,
}

impl Series {
    /// The points whose windows end within `(begin_ns, end_ns]`.
    pub fn within(&self, begin_ns: u64, end_ns: u64) -> &[Point] {
        let from = self.points.partition_point(|point| point.end_ns <= begin_ns);
        let to = self.points.partition_point(|point| point.end_ns <= end_ns);
        self.points.get(from..to).unwrap_or(&[])
    }
}

/// The series of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesSet {
    series: BTreeMap<String, Series>,
}

impl SeriesSet {
    /// Adds one reading; they may come in any order.
    pub fn add(&mut self, name: &str, unit: &str, point: Point) {
        if !self.series.contains_key(name) {
            self.series.insert(name.to_owned(), Series { unit: unit.to_owned(), points: Vec::new() });
        }
        let Some(series) = self.series.get_mut(name) else { return };
        let at = match series.points.last() {
            Some(last) if last.end_ns > point.end_ns => {
                series.points.partition_point(|other| other.end_ns <= point.end_ns)
            }
            _ => series.points.len(),
        };
        series.points.insert(at, point);
    }

    /// Adds the points of one series, which come in the order of their windows' ends.
    pub fn extend(&mut self, name: &str, unit: &str, points: impl IntoIterator<Item = Point>) {
        // A vector is not copied.
        let mut points: Vec<Point> = points.into_iter().collect();
        if points.is_empty() {
            return;
        }
        let empty = || Series { unit: unit.to_owned(), points: Vec::new() };
        let series = self.series.entry(name.to_owned()).or_insert_with(empty);
        match series.points.is_empty() {
            true => series.points = points,
            false => series.points.append(&mut points),
        }
        if !series.points.is_sorted_by_key(|point| point.end_ns) {
            series.points.sort_by_key(|point| point.end_ns);
        }
    }

    pub fn get(&self, name: &str) -> Option<&Series> {
        self.series.get(name)
    }

    /// Every series whose name starts with `prefix`, in the order of names, without the prefix.
    pub fn starting<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s Series)> {
        let from = self.series.range(prefix.to_owned()..);
        from.map_while(move |(name, series)| Some((name.strip_prefix(prefix)?, series)))
    }

    /// The next word of the names that start with `prefix`, each once, in the order of names: for example, the servers or devices of a run.
    pub fn words_after<'s>(&'s self, prefix: &'s str) -> Vec<&'s str> {
        let mut words: Vec<&str> =
            self.starting(prefix).filter_map(|(rest, _)| rest.split('.').next()).collect();
        words.dedup();
        words
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.series.iter().map(|(name, series)| (name.as_str(), series))
    }

    /// Removes all points whose windows ended at or before `end_ns`, for a live view that only shows recent values.
    pub fn forget_until(&mut self, end_ns: u64) {
        for series in self.series.values_mut() {
            let gone = series.points.partition_point(|point| point.end_ns <= end_ns);
            series.points.drain(..gone);
        }
        self.series.retain(|_, series| !series.points.is_empty());
    }
}

impl<'r> FromIterator<&'r Reading> for SeriesSet {
    fn from_iter<I: IntoIterator<Item = &'r Reading>>(readings: I) -> Self {
        let mut set = SeriesSet::default();
        for reading in readings {
            let Reading { name, unit, begin_ns, end_ns, value } = reading;
            set.add(name, unit, Point { begin_ns: *begin_ns, end_ns: *end_ns, value: *value });
        }
        set
    }
}

/// The largest file of readings that is read.
pub(crate) const MAX_SERIES_BYTES: u64 = 16 << 30;

/// A callback for each reading of a series: its name, its unit, its value with the window.
pub(crate) type ReadingSink<'t> = &'t mut dyn FnMut(&str, &str, Point);

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, end_ns: u64, value: f64) -> Reading {
        Reading::new(name, "1", (end_ns - 1, end_ns), value)
    }

    #[test]
    fn points_are_ordered_and_found_by_window_and_prefix() {
        let readings =
            [reading("a.x", 3, 3.0), reading("a.x", 1, 1.0), reading("a.x", 2, 2.0), reading("b", 1, 9.0)];
        let mut set: SeriesSet = readings.iter().collect();
        let values = |points: &[Point]| points.iter().map(|point| point.value).collect::<Vec<_>>();
        assert_eq!(values(&set.get("a.x").unwrap().points), [1.0, 2.0, 3.0]);
        assert_eq!(values(set.get("a.x").unwrap().within(1, 2)), [2.0]);
        assert_eq!(set.starting("a.").map(|(name, _)| name).collect::<Vec<_>>(), ["x"]);
        set.forget_until(2);
        assert_eq!((values(&set.get("a.x").unwrap().points), set.get("b")), (vec![3.0], None));
    }
}
