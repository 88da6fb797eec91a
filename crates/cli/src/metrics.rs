//! The page of `--metrics ADDRESS`: OpenMetrics for Prometheus.
//!
//! The page is read only. [`LoadMetrics`] serves the figures of a load, which are updated once a second, so that a scrape does not slow the
//! load down. [`SeriesMetrics`] serves all current series under names that follow from the catalog: `server.{member}.wait.ticket_us` is
//! `fathom_server_wait_ticket_us_total{member="0"}`. A word in braces becomes a label. A sum becomes a counter of all that was added
//! since the page was opened; a gauge has its last value. A series that is not read now is left out, also a counter: a
//! constant one would say that nothing happened. `fathom_server_condition` says whether a server is up, stalled or down, and
//! `fathom_server_operation_*` which kinds of operations it runs now, a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_errors::Result;
use fathom_load::driving::SecondMeasurements;
use fathom_load::measurements::{OperationMeasurements, Status};
use fathom_monitor::Clock;
use fathom_record::Reading;
use fathom_record::catalog::{Additivity, SeriesKind, words_of};
use fathom_stats::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::web::{self, Response, WebRequest};

/// Escapes the value of a label, which prometheus-client does not do. The name of an operation comes from the user and may contain quotes.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn listen(address: &str, registry: Arc<Registry>) -> Result<()> {
    let bound =
        web::serve(web::parse_address(address)?, "metrics", move |request| answer(request, &registry))?;
    crate::output::note(&format!("metrics: http://{bound}/metrics"));
    Ok(())
}

fn answer(request: &WebRequest, registry: &Registry) -> Response {
    if !matches!(request.path.as_str(), "/metrics" | "/") {
        return Response::text("404 Not Found", "the numbers are at /metrics");
    }
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            Response { status: "200 OK", kind, body, heads: &[] }
        }
        Err(error) => Response::text("500 Internal Server Error", &error.to_string()),
    }
}

const QUANTILES: [(f64, &str); 4] = [(0.5, "0.5"), (0.95, "0.95"), (0.99, "0.99"), (0.999, "0.999")];

type FloatGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: String,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Quantile {
    operation: String,
    clock: String,
    quantile: String,
}

/// The numbers of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadMetrics {
    ended: Family<OperationLabels, Counter>,
    latency: Family<Quantile, FloatGauge>,
    /// The operations with latencies on the page.
    measured: Arc<Mutex<BTreeSet<String>>>,
    lag: FloatGauge,
    in_flight: FloatGauge,
    client_cpu: FloatGauge,
    rate: FloatGauge,
}

impl LoadMetrics {
    /// Listens, and serves the numbers until the program ends.
    pub(crate) fn serve(address: &str) -> Result<LoadMetrics> {
        let metrics = LoadMetrics::default();
        let mut registry = Registry::with_prefix("fathom");
        let of = &metrics;
        registry.register("operations", "Operations that ended, by how", of.ended.clone());
        registry.register(
            "latency_seconds",
            "Latency of the last second's successes, from the send (service) and from when due (response)",
            of.latency.clone(),
        );
        registry.register(
            "schedule_lag_seconds",
            "99th percentile of how much later than due operations were sent in the last second",
            of.lag.clone(),
        );
        registry.register(
            "in_flight",
            "Operations under way, on average over the last second",
            of.in_flight.clone(),
        );
        registry.register(
            "client_cpu_ratio",
            "Processor time of the client's loops, as a share of what they can have",
            of.client_cpu.clone(),
        );
        registry.register(
            "operations_per_second",
            "Operations that ended in the last second",
            of.rate.clone(),
        );
        listen(address, Arc::new(registry))?;
        Ok(metrics)
    }

    /// Updates the numbers from those of a second.
    pub(crate) fn second(&self, interval: &SecondMeasurements<'_>) {
        let seconds = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
        self.rate.set(interval.operations as f64);
        self.in_flight.set(interval.in_flight);
        self.client_cpu.set(interval.cpu_share);
        self.lag.set(seconds(interval.lag.quantile_ns(0.99)));
        for (operation, measured) in interval.metrics {
            for status in Status::ALL.into_iter().filter(|status| measured.returned(*status) > 0) {
                let labels =
                    OperationLabels { operation: label(operation), status: status.name().to_owned() };
                self.ended.get_or_create(&labels).inc_by(measured.returned(status));
            }
        }
        let mut known = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(interval.metrics.iter().map(|(operation, _)| operation.clone()));
        // An operation of which none ended in this second has no latency: the last one would say that the server still answers.
        let none = OperationMeasurements::default();
        for operation in known.iter() {
            let measured = interval.metrics.iter().find(|(name, _)| name == operation);
            let succeeded = &measured.map_or(&none, |(_, measured)| measured).succeeded;
            for (clock, histogram) in [("service", &succeeded.service), ("response", &succeeded.response)] {
                self.quantiles(operation, clock, histogram);
            }
        }
    }

