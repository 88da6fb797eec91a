//! The results of a probe and of the loads after it as they come: as text, as JSON lines, or kept for a document at the end.

use std::io::IsTerminal;

use fathom_errors::Result;
use fathom_probe::{Outcome, Track};
use fathom_record::disk::Entry;
use fathom_report::{FioStep, entry_lines, phase_heading};
use fathom_session::Events;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{self, WIDTH};

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

/// Prints results.
pub(crate) struct ResultPrinter {
    pub(crate) format: Format,
    /// The steps with their whole distributions, for fio's document.
    pub(crate) fio: Vec<FioStep>,
    heading: String,
    progress: Option<ProgressBar>,
}

impl ResultPrinter {
    pub(crate) fn new(format: Format) -> ResultPrinter {
        ResultPrinter { format, fio: Vec::new(), heading: String::new(), progress: None }
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

    fn clear_bar(&mut self) {
        self.progress.take().into_iter().for_each(|progress| progress.finish_and_clear());
    }
}

impl Drop for ResultPrinter {
    fn drop(&mut self) {
        self.clear_bar();
    }
}

impl Events for ResultPrinter {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) {
        self.bar(total_bytes).set_position(done_bytes);
    }

    fn result(&mut self, entry: &Entry) -> Result<()> {
        self.clear_bar();
        match self.format {
            // The verb prints the verdict after the findings.
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
        Ok(())
    }

    fn probe_step(&mut self, outcome: &Outcome) {
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
    let verdict = results.iter().find(|entry| matches!(entry, Entry::Verdict(_)))?;
    Some(entry_lines(verdict, false, WIDTH).join("\n"))
}
