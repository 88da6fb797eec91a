//! The activity second by second, as far as each verdict needs it: at the client, within a server, and on a device.
//!
//! Names of the client's series may have a tag (`client.server-on-rocksdb.in_flight`); all series that were read at the time count.

use fathom_record::Point;

use crate::Evidence;
use crate::client::{ClientLoads, per_window, points};
use crate::seconds::{SecondGrid, mean, total, zip};

/// Values of a grid's seconds.
pub(crate) type Seconds = Vec<Option<f64>>;

/// The client's series of a name, whatever their tags.
pub(crate) fn client_names<'e>(evidence: &'e Evidence, name: &'e str) -> impl Iterator<Item = String> + 'e {
    evidence.series.starting("client.").filter_map(move |(rest, _)| {
        let tag = rest.strip_suffix(name)?;
        (tag.is_empty() || tag.ends_with('.')).then(|| format!("client.{rest}"))
    })
}

/// The client's gauge of a name: the sum of loads that ran at once; of loads that ran one after another, each for its part of a second.
pub(crate) fn client_gauge(evidence: &Evidence, grid: SecondGrid, name: &str) -> Option<Seconds> {
    let mut areas: Vec<Point> = Vec::new();
    for name in client_names(evidence, name) {
        areas.extend(per_window(points(evidence, &name)));
    }
    areas.sort_by_key(|point| point.end_ns);
    let ones: Vec<Point> = areas.iter().map(|point| Point { value: 1.0, ..*point }).collect();
    let covered_s = grid.sums(&per_window(&ones));
    let of_second = |area: f64, covered_s: f64| (covered_s > 0.0).then(|| area / covered_s.min(1.0));
    (!areas.is_empty()).then(|| zip(&grid.sums(&areas), &covered_s, of_second))
}

/// Mean time of the client's operations by a clock (`service`, `response`) in microseconds, and the number that ended.
pub(crate) fn client_mean_us(
    evidence: &Evidence,
    grid: SecondGrid,
    clock: &str,
) -> Option<(Seconds, Seconds)> {
    let client = ClientLoads::from_evidence(evidence)?;
    let timed = || client.operations.iter().filter(|operation| operation.has_clock(evidence, clock));
    let time = total(timed().map(|operation| grid.sums(&operation.times_us(evidence, clock))))?;
    let count = total(timed().map(|operation| grid.sums(&operation.counts(evidence))))?;
    let mean = zip(&time, &count, |time, count| (count > 0.0).then(|| time / count));
    Some((mean, count))
}

/// Operations a second that ended, over the seconds that were read; `None` without a watched client.
pub(crate) fn client_per_s(evidence: &Evidence) -> Option<f64> {
    let client = ClientLoads::from_evidence(evidence)?;
    let grid = SecondGrid::from_evidence(evidence);
    let count = total(client.operations.iter().map(|operation| grid.sums(&operation.counts(evidence))))?;
    mean(count.into_iter().flatten())
}

/// Whether a server is on this host and asked over its loopback interface, so that no network lies between.
pub(crate) fn is_over_loopback(evidence: &Evidence, member: &str) -> bool {
    let is_here = evidence.fact(&format!("server.{member}.here")) == Some("true");
    let host = evidence.fact(&format!("server.{member}")).and_then(|address| address.rsplit_once(':'));
    is_here
        && host.is_some_and(|(host, _)| host == "localhost" || host == "[::1]" || host.starts_with("127."))
}

/// Mean time within the server of its reads and writes in microseconds, and their number.
pub(crate) fn server_mean_us(
    evidence: &Evidence,
    grid: SecondGrid,
    member: &str,
) -> Option<(Seconds, Seconds)> {
    let sums = |kind: &str| {
        ["reads", "writes"]
            .iter()
            .filter_map(|one| grid.sums_of(evidence, &format!("server.{member}.{one}.{kind}")))
            .collect::<Vec<_>>()
    };
    let (time, count) = (total(sums("latency_us"))?, total(sums("operations"))?);
    let mean = zip(&time, &count, |time, count| (count > 0.0).then(|| time / count));
    Some((mean, count))
}

/// Mean time of an operation in microseconds: as the client saw it from its send, else within the server.
pub(crate) fn operation_us(evidence: &Evidence, grid: SecondGrid, member: &str) -> Option<Seconds> {
    client_mean_us(evidence, grid, "service")
        .or_else(|| server_mean_us(evidence, grid, member))
        .map(|(mean, _)| mean)
}

/// The mean number of operations that waited for pages to be read or written. By Little's law it is the time that they waited in a
/// second.
pub(crate) fn waiting_for_pages(evidence: &Evidence, grid: SecondGrid, member: &str) -> Option<Seconds> {
    let waits = ["page_read_us", "page_write_us"]
        .iter()
        .filter_map(|wait| grid.sums_of(evidence, &format!("server.{member}.wait.{wait}")));
    Some(total(waits)?.into_iter().map(|us| us.map(|us| us / 1e6)).collect())
}

/// A device second by second.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSeconds {
    pub(crate) reads: Seconds,
    /// Reads and writes completed in each second.
    pub(crate) requests: Seconds,
    /// Bytes read and written in each second.
    pub(crate) bytes: Option<Seconds>,
    /// Mean time of both in microseconds.
    pub(crate) await_us: Seconds,
    /// The mean number of requests within it, by the time that they took.
    pub(crate) within: Seconds,
}

impl DeviceSeconds {
    /// `None` if its counters were not read.
    pub(crate) fn from_evidence(
        evidence: &Evidence,
        grid: SecondGrid,
        device: &str,
    ) -> Option<DeviceSeconds> {
        let sums = |name: &str| grid.sums_of(evidence, &format!("device.{device}.{name}"));
        let reads = sums("reads")?;
        let requests = total([Some(reads.clone()), sums("writes")].into_iter().flatten())?;
        let bytes = total([sums("read_bytes"), sums("written_bytes")].into_iter().flatten());
        let time_ms = total([sums("read_ms"), sums("write_ms")].into_iter().flatten())?;
        let await_us = zip(&time_ms, &requests, |ms, requests| (requests > 0.0).then(|| ms * 1e3 / requests));
        let within = time_ms.iter().map(|ms| ms.map(|ms| ms / 1e3)).collect();
        Some(DeviceSeconds { reads, requests, bytes, await_us, within })
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::SeriesSet;

    use super::*;

    #[test]
    fn loads_one_after_another_are_not_added_and_loads_at_once_are() {
        let mut series = SeriesSet::default();
        let half = 500_000_000;
        // The first ends, and the second begins, in the middle of a second.
        for (load, begin, end) in [
            ("first", 0, 2),
            ("first", 2, 3),
            ("second", 3, 4),
            ("second", 4, 6),
            ("second", 6, 7),
            ("beside", 6, 8),
            ("beside", 8, 10),
        ] {
            let point = Point { begin_ns: begin * half, end_ns: end * half, value: 16.0 };
            series.add(&format!("client.{load}.connections"), "1", point);
        }
        let evidence = Evidence { series, window_ns: (0, 12 * half), ..Evidence::default() };
        let seconds = client_gauge(&evidence, SecondGrid::from_evidence(&evidence), "connections").unwrap();
        let expected = [Some(16.0), Some(16.0), Some(16.0), Some(24.0), Some(16.0), None];
        assert_eq!(seconds, expected);
    }
}
