//! Each pair of each comparison in the order of blocks: whether an effect is one of all pairs or of a few, and whether it drifts.

use fathom_record::study::{Study, StudyComparison};

use super::super::chart::Chart;
use super::super::scale::Scale;
use super::dots::{Axis, Dot, Dots, ratios};
use crate::study::told::{capital, effect, given, is_primary};

/// Labels of blocks at most.
const LABELS: usize = 12;

/// A chart for each primary metric of each factor, with a line for each of its levels.
pub(super) fn charts(study: &Study) -> Vec<Chart> {
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
    groups.iter().enumerate().filter_map(|(number, group)| chart(study, number, group)).collect()
}

fn chart(study: &Study, number: usize, group: &[&StudyComparison]) -> Option<Chart> {
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
    let step = (last / LABELS as f64).ceil().max(1.0) as usize;
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
              The band is the noise floor. A block of which a trial broke has no pair."
            .to_owned(),
        sentences: vec![format!("{}.", said.join("; "))],
    };
    chart.draw()
}
