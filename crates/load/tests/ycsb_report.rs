//! Tests of reports and status lines as scripts around YCSB read them: snapshots, YCSB's own example, and wrappers' expressions.

use std::time::Duration;

use fancy_regex::Regex;
use fathom_load::measurements::{OperationMeasurements, Status};
use fathom_load::properties::Properties;
use fathom_load::ycsb_report::{
    MetricSeries, RawPoints, ReportSettings, RunProgress, RunTotals, latencies_by_name, report, seconds_left,
    status_line, write_raw_points,
};

fn settings(flags: &[&str]) -> ReportSettings {
    let mut properties = Properties::default();
    flags.iter().for_each(|flag| properties.add_flag(flag).unwrap());
    let (settings, warnings) = ReportSettings::from_properties(&properties).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    settings
}

/// Latencies from 100.5 us on in steps of 10 us; response time is half a millisecond more.
fn even(operations: u64) -> OperationMeasurements {
    let mut measured = OperationMeasurements::default();
    for number in 0..operations {
        let service_ns = 100_500 + number * 10_000;
        measured.record(Status::Ok, service_ns, service_ns + 500_000);
    }
    measured
}

fn mixed() -> Vec<(String, OperationMeasurements)> {
    let mut read = even(1000);
    (0..3).for_each(|_| read.record(Status::NotFound, 200_000, 300_000));
    read.record(Status::Error, 30_000_000_000, 30_000_000_000);
    let mut insert = even(10);
    insert.count(Status::BatchedOk, 990);
    let mut scan = OperationMeasurements::default();
    scan.record(Status::Error, 7_000_000, 7_000_000);
    let mut cleanup = OperationMeasurements::default();
    cleanup.record(Status::Ok, 2_500, 2_500);
    let all = [
        ("CLEANUP", cleanup),
        ("SCAN", scan),
        ("INSERT", insert),
        ("READ", read),
        ("READ-MODIFY-WRITE", even(5)),
    ];
    all.into_iter().map(|(name, measured)| (name.to_owned(), measured)).collect()
}

fn mixed_report(flags: &[&str]) -> String {
    let metrics = mixed();
    let totals =
        RunTotals { run_time_ms: 10_110, operations: 2_010, metrics: &metrics, ..RunTotals::default() };
    report(&settings(flags), &totals)
}

fn one_report(flags: &[&str], measured: OperationMeasurements) -> String {
    let metrics = [("READ".to_owned(), measured)];
    let totals = RunTotals { run_time_ms: 1000, operations: 100, metrics: &metrics, ..RunTotals::default() };
    report(&settings(flags), &totals)
}

#[test]
fn text() {
    insta::assert_snapshot!("text", mixed_report(&[]));
    let flags = [
        "measurement.interval=both",
        "reportlatencyforeacherror=true",
        "hdrhistogram.percentiles=1,2,3,11,99.9",
    ];
    insta::assert_snapshot!("text_both_clocks_each_error", mixed_report(&flags));
}

#[test]
fn json() {
    let text = mixed_report(&["exporter=site.ycsb.measurements.exporter.JSONMeasurementsExporter"]);
    insta::assert_snapshot!("json", text);
    let stream = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let objects: Vec<serde_json::Value> = stream.collect::<Result<_, _>>().unwrap();
    assert_eq!(objects.len(), mixed_report(&[]).lines().count());
    assert_eq!(
        objects[0],
        serde_json::json!({"metric": "OVERALL", "measurement": "RunTime(ms)", "value": 10110})
    );
}

#[test]
fn json_array() {
    let exporter = "exporter=com.yahoo.ycsb.measurements.exporter.JSONArrayMeasurementsExporter";
    let mut failed = OperationMeasurements::default();
    failed.count(Status::Error, 1);
    let text = one_report(&[exporter, "measurementtype=histogram"], failed);
    insta::assert_snapshot!("json_array", text);
    let array: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(array.iter().any(|line| line["value"] == "NaN"), "{text}");
}

#[test]
fn histogram_in_milliseconds() {
    let mut measured = even(100);
    (0..100).for_each(|_| measured.record(Status::Ok, 3_200_000, 0));
    measured.record(Status::Ok, 12_000_000, 0);
    let flags = ["measurementtype=histogram", "measurement.histogram.verbose=true", "histogram.buckets=5"];
    insta::assert_snapshot!("histogram", one_report(&flags, measured));
}

#[test]
fn two_types_at_once() {
    let flags = ["measurementtype=hdrhistogram+histogram", "measurement.interval=intended"];
    insta::assert_snapshot!("hdrhistogram_and_histogram", one_report(&flags, even(100)));
    let mut verbose = OperationMeasurements::default();
    [5_100, 5_900, 5_950, 6_001, 70_000].into_iter().for_each(|ns| verbose.record(Status::Ok, ns, ns));
    let text = one_report(&["measurement.histogram.verbose=true"], verbose);
    let end = "[READ], Return=OK, 5\n[READ], 5, 3.0\n[READ], 6, 1.0\n[READ], 70, 1.0\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn means_over_time() {
    let metrics = [("READ".to_owned(), even(100))];
    let series = [
        MetricSeries { metric: "READ".to_owned(), points: vec![(0, 605.0), (1000, 724.979)] },
        MetricSeries { metric: "READ-FAILED".to_owned(), points: vec![(0, 1.0)] },
    ];
    let totals = RunTotals {
        run_time_ms: 2000,
        operations: 100,
        metrics: &metrics,
        series: &series,
        ..RunTotals::default()
    };
    insta::assert_snapshot!("timeseries", report(&settings(&["measurementtype=timeseries"]), &totals));
}