    fn quantiles(&self, operation: &str, clock: &str, histogram: &Histogram) {
        for (q, quantile) in QUANTILES {
            let labels = Quantile {
                operation: label(operation),
                clock: clock.to_owned(),
                quantile: quantile.to_owned(),
            };
            let value = histogram.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64 / 1e9);
            self.latency.get_or_create(&labels).set(value);
        }
    }
}

/// The shortest period of a series: readings come once a second, however often they are taken.
const MIN_PERIOD_NS: u64 = 1_000_000_000;
/// The longest period of samplers: that of a series whose period is not known yet, since it was read once.
const MAX_PERIOD_NS: u64 = 10_000_000_000;
/// The series that says whether a server answered, by its name in the catalog.
const UP: &str = "server.{member}.up";

type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Copy, Debug)]
struct LatestValue {
    value: f64,
    end_ns: u64,
    /// The time between two readings, as far as that is known: a gap makes it at most twice as long.
    period_ns: Option<u64>,
}

impl LatestValue {
    /// Takes the end of a reading's window.
    fn read_at(&mut self, end_ns: u64) {
        let passed_ns = end_ns.saturating_sub(self.end_ns);
        if self.end_ns > 0 && passed_ns > 0 {
            self.period_ns = Some(self.period_ns.map_or(passed_ns, |period_ns| passed_ns.min(2 * period_ns)));
        }
        self.end_ns = self.end_ns.max(end_ns);
    }

    /// Whether it is read now. A reading may come half a period late.
    fn is_read(&self, now_ns: u64, interval_ns: u64) -> bool {
        let period_ns = self.period_ns.map_or(MAX_PERIOD_NS, |period_ns| period_ns.max(interval_ns));
        self.end_ns.saturating_add(period_ns + period_ns / 2) >= now_ns
    }

    /// The condition of a server that this value says to be up or not.
    fn condition(&self, now_ns: u64, interval_ns: u64) -> &'static str {
        let period_ns = self.period_ns.map_or(interval_ns, |period_ns| period_ns.max(interval_ns));
        if self.value == 0.0 {
            "down"
        } else if self.end_ns.saturating_add(2 * period_ns) <= now_ns {
            "stalled"
        } else {
            "up"
        }
    }
}

/// All series' numbers by name and labels, behind the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesMetrics {
    held: Arc<Mutex<MetricFamilies>>,
}

/// A kind of operation that a server runs now, with the labels of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationNumbers {
    pub(crate) member: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    /// The stages of its plan without their keys; empty if it has none.
    pub(crate) plan: String,
    /// How many ran at once, on average.
    pub(crate) running: f64,
    /// The longest time for which one ran, and the bytes that they read and wrote a second, if that was read.
    pub(crate) longest_s: f64,
    pub(crate) disk_bytes_per_s: Option<f64>,
}

impl OperationNumbers {
    fn labels(&self) -> Labels {
        let OperationNumbers { member, kind, namespace, plan, .. } = self;
        [("member", member), ("kind", kind), ("namespace", namespace), ("plan", plan)]
            .map(|(name, word)| (name, label(word)))
            .into()
    }

    /// Adds operations with the same labels: those of another client, or of another shape.
    fn add(&mut self, other: &OperationNumbers) {
        self.running += other.running;
        self.longest_s = self.longest_s.max(other.longest_s);
        self.disk_bytes_per_s = match (self.disk_bytes_per_s, other.disk_bytes_per_s) {
            (Some(one), Some(more)) => Some(one + more),
            (one, more) => one.or(more),
        };
    }
}

/// The numbers of operations: the name of each, its meaning, and its value.
type OperationMetric = (&'static str, &'static str, fn(&OperationNumbers) -> Option<f64>);

const OPERATION_METRICS: [OperationMetric; 3] = [
    (
        "server_operation_running",
        "operations of the kinds that run longest, at once on average over the last ten seconds",
        |one| Some(one.running),
    ),
    (
        "server_operation_longest_s",
        "the longest time for which one of them has been seen running in the last ten seconds",
        |one| Some(one.longest_s),
    ),
    (
        "server_operation_disk_bytes_per_s",
        "bytes that the threads of their connections read from disks and wrote, a second",
        |one| one.disk_bytes_per_s,
    ),
];

