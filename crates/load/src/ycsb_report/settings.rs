//! The settings of the report, read from the properties (docs/methods.md#ycsb).
//!
//! A problem that YCSB warns of is a warning here too; one that ends it is an error. A status to be tracked that does not
//! exist causes a warning, whereas YCSB looks for it in vain.
//!
//! A list of percentiles that cannot be read causes a warning and is replaced by YCSB's own three, as there. A percentile
//! outside of 0 to 100 does the same; YCSB silently takes it for the nearest end.

use fathom_errors::Error;

use super::java_double;
use crate::measurements::Status;
use crate::properties::Properties;

/// The prefix of the second clock's metrics, if the report has both.
pub(super) const INTENDED: &str = "Intended-";

/// Metrics that YCSB measures by the clock of requests only: they are not due at any time.
const WITHOUT_DUE_TIME: [&str; 2] = ["VERIFY", "SCAN-LATENCY-PER-RECORD"];

/// Whether a metric has latencies by the second clock, from when operations were due.
pub(super) fn has_due_time(operation: &str) -> bool {
    !WITHOUT_DUE_TIME.contains(&operation)
}

/// The most buckets: a quarter of an hour. A report with all of them is 20 MB long for each operation.
const MAX_BUCKETS: u64 = 1_000_000;

/// The packages of YCSB's exporters, now and before 0.17.
const EXPORTER_PACKAGES: [&str; 2] =
    ["site.ycsb.measurements.exporter.", "com.yahoo.ycsb.measurements.exporter."];

/// The form in which latencies are kept and shown (`measurementtype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementType {
    /// Percentiles of a histogram with buckets of a constant share of their value.
    Hdr,
    /// Buckets of a millisecond.
    Buckets,
    /// Both an HDR histogram and buckets.
    HdrAndBuckets,
    /// Percentiles, and individual latencies.
    HdrAndRaw,
    /// The mean of each interval over time.
    TimeSeries,
    /// Individual latencies, without percentiles.
    Raw,
}

/// The start from which latencies count (`measurement.interval`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementInterval {
    /// From the sending of a request: service time.
    Service,
    /// From when the request was due, under the operation's own name: response time.
    Response,
    /// Both, response time as `Intended-` and the operation's name.
    Both,
}

/// The form of the report (`exporter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exporter {
    Text,
    /// A sequence of JSON objects, without commas.
    Json,
    JsonArray,
}

/// The settings of the report.
#[derive(Clone, Debug)]
pub struct ReportSettings {
    pub(super) shape: MeasurementType,
    pub(super) clock: MeasurementInterval,
    pub(super) exporter: Exporter,
    pub(super) percentiles: Vec<f64>,
    /// Every bucket of a histogram.
    pub(super) verbose: bool,
    pub(super) buckets: u64,
    pub(super) raw_summary: bool,
    granularity_ms: u64,
    raw_file: Option<String>,
    histogram_files: Option<String>,
    /// The statuses whose latencies are reported separately.
    tracked: Vec<Status>,
}

