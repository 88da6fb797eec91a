//! A run as one page of HTML that can be sent to others. The page needs neither Fathom nor a network.
//!
//! The answer and a picture of it come first, then actions by priority, then the host's settings as one table, then figures and
//! charts, then the method. Each chart is drawn once, as SVG, with its data as CSV; a small script adds a cursor and zoom to that
//! drawing. Text of a server, a log or a file name passes the template's escaping, and the page's own policy forbids every outside request.

mod answer;
mod bars;
mod chart;
mod derived_charts;
mod heat;
mod history;
mod operations;
mod pair;
mod panels;
mod recording;
mod scale;
mod settings;
mod static_charts;
mod study;
mod summary_cards;
mod svg;

use fathom_errors::{Error, Kind, Result};
use fathom_record::disk::Entry;
use fathom_record::history::History;
use fathom_record::pictures::Pictures;
use fathom_record::{Confidence, Finding, Manifest, Point, Priority, Redaction, SeriesSet, State};
use minijinja::{AutoEscape, Environment, Output, Value, context, escape_formatter};
use serde::Serialize;

use self::chart::{ChartPlan, TimeGrid, whole_windows};
pub use self::heat::PageLatencyLog;
pub use self::operations::{OperationRow, ServerOperations};
pub use self::pair::pair_page;
pub use self::recording::{RecordedServer, RecordingSource, Strip, recording_page};
use crate::findings::{Rank, cost_sentence, gain_sentence};

/// Templates by name: a page of a run, of two, of recordings, the part on a study, and the parts that all pages share.
const TEMPLATES: [(&str, &str); 6] = [
    ("page", include_str!("page.html")),
    ("pair", include_str!("pair.html")),
    ("recording", include_str!("recording.html")),
    ("study", include_str!("study.html")),
    ("frame", include_str!("frame.html")),
    ("parts", include_str!("parts.html")),
];
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The content of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageSource<'r> {
    /// The run folder's name.
    pub name: &'r str,
    pub manifest: &'r Manifest,
    /// Its results, including judgements.
    pub results: &'r [Entry],
    /// The findings, the first to look at first.
    pub findings: &'r [Finding],
    pub series: &'r SeriesSet,
    /// The operations of its servers.
    pub operations: &'r [ServerOperations],
    /// Its latencies, by name.
    pub latencies: &'r [PageLatencyLog],
    /// Data that only charts show.
    pub pictures: &'r Pictures,
    /// Its figures among those of earlier runs of its kind; histories with too few runs are skipped.
    pub histories: &'r [History],
    /// Readings that failed, a sentence each.
    pub notes: &'r [String],
    /// Removes names from the page, if set.
    pub redaction: Option<&'r Redaction>,
}

impl PageSource<'_> {
    /// The end of charts over time, in nanoseconds since the run's start: the last whole second of the load, else the last
    /// reading. Servers are read a little longer than a load runs, and would seem to be idle there.
    fn end_ns(&self) -> u64 {
        let last = |points: &[Point]| whole_windows(points).last().map(|point| point.end_ns);
        let of_load = self.series.starting("client.").filter(|(name, _)| name.ends_with(".per_s"));
        let of_load = of_load.filter_map(|(_, series)| last(&series.points)).max();
        let of_all = || self.series.iter().filter_map(|(_, series)| last(&series.points)).max();
        of_load.or_else(of_all).unwrap_or(0)
    }
}

/// A finding for the template.
#[derive(Serialize)]
struct FindingView<'r> {
    kind: &'static str,
    word: &'static str,
    /// A sentence each; the finding's own `cost` and `gain` are figures.
    cost_words: Option<String>,
    gain_words: Option<String>,
    #[serde(flatten)]
    finding: &'r Finding,
}

/// The page.
///
/// # Errors
/// When the template does not accept its values, which a test would have found.
pub fn page(source: &PageSource<'_>) -> Result<String> {
    let grid = TimeGrid::until(source.end_ns());
    let distinct = distinct(source.findings);
    let findings = Findings::from_findings(&distinct);
    let mut bar_tables: Vec<_> = bars::members_table(source.results).into_iter().collect();
    bar_tables.extend(bars::tables(source.results));
    bar_tables.extend(bars::cost_tables(source.series, &source.manifest.environment));
    let (mut over_time, mut others) = plans(source, grid);
    let picture = answer::chart(&mut over_time, &mut others).and_then(ChartPlan::draw);
    let drawn = |plans: Vec<ChartPlan>| plans.into_iter().filter_map(ChartPlan::draw);
    let mut charts = heat::maps(source.latencies, &source.pictures.checkpoints, source.series);
    charts.extend(drawn(over_time));
    let manifest = source.manifest;
    let cards = match &manifest.error {
        Some(error) if source.results.is_empty() => vec![summary_cards::error_card(error)],
        _ => summary_cards::cards(source.results, source.findings),
    };
    let mut cards = cards.into_iter();
    let values = context! {
        name => source.name,
        manifest => manifest,
        facts => answer::facts(manifest),
        command => command(source),
        state => state_word(manifest.state),
        studies => study::studies(source.results).map(study::part).collect::<Vec<_>>(),
        answer => cards.next(),
        cards => cards.collect::<Vec<_>>(),
        answer_bars => answer::bars(source.results),
        picture => picture,
        findings => findings,
        settings => settings::rows(source.findings),
        settings_undo => settings::undo(source.findings),
        bars => bar_tables,
        operations => operations::tables(source.operations),
        stills => drawn(others).collect::<Vec<_>>(),
        charts => charts,
        histories => history::charts(source.histories),
        meanings => meanings(source.results),
        notes => source.notes,
    };
    render("page", values, source.redaction)
}

