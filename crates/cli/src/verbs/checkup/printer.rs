//! Prints a checkup while it runs: the capacities as they are found, or with `--verbose` every result as it is measured.

use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_errors::Error;
use fathom_host::doctor::Diagnosis;
use fathom_load::driving::SecondMeasurements;
use fathom_load::find_max::{SearchStep, StepVerdict};
use fathom_probe::StepProgress;
use fathom_process::Signals;
use fathom_record::State;
use fathom_record::disk::Entry;
use fathom_report::{findings_brief, findings_text, verdict_sentence};
use fathom_session::{Assessment, Events, LiveFeed, LoadPart, SessionResult};
use fathom_units::count;
use serde_json::json;

use super::answer;
use super::config::Config;
use super::deployment::parts;
use super::plan::{DEPLOYMENT, DISK, WATCH, key_of};
use crate::assessment_text;
use crate::output::{self, WIDTH};
use crate::progress::PlanBar;
use crate::result_printer::{Format, ResultPrinter, ResultText};

/// Prints results: all of them, or for a brief checkup the capacities, with a line on the terminal that shows the current work.
pub(super) struct CheckupPrinter {
    all: ResultPrinter,
    is_brief: bool,
    is_load: bool,
    progress: PlanBar,
    /// The table of capacities of a brief checkup.
    table: ResultText,
    search: Option<UnfinishedSearch>,
}

/// The rates that a search has tried.
#[derive(Default)]
struct UnfinishedSearch {
    name: String,
    held_per_s: Option<f64>,
    broken_per_s: Option<f64>,
}

impl UnfinishedSearch {
    fn sentence(&self) -> Option<String> {
        let rate = |rate: Option<f64>, did: &str| Some(format!("{} a second {did}", count(rate?)));
        let tried = [rate(self.held_per_s, "met the objective"), rate(self.broken_per_s, "did not meet it")];
        let tried: Vec<String> = tried.into_iter().flatten().collect();
        let name = &self.name;
        (!tried.is_empty()).then(|| format!("The search for {name} is incomplete: {}.", tried.join(", ")))
    }
}

impl CheckupPrinter {
    pub(super) fn new(format: Format, is_brief: bool, config: &Config) -> CheckupPrinter {
        CheckupPrinter {
            all: ResultPrinter::new(format),
            is_brief,
            is_load: config.load,
            progress: PlanBar::new(config.plan()),
            table: ResultText::default(),
            search: None,
        }
    }

    /// The rates that an interrupted search had tried, as a sentence.
    pub(super) fn unfinished(&self) -> Option<String> {
        self.search.as_ref().and_then(UnfinishedSearch::sentence)
    }
}

impl Events for CheckupPrinter {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let percent = 100 * done_bytes / total_bytes.max(1);
        self.progress.begin(DISK, format!("laying out a file, {percent} %"));
    }

    fn probe_step_begins(&mut self, step: &StepProgress) {
        self.progress.begin_with_time(DISK, step.window.phase.clone(), Duration::from(step.left));
    }

    fn probe_interval(&mut self) {
        self.progress.tick();
    }

    fn result(&mut self, entry: &Entry) -> fathom_errors::Result<()> {
        if let Entry::Capacity(_) = entry {
            self.search = None;
        }
        if !self.is_brief {
            return self.progress.suspend(|| self.all.result(entry));
        }
        if let Entry::Capacity(_) = entry {
            let lines = self.table.lines(entry).join("\n");
            self.progress.suspend(|| output::line(&lines))?;
        }
        Ok(())
    }

    fn assessed(&mut self, assessment: &Assessment) -> fathom_errors::Result<()> {
        match self.all.format {
            Format::Text if self.is_brief => {
                let text = assessment_text::brief_text(assessment);
                self.progress.suspend(|| output::line(&format!("\n{text}")))
            }
            Format::Text => {
                let text = assessment_text::text(assessment, State::Complete, None);
                self.progress.suspend(|| output::line(&format!("{text}\n")))
            }
            _ => Ok(()),
        }
    }

    fn part_begins(&mut self, part: LoadPart<'_>) -> fathom_errors::Result<()> {
        let rate = part.settings.plan.arrivals.rate_per_s();
        let detail = match (self.is_load, rate) {
            (true, _) => part.name.to_owned(),
            (_, Some(rate)) => format!("{} a second", count(rate)),
            _ if part.name == "load" => String::new(),
            _ => "as many as it takes".to_owned(),
        };
        let key = if self.is_load { DEPLOYMENT.to_owned() } else { key_of(part.server, part.name) };
        self.progress.begin(&key, detail);
        let name = part.name.split(',').next().unwrap_or(part.name);
        if part.name != name {
            self.search = Some(UnfinishedSearch { name: name.to_owned(), ..UnfinishedSearch::default() });
        }
        Ok(())
    }

    fn second(&mut self, _interval: &SecondMeasurements<'_>) {
        self.progress.tick();
    }

    fn search_step(&mut self, step: &SearchStep, verdict: StepVerdict) -> fathom_errors::Result<()> {
        let Some(search) = &mut self.search else { return Ok(()) };
        let rate = step.offered_per_s;
        if verdict == StepVerdict::Sustained {
            search.held_per_s = Some(search.held_per_s.map_or(rate, |held| held.max(rate)));
        } else {
            search.broken_per_s = Some(search.broken_per_s.map_or(rate, |broken| broken.min(rate)));
        }
        Ok(())
    }

    fn follow(
        &mut self,
        feed: &mut LiveFeed<'_>,
        until: Option<Instant>,
        signals: &Signals,
    ) -> fathom_errors::Result<()> {
        self.progress.begin(WATCH, String::new());
        self.progress.follow(feed, until, signals);
        Ok(())
    }
}

