//! The metrics of the report and their order: operations, failed ones, and the second clock.
//!
//! YCSB keeps metrics in hash maps and prints them in the maps' order, and scripts that take "the second block" rely on it. So
//! the order here is that of a map with 16 buckets, the size of YCSB's with fewer than 12 metrics; here it stays so with more.

use std::borrow::Cow;

use fathom_stats::Histogram;

use super::settings::{INTENDED, MeasurementInterval, ReportSettings, has_due_time};
use crate::java::StringHash;
use crate::measurements::{Latencies, OperationMeasurements, Status};

/// The order of YCSB's metrics within a bucket (docs/methods.md#ycsb); others follow them in the given order.
const KNOWN: [&str; 13] = [
    "READ",
    "UPDATE-FAILED",
    "SCAN-FAILED",
    "DELETE",
    "READ-MODIFY-WRITE",
    "CLEANUP",
    "SCAN-LATENCY-PER-RECORD",
    "UPDATE",
    "INSERT",
    "VERIFY",
    "READ-FAILED",
    "SCAN",
    "INSERT-FAILED",
];

/// Metrics without lines of return counts: they are measured around other operations, or are not operations.
const WITHOUT_RETURNS: [&str; 3] = ["READ-MODIFY-WRITE", "CLEANUP", "SCAN-LATENCY-PER-RECORD"];

/// A block of the report.
#[derive(Debug)]
pub(super) struct ReportBlock<'a> {
    /// `READ`, `READ-FAILED` or `Intended-READ`.
    pub(super) name: String,
    /// Operations and documents of batches; at least as many as latencies.
    pub(super) operations: u64,
    pub(super) latencies: Cow<'a, Histogram>,
    /// The measurements with the return counts, for the one block that shows them.
    pub(super) returns: Option<&'a OperationMeasurements>,
}

/// The blocks of all operations. An operation or failure without measurements is left out, unless `keep_empty` is set: an
/// interval in which no operation ended then shows that.
pub(super) fn metrics<'a>(
    settings: &ReportSettings,
    measured: &'a [(String, OperationMeasurements)],
    keep_empty: bool,
) -> Vec<ReportBlock<'a>> {
    let service: HistogramSelector = |latencies| &latencies.service;
    let response: HistogramSelector = |latencies| &latencies.response;
    let clocks = match settings.clock {
        MeasurementInterval::Service => vec![(service, "", true)],
        MeasurementInterval::Response => vec![(response, "", false)],
        MeasurementInterval::Both => vec![(service, "", true), (response, INTENDED, false)],
    };
    let mut metrics = Vec::new();
    for (select, prefix, is_service) in clocks {
        let mut blocks: Vec<ReportBlock<'a>> = Vec::new();
        for (operation, measured) in measured {
            let has_returns = prefix.is_empty() && !WITHOUT_RETURNS.contains(&operation.as_str());
            let returns = has_returns.then_some(measured);
            if !is_service && !has_due_time(operation) {
                let shown = returns.is_some_and(|returns| keep_empty || !returns.is_empty());
                blocks.extend(shown.then(|| only_returns(operation, returns)));
                continue;
            }
            blocks.extend(succeeded(operation, measured, select, returns, keep_empty));
            blocks.extend(failed(settings, operation, measured, select, keep_empty));
        }
        blocks.sort_by_key(|block| place(&block.name));
        blocks.iter_mut().for_each(|block| block.name.insert_str(0, prefix));
        metrics.append(&mut blocks);
    }
    metrics
}

/// One of the two clocks.
type HistogramSelector = fn(&Latencies) -> &Histogram;

fn succeeded<'a>(
    operation: &str,
    measured: &'a OperationMeasurements,
    select: HistogramSelector,
    returns: Option<&'a OperationMeasurements>,
    keep_empty: bool,
) -> Option<ReportBlock<'a>> {
    let latencies = select(&measured.succeeded);
    // An operation that always failed has its block too, because of its lines of return counts.
    let shown = keep_empty || !latencies.is_empty() || returns.is_some_and(|returns| !returns.is_empty());
    shown.then(|| ReportBlock {
        name: operation.to_owned(),
        operations: measured.returned(Status::Ok) + measured.returned(Status::BatchedOk),
        latencies: Cow::Borrowed(latencies),
        returns,
    })
}

/// The block of an operation that has lines of return counts and no latencies.
fn only_returns<'a>(operation: &str, returns: Option<&'a OperationMeasurements>) -> ReportBlock<'a> {
    let latencies = Cow::Owned(Histogram::new());
    ReportBlock { name: operation.to_owned(), operations: 0, latencies, returns }
}

fn failed<'a>(
    settings: &ReportSettings,
    operation: &str,
    measured: &'a OperationMeasurements,
    select: HistogramSelector,
    keep_empty: bool,
) -> Vec<ReportBlock<'a>> {
    let mut metrics: Vec<ReportBlock<'a>> = Vec::new();
    for (status, latencies) in &measured.failed {
        let latencies = select(latencies);
        if latencies.is_empty() && !keep_empty {
            continue;
        }
        let name = settings.metric_name(operation, *status);
        let operations = measured.returned(*status);
        match metrics.iter_mut().find(|metric| metric.name == name) {
            Some(metric) => {
                metric.operations += operations;
                metric.latencies.to_mut().merge(latencies);
            }
            None => metrics.push(ReportBlock {
                name,
                operations,
                latencies: Cow::Borrowed(latencies),
                returns: None,
            }),
        }
    }
    metrics
}

