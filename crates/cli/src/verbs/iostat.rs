//! `fathom iostat`: sysstat's report of CPU and device activity, with its options, columns and JSON.
//!
//! The report on standard output is exactly the one that sysstat 12.7 would print, so that scripts keep working; notes on
//! this kernel and on what a container hides are on standard error. It refuses input that it would have to guess: a device that
//! does not exist, or an interval that is not a number. `fathom_host::iostat` computes the figures.

mod command_line;

use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_errors::Error;
use fathom_host::iostat::{
    IostatHeader, IostatOptions, IostatSampler, LocalTime, Report, SelectedRow, Selection, Snapshot, Stack,
    TimeForm, json, notes, report, text,
};
use fathom_host::{View, kernel};
use fathom_process::Signals;

use self::command_line::ReportTimes;
pub(crate) use self::command_line::{Config, command, plain};
use crate::outcome::VerbOutcome;
use crate::output;

/// The version of sysstat whose options, columns and order of rows these are.
const SYSSTAT_VERSION: &str = "12.7.9";

/// The answer to `-V`. Scripts look for "sysstat version" and three numbers, as sysstat prints them.
fn version() -> String {
    let set = ["POSIXLY_CORRECT", "S_TIME_FORMAT"].into_iter();
    let set = set.filter_map(|name| Some(format!("{name}={}\n", std::env::var(name).ok()?)));
    let fathom = env!("CARGO_PKG_VERSION");
    format!(
        "{}sysstat version {SYSSTAT_VERSION} (its options and columns, by fathom {fathom})",
        set.collect::<String>()
    )
}

/// Prints reports until the count is reached or a signal comes.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    if config.shows_version {
        output::line(&version())?;
        return Ok(VerbOutcome::Clean);
    }
    let schedule = config.times()?;
    let options = config.options()?;
    let folder = config.counter_folder()?;
    let signals = Signals::install()?;
    let view = View::live();
    let mut sampler = IostatSampler::open(&view, folder).with_cpu(options.cpu);
    let first = sampler.snapshot()?;
    let stack = Stack::read(&view);
    let selection = Selection::resolve(&options, &stack, &first.lines)?;
    let hidden = sampler.note(&first).filter(|_| options.disks);
    let paper = ReportOutput { options, as_json: config.is_json(), form: config.time_form() };
    paper.note(&view, &stack, &selection, &first, hidden);
    paper.begin(&view)?;
    let skip_first = config.omits_first() && schedule.interval.is_some();
    let mut loop_ = Loop { view, sampler, stack, selection, paper, signals, printed: 0 };
    let result = loop_.run(first, schedule, skip_first);
    // The document is closed even after a failure, unless its reader has closed the pipe.
    let closed = result.as_ref().is_err_and(|error| error.kind() == fathom_errors::Kind::OutputClosed);
    if !closed {
        loop_.paper.end()?;
    }
    result?;
    Ok(VerbOutcome::Clean)
}

struct Loop {
    view: View,
    sampler: IostatSampler,
    stack: Stack,
    selection: Selection,
    paper: ReportOutput,
    signals: Signals,
    printed: u64,
}

impl Loop {
    fn run(&mut self, first: Snapshot, schedule: ReportTimes, skip_first: bool) -> Result<(), Error> {
        let start = Instant::now();
        if !skip_first {
            self.print(None, &first)?;
        }
        let Some(interval) = schedule.interval else { return Ok(()) };
        let mut before = first;
        let mut due = interval;
        while schedule.count.is_none_or(|count| self.printed < count) {
            // Each report is due at a multiple of the interval, so that printing does not delay the next.
            if self.signals.wait(due.saturating_sub(start.elapsed())) {
                return Ok(());
            }
            due = next_due(start.elapsed(), interval);
            let after = self.sampler.snapshot()?;
            self.print(Some(&before), &after)?;
            before = after;
        }
        Ok(())
    }

    fn print(&mut self, before: Option<&Snapshot>, after: &Snapshot) -> Result<(), Error> {
        // Devices appear and disappear; the tree is read again only if a device is unknown.
        if after.lines.iter().any(|line| self.stack.device(&line.name).is_none()) {
            self.stack = Stack::read(&self.view);
        }
        let report = report(before, after, &self.selection, &self.paper.options, &self.stack);
        self.paper.report(&report, self.printed == 0)?;
        self.printed += 1;
        Ok(())
    }
}

/// The next multiple of the interval; those that passed while the process was stopped are left out.
fn next_due(elapsed: Duration, interval: Duration) -> Duration {
    let passed = elapsed.as_nanos().checked_div(interval.as_nanos()).unwrap_or(0);
    interval.saturating_mul(u32::try_from(passed.saturating_add(1)).unwrap_or(u32::MAX))
}

/// The destination and the format of the reports.
struct ReportOutput {
    options: IostatOptions,
    as_json: bool,
    form: TimeForm,
}

impl ReportOutput {
    fn note(
        &self,
        view: &View,
        stack: &Stack,
        selection: &Selection,
        first: &Snapshot,
        hidden: Option<String>,
    ) {
        let rows = selection.rows(&first.lines, stack);
        let mut shown: Vec<&str> = rows.iter().flat_map(SelectedRow::devices).collect();
        shown.sort_unstable();
        shown.dedup();
        let util = self.options.disks && self.options.extended;
        for note in hidden.into_iter().chain(notes(kernel::read(view).as_ref(), stack, &shown, util)) {
            output::note(&format!("fathom: note: {note}"));
        }
    }

    fn begin(&self, view: &View) -> Result<(), Error> {
        let header = IostatHeader::read(view, &LocalTime::now(self.form));
        self.write(&if self.as_json { json::begin(&header) } else { text::header(&header) })
    }

    fn report(&self, report: &Report, first: bool) -> Result<(), Error> {
        let stamp = LocalTime::now(self.form).timestamp;
        self.write(&if self.as_json {
            json::statistics(report, &self.options, &stamp, first)
        } else {
            text::report(report, &self.options, &stamp)
        })
    }

    fn end(&self) -> Result<(), Error> {
        if self.as_json { self.write(json::end()) } else { Ok(()) }
    }

    /// All pieces end with a line's end, which `output::line` adds itself.
    fn write(&self, piece: &str) -> Result<(), Error> {
        output::line(piece.strip_suffix('\n').unwrap_or(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_were_slept_through_are_left_out() {
        let due = |elapsed_ms, interval_ms| {
            next_due(Duration::from_millis(elapsed_ms), Duration::from_millis(interval_ms)).as_millis()
        };
        assert_eq!((due(1000, 1000), due(1001, 1000), due(3700, 1000)), (2000, 2000, 4000));
    }

    #[test]
    fn the_version_is_the_one_whose_columns_are_printed() {
        assert!(version().contains("sysstat version 12.7.9 ("), "{}", version());
    }
}
