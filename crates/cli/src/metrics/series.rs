//! Every current series on the page of metrics, under names that are made from the catalog's.
//!
//! `server.{member}.wait.ticket_us` is `fathom_server_wait_ticket_us_total{member="0"}`: what stands in braces becomes a label, a
//! sum becomes a counter of all that was added since the page was opened, a gauge is what was read last. A series that has not been
//! read for a while is taken off: a stale number is a wrong one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fathom_errors::Result;
use fathom_record::Reading;
use fathom_record::catalog::{Kind, SeriesKind, words_of};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{label, listen};

/// How long a gauge stands that is not read again: a few of the longest periods of samplers, in nanoseconds.
const STALE_NS: u64 = 30_000_000_000;

type Labels = Vec<(&'static str, String)>;

/// One series' number.
#[derive(Clone, Copy, Debug)]
struct Number {
    value: f64,
    end_ns: u64,
}

/// All series' numbers by name and labels, behind the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesMetrics {
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    families: BTreeMap<&'static str, (&'static SeriesKind, BTreeMap<Labels, Number>)>,
    newest_ns: u64,
}

impl SeriesMetrics {
    /// Listens, and serves the numbers until the program ends.
    pub(crate) fn serve(address: &str) -> Result<SeriesMetrics> {
        let metrics = SeriesMetrics::default();
        listen(address, Arc::new(metrics.registry()))?;
        Ok(metrics)
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("fathom");
        registry.register_collector(Box::new(Page(Arc::clone(&self.held))));
        registry
    }

    /// Takes readings; those that the catalog does not know are left out.
    pub(crate) fn take(&self, readings: &[Reading]) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for reading in readings.iter().filter(|reading| reading.value.is_finite()) {
            let Some((kind, words)) = words_of(&reading.name) else { continue };
            let labels: Labels = words.into_iter().map(|(name, word)| (name, label(word))).collect();
            held.newest_ns = held.newest_ns.max(reading.end_ns);
            let (_, numbers) = held.families.entry(kind.name).or_insert_with(|| (kind, BTreeMap::new()));
            let number = numbers.entry(labels).or_insert(Number { value: 0.0, end_ns: 0 });
            number.value = match kind.kind {
                Kind::Sum => number.value + reading.value,
                Kind::Gauge => reading.value,
            };
            number.end_ns = number.end_ns.max(reading.end_ns);
        }
    }
}

/// What a catalog's name is called on the page, less the prefix and a counter's `_total`.
pub(crate) fn metric_name(kind: &SeriesKind) -> String {
    let plain = kind.name.split('.').filter(|word| !word.starts_with('{'));
    plain.collect::<Vec<_>>().join("_")
}

/// What the page reads from.
#[derive(Debug)]
struct Page(Arc<Mutex<Held>>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, numbers) in held.families.values() {
            let is_sum = kind.kind == Kind::Sum;
            let fresh = |number: &&Number| is_sum || number.end_ns + STALE_NS >= held.newest_ns;
            let metric_type = if is_sum { MetricType::Counter } else { MetricType::Gauge };
            let name = metric_name(kind);
            let mut family = encoder.encode_descriptor(&name, kind.meaning, None, metric_type)?;
            for (labels, number) in numbers.iter().filter(|(_, number)| fresh(number)) {
                let mut metric = family.encode_family(labels)?;
                if is_sum {
                    metric.encode_counter::<NoLabelSet, f64, u64>(&number.value, None)?;
                } else {
                    metric.encode_gauge(&number.value)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::catalog::CATALOG;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn sums_add_up_gauges_stand_and_stale_ones_go() {
        let metrics = SeriesMetrics::default();
        let second = 1_000_000_000;
        let read =
            |name: &str, at: u64, value| Reading::new(name, "1", ((at - 1) * second, at * second), value);
        metrics.take(&[
            read("server.0.wait.ticket_us", 1, 10.0),
            read("server.0.wait.ticket_us", 2, 5.0),
            read("server.1.cache.dirty_bytes", 1, 7.0),
            read("device.vda.in_flight", 60, 3.0),
            read("nobody.knows", 1, 1.0),
        ]);
        let mut text = String::new();
        encode(&mut text, &metrics.registry()).unwrap();
        assert!(text.contains("fathom_server_wait_ticket_us_total{member=\"0\"} 15.0\n"), "{text}");
        assert!(text.contains("fathom_device_in_flight{device=\"vda\"} 3.0\n"), "{text}");
        assert!(!text.contains("fathom_server_cache_dirty_bytes{") && !text.contains("nobody"), "{text}");
        assert!(text.contains("# TYPE fathom_server_wait_ticket_us counter"), "{text}");
    }

    /// The page as scrapers get it; prometheus_client's parser of OpenMetrics takes it as it stands in the snapshot.
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

    /// The metrics that the expressions of the dashboard name.
    fn named_in(dashboard: &str) -> Vec<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts = dashboard.match_indices("fathom_").map(|(at, _)| at);
        let name = |at: usize| dashboard[at..].chars().take_while(|c| is_part(*c)).collect();
        starts.map(name).collect()
    }

    #[test]
    fn the_dashboard_asks_only_for_what_there_is() {
        let dashboard = include_str!("../../../../grafana/fathom.json");
        let name = |kind: &SeriesKind| {
            let total = if kind.kind == Kind::Sum { "_total" } else { "" };
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
