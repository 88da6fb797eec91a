//! Two runs on one page: obstacles to comparing them, then their figures, then their charts.
//!
//! A chart that both runs have is drawn once, with the lines of each; heat maps are next to each other. The page says for every figure
//! whether the two differ by more than each varies within itself, and never claims that one caused the other.

use fathom_errors::Result;
use fathom_record::RunVerdict;
use fathom_record::comparison::{Comparison, FigureChange, RunNoise};
use minijinja::context;
use serde::Serialize;

use super::bars::{self, BarTable};
use super::chart::{Chart, ChartPlan, TimeGrid};
use super::summary_cards::{Card, verdict_of_run};
use super::{PageSource, answer, command, heat, plans, render};
use crate::comparison::what_became;
use crate::run_list::value_of;

/// A row of the table of figures.
#[derive(Serialize)]
struct FigureRow {
    kind: &'static str,
    cells: Vec<String>,
}

/// A finding that only one run has.
#[derive(Serialize)]
struct LoneFinding<'c> {
    what: String,
    claim: &'c str,
    id: &'c str,
}

/// The page of two runs.
///
/// # Errors
/// When the template does not accept its values, which a test would have found.
pub fn pair_page(comparison: &Comparison, a: &PageSource<'_>, b: &PageSource<'_>) -> Result<String> {
    let grid = TimeGrid::until(a.end_ns().max(b.end_ns()));
    let (over_a, others_a) = plans(a, grid);
    let (over_b, others_b) = plans(b, grid);
    let mut charts: Vec<Chart> = Vec::new();
    for (side, source) in [("A", a), ("B", b)] {
        let maps = heat::maps(source.latencies, &source.pictures.checkpoints, source.series).into_iter();
        charts.extend(maps.map(|map| of_side(side, map)));
    }
    charts.sort_by(|one, other| one.id.cmp(&other.id));
    charts.extend(beside(over_a, over_b));
    let figures: Vec<FigureRow> = comparison.figures.iter().map(figure_row).collect();
    let changed: Vec<LoneFinding<'_>> = comparison
        .findings
        .iter()
        .filter_map(|change| {
            Some(LoneFinding { what: what_became(change)?.1, claim: &change.claim, id: &change.id })
        })
        .collect();
    render(
        "pair",
        context! {
            a => comparison.a,
            b => comparison.b,
            answer => verdict(comparison),
            cards => [("A", a), ("B", b)].into_iter().filter_map(|(side, source)| verdict_alone(side, source)).collect::<Vec<_>>(),
            starts => [answer::moment(&comparison.a.started), answer::moment(&comparison.b.started)],
            obstacles => comparison.obstacles,
            limits => comparison.limits,
            figures => figures,
            only_a => comparison.only_a,
            only_b => comparison.only_b,
            changed => changed,
            settings => comparison.settings,
            environment => comparison.environment,
            bars => bar_tables(a, b),
            charts => charts,
            stills => beside(others_a, others_b),
            commands => [command(a), command(b)],
        },
        a.redaction,
    )
}

/// The verdict of one run alone, if it was judged.
fn verdict_alone(side: &str, source: &PageSource<'_>) -> Option<Card> {
    let run = RunVerdict::new(source.results, source.findings)?;
    let card = verdict_of_run(&run, source.results)?;
    Some(Card { label: format!("{side} alone"), ..card })
}

fn verdict(comparison: &Comparison) -> Card {
    let is_known = |figure: &&FigureChange| figure.beyond_noise.is_some() && figure.withheld.is_none();
    let known = || comparison.figures.iter().filter(is_known);
    let beyond: Vec<&FigureChange> = known().filter(|figure| figure.beyond_noise == Some(true)).collect();
    let gained = beyond.iter().filter(|figure| figure.is_better() == Some(true)).count();
    let (kind, text) = match (comparison.obstacles.is_empty(), beyond.len()) {
        (false, _) => (
            "unsure",
            "These two runs are not comparable, or only with care: the reasons are below.".to_owned(),
        ),
        (true, 0) => ("plain", "No figure differs by more than it varies within each run.".to_owned()),
        (true, many) => (
            "unsure",
            format!(
                "{many} of {} figures differ by more than they vary within each run: B is better in {gained}, worse in {}.",
                known().count(),
                many - gained
            ),
        ),
    };
    let more =
        "Two runs show a difference and prove no cause: repeat both, interleaved, before believing it."
            .to_owned();
    Card { kind, label: "Verdict".to_owned(), text, more }
}