impl ReportSettings {
    /// The settings in the properties, and warnings of those without effect.
    ///
    /// # Errors
    /// `Kind::Usage` if `measurementtype` or `measurement.interval` is an unknown word, or a number is invalid.
    pub fn from_properties(properties: &Properties) -> Result<(ReportSettings, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let buckets = properties.whole("histogram.buckets")?.unwrap_or(1000);
        if buckets > MAX_BUCKETS {
            return Err(Error::usage(format!(
                "histogram.buckets takes at most {MAX_BUCKETS}, not {buckets}"
            )));
        }
        let granularity_ms = properties.whole("timeseries.granularity")?.unwrap_or(1000);
        if granularity_ms == 0 {
            return Err(Error::usage("timeseries.granularity takes at least 1 (ms), not 0"));
        }
        let whole_ms = granularity_ms.div_ceil(1000).saturating_mul(1000);
        if whole_ms != granularity_ms {
            warnings.push(format!(
                "timeseries.granularity={granularity_ms} becomes {whole_ms}: points are of whole seconds here"
            ));
        }
        let settings = ReportSettings {
            shape: shape(properties)?,
            clock: clock(properties)?,
            exporter: exporter(properties, &mut warnings),
            percentiles: percentiles_of(properties, &mut warnings),
            verbose: properties.truth("measurement.histogram.verbose", false),
            buckets,
            raw_summary: !properties.truth("measurement.raw.no_summary", false),
            granularity_ms: whole_ms,
            raw_file: properties.text("measurement.raw.output_file").map(str::to_owned),
            histogram_files: properties
                .truth("hdrhistogram.fileoutput", false)
                .then(|| properties.text("hdrhistogram.output.path").unwrap_or_default().to_owned()),
            tracked: tracked(properties, &mut warnings),
        };
        Ok((settings, warnings))
    }

    /// The form in which latencies are kept and shown.
    pub fn shape(&self) -> MeasurementType {
        self.shape
    }

    /// The start from which latencies count.
    pub fn clock(&self) -> MeasurementInterval {
        self.clock
    }

    /// The milliseconds of a point of [`MeasurementType::TimeSeries`].
    pub fn granularity_ms(&self) -> u64 {
        self.granularity_ms
    }

    /// Whether individual latencies are to be kept.
    pub fn wants_raw(&self) -> bool {
        matches!(self.shape, MeasurementType::Raw | MeasurementType::HdrAndRaw)
    }

    /// The file of raw points; standard output if there is none.
    pub fn raw_file(&self) -> Option<&str> {
        self.raw_file.as_deref()
    }

    /// The prefix of the names of histogram logs, if they are written.
    pub fn histogram_files(&self) -> Option<&str> {
        self.histogram_files.as_deref()
    }

    /// Whether failed operations with this status are shown separately; the others are `-FAILED`.
    pub(super) fn is_tracked(&self, status: Status) -> bool {
        self.tracked.contains(&status)
    }

    /// The names in the report for the latency of an operation that ended so: by the first clock and by the second, as far as the
    /// report has them.
    pub fn point_names(&self, operation: &str, status: Status) -> [Option<String>; 2] {
        let name = self.metric_name(operation, status);
        let response = has_due_time(operation);
        match self.clock {
            MeasurementInterval::Service => [Some(name), None],
            MeasurementInterval::Response => [None, response.then_some(name)],
            MeasurementInterval::Both => {
                let intended = response.then(|| format!("{INTENDED}{name}"));
                [Some(name), intended]
            }
        }
    }

    /// The name in the report for operations that ended so, by [`MeasurementInterval::Service`] or [`MeasurementInterval::Response`]: `READ`, `READ-FAILED`,
    /// `READ-NOT_FOUND`. Series and raw points have this name (with `Intended-` in front if the report has it).
    pub fn metric_name(&self, operation: &str, status: Status) -> String {
        if status.is_success() {
            operation.to_owned()
        } else if self.is_tracked(status) {
            format!("{operation}-{}", status.name())
        } else {
            format!("{operation}-FAILED")
        }
    }
}

fn shape(properties: &Properties) -> Result<MeasurementType, Error> {
    let words = [
        ("hdrhistogram", MeasurementType::Hdr),
        ("histogram", MeasurementType::Buckets),
        ("hdrhistogram+histogram", MeasurementType::HdrAndBuckets),
        ("hdrhistogram+raw", MeasurementType::HdrAndRaw),
        ("timeseries", MeasurementType::TimeSeries),
        ("raw", MeasurementType::Raw),
    ];
    Ok(properties.choice("measurementtype", &words)?.unwrap_or(MeasurementType::Hdr))
}

