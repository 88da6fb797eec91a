//! The output of a load: status lines or a bar while it runs, then YCSB's report, or figures for a document.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime};

use fathom_errors::{Error, Result};
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::Phase;
use fathom_load::driving::{LoadResult, SecondMeasurements};
use fathom_load::find_max::{SearchStep, StepVerdict};
use fathom_load::measurements::OperationMeasurements;
use fathom_load::ycsb_report::{
    Means, ReportSettings, RunProgress, RunTotals, report, seconds_left, status_line, wall_clock,
};
use fathom_session::{Events, LoadPart};
use fathom_units::count;
use serde_json::Value;

use super::config::Config;
use super::failure_advice::{TargetCollection, advice_on_documents};
use super::load_progress::LoadProgress;
use super::points::{HistogramFiles, Points};
use super::{points, results};
use crate::metrics::LoadMetrics;
use crate::output;

/// Shows a load, or the phases of one after another.
pub(super) struct LoadPrinter<'s> {
    config: &'s Config,
    settings: ClientSettings,
    report: &'s ReportSettings,
    metrics: Option<LoadMetrics>,
    collection: Option<TargetCollection>,
    begun: Instant,
    progress: Option<LoadProgress>,
    /// Measurements since the last status line.
    since: BTreeMap<String, OperationMeasurements>,
    since_operations: u64,
    since_when: Instant,
    operations: u64,
    /// The points of `measurementtype=timeseries`.
    means: Means,
    points: Points,
    histogram_files: Option<HistogramFiles>,
    /// The parts that have ended, as documents.
    pub(super) parts: Vec<Value>,
    pub(super) has_failures: bool,
    /// The first failure of a report.
    pub(super) report_error: Option<Error>,
}

impl<'s> LoadPrinter<'s> {
    pub(super) fn new(
        config: &'s Config,
        settings: &ClientSettings,
        report: &'s ReportSettings,
        metrics: Option<LoadMetrics>,
        collection: Option<TargetCollection>,
    ) -> LoadPrinter<'s> {
        let now = Instant::now();
        LoadPrinter {
            config,
            settings: settings.clone(),
            report,
            metrics,
            collection,
            begun: now,
            progress: None,
            since: BTreeMap::new(),
            since_operations: 0,
            since_when: now,
            operations: 0,
            means: Means::default(),
            points: Points::new(),
            histogram_files: report.histogram_files().map(HistogramFiles::new),
            parts: Vec::new(),
            has_failures: false,
            report_error: None,
        }
    }

    /// Begins a part with these settings of the client.
    fn begin(&mut self, settings: &ClientSettings) {
        self.settings = settings.clone();
        self.progress = (!settings.status).then(|| LoadProgress::new(&settings.plan));
        self.begun = Instant::now();
        self.since_when = self.begun;
        self.since.clear();
        (self.since_operations, self.operations) = (0, 0);
        self.means = Means::default();
        self.points = Points::new();
        // YCSB prints a status line at the start too.
        if self.settings.status {
            self.status();
        }
    }

    /// Writes the last status line.
    fn last_status(&mut self) {
        self.progress = None;
        if self.settings.status {
            self.status();
        }
    }

    /// Writes a status line with the measurements since the last one.
    fn status(&mut self) {
        let elapsed = self.begun.elapsed();
        let since = std::mem::replace(&mut self.since_when, Instant::now()).elapsed().as_secs_f64();
        let interval: Vec<(String, OperationMeasurements)> =
            self.since.iter().map(|(name, measured)| ((*name).to_owned(), measured.clone())).collect();
        let left = self.settings.plan.operations.map(|all| all.saturating_sub(self.operations));
        let progress = RunProgress {
            label: &self.settings.label,
            clock: &wall_clock(SystemTime::now()),
            elapsed,
            operations: self.operations,
            current_rate: self.since_operations as f64 / since.max(1e-3),
            seconds_left: left.and_then(|left| seconds_left(self.operations, left, elapsed)),
            interval: &interval,
        };
        output::note(&status_line(self.report, &progress));
        self.since.values_mut().for_each(OperationMeasurements::clear);
        self.since_operations = 0;
    }

    /// Prints the report, and writes the files that properties ask for. With `--json` standard output is for the document alone.
    /// The first failure is kept for the end, so that the measurement is not lost.
    fn show_report(&mut self, ended: &LoadResult, wall: Duration) {
        let raw = std::mem::replace(&mut self.points, Points::new()).taken();
        let metrics = [ended.metrics.as_slice(), ended.report_only.as_slice()].concat();
        let totals = RunTotals {
            run_time_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX).max(1),
            operations: ended.operations,
            metrics: &metrics,
            series: &self.means.series(),
            raw: &raw,
        };
        let prints = !self.config.json;
        if self.report.wants_raw() && (prints || self.report.raw_file().is_some()) {
            let written = points::write(self.report, &raw).err();
            self.report_error = self.report_error.take().or(written);
        }
        let text = report(self.report, &totals);
        let written = match self.settings.export_file.as_deref() {
            Some(file) => export(&text, file, self.parts.is_empty()),
            None => Ok(()),
        };
        // A report that its file does not take is not lost.
        let shown = match (&written, self.settings.export_file.is_some()) {
            (Ok(()), true) => Ok(()),
            _ if prints => output::line(text.trim_end()),
            _ => Ok(()),
        };
        self.report_error = self.report_error.take().or(written.err()).or(shown.err());
    }
}

