//! What a person and the run folder see of a load while it goes: status lines, a bar, histograms and series second by second.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::{Interval, Observer};
use fathom_load::measurements::Measured;
use fathom_load::ycsb_report::{
    Means, Progress, RawPoints, ReportSettings, Series, seconds_left, status_line, wall_clock,
};
use fathom_process::Signals;
use fathom_record::disk::Entry;
use fathom_record::{RunWriter, State};
use indicatif::{ProgressBar, ProgressStyle};

use super::points::{HistogramFiles, Points};
use crate::load_seconds::keep_second;
use crate::metrics::LoadMetrics;
use crate::watching::{self, Session};
use crate::{output, run_folders};

/// Watches a load, or the phases of one after another.
pub(super) struct Watcher<'s> {
    settings: ClientSettings,
    report: &'s ReportSettings,
    /// What stands in front of the phase's names in the run folder.
    tag: String,
    run: Option<RunWriter>,
    /// The samplers beside the load.
    session: Option<Session>,
    metrics: Option<LoadMetrics>,
    signals: Signals,
    begun: Instant,
    /// When measuring began, on the run folder's clock.
    zero_ns: u64,
    bar: Option<ProgressBar>,
    /// What was measured since the last status line.
    since: BTreeMap<String, Measured>,
    since_operations: u64,
    since_when: Instant,
    operations: u64,
    /// The points of `measurementtype=timeseries`.
    means: Means,
    points: Points,
    histogram_files: Option<HistogramFiles>,
    stopped: bool,
}

impl<'s> Watcher<'s> {
    pub(super) fn new(
        settings: &ClientSettings,
        report: &'s ReportSettings,
        run: Option<RunWriter>,
        metrics: Option<LoadMetrics>,
        signals: Signals,
    ) -> Self {
        let now = Instant::now();
        Watcher {
            settings: settings.clone(),
            report,
            tag: String::new(),
            run,
            session: None,
            metrics,
            signals,
            begun: now,
            zero_ns: 0,
            bar: None,
            since: BTreeMap::new(),
            since_operations: 0,
            since_when: now,
            operations: 0,
            means: Means::default(),
            points: Points::new(),
            histogram_files: report.histogram_files().map(HistogramFiles::new),
            stopped: false,
        }
    }

    /// Keeps what these samplers bring, beside the load.
    pub(super) fn watch(&mut self, session: Option<Session>) {
        self.session = session;
    }

    /// Begins with what is driven so; `tag` stands in front of its names in the run folder.
    pub(super) fn begin(&mut self, settings: &ClientSettings, tag: &str) {
        let warmup_ns = u64::try_from(settings.plan.warmup.as_nanos()).unwrap_or(u64::MAX);
        self.zero_ns = self.run.as_ref().map_or(0, RunWriter::now_ns).saturating_add(warmup_ns);
        self.settings = settings.clone();
        tag.clone_into(&mut self.tag);
        self.bar = (std::io::stderr().is_terminal() && !settings.status).then(|| bar(settings));
        self.begun = Instant::now();
        self.since_when = self.begun;
        self.since.clear();
        (self.since_operations, self.operations) = (0, 0);
        self.means = Means::default();
        self.points = Points::new();
        self.first_status();
    }

    /// Whether somebody asked it to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The points of `measurementtype=timeseries`.
    pub(super) fn series(&self) -> Vec<Series> {
        self.means.series()
    }

    /// The points of `measurementtype=raw`; they are gone then.
    pub(super) fn take_points(&mut self) -> Vec<RawPoints> {
        std::mem::replace(&mut self.points, Points::new()).taken()
    }

    /// The status line of the start, as YCSB has it.
    fn first_status(&mut self) {
        if self.settings.status {
            self.status();
        }
    }

    /// The status line of the end.
    pub(super) fn last_status(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.settings.status {
            self.status();
        }
    }

