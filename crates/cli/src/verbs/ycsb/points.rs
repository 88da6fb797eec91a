//! The files that YCSB writes on request: every single latency, and histogram logs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_errors::{Error, Result};
use fathom_load::driving::SecondMeasurements;
use fathom_load::measurements::OperationMeasurements;
use fathom_load::ycsb_report::{RawPoints, ReportSettings, latencies_by_name, write_raw_points};
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
            let end_ms = self.begun_ms + point.end_ns / 1_000_000;
            let names = settings.point_names(operation, point.status);
            for (name, ns) in names.into_iter().zip([point.service_ns, point.response_ns]) {
                if let Some(name) = name {
                    self.by_name.entry(name).or_default().push((end_ms, ns / 1000));
                }
            }
        }
    }

    pub(super) fn taken(self) -> Vec<RawPoints> {
        self.by_name.into_iter().map(|(metric, points)| RawPoints { metric, points }).collect()
    }
}

/// Writes all points to the end of the file in the properties, or to standard output before the report.
pub(super) fn write(settings: &ReportSettings, points: &[RawPoints]) -> Result<()> {
    let Some(file) = settings.raw_file() else {
        let mut out = std::io::stdout().lock();
        return write_raw_points(&mut out, settings, points)
            .map_err(|error| Error::io("write to", "standard output", error));
    };
    let failed = |error| Error::io("write the points to", file, error);
    let opened = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    let mut out = std::io::BufWriter::new(opened);
    write_raw_points(&mut out, settings, points).and_then(|()| out.flush()).map_err(failed)
}

/// `hdrhistogram.fileoutput`: a log for each metric of the report, an interval each second.
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

    /// Adds the measurements of a second, counted from when measuring began.
    pub(super) fn add(
        &mut self,
        settings: &ReportSettings,
        second: i64,
        measured: &[(String, OperationMeasurements)],
    ) -> Result<()> {
        const SECOND_NS: u64 = 1_000_000_000;
        let Ok(second) = u64::try_from(second) else { return Ok(()) };
        let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
        for (name, latencies) in latencies_by_name(settings, measured) {
            self.log(&name)?.add(window, &latencies)?;
        }
        Ok(())
    }

    fn log(&mut self, name: &str) -> Result<&mut LatencyLog> {
        if !self.logs.contains_key(name) {
            // A plain prefix, as in YCSB: without a separator.
            let path = PathBuf::from(format!("{}{name}.hdr", self.prefix));
            // The log of an earlier run is replaced, as in YCSB: times in it count from another start.
            File::create(&path).map_err(|error| Error::io("create", &path, error))?;
            self.logs.insert(name.to_owned(), LatencyLog::create(path, self.started)?);
        }
        let missing = || Error::usage(format!("no log of {name}"));
        self.logs.get_mut(name).ok_or_else(missing)
    }
}
