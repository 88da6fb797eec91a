//! Compares levels with their baselines, under each condition and over all of them, and tests whether effects depend on each other.

use fathom_record::figure::BetterDirection;
use fathom_record::study::{StudyComparison, StudyInteraction, StudyNoise, StudyVerdict};
use fathom_stats::experiment::{
    AdjustedP, Effect, EffectThresholds, EffectVerdict, NoiseFloor, combinations, effect,
    interaction_contrasts, main_contrasts, minimum_detectable, noise_floor, verdict,
};
use fathom_stats::{SeededRandom, benjamini_hochberg, holm};

use crate::{Study, TrialMetric, TrialPlan};

use super::sentences;
use super::table::MeasurementTable;

/// Levels of some factors, as indexes, under which a comparison holds.
type FixedLevels = Vec<(usize, usize)>;

/// The difference between two equal runs in a metric.
pub(super) struct Noise {
    pub(super) metric: &'static str,
    pub(super) floor: NoiseFloor,
}

impl Noise {
    pub(super) fn record(&self, blocks: usize) -> StudyNoise {
        StudyNoise {
            metric: self.metric.to_owned(),
            floor: self.floor.floor,
            minimum_detectable: minimum_detectable(self.floor.deviation, blocks),
            pairs: self.floor.pairs,
        }
    }
}