/// The place of a metric in the report.
pub(super) fn place(name: &str) -> (u32, usize) {
    let hash = StringHash::from_text(name).value() as u32;
    let known = KNOWN.iter().position(|known| *known == name).unwrap_or(KNOWN.len());
    ((hash ^ (hash >> 16)) & 15, known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Properties;

    fn settings(flags: &[&str]) -> ReportSettings {
        let mut properties = Properties::default();
        flags.iter().for_each(|flag| properties.add_flag(flag).unwrap());
        ReportSettings::from_properties(&properties).unwrap().0
    }

    fn names(settings: &ReportSettings, measured: &[(String, OperationMeasurements)]) -> Vec<String> {
        metrics(settings, measured, false).into_iter().map(|metric| metric.name).collect()
    }

    fn measured(operation: &str, statuses: &[Status]) -> (String, OperationMeasurements) {
        let mut measured = OperationMeasurements::default();
        statuses.iter().for_each(|status| measured.record(*status, 1_000, 2_000));
        (operation.to_owned(), measured)
    }

    #[test]
    fn the_order_is_that_of_a_hash_map() {
        let mut known = KNOWN.to_vec();
        known.reverse();
        known.sort_by_key(|name| place(name));
        assert_eq!(known, KNOWN, "the buckets agree with the list");
        let both = [Status::Ok, Status::Error];
        let all = ["INSERT", "SCAN", "UPDATE", "DELETE", "READ"].map(|name| measured(name, &both));
        let expected = "READ UPDATE-FAILED SCAN-FAILED DELETE DELETE-FAILED UPDATE INSERT READ-FAILED SCAN INSERT-FAILED";
        assert_eq!(names(&settings(&[]), &all).join(" "), expected);
    }

    #[test]
    fn both_clocks_come_one_behind_the_other() {
        let all = [measured("UPDATE", &[Status::Ok]), measured("READ", &[Status::Error])];
        let settings = settings(&["measurement.interval=both"]);
        assert_eq!(
            names(&settings, &all),
            ["READ", "UPDATE", "READ-FAILED", "Intended-UPDATE", "Intended-READ-FAILED"]
        );
        let metrics = metrics(&settings, &all, false);
        let ends: Vec<bool> = metrics.iter().map(|metric| metric.returns.is_some()).collect();
        assert_eq!(ends, [true, true, false, false, false]);
        assert_eq!(metrics[0].operations, 0, "all failed, and the block is there to say it");
        assert_eq!(metrics[1].latencies.max_ns(), Some(1_000));
        assert_eq!(metrics[3].latencies.max_ns(), Some(2_000));
    }

    #[test]
    fn metrics_without_a_due_time_have_one_clock() {
        let all = ["SCAN", "VERIFY", "SCAN-LATENCY-PER-RECORD"].map(|name| measured(name, &[Status::Ok]));
        let expected = "SCAN-LATENCY-PER-RECORD VERIFY SCAN Intended-SCAN";
        assert_eq!(names(&settings(&["measurement.interval=both"]), &all).join(" "), expected);
        let intended = settings(&["measurement.interval=intended"]);
        let metrics = metrics(&intended, &all, false);
        let shown: Vec<_> =
            metrics.iter().map(|one| (one.name.as_str(), one.operations, one.returns.is_some())).collect();
        assert_eq!(shown, [("VERIFY", 0, true), ("SCAN", 1, true)]);
    }

    #[test]
    fn failures_are_one_block_or_one_for_each_status() {
        let all = [measured("READ", &[Status::Error, Status::NotFound, Status::NotFound])];
        assert_eq!(names(&settings(&[]), &all), ["READ", "READ-FAILED"]);
        let merged = settings(&[]);
        let merged = metrics(&merged, &all, false);
        assert_eq!((merged[1].operations, merged[1].latencies.len()), (3, 3));
        let one = settings(&["latencytrackederrors=NOT_FOUND"]);
        assert_eq!(names(&one, &all), ["READ", "READ-NOT_FOUND", "READ-FAILED"]);
        let each = settings(&["reportlatencyforeacherror=true"]);
        assert_eq!(names(&each, &all), ["READ", "READ-NOT_FOUND", "READ-ERROR"]);
    }

    #[test]
    fn nothing_measured_is_no_block_but_in_an_interval() {
        let mut all = [measured("READ", &[Status::Ok, Status::Error]), measured("CLEANUP", &[])];
        all.iter_mut().for_each(|(_, measured)| measured.clear());
        let settings = settings(&[]);
        assert!(names(&settings, &all).is_empty());
        assert_eq!(metrics(&settings, &all, true).len(), 3);
    }

    #[test]
    fn documents_of_a_batch_are_operations() {
        let (name, mut insert) = measured("INSERT", &[Status::Ok]);
        insert.count(Status::BatchedOk, 99);
        let all = [(name, insert)];
        let settings = settings(&[]);
        let metrics = metrics(&settings, &all, false);
        assert_eq!((metrics[0].operations, metrics[0].latencies.len()), (100, 1));
    }
}
