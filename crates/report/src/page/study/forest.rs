//! Every comparison of a study, in two kinds of charts. In the forest each comparison has a row of its own with its effect, its interval
//! and the noise floor. The charts of pairs show each pair in the order of blocks, and so whether an effect is one of all pairs or of a few,
//! and whether it drifts.
//!
//! Names are above their rows and not to the left of them, so that long ones are complete on a telephone too.

use std::fmt::Write;

use fathom_record::study::{StudyComparison, StudyResult, StudyVerdict};

use super::super::chart::cell;
use super::super::svg::{escaped, figure};
use super::dots::{Axis, Dot, Dots, ends, ratios};
use crate::page::chart::Chart;
use crate::page::scale::Scale;
use crate::study::labels::{capital, effect, given, is_primary, more_blocks, spaced, versus};
use crate::terminal_text::cut;

/// The picture in its own units: its width, the height of a row, and the margins of the plot.
const WIDTH: f64 = 720.0;
const ROW_HEIGHT: f64 = 40.0;
const SIDE_MARGIN: f64 = 24.0;
const BOTTOM_MARGIN: f64 = 26.0;
/// The number of letters for which a row's name has space.
const MAX_NAME_LETTERS: usize = 92;
/// More rows than this are split into another picture: one must fit a sheet of paper.
const MAX_ROWS: usize = 14;

/// The pictures, one for each factor, because effects of one factor may dwarf those of another. The metrics on which the answer rests come
/// first, then the others.
pub(super) fn charts(study: &StudyResult) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (title, primary) in [("What it came to", true), ("What else changed", false)] {
        let rows =
            || study.comparisons.iter().filter(|one| is_primary(study, one) == primary && is_usable(one));
        let mut factors: Vec<&str> = Vec::new();
        for one in rows() {
            if !factors.contains(&one.factor.as_str()) {
                factors.push(&one.factor);
            }
        }
        let of = |factor: &&str| rows().filter(|one| one.factor == **factor).collect::<Vec<_>>();
        let parts: Vec<(&str, Vec<&StudyComparison>)> = factors
            .iter()
            .flat_map(|factor| {
                of(factor).chunks(MAX_ROWS).map(|part| (*factor, part.to_vec())).collect::<Vec<_>>()
            })
            .collect();
        for (number, (factor, part)) in parts.into_iter().enumerate() {
            let id = format!("forest-{}-{number}", if primary { "primary" } else { "other" });
            charts.push(chart(study, id, format!("{title}: {factor}, level over baseline"), &part));
        }
    }
    charts
}

/// Whether a ratio can be drawn on an axis of ratios.
fn is_usable(one: &StudyComparison) -> bool {
    one.ratio.is_finite() && one.ratio > 0.0
}

fn floor(study: &StudyResult, metric: &str) -> Option<f64> {
    let noise = study.noise.iter().find(|noise| noise.metric == metric)?;
    (noise.floor.is_finite() && noise.floor >= 0.0).then_some(noise.floor)
}

/// The label of a row.
fn name(one: &StudyComparison) -> String {
    let verdict = match one.needs_blocks.filter(|_| one.verdict == StudyVerdict::Undecided) {
        Some(blocks) => format!("cannot tell, needs {}", more_blocks(blocks)),
        None => one.answer().to_owned(),
    };
    format!("{}, {}: {}, {verdict}", spaced(&one.metric), versus(one), effect(one.ratio))
}

fn chart(study: &StudyResult, id: String, title: String, rows: &[&StudyComparison]) -> Chart {
    let summary = rows.iter().map(|one| {
        let (low, high) = ends(one.interval);
        (format!("{}, {}", spaced(&one.metric), versus(one)), low, figure(one.ratio), high)
    });
    Chart {
        svg: draw(study, &title, rows),
        csv: csv(study, rows),
        summary: summary.collect(),
        kind: "still",
        lines: Vec::new(),
        is_log: true,
        readings: rows.iter().map(|one| one.pairs.len()).sum(),
        unit: "times",
        window: format!("pairs of {} comparisons", rows.len()),
        how: "A pair is both levels in the same block; the effect is the Hodges-Lehmann estimate of the logarithms of their ratios, the \
              stroke its interval of 95 % by the sign-flip test. The band is the noise floor: what only one in twenty pairs of equal \
              runs exceeds. 1 is no difference; equal ratios are equally far apart. In the table least and most are the interval's ends."
            .to_owned(),
        id,
        title,
        sentences: Vec::new(),
        below: None,
    }
}

fn csv(study: &StudyResult, rows: &[&StudyComparison]) -> String {
    let mut text =
        "comparison,metric,effect (times),95 % from (times),95 % to (times),noise floor,pairs,verdict"
            .to_owned();
    for one in rows {
        let (low, high) = ends(one.interval);
        let floor = floor(study, &one.metric).map_or_else(String::new, figure);
        let _ = write!(
            text,
            "\n{},{},{},{low},{high},{floor},{},{}",
            cell(&versus(one)),
            cell(&one.metric),
            figure(one.ratio),
            one.pairs.len(),
            one.answer()
        );
    }
    text
}