fn clock(properties: &Properties) -> Result<MeasurementInterval, Error> {
    let words = [
        ("op", MeasurementInterval::Service),
        ("intended", MeasurementInterval::Response),
        ("both", MeasurementInterval::Both),
    ];
    Ok(properties.choice("measurement.interval", &words)?.unwrap_or(MeasurementInterval::Service))
}

fn exporter(properties: &Properties, warnings: &mut Vec<String>) -> Exporter {
    let Some(class) = properties.text("exporter") else { return Exporter::Text };
    let bare = EXPORTER_PACKAGES.iter().find_map(|package| class.strip_prefix(package)).unwrap_or(class);
    match bare {
        "TextMeasurementsExporter" => Exporter::Text,
        "JSONMeasurementsExporter" => Exporter::Json,
        "JSONArrayMeasurementsExporter" => Exporter::JsonArray,
        _ => {
            warnings.push(format!(
                "there is no exporter '{class}'; the report is text (known are TextMeasurementsExporter, \
                 JSONMeasurementsExporter and JSONArrayMeasurementsExporter)"
            ));
            Exporter::Text
        }
    }
}

fn percentiles_of(properties: &Properties, warnings: &mut Vec<String>) -> Vec<f64> {
    let Some(list) = properties.get("hdrhistogram.percentiles") else { return DEFAULT_PERCENTILES.to_vec() };
    parse_percentiles(list).unwrap_or_else(|| {
        warnings.push(format!(
            "hdrhistogram.percentiles takes numbers from 0 to 100 with commas between, not '{list}'; the report has 50,95,99"
        ));
        DEFAULT_PERCENTILES.to_vec()
    })
}

fn tracked(properties: &Properties, warnings: &mut Vec<String>) -> Vec<Status> {
    if properties.truth("reportlatencyforeacherror", false) {
        return Status::ALL.to_vec();
    }
    let list = properties.get("latencytrackederrors").unwrap_or_default();
    let mut tracked = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match Status::ALL.into_iter().find(|status| status.name() == name) {
            Some(status) => tracked.push(status),
            None => warnings.push(format!("latencytrackederrors: no operation can end with '{name}'")),
        }
    }
    tracked
}

/// The percentiles without a list, or with one that cannot be read.
pub(super) const DEFAULT_PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Reads `50,95,99.9`; commas at the end do not count, as in Java.
pub(super) fn parse_percentiles(list: &str) -> Option<Vec<f64>> {
    let number = |text: &str| text.trim().parse().ok().filter(|number| (0.0..=100.0).contains(number));
    list.trim().trim_end_matches(',').split(',').map(number).collect()
}

