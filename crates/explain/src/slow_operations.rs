//! Counts the slow operations of a log by their shape, and relates them to the incidents of the server's recording.

use std::collections::HashMap;

use fathom_record::incident::Incident;
use fathom_record::{ShapeTotals, SlowOperation, SlowOperationTable};

use crate::logged_work::LoggedWork;
use crate::recording::RecordingTimeline;

/// The most shapes that are counted apart: an application that writes values into names of fields has any number.
const MAX_SHAPES: usize = 5000;

/// Counts slow operations as they are read.
#[derive(Debug, Default)]
pub struct SlowOperationCounter<'r> {
    incidents: &'r [Incident],
    timeline: Option<&'r RecordingTimeline>,
    shapes: HashMap<String, CountedShape>,
    table: SlowOperationTable,
    work: LoggedWork,
}

/// The totals of a shape, and the sums for their means.
#[derive(Debug, Default)]
struct CountedShape {
    totals: ShapeTotals,
    busy_share_sum: f64,
    busy_count: u64,
}

impl<'r> SlowOperationCounter<'r> {
    /// A counter that relates operations to a recording of the same server.
    pub fn with_recording(
        incidents: &'r [Incident],
        timeline: &'r RecordingTimeline,
    ) -> SlowOperationCounter<'r> {
        let work = LoggedWork::new(incidents.len());
        SlowOperationCounter { incidents, timeline: Some(timeline), work, ..SlowOperationCounter::default() }
    }

    /// Adds an operation that ended at `ended_ms` (since 1970), with its shape and its client's driver.
    pub fn add(&mut self, ended_ms: i64, operation: &SlowOperation, shape: &str, driver: Option<&str>) {
        let table = &mut self.table;
        table.count += 1;
        table.time_s += operation.duration_ms as f64 / 1e3;
        if let Some(bytes) = operation.read_bytes {
            table.read_bytes = Some(table.read_bytes.unwrap_or(0).saturating_add(bytes));
        }
        let is_within = |incident: &Incident| (incident.begin_ms..=incident.end_ms).contains(&ended_ms);
        for (number, _) in self.incidents.iter().enumerate().filter(|(_, incident)| is_within(incident)) {
            self.work.add(number, operation);
        }
        let key = format!("{} {shape}", operation.namespace);
        if !self.shapes.contains_key(&key) {
            if self.shapes.len() >= MAX_SHAPES {
                self.table.other_shapes += 1;
                return;
            }
            let totals = ShapeTotals {
                namespace: operation.namespace.clone(),
                shape: shape.to_owned(),
                ..ShapeTotals::default()
            };
            self.shapes.insert(key.clone(), CountedShape { totals, ..CountedShape::default() });
        }
        let Some(counted) = self.shapes.get_mut(&key) else { return };
        counted.totals.add(operation, driver);
        counted.totals.in_incidents += u64::from(self.incidents.iter().any(is_within));
        if let Some(share) = self.timeline.and_then(|timeline| timeline.disk_busy_share(ended_ms)) {
            counted.busy_share_sum += share;
            counted.busy_count += 1;
        }
    }

    /// The table, without the extent of the logs.
    pub fn finish(self) -> SlowOperationTable {
        self.finish_with_work().0
    }

    /// The table, and the operations of each incident.
    pub fn finish_with_work(self) -> (SlowOperationTable, LoggedWork) {
        let mut table = self.table;
        table.shapes = self
            .shapes
            .into_values()
            .map(|counted| {
                let mean = counted.busy_share_sum / counted.busy_count as f64;
                ShapeTotals { disk_busy_share: (counted.busy_count > 0).then_some(mean), ..counted.totals }
            })
            .collect();
        table.shapes.sort_by(|one, other| {
            let by_time = other.time_s.total_cmp(&one.time_s);
            let by_name = (&one.namespace, &one.shape).cmp(&(&other.namespace, &other.shape));
            other.read_bytes.cmp(&one.read_bytes).then(by_time).then(by_name)
        });
        (table, self.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(namespace: &str, duration_ms: u64, read_bytes: Option<u64>) -> SlowOperation {
        let plan = Some("COLLSCAN".to_owned());
        SlowOperation {
            namespace: namespace.to_owned(),
            duration_ms,
            read_bytes,
            plan,
            ..SlowOperation::default()
        }
    }

    #[test]
    fn what_reads_most_comes_first_and_time_decides_where_nothing_is_read() {
        let mut counter = SlowOperationCounter::default();
        counter.add(0, &operation("a.b", 500, Some(10)), "find", None);
        counter.add(1, &operation("a.b", 700, Some(20)), "find", Some("PyMongo 4"));
        counter.add(2, &operation("a.c", 100, Some(40)), "find", None);
        counter.add(3, &operation("a.d", 900, None), "update", None);
        counter.add(4, &operation("a.e", 9000, None), "update", None);
        let table = counter.finish();
        let names: Vec<&str> = table.shapes.iter().map(|shape| shape.namespace.as_str()).collect();
        assert_eq!(names, ["a.c", "a.b", "a.e", "a.d"]);
        assert_eq!((table.count, table.read_bytes, table.time_s), (5, Some(70), 11.2));
        let two = &table.shapes[1];
        assert_eq!((two.count, two.max_ms, two.read_bytes, two.time_s), (2, 700, Some(30), 1.2));
        assert_eq!((two.plans["COLLSCAN"], two.drivers["PyMongo 4"]), (2, 1));
        assert_eq!((two.disk_busy_share, two.in_incidents), (None, 0));
    }

    #[test]
    fn shapes_and_names_are_bounded() {
        let mut counter = SlowOperationCounter::default();
        for number in 0..MAX_SHAPES + 3 {
            counter.add(0, &operation("a.b", 1, None), &format!("find {number}"), None);
        }
        for number in 0..100 {
            let application = Some(format!("app {number}"));
            counter.add(0, &SlowOperation { application, ..operation("a.b", 1, None) }, "find 0", None);
        }
        let table = counter.finish();
        assert_eq!((table.shapes.len(), table.other_shapes, table.count), (MAX_SHAPES, 3, 5103));
        let applications = &table.shapes[0].applications;
        assert_eq!((applications.len(), applications["others"]), (21, 80));
    }
}