pub(super) fn show_host(format: Format, diagnosis: &Diagnosis, verbose: bool) -> Result<()> {
    match format {
        Format::Text => {
            let subject = &diagnosis.subject;
            output::line(&format!("Host settings for {} with MongoDB {}", subject.dir, subject.mongodb))?;
            for assumption in &diagnosis.assumptions {
                output::line(&format!("  assumed: {assumption}"))?;
            }
            if verbose {
                output::line(&format!("\n{}", findings_text(&diagnosis.findings, WIDTH, true)))?;
            } else {
                output::line(&findings_brief(&diagnosis.findings, WIDTH))?;
            }
            output::line("")?;
        }
        Format::Lines => {
            for finding in &diagnosis.findings {
                let mut line = json!(finding);
                line["type"] = json!("host_finding");
                output::line(&line.to_string())?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Prints the end: the answer, or the document; with a line per result, the last line.
pub(super) fn show_end(
    format: Format,
    is_brief: bool,
    unfinished: Option<String>,
    diagnosis: Option<&Diagnosis>,
    result: &SessionResult,
    is_watch: bool,
) -> Result<()> {
    let text = match format {
        Format::Text => answer::text(is_brief, unfinished, diagnosis, result, is_watch),
        _ => document(format, diagnosis, result, is_watch).to_string(),
    };
    if text.is_empty() { Ok(()) } else { Ok(output::line(&text)?) }
}

/// The document at the end; with a line per result, the last line.
fn document(
    format: Format,
    diagnosis: Option<&Diagnosis>,
    result: &SessionResult,
    is_watch: bool,
) -> serde_json::Value {
    let (deployment, servers) = parts(is_watch, &result.assessments);
    let mut document = json!({
        "schema": fathom_record::SCHEMA,
        "fathom_version": env!("CARGO_PKG_VERSION"),
        "verb": "checkup",
        "state": result.state,
        "error": result.error.as_ref().map(Error::to_string),
        "run_folder": result.folder,
        "verdict": result.verdict().map(|verdict| json!({
            "outcome": verdict.outcome,
            "sentence": verdict_sentence(&verdict),
        })),
        "disk_findings": result.probe_findings,
        "loads": assessment_text::document_under_load(servers),
    });
    if let Some(deployment) = deployment {
        document["deployment"] = assessment_text::document_of_server(deployment);
    }
    if format == Format::Lines {
        document["type"] = json!("end");
        return document;
    }
    if let Some(diagnosis) = diagnosis {
        document["host"] = json!({
            "subject": diagnosis.subject,
            "assumptions": diagnosis.assumptions,
            "findings": diagnosis.findings,
        });
    }
    document["results"] = json!(result.results);
    document
}
