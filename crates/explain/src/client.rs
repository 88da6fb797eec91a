//! The operations that the load's client recorded, by the kind that the server counts them as.
//!
//! The series of a load may have a tag (`client.server-on-rocksdb.workload-a.read.per_s`) or none. Operations that consist of
//! others (a read with an update behind it) are left out, because their parts are recorded too.

use fathom_record::Point;

use crate::Evidence;
use crate::windows::{Window, apart};

/// The kind of operation that the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadWriteType {
    Reads,
    Writes,
    /// Not known: it is certainly in none of the server's sums.
    Other,
}

/// One kind of operation of one load.
#[derive(Clone, Debug)]
pub(crate) struct ClientOperation {
    /// The prefix of its series: `client.read`.
    pub(crate) prefix: String,
    pub(crate) kind: ReadWriteType,
}

/// The loads that ran in the window.
#[derive(Clone, Debug)]
pub(crate) struct ClientLoads {
    /// The prefix of each load's series: `client.`, or `client.` and a tag.
    pub(crate) loads: Vec<String>,
    pub(crate) operations: Vec<ClientOperation>,
}

/// The server's kind for an operation of that name; `None` for combined operations and for those that no server sees.
/// The names are YCSB's.
fn kind_of(name: &str) -> Option<ReadWriteType> {
    match name {
        "read-modify-write" | "readmodifywrite" | "verify" | "cleanup" | "operations" | "total" => None,
        "read" | "scan" => Some(ReadWriteType::Reads),
        "update" | "insert" | "delete" => Some(ReadWriteType::Writes),
        _ => Some(ReadWriteType::Other),
    }
}

impl ClientLoads {
    /// The loads that ended any operation in the window; `None` if the client was not watched.
    pub(crate) fn from_evidence(evidence: &Evidence) -> Option<ClientLoads> {
        const ALL: &str = "operations.per_s";
        let runs = |name: &str| !points(evidence, name).is_empty();
        let loads: Vec<String> = evidence
            .series
            .starting("client.")
            .filter_map(|(name, _)| name.strip_suffix(ALL))
            .filter(|tag| tag.is_empty() || tag.ends_with('.'))
            .map(|tag| format!("client.{tag}"))
            .filter(|load| runs(&format!("{load}{ALL}")))
            .collect();
        let mut operations = Vec::new();
        for load in &loads {
            for (name, _) in evidence.series.starting(load) {
                let Some(name) = name.strip_suffix(".per_s").filter(|name| !name.contains('.')) else {
                    continue;
                };
                let prefix = format!("{load}{name}");
                let kind = kind_of(name).filter(|_| runs(&format!("{prefix}.per_s")));
                operations.extend(kind.map(|kind| ClientOperation { prefix, kind }));
            }
        }
        (!operations.is_empty()).then_some(ClientLoads { loads, operations })
    }

    /// The seconds of the loads that lie within the window. The first and the last second of each load are left out, because they are seldom whole.
    pub(crate) fn windows(&self, evidence: &Evidence) -> Vec<Window> {
        let (begin_ns, end_ns) = evidence.window_ns;
        let mut windows = Vec::new();
        for load in &self.loads {
            let all = points(evidence, &format!("{load}operations.per_s"));
            let inner = all.get(1..all.len().saturating_sub(1)).unwrap_or(&[]);
            let whole = inner.iter().filter(|point| point.begin_ns >= begin_ns && point.end_ns <= end_ns);
            windows.extend(whole.map(|point| (point.begin_ns, point.end_ns)));
        }
        apart(windows)
    }

    /// A gauge of each load as an area: its values times the seconds of its windows.
    pub(crate) fn areas(&self, evidence: &Evidence, name: &str) -> Vec<Vec<Point>> {
        self.loads.iter().map(|load| per_window(points(evidence, &format!("{load}{name}")))).collect()
    }
}

impl ClientOperation {
    /// The number of operations that succeeded, for each window with a success.
    pub(crate) fn counts(&self, evidence: &Evidence) -> Vec<Point> {
        per_window(points(evidence, &format!("{}.per_s", self.prefix)))
    }

