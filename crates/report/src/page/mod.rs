//! A run as one page of HTML that a person forwards: it needs neither the tool nor a network, and asks for nothing.
//!
//! The verdict comes first, then its evidence, then details, then how it was measured. Every chart is there without scripts and its
//! data beside it as CSV; scripts only let a reader zoom. Whatever came from a server, a log or a file name passes the template's
//! escaping, and the page's own policy forbids every outside request.

mod bars;
mod cards;
mod chart;
mod heat;
mod history;
mod pair;
mod panels;
mod pictures;
mod scale;
mod still;
mod study;
mod svg;

use fathom_errors::{Error, Kind, Result};
use fathom_record::disk::Entry;
use fathom_record::history::History;
use fathom_record::pictures::Pictures;
use fathom_record::{Confidence, Finding, Manifest, SeriesSet, Severity, State};
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use self::chart::{Grid, Plan};
pub use self::heat::OverTime;
pub use self::pair::pair_page;
use crate::findings::{cost_sentence, gain_sentence};

/// Templates by name: a page of a run, a page of two, what a study has on it, and what all are made of.
const TEMPLATES: [(&str, &str); 5] = [
    ("page", include_str!("page.html")),
    ("pair", include_str!("pair.html")),
    ("study", include_str!("study.html")),
    ("frame", include_str!("frame.html")),
    ("parts", include_str!("parts.html")),
];
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// uPlot 1.6.32 by Leon Sorokin, under the MIT licence that lies beside it.
const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot-1.6.32/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot-1.6.32/uPlot.min.css");

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct PageSource<'r> {
    /// The run folder's name.
    pub name: &'r str,
    /// Its manifest.
    pub manifest: &'r Manifest,
    /// Its results, and what was judged of it.
    pub results: &'r [Entry],
    /// The findings, the first to look at first.
    pub findings: &'r [Finding],
    /// Its series.
    pub series: &'r SeriesSet,
    /// Its latencies, by name.
    pub latencies: &'r [OverTime],
    /// What was computed of it for charts alone.
    pub pictures: &'r Pictures,
    /// Its figures among those of earlier runs of its kind; those of too few are passed over.
    pub histories: &'r [History],
    /// What could not be read, a sentence each.
    pub notes: &'r [String],
}

impl PageSource<'_> {
    /// When the last reading ended, in nanoseconds since the run's start.
    fn end_ns(&self) -> u64 {
        let ends =
            self.series.iter().filter_map(|(_, series)| series.points.last()).map(|point| point.end_ns);
        ends.max().unwrap_or(0)
    }
}

/// A finding for the template.
#[derive(Serialize)]
struct Shown<'r> {
    kind: &'static str,
    word: &'static str,
    /// In a sentence each; the finding's own `cost` and `gain` are figures.
    cost_words: Option<String>,
    gain_words: Option<String>,
    #[serde(flatten)]
    finding: &'r Finding,
}

/// The page.
///
/// # Errors
/// When the template does not take what it is given, which a test would have seen.
pub fn page(source: &PageSource<'_>) -> Result<String> {
    let grid = Grid::until(source.end_ns());
    let (wanted, findings): (Vec<&Finding>, Vec<&Finding>) =
        source.findings.iter().partition(|finding| finding.severity == Severity::Ok);
    let mut bar_tables: Vec<_> = bars::members_table(source.results).into_iter().collect();
    bar_tables.extend(bars::tables(source.results));
    bar_tables.extend(bars::cost_tables(source.series, &source.manifest.environment));
    let (over_time, others) = plans(source, grid);
    let drawn = |plans: Vec<Plan>| plans.into_iter().filter_map(Plan::draw);
    let mut charts = heat::maps(source.latencies, &source.pictures.checkpoints, source.series);
    charts.extend(drawn(over_time));
    let manifest = source.manifest;
    let values = context! {
        name => source.name,
        manifest => manifest,
        command => manifest.command_line.join(" "),
        state => state_word(manifest.state),
        studies => study::studies(source.results).map(study::part).collect::<Vec<_>>(),
        cards => cards::cards(source.results, source.findings),
        findings => findings.into_iter().map(shown).collect::<Vec<_>>(),
        wanted => wanted.into_iter().map(shown).collect::<Vec<_>>(),
        bars => bar_tables,
        stills => drawn(others).collect::<Vec<_>>(),
        charts => charts,
        histories => history::charts(source.histories),
        meanings => meanings(source.results),
        notes => source.notes,
    };
    render("page", values)
}

/// One of the templates with these values and what every page has.
fn render(template: &str, values: Value) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let failed = |error: minijinja::Error| {
        Error::new(Kind::Malformed, "the page could not be made from its template").because(error)
    };
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).map_err(failed)?;
    }
    let frame = context! {
        version => env!("CARGO_PKG_VERSION"),
        style => STYLE,
        script => SCRIPT,
        uplot_style => UPLOT_STYLE,
        uplot_script => UPLOT_SCRIPT,
    };
    let template = environment.get_template(template).map_err(failed)?;
    template.render(context! { ..values, ..frame }).map_err(failed)
}

/// The charts over time, and the others.
fn plans(source: &PageSource<'_>, grid: Grid) -> (Vec<Plan>, Vec<Plan>) {
    let mut others = still::depths(source.results);
    others.extend(still::rates(source.results));
    others.extend(still::percentiles(source.latencies));
    others.extend(pictures::plans(source.pictures));
    (panels::plans(source.series, &source.pictures.checkpoints, grid), others)
}

fn shown(finding: &Finding) -> Shown<'_> {
    let (kind, word) = match (finding.severity, finding.confidence) {
        (Severity::Critical, _) => ("bad", "Critical"),
        (Severity::Warning, Confidence::CannotTell) => ("unsure", "Cannot tell"),
        (Severity::Warning, _) => ("bad", "Warning"),
        (Severity::Note, Confidence::CannotTell) => ("unsure", "Cannot tell"),
        (Severity::Note, _) => ("plain", "Note"),
        (Severity::Ok, _) => ("good", "As wanted"),
    };
    Shown {
        kind,
        word,
        cost_words: finding.cost.as_ref().map(cost_sentence),
        gain_words: finding.gain.as_ref().map(gain_sentence),
        finding,
    }
}

fn meanings(results: &[Entry]) -> Vec<&fathom_record::disk::Meaning> {
    let meanings = results.iter().filter_map(|entry| match entry {
        Entry::Meaning(meaning) => Some(meaning),
        _ => None,
    });
    meanings.collect()
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Complete => "ran to its end",
        State::Interrupted => "was interrupted; what was measured until then is shown",
        State::Running => "was killed, or is still going; what was measured until then is shown",
        State::Failed => "ended with an error; what was measured until then is shown",
    }
}

#[cfg(test)]
mod tests;