/// The command line of a run.
fn command(source: &PageSource<'_>) -> String {
    let words = &source.manifest.command_line;
    source.redaction.map_or_else(|| words.join(" "), |redaction| redaction.command_line(words).join(" "))
}

/// Renders a template with these values, the style and the script. Redaction applies to every value that enters the template.
fn render(template: &str, values: Value, redaction: Option<&Redaction>) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    if let Some(redaction) = redaction.cloned() {
        environment.set_formatter(move |out: &mut Output<'_>, state, value| match value.as_str() {
            Some(text) if value.is_safe() => {
                escape_formatter(out, state, &Value::from_safe_string(redaction.clean(text)))
            }
            Some(text) => escape_formatter(out, state, &Value::from(redaction.clean(text))),
            None => escape_formatter(out, state, value),
        });
    }
    let failed = |error: minijinja::Error| {
        Error::new(Kind::Malformed, "the page could not be made from its template").because(error)
    };
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).map_err(failed)?;
    }
    let frame = context! { version => env!("CARGO_PKG_VERSION") };
    let template = environment.get_template(template).map_err(failed)?;
    let page = template.render(context! { ..values, ..frame }).map_err(failed)?;
    // No value can contain these marks, because values in the template are escaped.
    Ok(page.replacen("<!--style-->", STYLE, 1).replacen("<!--script-->", SCRIPT, 1))
}

/// The charts over time, and the others.
fn plans(source: &PageSource<'_>, grid: TimeGrid) -> (Vec<ChartPlan>, Vec<ChartPlan>) {
    let mut others = static_charts::drives(source.results);
    others.extend(static_charts::depths(source.results));
    others.extend(static_charts::rates(source.results));
    others.extend(static_charts::percentiles(source.latencies));
    others.extend(derived_charts::plans(source.pictures));
    (panels::plans(source.series, &source.pictures.checkpoints, grid.ending(source.end_ns())), others)
}

/// The findings by priority. Settings have a table of their own; critical ones are in both.
#[derive(Serialize)]
struct Findings<'r> {
    critical: Vec<FindingView<'r>>,
    worth_doing: Vec<FindingView<'r>>,
    others: Vec<FindingView<'r>>,
    as_wanted: Vec<FindingView<'r>>,
}

impl<'r> Findings<'r> {
    fn from_findings(findings: &'r [Finding]) -> Self {
        let mut all = Findings {
            critical: Vec::new(),
            worth_doing: Vec::new(),
            others: Vec::new(),
            as_wanted: Vec::new(),
        };
        for finding in findings {
            let list = match Rank::from_finding(finding) {
                Rank::Due(Priority::Critical) => &mut all.critical,
                Rank::AsWanted => &mut all.as_wanted,
                _ if settings::is_row(finding) => continue,
                Rank::Due(Priority::WorthDoing) => &mut all.worth_doing,
                Rank::Due(Priority::Hygiene) | Rank::Note | Rank::CannotTell => &mut all.others,
            };
            list.push(view(finding));
        }
        all
    }
}

/// The findings. A finding that several loads gave is listed once, with the evidence of each.
fn distinct(findings: &[Finding]) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for finding in findings {
        let is_same = |other: &&mut Finding| other.id == finding.id && other.claim == finding.claim;
        match all.iter_mut().find(is_same) {
            Some(first) => {
                let more = finding.evidence.iter().filter(|one| !first.evidence.contains(one));
                let more: Vec<String> = more.cloned().collect();
                first.evidence.extend(more);
            }
            None => all.push(finding.clone()),
        }
    }
    all
}

fn view(finding: &Finding) -> FindingView<'_> {
    let (kind, word) = match (Rank::from_finding(finding), finding.confidence) {
        (Rank::Due(Priority::Critical), _) => ("bad", "Critical"),
        (Rank::Due(_) | Rank::CannotTell, Confidence::CannotTell) | (Rank::CannotTell, _) => {
            ("unsure", "Cannot tell")
        }
        (Rank::Due(Priority::WorthDoing), _) => ("due", "Worth doing"),
        (Rank::Due(Priority::Hygiene), _) => ("plain", "Hygiene"),
        (Rank::Note, _) => ("plain", "Note"),
        (Rank::AsWanted, _) => ("good", "Passed"),
    };
    FindingView {
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
        State::Complete => "complete",
        State::Interrupted => "interrupted; the page shows what was measured until then",
        State::Running => "killed, or still running; the page shows what was measured until then",
        State::Failed => "ended with an error; the page shows what was measured until then",
    }
}

#[cfg(test)]
mod tests;