/// Computes the noise from the first cell and its twin in each block.
pub(super) fn noise(study: &Study, table: &MeasurementTable) -> Vec<Noise> {
    let one = |(at, (metric, _)): (usize, &(&'static TrialMetric, bool))| {
        let ratios: Vec<f64> = table.twins(at).into_iter().map(|(_, ratio)| ratio).collect();
        Some(Noise { metric: metric.name, floor: noise_floor(&ratios)? })
    };
    study.metrics.iter().enumerate().filter_map(one).collect()
}

/// One comparison before the adjustment for multiple comparisons.
struct RawComparison {
    factor: usize,
    level: usize,
    given: FixedLevels,
    metric: usize,
    pairs: Vec<(usize, f64)>,
    effect: Effect,
}

/// All comparisons of a study.
pub(super) fn all(
    study: &Study,
    plan: &TrialPlan,
    table: &MeasurementTable,
    noise: &[Noise],
) -> Vec<StudyComparison> {
    let mut stream = SeededRandom::from_seed(study.design.seed);
    let mut raw = Vec::new();
    for (metric, _) in study.metrics.iter().enumerate() {
        let logs = table.logs(metric);
        for (factor, level, given) in designed(study) {
            let pairs = main_contrasts(&plan.cells, &logs, factor, level, &|cell| holds(cell, &given));
            let ratios: Vec<f64> = pairs.iter().map(|(_, ratio)| *ratio).collect();
            let Some(effect) = effect(&ratios, &mut stream) else { continue };
            raw.push(RawComparison { factor, level, given, metric, pairs, effect });
        }
    }
    let adjusted = adjusted(study, &raw);
    raw.into_iter().zip(adjusted).map(|(raw, adjusted)| finished(study, raw, adjusted, noise)).collect()
}

/// The number of comparisons that the answer will rest on, if every trial measures all primary metrics. A fraction lacks some of the
/// cells, and therefore some of the comparisons.
pub(super) fn primary_count(study: &Study, plan: &TrialPlan) -> usize {
    let one_block = vec![vec![Some(0.0)]; plan.cells.len()];
    let has_pairs = |(factor, level, given): &(usize, usize, FixedLevels)| {
        !main_contrasts(&plan.cells, &one_block, *factor, *level, &|cell| holds(cell, given)).is_empty()
    };
    let of_each = designed(study).iter().filter(|one| has_pairs(one)).count();
    of_each * study.metrics.iter().filter(|(_, primary)| *primary).count()
}

/// The comparisons of each metric: a factor, its level, and the levels of other factors under which they are compared.
fn designed(study: &Study) -> Vec<(usize, usize, FixedLevels)> {
    let compared = study.factors.iter().enumerate().filter(|(_, varied)| varied.compared);
    let levels =
        compared.flat_map(|(factor, varied)| (1..varied.levels.len()).map(move |level| (factor, level)));
    levels
        .flat_map(|(factor, level)| {
            conditions(study, factor).into_iter().map(move |given| (factor, level, given))
        })
        .collect()
}

/// Returns whether the answer rests on a comparison.
fn is_primary(study: &Study, one: &RawComparison) -> bool {
    study.metrics.get(one.metric).is_some_and(|(_, primary)| *primary)
}

/// The conditions under which a factor is compared: over all of them together, and under each by itself.
fn conditions(study: &Study, factor: usize) -> Vec<FixedLevels> {
    let others: Vec<usize> = (0..study.factors.len())
        .filter(|at| *at != factor && Some(*at) != study.across)
        .filter(|at| study.factors.get(*at).is_some_and(|varied| !varied.compared && varied.levels.len() > 1))
        .collect();
    let mut all = vec![Vec::new()];
    if !others.is_empty() {
        let shape: Vec<usize> =
            others.iter().filter_map(|at| Some(study.factors.get(*at)?.levels.len())).collect();
        all.extend(
            combinations(&shape)
                .into_iter()
                .map(|levels| others.iter().copied().zip(levels).collect::<FixedLevels>()),
        );
    }
    all
}

fn holds(cell: &[usize], given: &FixedLevels) -> bool {
    given.iter().all(|(factor, level)| cell.get(*factor) == Some(level))
}

/// The p-values adjusted for multiple comparisons: Holm over those that the answer rests on, Benjamini and Hochberg over the rest.
fn adjusted(study: &Study, raw: &[RawComparison]) -> Vec<AdjustedP> {
    let ps = |primary: bool| {
        let wanted = raw.iter().filter(|one| is_primary(study, one) == primary);
        wanted.map(|one| one.effect.p).collect::<Vec<_>>()
    };
    let together = |ps: Vec<f64>| {
        let comparisons = ps.len();
        ps.into_iter().map(move |p| AdjustedP { p, comparisons })
    };
    let mut primary = together(holm(&ps(true)));
    let mut others = together(benjamini_hochberg(&ps(false)));
    raw.iter()
        .map(|one| if is_primary(study, one) { primary.next() } else { others.next() })
        .map(|adjusted| adjusted.unwrap_or(AdjustedP::alone(1.0)))
        .collect()
}

/// One comparison with its verdict.
fn finished(study: &Study, raw: RawComparison, adjusted: AdjustedP, noise: &[Noise]) -> StudyComparison {
    let RawComparison { factor, level, given, metric, pairs, effect } = raw;
    let better = study.metrics.get(metric).map_or(BetterDirection::Higher, |(metric, _)| metric.better);
    let metric = study.metrics.get(metric).map_or("", |(metric, _)| metric.name);
    // The floor is the difference between two equal runs of the first cell. Under other conditions the scatter of the pairs themselves counts.
    let is_measured = given.iter().all(|(_, level)| *level == 0);
    let floor = noise.iter().find(|noise| noise.metric == metric).map(|noise| &noise.floor);
    let floor = floor.filter(|_| is_measured);
    let limits = EffectThresholds::new(floor, effect.pairs, study.design.margin);
    let (answer, needs_blocks) = match verdict(&effect, adjusted, better == BetterDirection::Higher, limits) {
        EffectVerdict::Better => (StudyVerdict::Better, None),
        EffectVerdict::Worse => (StudyVerdict::Worse, None),
        EffectVerdict::Same => (StudyVerdict::Same, None),
        EffectVerdict::Undecided { needs_pairs } => (
            StudyVerdict::Undecided,
            needs_pairs.map(|needs| needs.saturating_sub(effect.pairs)).filter(|more| *more > 0),
        ),
    };
    let mut comparison = StudyComparison {
        factor: study.name_of(factor),
        level: study.label_of(factor, level),
        baseline: study.label_of(factor, 0),
        given: given
            .iter()
            .map(|(factor, level)| (study.name_of(*factor), study.label_of(*factor, *level)))
            .collect(),
        metric: metric.to_owned(),
        ratio: effect.ratio,
        interval: effect.interval.map(|interval| (interval.low, interval.high)),
        p: effect.p,
        adjusted_p: adjusted.p,
        smallest_p: effect.smallest_p,
        pairs: pairs.into_iter().map(|(block, log)| (block, log.exp())).collect(),
        verdict: answer,
        needs_blocks,
        words: String::new(),
    };
    comparison.words = sentences::comparison(&comparison, limits.same);
    comparison
}

/// Tests whether effects of compared factors depend on other factors, for the primary metrics.
pub(super) fn interactions(
    study: &Study,
    plan: &TrialPlan,
    table: &MeasurementTable,
) -> Vec<StudyInteraction> {
    let mut stream = SeededRandom::from_seed(study.design.seed).split(1);
    let mut found = Vec::new();
    let primary = study.metrics.iter().enumerate().filter(|(_, (_, primary))| *primary);
    for (at, (metric, _)) in primary {
        let logs = table.logs(at);
        for (one, two) in pairs(study) {
            let count = |factor: usize| study.factors.get(factor).map_or(0, |varied| varied.levels.len());
            for (level_one, level_two) in (1..count(one)).flat_map(|a| (1..count(two)).map(move |b| (a, b))) {
                let contrasts =
                    interaction_contrasts(&plan.cells, &logs, (one, level_one), (two, level_two), &|_| true);
                let logs: Vec<f64> = contrasts.iter().map(|(_, log)| *log).collect();
                if let Some(effect) = effect(&logs, &mut stream) {
                    found.push(interaction(study, metric, (one, level_one), (two, level_two), &effect));
                }
            }
        }
    }
    let adjusted = holm(&found.iter().map(|one| one.p).collect::<Vec<_>>());
    for (one, p) in found.iter_mut().zip(adjusted) {
        one.adjusted_p = p;
        one.words = sentences::interaction(one);
    }
    found
}

/// The pairs of a compared factor with each other factor; two compared factors are paired once.
fn pairs(study: &Study) -> Vec<(usize, usize)> {
    let several = |at: usize| {
        study.factors.get(at).is_some_and(|varied| varied.levels.len() > 1) && Some(at) != study.across
    };
    let compared = |at: usize| study.factors.get(at).is_some_and(|varied| varied.compared);
    let all = (0..study.factors.len()).filter(|at| several(*at) && compared(*at));
    all.flat_map(|one| {
        (0..study.factors.len())
            .filter(move |two| *two != one && several(*two) && (!compared(*two) || *two > one))
            .map(move |two| (one, two))
    })
    .collect()
}

fn interaction(
    study: &Study,
    metric: &TrialMetric,
    one: (usize, usize),
    two: (usize, usize),
    effect: &Effect,
) -> StudyInteraction {
    StudyInteraction {
        factors: (study.name_of(one.0), study.name_of(two.0)),
        levels: (study.label_of(one.0, one.1), study.label_of(two.0, two.1)),
        metric: metric.name.to_owned(),
        ratio: effect.ratio,
        interval: effect.interval.map(|interval| (interval.low, interval.high)),
        p: effect.p,
        adjusted_p: effect.p,
        words: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use fathom_stats::experiment::fewest_pairs;

    use super::*;

    #[test]
    fn so_many_more_blocks_are_named_that_all_comparisons_together_can_be_told() {
        let text = "name: two\nquestion: q\nmeasures: load\nsettings: {records: 10, time: 1s}\nfactors: {shards: [1, 2]}\ncompare: [shards]\nmetrics: {primary: [throughput]}\ndesign: {blocks: 2}\n";
        let study = Study::parse(text, None).unwrap();
        let logs = [-0.5, -0.51];
        let effect = effect(&logs, &mut SeededRandom::from_seed(1)).unwrap();
        let pairs = logs.iter().copied().enumerate().collect();
        let raw = RawComparison { factor: 0, level: 1, given: Vec::new(), metric: 0, pairs, effect };
        let comparison = finished(&study, raw, AdjustedP { p: 1.0, comparisons: 24 }, &[]);
        assert_eq!(comparison.needs_blocks, Some(fewest_pairs(24) - 2));
    }
}
