//! The seconds of a load as readings and histograms of a run folder.

use fathom_errors::Result;
use fathom_load::driving::SecondMeasurements;
use fathom_record::{Reading, RunWriter};

/// The readings of one second of a load, and the window that they are of.
pub(crate) struct LoadSecond {
    pub(crate) readings: Vec<Reading>,
    window: (u64, u64),
}

impl LoadSecond {
    /// The figures of an interval; `None` during the warm-up. `tag` is a prefix of their names, `zero_ns` the start of the measurement
    /// on the run's clock.
    pub(crate) fn new(interval: &SecondMeasurements<'_>, tag: &str, zero_ns: u64) -> Option<LoadSecond> {
        let window = window(interval, zero_ns)?;
        Some(LoadSecond { readings: readings(interval, tag, window), window })
    }
}

/// Writes one second of a load: its readings, and the histograms of both clocks for each operation.
pub(crate) fn write(
    run: &mut RunWriter,
    interval: &SecondMeasurements<'_>,
    tag: &str,
    LoadSecond { readings, window }: &LoadSecond,
) -> Result<()> {
    let window = *window;
    run.readings(readings)?;
    for (name, measured) in interval.metrics {
        let name = format!("{tag}{}", name.to_lowercase());
        run.latency(&format!("{name}.service"), window, &measured.succeeded.service)?;
        run.latency(&format!("{name}.response"), window, &measured.succeeded.response)?;
        for (status, failed) in &measured.failed {
            let status = status.name().to_lowercase();
            run.latency(&format!("{name}.{status}.service"), window, &failed.service)?;
            run.latency(&format!("{name}.{status}.response"), window, &failed.response)?;
        }
    }
    run.latency(&format!("{tag}schedule.lag"), window, interval.lag)
}

/// The window of an interval on the run's clock, or `None` during the warm-up.
fn window(interval: &SecondMeasurements<'_>, zero_ns: u64) -> Option<(u64, u64)> {
    const SECOND_NS: u64 = 1_000_000_000;
    let offset_ns = u64::try_from(interval.second).ok()?.checked_mul(SECOND_NS)?;
    let begin_ns = offset_ns.checked_add(zero_ns)?;
    Some((begin_ns, begin_ns.checked_add(SECOND_NS)?))
}

/// The figures of a second of a load, under the names of `fathom_record::catalog`.
fn readings(interval: &SecondMeasurements<'_>, tag: &str, window: (u64, u64)) -> Vec<Reading> {
    let client = format!("client.{tag}");
    let mut readings = vec![
        Reading::new(format!("{client}operations.per_s"), "1/s", window, interval.operations as f64),
        Reading::new(format!("{client}cpu_share"), "1", window, interval.cpu_share),
        Reading::new(format!("{client}in_flight"), "1", window, interval.in_flight),
        Reading::new(format!("{client}connections"), "1", window, interval.connections as f64),
        Reading::new(format!("{client}user_bytes"), "bytes", window, interval.user_bytes as f64),
    ];
    for (name, measured) in interval.metrics {
        let name = format!("{client}{}", name.to_lowercase());
        let count = measured.succeeded.service.len();
        readings.push(Reading::new(format!("{name}.per_s"), "1/s", window, count as f64));
        readings.push(Reading::new(
            format!("{name}.failed.per_s"),
            "1/s",
            window,
            measured.failures() as f64,
        ));
        for (clock, histogram) in
            [("service", &measured.succeeded.service), ("response", &measured.succeeded.response)]
        {
            let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let mean = value(histogram.mean_ns());
            readings.push(Reading::new(format!("{name}.{clock}.mean_ns"), "ns", window, mean));
            for (label, q) in [("p50", 0.5), ("p99", 0.99)] {
                let quantile = histogram.supported_quantile(q).map(|nanos| nanos.get() as f64);
                readings.push(Reading::new(
                    format!("{name}.{clock}.{label}_ns"),
                    "ns",
                    window,
                    value(quantile),
                ));
            }
        }
    }
    readings
}
