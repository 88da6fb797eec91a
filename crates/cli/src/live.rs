//! Where a probe's news go: the run folder always, and the terminal as text, as JSON lines, or not until the end.

use std::io::IsTerminal;

use fathom_errors::Result;
use fathom_probe::{Interval, Outcome, Sink, Track};
use fathom_record::disk::{Entry, Knee, Step};
use fathom_record::{Finding, RunWriter, State};
use fathom_report::{FioStep, entry_lines, phase_heading};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{output, run_folders};

/// Columns of the text.
pub(crate) const WIDTH: usize = 80;

/// What standard output gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines for people, as results come.
    Text,
    /// One JSON document at the end.
    Document,
    /// A JSON object a line, as results come.
    Lines,
    /// fio's json+ document at the end.
    Fio,
}

/// The news of one probing.
pub(crate) struct Live {
    pub(crate) format: Format,
    pub(crate) run: Option<RunWriter>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) fio: Vec<FioStep>,
    heading: String,
    progress: Option<ProgressBar>,
    kept: bool,
}

impl Live {
    /// News in `format`, kept in `run` where there is one.
    pub(crate) fn new(format: Format, run: Option<RunWriter>) -> Self {
        Live {
            format,
            run,
            entries: Vec::new(),
            fio: Vec::new(),
            heading: String::new(),
            progress: None,
            kept: false,
        }
    }

    /// The steps so far.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let step = |entry: &Entry| if let Entry::Step(step) = entry { Some(step.clone()) } else { None };
        self.entries.iter().filter_map(step).collect()
    }

    /// The last knee.
    pub(crate) fn knee(&self) -> Option<&Knee> {
        self.entries
            .iter()
            .rev()
            .find_map(|entry| if let Entry::Knee(knee) = entry { Some(knee) } else { None })
    }

    /// Ends the run folder.
    pub(crate) fn end(&mut self, state: State, error: Option<String>, findings: &[Finding]) {
        self.progress.take().into_iter().for_each(|progress| progress.finish_and_clear());
        self.keep(|run| run.findings(findings));
        self.kept = self.run.take().and_then(|run| run_folders::close(run, state, error)).is_some();
    }

    /// Whether the run folder was written to its end.
    pub(crate) fn run_is_kept(&self) -> bool {
        self.kept
    }

    /// The directory probed and the size of its file.
    pub(crate) fn subject(&self) -> (String, u64) {
        let subject = |entry: &Entry| {
            if let Entry::Subject(s) = entry { Some((s.directory.clone(), s.size_bytes)) } else { None }
        };
        self.entries.iter().find_map(subject).unwrap_or_default()
    }

    /// The verdict, as text.
    pub(crate) fn verdict_text(&self) -> Option<String> {
        let verdict = self.entries.iter().find(|entry| matches!(entry, Entry::Verdict(_)))?;
        Some(entry_lines(verdict, false, WIDTH).join("\n"))
    }

    /// A run folder that fails (its disk is full) must not lose the measurement: it is given up, with a note.
    pub(crate) fn keep(&mut self, write: impl FnOnce(&mut RunWriter) -> Result<()>) {
        if let Some(run) = &mut self.run
            && let Err(error) = write(run)
        {
            output::note(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }

    fn bar(&mut self, total: u64) -> &ProgressBar {
        self.progress.get_or_insert_with(|| {
            if !std::io::stderr().is_terminal() {
                return ProgressBar::hidden();
            }
            let style =
                ProgressStyle::with_template("laying out {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}");
            ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        })
    }
}

impl Sink for Live {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) -> Result<()> {
        self.bar(total_bytes).set_position(done_bytes);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval<'_>) -> Result<()> {
        self.keep(|run| {
            run.readings(interval.readings)?;
            interval
                .latencies
                .iter()
                .try_for_each(|(name, histogram)| run.latency(name, interval.window_ns, histogram))
        });
        Ok(())
    }

    fn result(&mut self, entry: &Entry) -> Result<()> {
        if let Some(progress) = self.progress.take() {
            progress.finish_and_clear();
        }
        self.keep(|run| run.result(entry));
        match self.format {
            // The verdict is the last word: whoever shows the findings shows it after them.
            Format::Text if matches!(entry, Entry::Verdict(_)) => {}
            Format::Text => {
                let heading = match entry {
                    Entry::Step(step) => phase_heading(step),
                    Entry::Meaning(_) => "meaning".to_owned(),
                    Entry::Load(load) => load.server.clone(),
                    _ => String::new(),
                };
                let header = heading != self.heading;
                self.heading = heading;
                for line in entry_lines(entry, header, WIDTH) {
                    output::line(&line)?;
                }
            }
            Format::Lines => output::line(&output::json(entry)?)?,
            Format::Document | Format::Fio => {}
        }
        self.entries.push(entry.clone());
        Ok(())
    }

    fn step(&mut self, outcome: &Outcome) -> Result<()> {
        if self.format == Format::Fio {
            for (stream, tracks) in outcome.tracks.iter().enumerate() {
                self.fio.push(FioStep {
                    step: outcome.step.clone(),
                    stream,
                    reads: tracks.get(Track::Read).clone(),
                    writes: tracks.get(Track::Write).clone(),
                    syncs: tracks.get(Track::Sync).clone(),
                });
            }
        }
        Ok(())
    }
}