/// The numbers of operations may be as old as this many intervals.
const MAX_OPERATIONS_AGE_INTERVALS: u64 = 3;

#[derive(Debug, Default)]
struct MetricFamilies {
    families: BTreeMap<&'static str, (&'static SeriesKind, BTreeMap<Labels, LatestValue>)>,
    /// The operations that servers run, and when they were taken.
    operations: BTreeMap<Labels, OperationNumbers>,
    operations_ns: u64,
    newest_ns: u64,
    /// The interval at which servers are read; 0 before it is known.
    interval_ns: u64,
    /// The clock of the readings; before it is known, time follows the readings.
    clock: Option<Clock>,
}

impl MetricFamilies {
    /// The present moment, and the interval at which servers are read.
    fn now(&self) -> (u64, u64) {
        let now_ns = self.clock.map_or(0, |clock| clock.now_ns()).max(self.newest_ns);
        (now_ns, self.interval_ns.max(MIN_PERIOD_NS))
    }
}

impl SeriesMetrics {
    /// Listens, and serves the numbers until the program ends.
    pub(crate) fn serve(address: &str) -> Result<SeriesMetrics> {
        let metrics = SeriesMetrics::default();
        listen(address, Arc::new(metrics.registry()))?;
        Ok(metrics)
    }

    /// Measures the age of readings by their clock. Servers are read at `interval`.
    pub(crate) fn follow(&self, clock: Clock, interval: Duration) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        held.clock = Some(clock);
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("fathom");
        registry.register_collector(Box::new(Page(Arc::clone(&self.held))));
        registry
    }

    /// Replaces the operations that servers run now. The caller bounds their number, which is that of the series on the page.
    pub(crate) fn take_operations(&self, operations: impl IntoIterator<Item = OperationNumbers>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.operations.clear();
        held.operations_ns = held.now().0;
        for one in operations {
            held.operations.entry(one.labels()).and_modify(|same| same.add(&one)).or_insert(one);
        }
    }

    /// Adds readings; those that are not in the catalog are left out.
    pub(crate) fn take(&self, readings: &[Reading]) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for reading in readings.iter().filter(|reading| reading.value.is_finite()) {
            let Some((kind, words)) = words_of(&reading.name) else { continue };
            let labels: Labels = words.into_iter().map(|(name, word)| (name, label(word))).collect();
            held.newest_ns = held.newest_ns.max(reading.end_ns);
            let (_, numbers) = held.families.entry(kind.name).or_insert_with(|| (kind, BTreeMap::new()));
            let number =
                numbers.entry(labels).or_insert(LatestValue { value: 0.0, end_ns: 0, period_ns: None });
            number.value = match kind.kind {
                Additivity::Sum => number.value + reading.value,
                Additivity::Gauge => reading.value,
            };
            number.read_at(reading.end_ns);
        }
    }
}

/// The name of a metric on the page, without the prefix and a counter's `_total`.
pub(crate) fn metric_name(kind: &SeriesKind) -> String {
    let plain = kind.name.split('.').filter(|word| !word.starts_with('{'));
    plain.collect::<Vec<_>>().join("_")
}