#[test]
fn each_latency_by_itself() {
    let metrics = [("READ".to_owned(), even(200))];
    let points = (0..200).rev().map(|number| (1_700_000_000_000 + number, 100 + number * 10)).collect();
    let raw = [RawPoints { metric: "READ".to_owned(), points }];
    let totals = RunTotals {
        run_time_ms: 2000,
        operations: 200,
        metrics: &metrics,
        raw: &raw,
        ..RunTotals::default()
    };
    let both = settings(&["measurementtype=hdrhistogram+raw"]);
    insta::assert_snapshot!("hdrhistogram_and_raw", report(&both, &totals));
    let raw_alone = report(&settings(&["measurementtype=raw"]), &totals);
    let start = "[READ], Total Operations, 200\n[READ], Below is a summary of latency in microseconds:, -1\n[READ], Average, 1095.0\n";
    assert!(raw_alone.contains(start), "{raw_alone}");
    let silent = report(&settings(&["measurementtype=raw", "measurement.raw.no_summary=true"]), &totals);
    assert!(silent.ends_with("[READ], Total Operations, 200\n[READ], Return=OK, 200\n"), "{silent}");
    let mut rows = Vec::new();
    write_raw_points(&mut rows, &both, &raw).unwrap();
    let rows = String::from_utf8(rows).unwrap();
    assert_eq!(rows.lines().count(), 201);
    let start = "RawREAD latency raw data: op, timestamp(ms), latency(us)\nRawREAD,1700000000199,2090\n";
    assert!(rows.starts_with(start), "{rows}");
    // The metrics are in the report's order.
    let one = |metric: &str| RawPoints { metric: metric.to_owned(), points: vec![(1, 2)] };
    let several = ["Intended-READ", "INSERT", "CLEANUP", "READ", "UPDATE-FAILED"].map(one);
    let mut rows = Vec::new();
    write_raw_points(&mut rows, &settings(&["measurementtype=raw"]), &several).unwrap();
    let rows = String::from_utf8(rows).unwrap();
    let order: Vec<&str> = rows
        .lines()
        .filter_map(|row| row.split_once(',').filter(|(name, _)| !name.contains(' ')))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(order, ["READ", "UPDATE-FAILED", "CLEANUP", "INSERT", "Intended-READ"]);
}

#[test]
fn histogram_logs_have_ycsbs_names() {
    let metrics = mixed();
    let names = |flags: &[&str]| {
        let settings = settings(flags);
        let named = latencies_by_name(&settings, &metrics);
        let counts: Vec<String> = named.iter().map(|(name, one)| format!("{name}:{}", one.len())).collect();
        counts.join(" ")
    };
    assert_eq!(
        names(&[]),
        "READ:1000 SCAN-FAILED:1 READ-MODIFY-WRITE:5 CLEANUP:1 INSERT:10 READ-FAILED:4 SCAN:0"
    );
    let both = names(&["measurement.interval=both", "latencytrackederrors=NOT_FOUND"]);
    assert!(both.contains("READ-NOT_FOUND:3") && both.contains("Intended-READ-FAILED:1"), "{both}");
    let two = names(&["measurementtype=hdrhistogram+raw"]);
    assert!(two.starts_with("HdrREAD:1000 HdrSCAN-FAILED:1 "), "{two}");
}

#[test]
fn status_lines() {
    let mut measured = mixed();
    measured.truncate(4);
    let mut progress = RunProgress {
        label: "first run ",
        clock: "2026-11-21 22:00:15:007",
        seconds_left: seconds_left(0, 1000, Duration::ZERO),
        ..RunProgress::default()
    };
    let mut lines = vec![status_line(&settings(&[]), &progress)];
    progress.elapsed = Duration::from_millis(10_999);
    progress.operations = 2010;
    progress.current_rate = 182.7438;
    progress.seconds_left = seconds_left(2010, 100_000, progress.elapsed);
    progress.interval = &measured;
    let types =
        ["hdrhistogram", "histogram", "timeseries", "raw", "hdrhistogram+histogram", "hdrhistogram+raw"];
    for name in types {
        lines.push(status_line(&settings(&[&format!("measurementtype={name}")]), &progress));
    }
    let mut idle = measured.clone();
    idle.iter_mut().for_each(|(_, measured)| measured.clear());
    progress.interval = &idle;
    progress.current_rate = 0.0;
    progress.seconds_left = None;
    lines.push(status_line(&settings(&[]), &progress));
    lines.push(status_line(&settings(&["measurementtype=raw"]), &progress));
    assert!(lines.iter().all(|line| line.ends_with(' ') && !line.contains('\n')));
    // Each ends in a blank, as in YCSB; a mark keeps it in the file.
    insta::assert_snapshot!("status_lines", lines.join("|\n"));
}

