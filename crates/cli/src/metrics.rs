//! `--metrics ADDRESS`: what goes on, in OpenMetrics, for a Prometheus that scrapes it.
//!
//! One page on one address, read only. It listens where it is told and nowhere else; a bare port means the loopback. Numbers come
//! to it once a second, so that a scrape costs the load nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_load::driving::Interval;
use fathom_load::measurements::Status;
use fathom_stats::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const REQUEST_BYTES: u64 = 8 << 10;
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
                let labels = Ended { operation: (*operation).to_owned(), status: status.name().to_owned() };
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
                operation: operation.to_owned(),
                clock: clock.to_owned(),
                quantile: quantile.to_owned(),
            };
            let value = histogram.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64 / 1e9);
            self.latency.get_or_create(&labels).set(value);
        }
    }
}

/// The address in what a person writes: `9216`, `:9216` or `host:9216`.
fn parse(address: &str) -> Result<SocketAddr> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    address.parse().map_err(|_| {
        Error::usage(format!("'{address}' is no address to listen on"))
            .advise("write a port, or ADDRESS:PORT")
    })
}

fn listen(address: &str, registry: Arc<Registry>) -> Result<()> {
    let address = parse(address)?;
    let listener = TcpListener::bind(address).map_err(|error| {
        Error::new(Kind::Unsupported, format!("cannot listen on {address}")).because(error)
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    crate::output::note(&format!("metrics: http://{bound}/metrics"));
    let serve = move || {
        for socket in listener.incoming().flatten() {
            // One at a time: a scrape is short, and one that is not is cut off.
            let _ = answer(socket, &registry);
        }
    };
    let spawned = thread::Builder::new().name("metrics".to_owned()).spawn(serve);
    spawned.map_err(|error| Error::new(Kind::Unsupported, "cannot start a thread").because(error))?;
    Ok(())
}

fn answer(socket: TcpStream, registry: &Registry) -> std::io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(socket.try_clone()?.take(REQUEST_BYTES)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the request is read, or the close would be a reset.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics" | "/") => {
            let mut body = String::new();
            match encode(&mut body, registry) {
                Ok(()) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
                Err(error) => ("500 Internal Server Error", "text/plain", error.to_string()),
            }
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "the numbers are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "this page is only read\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut socket = &socket;
    socket.write_all(head.as_bytes())?;
    if method != "HEAD" {
        socket.write_all(body.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_people_write() {
        assert_eq!(parse("9216").unwrap(), parse(":9216").unwrap());
        assert_eq!(parse("9216").unwrap().to_string(), "127.0.0.1:9216");
        assert_eq!(parse("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert!(parse("host").is_err() && parse("99999").is_err());
    }
}
