//! Two runs beside each other: first why they may not be comparable, then what differs.
//!
//! It finds differences and proves none: the interval of a run's parts does not hold what changes from run to run (where files lie, what
//! neighbours do, how full a cache is), and that is said in every comparison.

mod obstacles;
mod read_run;
mod settings;

use std::collections::BTreeMap;

use fathom_record::comparison::{Comparison, FigureChange, FindingChange, ValueChange};
use fathom_record::figure::{Figure, figures};
use fathom_record::{Finding, Severity};

use crate::run_noise::run_noise;

pub use self::read_run::ReadRun;
pub(crate) use self::settings::command_words;

/// Facts below this are notes of the watching, not of the machine.
const NOTE: &str = "note.";

/// Compares `b` with `a`.
pub fn compare(a: &ReadRun, b: &ReadRun) -> Comparison {
    let (figures_a, figures_b) = (figures(&a.results), figures(&b.results));
    let changes: Vec<FigureChange> = figures_a
        .iter()
        .filter_map(|one| {
            let two = figures_b.iter().find(|two| two.key() == one.key() && two.unit == one.unit)?;
            Some(change(one, two, (a, b)))
        })
        .collect();
    let mut obstacles = obstacles::obstacles(a, b);
    if changes.is_empty() {
        obstacles.insert(0, "They have no figure in common: they did not measure the same thing.".to_owned());
    }
    Comparison {
        obstacles,
        settings: settings::changes(&a.folder.manifest, &b.folder.manifest),
        environment: environment(a, b),
        only_a: missing(&figures_a, &figures_b),
        only_b: missing(&figures_b, &figures_a),
        findings: findings(&a.findings, &b.findings),
        limits: limits(&changes),
        figures: changes,
        a: a.side(),
        b: b.side(),
    }
}

fn change(one: &Figure, two: &Figure, (a, b): (&ReadRun, &ReadRun)) -> FigureChange {
    let noise_a = run_noise(&a.run, &a.results, one);
    let noise_b = run_noise(&b.run, &b.results, two);
    let apart = noise_a.zip(noise_b).map(|(a, b)| a.high < b.low || b.high < a.low);
    FigureChange {
        subject: one.subject.clone(),
        metric: one.metric.clone(),
        unit: one.unit.clone(),
        better: one.better,
        a: one.value,
        b: two.value,
        ratio: (one.value != 0.0).then(|| two.value / one.value),
        noise_a,
        noise_b,
        beyond_noise: apart,
    }
}

/// Subjects of which the other has no figure at all.
fn missing(of: &[Figure], other: &[Figure]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for figure in of.iter().filter(|figure| !other.iter().any(|two| two.key() == figure.key())) {
        let whole = !other.iter().any(|two| two.subject == figure.subject);
        let name =
            if whole { figure.subject.clone() } else { format!("{}: {}", figure.subject, figure.metric) };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Facts that differ; those of the machine's kind first.
fn environment(a: &ReadRun, b: &ReadRun) -> Vec<ValueChange> {
    let (one, two) = (&a.folder.manifest.environment, &b.folder.manifest.environment);
    let mut names: Vec<&String> =
        one.keys().chain(two.keys()).filter(|name| !name.starts_with(NOTE)).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !same(name, one.get(*name), two.get(*name)));
    let of = |name: &String| ValueChange {
        name: name.clone(),
        a: one.get(name).cloned(),
        b: two.get(name).cloned(),
    };
    let mut changes: Vec<ValueChange> = names.into_iter().map(of).collect();
    changes.sort_by_key(|change| !obstacles::decides(&change.name));
    changes
}

/// The memory that a kernel leaves to others differs a little from boot to boot.
fn same(name: &str, one: Option<&String>, two: Option<&String>) -> bool {
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<f64>().ok());
    match (name, number(one), number(two)) {
        ("memory.bytes", Some(one), Some(two)) => (one / two - 1.0).abs() < 0.02,
        _ => one == two,
    }
}

fn findings(a: &[Finding], b: &[Finding]) -> Vec<FindingChange> {
    type Both<'f> = (Option<&'f Finding>, Option<&'f Finding>);
    // The same rule may speak of several devices or servers: the claim without its figures tells them apart.
    let key = |finding: &Finding| {
        let words: String = finding.claim.chars().filter(|c| !c.is_ascii_digit()).collect();
        (finding.id.clone(), words)
    };
    let mut both: BTreeMap<(String, String), Both<'_>> = BTreeMap::new();
    let shown = |finding: &&Finding| finding.severity > Severity::Ok;
    a.iter().filter(shown).for_each(|finding| both.entry(key(finding)).or_default().0 = Some(finding));
    b.iter().filter(shown).for_each(|finding| both.entry(key(finding)).or_default().1 = Some(finding));
    let mut changes: Vec<FindingChange> = both
        .into_values()
        .filter_map(|(one, two)| {
            let (was, is) = (one.map(|finding| finding.severity), two.map(|finding| finding.severity));
            let shown = two.or(one).filter(|_| was != is)?;
            Some(FindingChange { id: shown.id.clone(), claim: shown.claim.clone(), a: was, b: is })
        })
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.a.max(change.b)));
    changes
}

fn limits(changes: &[FigureChange]) -> Vec<String> {
    let mut limits = vec![
        "Each side is one run. What two runs of the very same thing differ by is not known from them, so a difference is no proof."
            .to_owned(),
        "To be sure, run both sides in turn, six times each or more, and compare those.".to_owned(),
    ];
    if changes.iter().any(|change| change.beyond_noise.is_some()) {
        let what = "'>' marks figures whose intervals within each run (95 %, by parts of the run) lie apart, 'noise' those that do \
                    not; that leaves out what changes from run to run.";
        limits.push(what.to_owned());
    }
    limits
}

#[cfg(test)]
mod tests;