/// `50th`, `1st`, `11th`; a fraction has no ending: `99.9`.
pub(super) fn percentile_label(percentile: f64) -> String {
    if percentile.fract() != 0.0 {
        return java_double(percentile);
    }
    let whole = percentile as u64;
    let ending = match (whole % 100, whole % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{whole}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flags: &[&str]) -> Result<(ReportSettings, Vec<String>), Error> {
        let mut properties = Properties::default();
        flags.iter().for_each(|flag| properties.add_flag(flag).unwrap());
        ReportSettings::from_properties(&properties)
    }

    #[test]
    fn defaults_are_those_of_ycsb() {
        let (settings, warnings) = of(&[]).unwrap();
        assert!(warnings.is_empty());
        assert_eq!(
            (settings.shape(), settings.clock()),
            (MeasurementType::Hdr, MeasurementInterval::Service)
        );
        assert_eq!((settings.exporter, settings.percentiles), (Exporter::Text, vec![50.0, 95.0, 99.0]));
        assert_eq!((settings.buckets, settings.granularity_ms, settings.raw_file), (1000, 1000, None));
    }

    #[test]
    fn exporters_go_by_both_packages_and_by_their_bare_name() {
        for (class, exporter) in [
            ("site.ycsb.measurements.exporter.TextMeasurementsExporter", Exporter::Text),
            ("com.yahoo.ycsb.measurements.exporter.JSONMeasurementsExporter", Exporter::Json),
            ("site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter ", Exporter::JsonArray),
            ("JSONArrayMeasurementsExporter", Exporter::JsonArray),
        ] {
            let (settings, warnings) = of(&[&format!("exporter={class}")]).unwrap();
            assert_eq!((settings.exporter, warnings.len()), (exporter, 0), "{class}");
        }
        let (settings, warnings) = of(&["exporter=site.ycsb.XmlExporter"]).unwrap();
        assert_eq!(settings.exporter, Exporter::Text);
        assert!(warnings.len() == 1 && warnings[0].contains("'site.ycsb.XmlExporter'"), "{warnings:?}");
    }

    #[test]
    fn what_cannot_be_read_is_warned_of_or_refused() {
        let (settings, warnings) =
            of(&["hdrhistogram.percentiles=95;99", "latencytrackederrors=NOT_FOUND, Error"]).unwrap();
        assert_eq!(settings.percentiles, DEFAULT_PERCENTILES);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("not '95;99'") && warnings[1].contains("'Error'"), "{warnings:?}");
        assert!(settings.is_tracked(Status::NotFound) && !settings.is_tracked(Status::Error));
        for wrong in [
            "measurementtype=hdr",
            "measurement.interval=service",
            "histogram.buckets=-1",
            "histogram.buckets=99999999999",
            "timeseries.granularity=0",
        ] {
            let error = of(&[wrong]).unwrap_err();
            assert_eq!(error.kind(), fathom_errors::Kind::Usage, "{wrong}");
            let name = wrong.split('=').next().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn failures_are_named_by_their_status_where_asked() {
        let (settings, _) = of(&["latencytrackederrors=NOT_FOUND"]).unwrap();
        let names = [Status::Ok, Status::BatchedOk, Status::NotFound, Status::Error]
            .map(|status| settings.metric_name("READ", status));
        assert_eq!(names, ["READ", "READ", "READ-NOT_FOUND", "READ-FAILED"]);
        let (settings, _) = of(&["reportlatencyforeacherror=TRUE"]).unwrap();
        assert_eq!(settings.metric_name("SCAN", Status::Forbidden), "SCAN-FORBIDDEN");
    }

    #[test]
    fn points_have_the_names_of_the_clocks_that_the_report_has() {
        let some = |name: &str| Some(name.to_owned());
        for (interval, operation, names) in [
            ("op", "READ", [some("READ-FAILED"), None]),
            ("intended", "READ", [None, some("READ-FAILED")]),
            ("both", "READ", [some("READ-FAILED"), some("Intended-READ-FAILED")]),
            ("both", "VERIFY", [some("VERIFY-FAILED"), None]),
            ("intended", "SCAN-LATENCY-PER-RECORD", [None, None]),
        ] {
            let (settings, _) = of(&[&format!("measurement.interval={interval}")]).unwrap();
            assert_eq!(settings.point_names(operation, Status::Error), names, "{interval} {operation}");
        }
    }

    #[test]
    fn labels_are_ordinals_or_bare_fractions() {
        let percentiles =
            [0.0, 1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 21.0, 22.0, 50.0, 100.0, 99.9, 99.99, 0.0001];
        let labels: Vec<String> = percentiles.into_iter().map(percentile_label).collect();
        assert_eq!(
            labels.join(" "),
            "0th 1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 50th 100th 99.9 99.99 1.0E-4"
        );
    }

    #[test]
    fn lists_are_read_or_refused_whole() {
        assert_eq!(parse_percentiles("50,95, 99.9 "), Some(vec![50.0, 95.0, 99.9]));
        assert_eq!(parse_percentiles("99,,"), Some(vec![99.0]));
        for wrong in ["", "abc", "50,,99", "50;99", "101", "-1", "NaN", "50,9x"] {
            assert_eq!(parse_percentiles(wrong), None, "{wrong:?}");
        }
    }
}