fn draw(study: &StudyResult, title: &str, rows: &[&StudyComparison]) -> String {
    let floors = rows
        .iter()
        .filter_map(|one| floor(study, &one.metric))
        .flat_map(|floor| [1.0 + floor, 1.0 / (1.0 + floor)]);
    let intervals = rows.iter().filter_map(|one| one.interval).flat_map(|(low, high)| [low, high]);
    let values = rows.iter().map(|one| one.ratio).chain(intervals).chain(floors).chain([1.0]);
    let axis = ratios(values);
    let x = |value: f64| SIDE_MARGIN + axis.scale.place(value) * (WIDTH - 2.0 * SIDE_MARGIN);
    let bottom = ROW_HEIGHT * rows.len() as f64 + 4.0;
    let mut out = format!(
        "<svg class=\"forest\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        bottom + BOTTOM_MARGIN,
        escaped(title)
    );
    for (number, one) in rows.iter().enumerate() {
        if let Some(floor) = floor(study, &one.metric) {
            let (left, right) = (x(1.0 / (1.0 + floor)), x(1.0 + floor));
            let _ = write!(
                out,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"16\"/>",
                ROW_HEIGHT * number as f64 + 22.0,
                (right - left).max(1.0)
            );
        }
    }
    for (tick, label) in &axis.ticks {
        let at = x(*tick);
        let _ = write!(
            out,
            "<text class=\"x\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            escaped(label)
        );
        for number in 0..rows.len() {
            let top = ROW_HEIGHT * number as f64 + 20.0;
            let class = if (tick - 1.0).abs() < 1e-9 { "rule one" } else { "rule" };
            let _ = write!(out, "<path class=\"{class}\" d=\"M{at:.1} {top:.1}v20\"/>");
        }
    }
    for (number, one) in rows.iter().enumerate() {
        let (top, at) = (ROW_HEIGHT * number as f64, x(one.ratio));
        let colour = match one.verdict {
            StudyVerdict::Better | StudyVerdict::Worse => 0,
            StudyVerdict::Same | StudyVerdict::Undecided => 7,
        };
        let _ = write!(
            out,
            "<text class=\"row\" x=\"2\" y=\"{:.1}\">{}</text>",
            top + 15.0,
            escaped(&cut(&name(one), MAX_NAME_LETTERS))
        );
        let y = top + 30.0;
        if let Some((low, high)) = one.interval {
            let _ =
                write!(out, "<path class=\"whisker c{colour}\" d=\"M{:.1} {y:.1}H{:.1}\"/>", x(low), x(high));
        }
        let _ = write!(out, "<circle class=\"dot c{colour}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
    }
    out.push_str("</svg>");
    out
}

/// The most labels of blocks.
const MAX_LABELS: usize = 12;

/// A chart for each primary metric of each factor, with a line for each of its levels.
pub(super) fn pair_charts(study: &StudyResult) -> Vec<Chart> {
    let mut groups: Vec<Vec<&StudyComparison>> = Vec::new();
    let key = |one: &StudyComparison| (one.metric.clone(), one.factor.clone(), one.given.clone());
    for one in study.comparisons.iter().filter(|one| is_primary(study, one) && !one.pairs.is_empty()) {
        let same =
            |group: &&mut Vec<&StudyComparison>| group.first().is_some_and(|first| key(first) == key(one));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().enumerate().filter_map(|(number, group)| pair_chart(study, number, group)).collect()
}

fn pair_chart(study: &StudyResult, number: usize, group: &[&StudyComparison]) -> Option<Chart> {
    let first = group.first()?;
    let usable = |ratio: f64| ratio.is_finite() && ratio > 0.0;
    let dots = group.iter().enumerate().flat_map(|(line, one)| {
        let pairs = one.pairs.iter().filter(move |pair| usable(pair.1));
        pairs.map(move |(block, ratio)| Dot {
            line,
            at: *block as f64 + 1.0,
            place: block.saturating_add(1).to_string(),
            value: *ratio,
            interval: None,
            mark: None,
        })
    });
    let dots: Vec<Dot> = dots.collect();
    let last = dots.iter().map(|dot| dot.at).fold(1.0, f64::max);
    let floor = study.noise.iter().find(|noise| noise.metric == first.metric).map(|noise| noise.floor);
    let band = floor.filter(|floor| *floor >= 0.0).map(|floor| (1.0 / (1.0 + floor), 1.0 + floor));
    let behind = band.into_iter().flat_map(|(low, high)| [low, high]).chain([1.0]);
    let step = (last / MAX_LABELS as f64).ceil().max(1.0) as usize;
    let said: Vec<String> = group
        .iter()
        .map(|one| format!("{} over {}: {}", one.level, one.baseline, effect(one.ratio)))
        .collect();
    let rest = given(&first.given);
    let chart = Dots {
        id: format!("pairs-{number}"),
        title: format!("{} of each pair, {}{rest}", capital(&first.metric), first.factor),
        unit: "times",
        places: "block".to_owned(),
        lines: group.iter().map(|one| format!("{} over {}", one.level, one.baseline)).collect(),
        along: Axis {
            scale: Scale::between(0.5, last + 0.5),
            ticks: (1..=last as usize).step_by(step).map(|block| (block as f64, block.to_string())).collect(),
        },
        up: ratios(dots.iter().map(|dot| dot.value).chain(behind)),
        readings: dots.len(),
        dots,
        is_log: true,
        band,
        guide: vec![(0.5, 1.0), (last + 0.5, 1.0)],
        window: format!("{} blocks", study.blocks_planned),
        how: "Level over baseline in the same block, the mean of logarithms over the levels of the other factors; 1 is no difference. \
              The band is the noise floor. A block with a failed trial has no pair."
            .to_owned(),
        sentences: vec![format!("{}.", said.join("; "))],
    };
    chart.draw()
}
