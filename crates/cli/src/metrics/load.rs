//! The numbers of a load on the page of metrics. They come to it once a second, so that a scrape costs the load nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fathom_errors::Result;
use fathom_load::driving::Interval;
use fathom_load::measurements::Status;
use fathom_stats::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{label, listen};

const QUANTILES: [(f64, &str); 4] = [(0.5, "0.5"), (0.95, "0.95"), (0.99, "0.99"), (0.999, "0.999")];

type Number = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
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
    ended: Family<Ended, Counter>,
    latency: Family<Quantile, Number>,
    lag: Number,
    in_flight: Number,
    client_cpu: Number,
    rate: Number,
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

    /// Takes the numbers of a second.
    pub(crate) fn second(&self, interval: &Interval<'_>) {
        let seconds = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
        self.rate.set(interval.operations as f64);
        self.in_flight.set(interval.in_flight);
        self.client_cpu.set(interval.cpu_share);
        self.lag.set(seconds(interval.lag.quantile_ns(0.99)));
        for (operation, measured) in interval.metrics {
            for status in Status::ALL.into_iter().filter(|status| measured.returned(*status) > 0) {
                let labels = Ended { operation: label(operation), status: status.name().to_owned() };
                self.ended.get_or_create(&labels).inc_by(measured.returned(status));
            }
            let clocks =
                [("service", &measured.succeeded.service), ("response", &measured.succeeded.response)];
            for (clock, histogram) in clocks {
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