/// The report's lines as metric, measurement and value.
fn parsed(text: &str) -> Vec<(String, String, f64)> {
    let line = Regex::new(r"^\[([A-Za-z_%-]+)\], ([^,]+), (-?[0-9.]+(?:E-?[0-9]+)?|NaN|Infinity)$").unwrap();
    let parse = |text: &str| {
        let captures =
            line.captures(text).unwrap().unwrap_or_else(|| panic!("not a line of a report: {text:?}"));
        let part = |place: usize| captures[place].to_owned();
        (part(1), part(2), part(3).parse().unwrap())
    };
    text.lines().map(parse).collect()
}

fn first(text: &str, expression: &str) -> Option<String> {
    let captures = Regex::new(expression).unwrap().captures(text).unwrap();
    captures.map(|captures| captures[1].to_owned())
}

#[test]
fn wrappers_read_it() {
    for name in ["hdrhistogram", "histogram", "timeseries", "raw", "hdrhistogram+histogram"] {
        let lines = parsed(&mixed_report(&[&format!("measurementtype={name}")]));
        assert!(lines.len() > 15, "{name}");
    }
    let text = mixed_report(&[]);
    assert_eq!(first(&text, r"\[OVERALL\], RunTime\(ms\), (\d+)").as_deref(), Some("10110"));
    assert_eq!(first(&text, r"Throughput\(ops/sec\),\s+([\d.]+)").as_deref(), Some("198.81305637982197"));
    assert_eq!(first(&text, r"\[TOTAL_GC_TIME_%\], Time\(%\), ([\d.]+)").as_deref(), Some("0.0"));
    assert_eq!(first(&text, r"\[READ\], AverageLatency\(us\), ([\d.]+)").as_deref(), Some("5095.5"));
    assert_eq!(first(&text, r"\[INSERT\], Operations, (\d+)").as_deref(), Some("1000"));
    assert_eq!(first(&text, r"\[SCAN\], Operations, (\d+)").as_deref(), Some("0"));
    assert_eq!(first(&text, r"\[SCAN\], Return=ERROR, (\d+)").as_deref(), Some("1"));
    assert_eq!(first(&text, r"\[CLEANUP\], Return=(\w+)"), None);
    let failed: Vec<f64> = parsed(&text)
        .into_iter()
        .filter(|(metric, measurement, _)| metric.ends_with("-FAILED") && measurement == "Operations")
        .map(|(_, _, value)| value)
        .collect();
    assert_eq!(failed, [1.0, 4.0], "SCAN-FAILED and READ-FAILED");
}

/// Latencies with the count, mean, extremes and percentiles of an example of its report.
fn example() -> OperationMeasurements {
    let mut measured = OperationMeasurements::default();
    let groups = [
        (1, 268),
        (24_999, 601),
        (22_488, 610),
        (1, 612),
        (10, 798),
        (2_000, 1_645),
        (500, 8_343),
        (1, 36_511),
    ];
    for (count, us) in groups {
        (0..count).for_each(|_| measured.record(Status::Ok, us * 1000, 0));
    }
    measured.count(Status::NotFound, 3);
    measured
}

#[test]
fn the_example_of_ycsb_comes_out() {
    let metrics = [("READ".to_owned(), example())];
    let totals =
        RunTotals { run_time_ms: 10_110, operations: 100_000, metrics: &metrics, ..RunTotals::default() };
    let lines = parsed(&report(&settings(&[]), &totals));
    let expected = [
        ("OVERALL", "RunTime(ms)", 10_110.0),
        ("OVERALL", "Throughput(ops/sec)", 9_891.196834817013),
        ("TOTAL_GCs", "Count", 0.0),
        ("TOTAL_GC_TIME", "Time(ms)", 0.0),
        ("TOTAL_GC_TIME_%", "Time(%)", 0.0),
        ("READ", "Operations", 50_000.0),
        ("READ", "AverageLatency(us)", 724.979),
        ("READ", "MinLatency(us)", 268.0),
        ("READ", "MaxLatency(us)", 36_511.0),
        ("READ", "50thPercentileLatency(us)", 601.0),
        ("READ", "95thPercentileLatency(us)", 1_645.0),
        ("READ", "99thPercentileLatency(us)", 8_343.0),
        ("READ", "Return=OK", 50_000.0),
        ("READ", "Return=NOT_FOUND", 3.0),
    ];
    assert_eq!(lines.len(), expected.len());
    for ((metric, measurement, value), wanted) in lines.iter().zip(expected) {
        assert_eq!((metric.as_str(), measurement.as_str()), (wanted.0, wanted.1));
        let tolerance = if measurement.contains("Percentile") { 0.008 * wanted.2 } else { 0.0 };
        assert!((value - wanted.2).abs() <= tolerance, "{measurement}: {value} for {}", wanted.2);
    }
}