fn figure_row(change: &FigureChange) -> FigureRow {
    let noise = |noise: Option<RunNoise>| {
        noise.map_or_else(String::new, |noise| format!("±{:.0} %", noise.half_pct()))
    };
    let (kind, verdict) = match (change.beyond_noise, change.is_better()) {
        _ if change.withheld.is_some() => ("", "not compared"),
        (None, _) => ("", "cannot tell"),
        (Some(false), _) => ("", "within the noise"),
        (Some(true), Some(true)) => ("good", "beyond: better"),
        (Some(true), Some(false)) => ("bad", "beyond: worse"),
        (Some(true), None) => ("", "beyond"),
    };
    let cells = vec![
        change.subject.clone(),
        change.metric.clone(),
        value_of(change.a, &change.unit),
        value_of(change.b, &change.unit),
        change.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        noise(change.noise_a),
        noise(change.noise_b),
        verdict.to_owned(),
    ];
    FigureRow { kind, cells }
}

/// The tables of both runs, in pairs of the same kind.
fn bar_tables(a: &PageSource<'_>, b: &PageSource<'_>) -> Vec<BarTable> {
    let of = |side: &str, source: &PageSource<'_>| {
        let mut tables = bars::tables(source.results);
        tables.extend(bars::cost_tables(source.series, &source.manifest.environment));
        for (number, table) in tables.iter_mut().enumerate() {
            table.id = format!("{}-{number}", side.to_lowercase());
            table.title = format!("{side}: {}", table.title);
        }
        tables
    };
    let (mut of_a, mut of_b) = (of("A", a).into_iter(), of("B", b).into_iter());
    let mut tables = Vec::new();
    loop {
        let pair = (of_a.next(), of_b.next());
        if pair.0.is_none() && pair.1.is_none() {
            return tables;
        }
        tables.extend([pair.0, pair.1].into_iter().flatten());
    }
}

/// The chart of one run, labelled with that run.
fn of_side(side: &str, chart: Chart) -> Chart {
    Chart {
        id: format!("{}-{}", chart.id, side.to_lowercase()),
        title: format!("{side}: {}", chart.title),
        below: chart.below.map(|below| Box::new(of_side(side, *below))),
        ..chart
    }
}

/// The charts of both runs: one for each chart that both have, in the order of the first.
fn beside(a: Vec<ChartPlan>, b: Vec<ChartPlan>) -> Vec<Chart> {
    let mut rest: Vec<Option<ChartPlan>> = b.into_iter().map(Some).collect();
    let mut charts = Vec::new();
    for plan in a {
        let same = rest.iter_mut().find(|other| other.as_ref().is_some_and(|other| other.id == plan.id));
        let together = match same.and_then(Option::take) {
            Some(other) => plan.named("A").with(other.named("B")),
            None => plan.named("A"),
        };
        charts.extend(together.draw());
    }
    charts.extend(rest.into_iter().flatten().filter_map(|plan| plan.named("B").draw()));
    charts
}

#[cfg(test)]
mod tests {
    use super::super::svg::{ChartLine, XAxis};
    use super::*;

    fn plan(places: &[f64], values: &[f64]) -> ChartPlan {
        ChartPlan {
            id: "x".into(),
            title: "X".into(),
            unit: "1/s",
            across: XAxis { name: "depth", places: places.to_vec(), ticks: Vec::new(), is_log: false },
            lines: vec![ChartLine {
                ends: Vec::new(),
                name: "read".into(),
                values: values.iter().copied().map(Some).collect(),
            }],
            is_log: false,
            readings: 2,
            window: "a window".into(),
            how: "Measured.".into(),
            bands: vec![(0.0, 1.0)],
        }
    }

    #[test]
    fn a_chart_of_both_has_the_places_of_both_and_lone_ones_stay() {
        let other = ChartPlan { id: "y".into(), ..plan(&[1.0], &[5.0]) };
        let charts =
            beside(vec![plan(&[1.0, 2.0], &[10.0, 20.0])], vec![other, plan(&[2.0, 4.0], &[21.0, 41.0])]);
        let [both, lone] = charts.as_slice() else { panic!("{charts:#?}") };
        assert_eq!(both.csv, "depth,A: read (1/s),B: read (1/s)\n1,10,\n2,20,21\n4,,41");
        assert_eq!((both.readings, lone.lines.as_slice()), (4, &["B: read".to_owned()][..]));
        assert!(!both.svg.contains("band"), "of which run they were nobody could tell");
    }
}