    /// Failed operations of each second.
    pub(crate) fn failures(&self, evidence: &Evidence) -> Vec<Point> {
        per_window(points(evidence, &format!("{}.failed.per_s", self.prefix)))
    }

    /// Whether their time by that clock was recorded.
    pub(crate) fn has_clock(&self, evidence: &Evidence, clock: &str) -> bool {
        evidence.series.get(&format!("{}.{clock}.mean_ns", self.prefix)).is_some()
    }

    /// The time they took in all, in microseconds, by one of the two clocks (`service`, `response`).
    pub(crate) fn times_us(&self, evidence: &Evidence, clock: &str) -> Vec<Point> {
        let means = points(evidence, &format!("{}.{clock}.mean_ns", self.prefix));
        let mut times = self.counts(evidence);
        for count in &mut times {
            let at = means.partition_point(|mean| mean.end_ns < count.end_ns);
            let mean = means.get(at).filter(|mean| mean.end_ns == count.end_ns && mean.value.is_finite());
            // Without a success there is no mean.
            count.value *= mean.map_or(0.0, |mean| mean.value / 1000.0);
        }
        times
    }
}

/// The points of a series that end in the window.
pub(crate) fn points<'e>(evidence: &'e Evidence, name: &str) -> &'e [Point] {
    let (begin_ns, end_ns) = evidence.window_ns;
    evidence.series.get(name).map_or(&[], |series| series.within(begin_ns, end_ns))
}

/// A rate, or a gauge, as a sum over each window: its value times the seconds.
pub(crate) fn per_window(rates: &[Point]) -> Vec<Point> {
    let seconds = |point: &Point| point.end_ns.saturating_sub(point.begin_ns) as f64 / 1e9;
    rates.iter().map(|point| Point { value: point.value * seconds(point), ..*point }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(names: &[&str]) -> Evidence {
        let mut evidence = Evidence { window_ns: (0, 4_000_000_000), ..Evidence::default() };
        for name in names {
            for second in 0..4u64 {
                let (begin_ns, end_ns) = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
                evidence.series.add(name, "1/s", Point { begin_ns, end_ns, value: 10.0 });
            }
        }
        evidence
    }

    #[test]
    fn tags_are_taken_off_and_composites_are_left_out() {
        let names = [
            "client.a.b.operations.per_s",
            "client.a.b.read.per_s",
            "client.a.b.read.failed.per_s",
            "client.a.b.read-modify-write.per_s",
            "client.a.b.update.per_s",
            "client.a.b.count.per_s",
        ];
        let evidence = evidence(&names);
        let client = ClientLoads::from_evidence(&evidence).unwrap();
        assert_eq!(client.loads, ["client.a.b."]);
        let kinds: Vec<_> = client.operations.iter().map(|one| (one.prefix.as_str(), one.kind)).collect();
        let expected = [
            ("client.a.b.count", ReadWriteType::Other),
            ("client.a.b.read", ReadWriteType::Reads),
            ("client.a.b.update", ReadWriteType::Writes),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(client.windows(&evidence).len(), 2, "the first and the last are left out");
    }

    #[test]
    fn a_load_without_a_tag_is_one_too_and_none_is_none() {
        let evidence_one = evidence(&["client.operations.per_s", "client.insert.per_s", "client.in_flight"]);
        let client = ClientLoads::from_evidence(&evidence_one).unwrap();
        assert_eq!((client.loads, client.operations.len()), (vec!["client.".to_owned()], 1));
        assert!(ClientLoads::from_evidence(&evidence(&["server.0.up"])).is_none());
    }

    #[test]
    fn times_are_counts_times_means() {
        let mut evidence = evidence(&["client.operations.per_s", "client.read.per_s"]);
        for end_ns in [1_000_000_000, 3_000_000_000] {
            let point = Point { begin_ns: end_ns - 1_000_000_000, end_ns, value: 5000.0 };
            evidence.series.add("client.read.service.mean_ns", "ns", point);
        }
        let client = ClientLoads::from_evidence(&evidence).unwrap();
        let times: Vec<f64> =
            client.operations[0].times_us(&evidence, "service").iter().map(|point| point.value).collect();
        assert_eq!(times, [50.0, 0.0, 50.0, 0.0]);
    }
}
