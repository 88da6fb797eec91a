//! The files that YCSB writes on request: every single latency, and histogram logs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_errors::{Error, Result};
use fathom_load::driving::SecondMeasurements;
use fathom_load::ycsb_report::{MeasurementInterval, RawPoints, ReportSettings, write_raw_points};
use fathom_record::LatencyLog;

/// `measurementtype=raw`: all points, held until the end.
#[derive(Debug)]
pub(super) struct Points {
    begun_ms: u64,
    by_name: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Points {
    pub(super) fn new() -> Points {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Points { begun_ms: u64::try_from(now.as_millis()).unwrap_or(0), by_name: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, settings: &ReportSettings, interval: &SecondMeasurements<'_>) {
        for point in interval.points {
            let Some(operation) = interval.names.get(point.metric) else { continue };
            let name = settings.metric_name(operation, point.status);
            let end_ms = self.begun_ms + point.end_ns / 1_000_000;
            if settings.clock() == MeasurementInterval::Both {
                let intended = self.by_name.entry(format!("Intended-{name}")).or_default();
                intended.push((end_ms, point.response_ns / 1000));
            }
            let ns = if settings.clock() == MeasurementInterval::Response {
                point.response_ns
            } else {
                point.service_ns
            };
            self.by_name.entry(name).or_default().push((end_ms, ns / 1000));
        }
    }

    pub(super) fn taken(self) -> Vec<RawPoints> {
        self.by_name.into_iter().map(|(metric, points)| RawPoints { metric, points }).collect()
    }
}

/// Writes all points to the destination in the properties, or to standard output before the report.
pub(super) fn write(settings: &ReportSettings, points: &[RawPoints]) -> Result<()> {
    let Some(file) = settings.raw_file() else {
        let mut out = std::io::stdout().lock();
        return write_raw_points(&mut out, settings, points)
            .map_err(|error| Error::io("write to", "standard output", error));
    };
    let failed = |error| Error::io("write the points to", file, error);
    let mut out = std::io::BufWriter::new(File::create(file).map_err(failed)?);
    write_raw_points(&mut out, settings, points).and_then(|()| out.flush()).map_err(failed)
}

/// `hdrhistogram.fileoutput`: a log for each operation, an interval each second.
#[derive(Debug)]
pub(super) struct HistogramFiles {
    prefix: String,
    started: SystemTime,
    logs: BTreeMap<String, LatencyLog>,
}

impl HistogramFiles {
    pub(super) fn new(prefix: &str) -> HistogramFiles {
        HistogramFiles { prefix: prefix.to_owned(), started: SystemTime::now(), logs: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, settings: &ReportSettings, interval: &SecondMeasurements<'_>) -> Result<()> {
        const SECOND_NS: u64 = 1_000_000_000;
        let Ok(second) = u64::try_from(interval.second) else { return Ok(()) };
        let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
        for (name, measured) in interval.metrics {
            let latencies = &measured.succeeded;
            if settings.clock() != MeasurementInterval::Response {
                self.log(name)?.add(window, &latencies.service)?;
            }
            if settings.clock() != MeasurementInterval::Service {
                let name = if settings.clock() == MeasurementInterval::Both {
                    format!("Intended-{name}")
                } else {
                    name.clone()
                };
                self.log(&name)?.add(window, &latencies.response)?;
            }
        }
        Ok(())
    }

    fn log(&mut self, name: &str) -> Result<&mut LatencyLog> {
        if !self.logs.contains_key(name) {
            // A plain prefix, as in YCSB: without a separator.
            let path = PathBuf::from(format!("{}{name}.hdr", self.prefix));
            self.logs.insert(name.to_owned(), LatencyLog::create(path, self.started)?);
        }
        let missing = || Error::usage(format!("no log of {name}"));
        self.logs.get_mut(name).ok_or_else(missing)
    }
}