/// The readings that the page is made from.
#[derive(Debug)]
struct Page(Arc<Mutex<MetricFamilies>>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now_ns, interval_ns) = held.now();
        for (kind, numbers) in held.families.values() {
            let is_sum = kind.kind == Additivity::Sum;
            let metric_type = if is_sum { MetricType::Counter } else { MetricType::Gauge };
            let name = metric_name(kind);
            let mut family = encoder.encode_descriptor(&name, kind.meaning, None, metric_type)?;
            for (labels, number) in numbers.iter().filter(|(_, number)| number.is_read(now_ns, interval_ns)) {
                let mut metric = family.encode_family(labels)?;
                if is_sum {
                    metric.encode_counter::<NoLabelSet, f64, u64>(&number.value, None)?;
                } else {
                    metric.encode_gauge(&number.value)?;
                }
            }
        }
        let are_late =
            held.operations_ns.saturating_add(MAX_OPERATIONS_AGE_INTERVALS * interval_ns) <= now_ns;
        let is_shown = !are_late && !held.operations.is_empty();
        for (name, meaning, value) in OPERATION_METRICS.into_iter().filter(|_| is_shown) {
            let mut family = encoder.encode_descriptor(name, meaning, None, MetricType::Gauge)?;
            for (labels, one) in &held.operations {
                if let Some(value) = value(one) {
                    family.encode_family(labels)?.encode_gauge(&value)?;
                }
            }
        }
        let Some((_, servers)) = held.families.get(UP) else { return Ok(()) };
        let meaning =
            "1 for the condition that the server is in: stalled if its answer is late by two intervals";
        let mut family = encoder.encode_descriptor("server_condition", meaning, None, MetricType::Gauge)?;
        for (labels, number) in servers {
            for condition in ["up", "stalled", "down"] {
                let mut labels = labels.clone();
                labels.push(("condition", condition.to_owned()));
                let is_in = number.condition(now_ns, interval_ns) == condition;
                family.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(is_in)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::catalog::CATALOG;

    use super::*;

    /// The latencies of the last second that had some stayed on the page while a server answered nothing.
    #[test]
    fn a_second_without_operations_has_no_latency() {
        let metrics = LoadMetrics::default();
        let mut registry = Registry::default();
        registry.register("latency_seconds", "", metrics.latency.clone());
        let lag = Histogram::new();
        let mut read = OperationMeasurements::default();
        read.record(Status::Ok, 2_000_000, 2_000_000);
        let page = |measured: &[(String, OperationMeasurements)]| -> Vec<String> {
            metrics.second(&SecondMeasurements {
                second: 0,
                metrics: measured,
                report_only: &[],
                points: &[],
                names: &[],
                operations: 0,
                total_operations: 0,
                lag: &lag,
                cpu_share: 0.0,
                in_flight: 0.0,
                connections: 1,
                user_bytes: 0,
            });
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| line.contains("quantile=\"0.5\"")).map(str::to_owned).collect()
        };
        let values = |lines: Vec<String>| -> Vec<f64> {
            lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
        };
        let answered = values(page(&[("READ".to_owned(), read.clone())]));
        assert!(answered.len() == 2 && answered.iter().all(|seconds| *seconds > 0.001), "{answered:?}");
        let silent = values(page(&[]));
        assert!(silent.len() == 2 && silent.iter().all(|seconds| seconds.is_nan()), "{silent:?}");
    }

    #[test]
    fn sums_add_up_and_a_series_that_is_not_read_now_is_left_out() {
        let metrics = SeriesMetrics::default();
        let second = 1_000_000_000;
        let read =
            |name: &str, at: u64, value| Reading::new(name, "1", ((at - 1) * second, at * second), value);
        metrics.take(&[
            read("server.0.wait.ticket_us", 59, 10.0),
            read("server.0.wait.ticket_us", 60, 5.0),
            read("server.1.wait.ticket_us", 30, 1.0),
            read("server.1.cache.dirty_bytes", 30, 7.0),
            read("device.vda.in_flight", 60, 3.0),
            read("nobody.knows", 1, 1.0),
        ]);
        let mut text = String::new();
        encode(&mut text, &metrics.registry()).unwrap();
        assert!(text.contains("fathom_server_wait_ticket_us_total{member=\"0\"} 15.0\n"), "{text}");
        assert!(text.contains("fathom_device_in_flight{device=\"vda\"} 3.0\n"), "{text}");
        assert!(!text.contains("member=\"1\"") && !text.contains("nobody"), "{text}");
        assert!(text.contains("# TYPE fathom_server_wait_ticket_us counter"), "{text}");
    }

    /// Two clients with the same operation are one series; operations that are not seen any more have none.
    #[test]
    fn the_operations_that_run_now_have_series_and_others_have_none() {
        let metrics = SeriesMetrics::default();
        let page_at = |second: u64| {
            let now_ns = second * 1_000_000_000;
            metrics.take(&[Reading::new("host.cpu.idle_pct", "%", (now_ns, now_ns), 50.0)]);
            let mut text = String::new();
            encode(&mut text, &metrics.registry()).unwrap();
            text
        };
        assert!(!page_at(1).contains("operation_running{"));
        let scan = OperationNumbers {
            member: "0".into(),
            kind: "find".into(),
            namespace: "shop.a\"b".into(),
            plan: "COLLSCAN".into(),
            running: 1.5,
            longest_s: 0.25,
            disk_bytes_per_s: None,
        };
        let other =
            OperationNumbers { running: 0.5, longest_s: 0.5, disk_bytes_per_s: Some(2e6), ..scan.clone() };
        metrics.take_operations([scan, other]);
        let text = page_at(2);
        let labels = r#"{member="0",kind="find",namespace="shop.a\"b",plan="COLLSCAN"}"#;
        for (name, value) in [("running", "2.0"), ("longest_s", "0.5"), ("disk_bytes_per_s", "2000000.0")] {
            assert!(
                text.contains(&format!("fathom_server_operation_{name}{labels} {value}\n")),
                "{name}: {text}"
            );
        }
        assert!(page_at(3).contains("operation_running{"));
        assert!(!page_at(4).contains("operation_running{"), "they are three seconds old");
        metrics.take_operations([]);
        assert!(!page_at(4).contains("operation_running{"));
    }

    /// A server that is read each second up to the fifth; another reading says which second it is.
    #[test]
    fn a_server_that_is_not_read_is_stalled_after_two_intervals() {
        let metrics = SeriesMetrics::default();
        let page_at = |now_ms: u64| {
            let now_ns = now_ms * 1_000_000;
            metrics.take(&[Reading::new("host.cpu.idle_pct", "%", (now_ns, now_ns), 50.0)]);
            let mut text = String::new();
            encode(&mut text, &metrics.registry()).unwrap();
            text
        };
        let server = |second: u64, up: f64| {
            let window = ((second - 1) * 1_000_000_000, second * 1_000_000_000);
            metrics.take(&[
                Reading::new("server.0.up", "1", window, up),
                Reading::new("server.0.reads.operations", "1", window, 300.0 * up),
            ]);
        };
        let condition = |text: &str| {
            let is_in = |name: &&str| {
                text.contains(&format!("fathom_server_condition{{member=\"0\",condition=\"{name}\"}} 1.0\n"))
            };
            ["up", "stalled", "down"].into_iter().filter(is_in).collect::<Vec<_>>().join(" ")
        };
        (1..=5).for_each(|second| server(second, 1.0));
        let read = "fathom_server_reads_operations_total{member=\"0\"} 1500.0\n";
        for (now_ms, is_read, expected) in
            [(6400, true, "up"), (6600, false, "up"), (7000, false, "stalled"), (40_000, false, "stalled")]
        {
            let text = page_at(now_ms);
            assert_eq!((text.contains(read), condition(&text)), (is_read, expected.to_owned()), "{text}");
            assert_eq!(text.contains("fathom_server_up{member=\"0\"} 1.0\n"), is_read, "{text}");
        }
        server(41, 0.0);
        assert_eq!(condition(&page_at(41_100)), "down");
        server(42, 1.0);
        assert_eq!(condition(&page_at(42_100)), "up");
    }

    /// The page as scrapers receive it; prometheus_client's parser of OpenMetrics accepts the text of the snapshot.
    #[test]
    fn the_page_of_known_readings() {
        let metrics = SeriesMetrics::default();
        let second = 1_000_000_000;
        for (name, value) in [
            ("server.0.wait.ticket_us", 10.0),
            ("server.1.wait.ticket_us", 2.5),
            ("server.0.cache.dirty_bytes", 110e6),
            ("device.dm-0.in_flight", 3.0),
            ("device.a\"b.reads", 1.0),
            ("host.cpu.idle_pct", 62.5),
            ("monitor.devices.cpu_us", 900.0),
        ] {
            metrics.take(&[Reading::new(name, "1", (0, second), value)]);
        }
        let mut text = String::new();
        encode(&mut text, &metrics.registry()).unwrap();
        insta::assert_snapshot!("openmetrics", text);
    }

    #[test]
    fn no_two_series_share_a_name() {
        let mut names: Vec<String> = CATALOG.iter().map(metric_name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// The metrics that occur in the expressions of the dashboard.
    fn named_in(dashboard: &str) -> Vec<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts = dashboard.match_indices("fathom_").map(|(at, _)| at);
        let name = |at: usize| dashboard[at..].chars().take_while(|c| is_part(*c)).collect();
        starts.map(name).collect()
    }

    #[test]
    fn the_dashboard_asks_only_for_what_there_is() {
        let dashboard = include_str!("../../../grafana/fathom.json");
        let name = |kind: &SeriesKind| {
            let total = if kind.kind == Additivity::Sum { "_total" } else { "" };
            format!("fathom_{}{total}", metric_name(kind))
        };
        let known: Vec<String> = CATALOG.iter().map(name).collect();
        let named = named_in(dashboard);
        assert!(named.len() > 40, "{named:?}");
        for metric in named {
            assert!(known.contains(&metric), "{metric}");
        }
        let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        assert!(parsed["panels"].as_array().unwrap().len() > 10);
    }
}
