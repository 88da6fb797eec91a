//! What a person and the run folder see of a load while it goes: status lines, a bar, histograms and series second by second.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use fathom_errors::Result;
use fathom_load::client_settings::ClientSettings;
use fathom_load::driving::{Interval, Observer};
use fathom_load::measurements::Measured;
use fathom_load::ycsb_report::{Progress, ReportSettings, Series, seconds_left, status_line, wall_clock};
use fathom_process::Signals;
use fathom_record::{Reading, RunWriter, State};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Watches a load.
pub(super) struct Watcher<'s> {
    settings: &'s ClientSettings,
    report: &'s ReportSettings,
    run: Option<RunWriter>,
    signals: Signals,
    begun: Instant,
    /// When measuring began, on the run folder's clock.
    zero_ns: u64,
    bar: Option<ProgressBar>,
    /// What was measured since the last status line.
    since: BTreeMap<&'static str, Measured>,
    since_operations: u64,
    since_when: Instant,
    operations: u64,
    stopped: bool,
}

impl<'s> Watcher<'s> {
    pub(super) fn new(
        settings: &'s ClientSettings,
        report: &'s ReportSettings,
        run: Option<RunWriter>,
        signals: Signals,
    ) -> Self {
        let warmup_ns = u64::try_from(settings.plan.warmup.as_nanos()).unwrap_or(u64::MAX);
        let zero_ns = run.as_ref().map_or(0, RunWriter::now_ns).saturating_add(warmup_ns);
        let bar = (std::io::stderr().is_terminal() && !settings.status).then(|| bar(settings));
        let now = Instant::now();
        Watcher {
            settings,
            report,
            run,
            signals,
            begun: now,
            zero_ns,
            bar,
            since: BTreeMap::new(),
            since_operations: 0,
            since_when: now,
            operations: 0,
            stopped: false,
        }
    }

    /// The points of `measurementtype=timeseries`.
    pub(super) fn series(&self) -> Vec<Series> {
        Vec::new()
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
        let run = self.run.take()?;
        run.finish(state, error)
            .inspect_err(|error| output::note(&format!("fathom: the run folder is incomplete: {error}")))
            .ok()
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
        let second_ns = 1_000_000_000;
        let Some(offset) =
            u64::try_from(interval.second).ok().and_then(|second| second.checked_mul(second_ns))
        else {
            return;
        };
        let window = (self.zero_ns + offset, self.zero_ns + offset + second_ns);
        let Some(run) = &mut self.run else { return };
        let wrote = run.readings(&readings(interval, window)).and_then(|()| latencies(run, interval, window));
        if let Err(error) = wrote {
            output::note(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }
}

/// Both clocks of each operation, and of its failures.
fn latencies(run: &mut RunWriter, interval: &Interval<'_>, window: (u64, u64)) -> Result<()> {
    for (name, measured) in interval.metrics {
        let name = name.to_lowercase();
        run.latency(&format!("{name}.service"), window, &measured.succeeded.service)?;
        run.latency(&format!("{name}.response"), window, &measured.succeeded.response)?;
        for (status, failed) in &measured.failed {
            let status = status.name().to_lowercase();
            run.latency(&format!("{name}.{status}.service"), window, &failed.service)?;
            run.latency(&format!("{name}.{status}.response"), window, &failed.response)?;
        }
    }
    run.latency("schedule.lag", window, interval.lag)
}

fn readings(interval: &Interval<'_>, window: (u64, u64)) -> Vec<Reading> {
    let mut readings = vec![
        Reading::new("client.operations.per_s", "1/s", window, interval.operations as f64),
        Reading::new("client.cpu_share", "1", window, interval.cpu_share),
        Reading::new("client.in_flight", "1", window, interval.in_flight),
    ];
    for (name, measured) in interval.metrics {
        let name = format!("client.{}", name.to_lowercase());
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
            readings.push(Reading::new(
                format!("{name}.{clock}.mean_ns"),
                "ns",
                window,
                value(histogram.mean_ns()),
            ));
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
            self.since.entry(name).or_default().merge(measured);
        }
        self.keep(interval);
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