    /// Ends the run folder; where it is, if it was kept.
    pub(super) fn close(&mut self, error: Option<String>) -> Option<PathBuf> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let state = match &error {
            Some(_) => State::Failed,
            None if self.stopped => State::Interrupted,
            None => State::Complete,
        };
        if let Some(session) = &mut self.session {
            session.stop();
        }
        self.keep_watched();
        run_folders::close(self.run.take()?, state, error)
    }

    /// Writes a status line of what was measured since the last one.
    fn status(&mut self) {
        let elapsed = self.begun.elapsed();
        let since = std::mem::replace(&mut self.since_when, Instant::now()).elapsed().as_secs_f64();
        let interval: Vec<(String, Measured)> =
            self.since.iter().map(|(name, measured)| ((*name).to_owned(), measured.clone())).collect();
        let left = self.settings.plan.operations.map(|all| all.saturating_sub(self.operations));
        let progress = Progress {
            label: &self.settings.label,
            clock: &wall_clock(SystemTime::now()),
            elapsed,
            operations: self.operations,
            current_rate: self.since_operations as f64 / since.max(1e-3),
            seconds_left: left.and_then(|left| seconds_left(self.operations, left, elapsed)),
            interval: &interval,
        };
        output::note(&status_line(self.report, &progress));
        self.since.values_mut().for_each(Measured::clear);
        self.since_operations = 0;
    }

    fn keep(&mut self, interval: &Interval<'_>) {
        let Some(run) = &mut self.run else { return };
        if let Err(error) = keep_second(run, interval, &self.tag, self.zero_ns) {
            output::note(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }

    /// Keeps what the samplers brought since.
    fn keep_watched(&mut self) {
        let Some(session) = &mut self.session else { return };
        while let Some(batch) = session.next(Duration::ZERO) {
            if let Some(run) = &mut self.run
                && let Err(error) = watching::write(run, &batch)
            {
                output::note(&format!("fathom: the run folder is given up: {error}"));
                self.run = None;
            }
        }
    }

    /// Keeps what the whole came to.
    pub(super) fn result(&mut self, entry: &Entry) {
        if let Some(run) = &mut self.run
            && let Err(error) = run.result(entry)
        {
            output::note(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }
}

fn bar(settings: &ClientSettings) -> ProgressBar {
    let (bar, template) = match settings.plan.operations {
        Some(operations) => {
            (ProgressBar::new(operations), "{wide_bar} {human_pos}/{human_len} ops  {msg}  ETA {eta}")
        }
        None => (ProgressBar::no_length(), "{spinner} {human_pos} ops  {msg}  {elapsed}"),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Observer for Watcher<'_> {
    fn second(&mut self, interval: &Interval<'_>) {
        self.operations = interval.total_operations;
        self.since_operations += interval.operations;
        for (name, measured) in interval.metrics {
            self.since.entry(name.clone()).or_default().merge(measured);
        }
        if let Ok(second) = u64::try_from(interval.second) {
            self.means.add(self.report, second, interval.metrics);
        }
        self.keep(interval);
        self.keep_watched();
        self.points.add(self.report, interval);
        if let Some(files) = &mut self.histogram_files
            && let Err(error) = files.add(self.report, interval)
        {
            output::note(&format!("fathom: the histogram logs are given up: {error}"));
            self.histogram_files = None;
        }
        if let Some(metrics) = &self.metrics {
            metrics.second(interval);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(interval.total_operations);
            let warming = if interval.second < 0 { "warming up, " } else { "" };
            bar.set_message(format!("{warming}{}/s", interval.operations));
        }
        let due = Duration::from_secs(self.settings.status_interval_s);
        if self.settings.status && self.since_when.elapsed() + Duration::from_millis(200) >= due {
            self.status();
        }
    }

    fn stop_asked(&mut self) -> bool {
        self.stopped |= self.signals.stopped();
        self.stopped
    }
}