impl Events for LoadPrinter<'_> {
    fn part_begins(&mut self, part: LoadPart<'_>) -> Result<()> {
        if !self.config.find_max {
            output::note(&match part.phase {
                Phase::Load => "Loading workload...".to_owned(),
                Phase::Run if self.config.workload.is_some() => format!("Starting phase {}.", part.name),
                Phase::Run => "Starting test.".to_owned(),
            });
            if !self.config.json && self.parts.is_empty() {
                output::line(&format!("mongo client connection created with {}", part.server))?;
            }
        }
        self.begin(part.settings);
        Ok(())
    }

    fn second(&mut self, interval: &SecondMeasurements<'_>) {
        self.operations = interval.total_operations;
        self.since_operations += interval.operations;
        let reported = [interval.metrics, interval.report_only].concat();
        for (name, measured) in &reported {
            self.since.entry(name.clone()).or_default().merge(measured);
        }
        if let Ok(second) = u64::try_from(interval.second) {
            self.means.add(self.report, second, &reported);
        }
        self.points.add(self.report, interval);
        if let Some(files) = &mut self.histogram_files
            && let Err(error) = files.add(self.report, interval.second, &reported)
        {
            output::note(&format!("fathom: the histogram logs are given up: {error}"));
            self.histogram_files = None;
        }
        if let Some(metrics) = &self.metrics {
            metrics.second(interval);
        }
        if let Some(progress) = &self.progress {
            progress.second(interval);
        }
        let due = Duration::from_secs(self.settings.status_interval_s);
        if self.settings.status && self.since_when.elapsed() + Duration::from_millis(200) >= due {
            self.status();
        }
    }

    fn part_ends(&mut self, part: LoadPart<'_>, ended: &LoadResult, wall: Duration) -> ControlFlow<()> {
        self.last_status();
        self.show_report(ended, wall);
        results::show_summary(ended, part.settings);
        self.has_failures |= ended.has_failures();
        let of_documents = self.config.workload.as_ref().and_then(|_| advice_on_documents(ended));
        let of_collection = self.collection.iter().flat_map(|one| one.advice(part.phase, ended));
        for sentence in of_collection.chain(of_documents) {
            output::note(&format!("fathom: {sentence}"));
        }
        self.parts.push(results::load_document(part.name, ended));
        if self.report_error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn search_begins(&mut self, connections: usize, closed_per_s: f64) -> Result<()> {
        self.last_status();
        let per_s = count(closed_per_s);
        output::note(&format!("closed loop with {connections} connections: {per_s} operations a second"));
        match &self.config.slo {
            Some(slo) if !self.config.json => output::line(&results::search_header(slo)),
            _ => Ok(()),
        }
    }

    fn search_step(&mut self, step: &SearchStep, verdict: StepVerdict) -> Result<()> {
        self.last_status();
        if self.config.json { Ok(()) } else { output::line(&results::search_line(step, verdict)) }
    }
}

/// Writes the report to a file. The first part of a load replaces what the file held, and the others follow it.
fn export(text: &str, file: &str, is_first: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.create(true);
    if is_first {
        options.write(true).truncate(true)
    } else {
        options.append(true)
    };
    let opened = options.open(file).and_then(|mut open| open.write_all(text.as_bytes()));
    opened.map_err(|error| Error::io("write the report to", file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a workload with several phases, the file had the report of the last one only.
    #[test]
    fn the_parts_of_a_load_share_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report").display().to_string();
        std::fs::write(&file, "the report of an earlier load").unwrap();
        export("first\n", &file, true).unwrap();
        export("second\n", &file, false).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "first\nsecond\n");
    }
}
