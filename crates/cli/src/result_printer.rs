//! Prints the results of a probe and of the loads after it: as text, as JSON lines, or as a document at the end.

use std::time::Instant;

use fathom_errors::Result;
use fathom_probe::{StepOutcome, StepProgress, Track};
use fathom_record::Finding;
use fathom_record::disk::Entry;
use fathom_report::{FioStep, entry_lines, findings_text, phase_heading};
use fathom_session::Events;
use indicatif::ProgressBar;

use crate::output::{self, WIDTH};
use crate::progress::{layout_bar, progress_bar, step_words};

/// The format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines of text, as results come.
    Text,
    /// One JSON document at the end.
    Document,
    /// A JSON object a line, as results come.
    Lines,
    /// fio's json+ document at the end.
    Fio,
}

/// Results as text, with a heading at the beginning of each phase.
#[derive(Debug, Default)]
pub(crate) struct ResultText {
    heading: String,
}

impl ResultText {
    /// The lines of the next result. A verdict has none, since it follows the findings.
    pub(crate) fn lines(&mut self, entry: &Entry) -> Vec<String> {
        let heading = match entry {
            Entry::Fitness(_) => return Vec::new(),
            Entry::Step(step) => phase_heading(step),
            Entry::Meaning(_) => "meaning".to_owned(),
            Entry::Load(load) => load.server.clone(),
            Entry::Capacity(capacity) => capacity.server.clone(),
            _ => String::new(),
        };
        let header = heading != self.heading;
        self.heading = heading;
        entry_lines(entry, header, WIDTH)
    }
}

pub(crate) struct ResultPrinter {
    pub(crate) format: Format,
    /// The steps with their whole distributions, for fio's document.
    pub(crate) fio: Vec<FioStep>,
    text: ResultText,
    bar: Option<ProgressBar>,
    /// The current step of the probe, and the time of its start.
    step: Option<(StepProgress, Instant)>,
}

impl ResultPrinter {
    pub(crate) fn new(format: Format) -> ResultPrinter {
        ResultPrinter { format, fio: Vec::new(), text: ResultText::default(), bar: None, step: None }
    }

    fn clear_bar(&mut self) {
        self.bar.take().into_iter().for_each(|bar| bar.finish_and_clear());
    }

    /// Shows the progress of the current step.
    fn show_step(&self) {
        if let (Some(bar), Some((step, begun))) = (&self.bar, &self.step) {
            bar.set_message(step_words(step, begun.elapsed()));
        }
    }
}

impl Drop for ResultPrinter {
    fn drop(&mut self) {
        self.clear_bar();
    }
}

impl Events for ResultPrinter {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) {
        self.bar.get_or_insert_with(|| layout_bar(total_bytes)).set_position(done_bytes);
    }

    fn probe_step_begins(&mut self, step: &StepProgress) {
        self.clear_bar();
        let bar = progress_bar("{bar:20} {wide_msg}", Some(u64::from(step.steps_max)));
        bar.set_position(u64::from(step.number.saturating_sub(1)));
        self.bar = Some(bar);
        self.step = Some((step.clone(), Instant::now()));
        self.show_step();
    }

    fn probe_interval(&mut self) {
        self.show_step();
    }

    fn result(&mut self, entry: &Entry) -> Result<()> {
        self.clear_bar();
        match self.format {
            Format::Text => self.text.lines(entry).iter().try_for_each(|line| output::line(line))?,
            Format::Lines => output::line(&output::json(entry)?)?,
            Format::Document | Format::Fio => {}
        }
        Ok(())
    }

    fn probe_step(&mut self, outcome: &StepOutcome) {
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
    }
}

/// The verdict on a disk among results, as text.
pub(crate) fn verdict_text(results: &[Entry]) -> Option<String> {
    let verdict = results.iter().find(|entry| matches!(entry, Entry::Fitness(_)))?;
    Some(entry_lines(verdict, false, WIDTH).join("\n"))
}

/// The findings of a probe and the verdict on the disk, as text.
pub(crate) fn disk_answer(results: &[Entry], findings: &[Finding]) -> Vec<String> {
    let findings = findings_text(findings, WIDTH, output::shows_ids());
    let findings = (!findings.is_empty()).then(|| format!("\n{findings}"));
    findings.into_iter().chain(verdict_text(results)).collect()
}
