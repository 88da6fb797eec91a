//! Compares two runs: first the reasons why they may not be comparable, then their differences in settings, environment and
//! figures.
//!
//! It finds differences and proves none. The interval from the parts of a run does not include what changes from run to run
//! (the location of files, the I/O of neighbours, the fill of a cache), and every comparison says so.
//!
//! The verbs' own tables of options are not known here, so an option's value is recognised by its shape: a word behind
//! `--option` that does not begin with a dash. Options of YCSB (`-p name=value`, `-P file`) are named by the property that they set.

use std::collections::BTreeMap;

use fathom_errors::Result;
use fathom_record::comparison::{Comparison, FactChange, FigureChange, FindingChange, Side};
use fathom_record::disk::Entry;
use fathom_record::figure::{Figure, figures};
use fathom_record::folders::{Condition, RunFolder};
use fathom_record::{Finding, Manifest, Run, Severity};

use self::failure_change::{FailureChange, failure_changes};
use crate::Fingerprint;
use crate::run_noise::run_noise;

/// Facts with this prefix are notes on the monitoring, not on the machine.
const NOTE: &str = "note.";

/// Compares `b` with `a`.
pub fn compare(a: &ReadRun, b: &ReadRun) -> Comparison {
    let (figures_a, figures_b) = (figures(&a.results), figures(&b.results));
    let failures = failure_changes(&a.results, &b.results);
    let changes: Vec<FigureChange> = figures_a
        .iter()
        .filter_map(|one| {
            let two = figures_b.iter().find(|two| two.key() == one.key() && two.unit == one.unit)?;
            Some(change(one, two, (a, b), &failures))
        })
        .collect();
    let mut obstacles = obstacles(a, b);
    obstacles.extend(failures.iter().filter_map(FailureChange::obstacle));
    if changes.is_empty() {
        obstacles.insert(0, "They have no figure in common: they did not measure the same thing.".to_owned());
    }
    Comparison {
        obstacles,
        settings: changed_settings(&a.folder.manifest, &b.folder.manifest),
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

fn change(
    one: &Figure,
    two: &Figure,
    (a, b): (&ReadRun, &ReadRun),
    failures: &[FailureChange],
) -> FigureChange {
    let noise_a = run_noise(&a.run, &a.results, one);
    let noise_b = run_noise(&b.run, &b.results, two);
    let apart = noise_a.zip(noise_b).map(|(a, b)| a.high < b.low || b.high < a.low);
    let failures = failures.iter().find(|failures| failures.subject == one.subject);
    let of_kind = failures.and_then(|failures| failures.of_metric(&one.metric));
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
        beyond_noise: of_kind.map_or(apart, |of_kind| of_kind.beyond_noise(one.better, one.value, two.value)),
        withheld: failures.filter(|_| of_kind.is_none()).and_then(FailureChange::obstacle),
    }
}

/// The subjects for which the other run has no figure at all.
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

/// The facts that differ. Facts that identify the machine come first.
fn environment(a: &ReadRun, b: &ReadRun) -> Vec<FactChange> {
    let (one, two) = (&a.folder.manifest.environment, &b.folder.manifest.environment);
    let mut names: Vec<&String> =
        one.keys().chain(two.keys()).filter(|name| !name.starts_with(NOTE)).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !same(name, one.get(*name), two.get(*name)));
    let of = |name: &String| FactChange {
        name: name.clone(),
        a: one.get(name).cloned(),
        b: two.get(name).cloned(),
    };
    let mut changes: Vec<FactChange> = names.into_iter().map(of).collect();
    changes.sort_by_key(|change| !decides(&change.name));
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
    type FindingPair<'f> = (Option<&'f Finding>, Option<&'f Finding>);
    // One rule may report several devices or servers: the claim without its figures tells them apart.
    let key = |finding: &Finding| {
        let words: String = finding.claim.chars().filter(|c| !c.is_ascii_digit()).collect();
        (finding.id.clone(), words)
    };
    let mut both: BTreeMap<(String, String), FindingPair<'_>> = BTreeMap::new();
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
        "Each side is one run. How much two runs of the same kind differ is not known, so a difference is no proof."
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

/// Whether a fact identifies another machine, and not another setting of the same one.
fn decides(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_device = name.starts_with("device.");
    let device =
        ["model", "vendor", "rotational", "transport", "size_bytes", "kind", "level", "raid_disks", "stack"];
    let machine = [
        "cpu.model",
        "cpu.count",
        "memory.bytes",
        "virtualisation",
        "container",
        "fs.type",
        "cgroup.cpu_max",
        "cgroup.memory_max_bytes",
    ];
    machine.contains(&name) || (is_device && device.contains(&last))
}

/// The obstacles, the gravest first.
fn obstacles(a: &ReadRun, b: &ReadRun) -> Vec<String> {
    let mut obstacles = Vec::new();
    let prints = [a, b].map(|read| Fingerprint::from_environment(&read.folder.manifest.environment));
    let [one, two] = &prints;
    for (name, was, is) in one.differences(two) {
        let value = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        obstacles.push(format!("Another machine: {name} is {} and {}.", value(was), value(is)));
    }
    let (verb_a, verb_b) = (&a.folder.manifest.verb, &b.folder.manifest.verb);
    if verb_a != verb_b {
        obstacles.push(format!("Another verb: {verb_a} and {verb_b}."));
    }
    for (letter, read) in [("A", a), ("B", b)] {
        obstacles.extend(state(letter, read.folder.condition));
        obstacles.extend(limited(letter, &read.results));
    }
    let versions = [a, b].map(|read| read.folder.manifest.fathom_version.as_str());
    if let [one, two] = versions
        && one != two
    {
        obstacles.push(format!("Other versions of Fathom measured them: {one} and {two}."));
    }
    obstacles
}

fn state(letter: &str, condition: Condition) -> Option<String> {
    let what = match condition {
        Condition::Complete => return None,
        Condition::Running => "is still running",
        Condition::CutOff => "was cut off",
        Condition::Interrupted => "was interrupted",
        Condition::Failed => "failed",
    };
    Some(format!("{letter} {what}: its figures are of what was measured until then."))
}

fn limited(letter: &str, results: &[Entry]) -> Option<String> {
    let loads = results.iter().any(|entry| matches!(entry, Entry::Load(load) if load.client_limited));
    let is_bound = |entry: &&Entry| matches!(entry, Entry::Step(step) if step.cpu_bound());
    let count = results.iter().filter(is_bound).count();
    if loads {
        return Some(format!(
            "The client of {letter} was busy: its figures may be the client's, not the server's."
        ));
    }
    let steps = if count == 1 { "step" } else { "steps" };
    (count > 0).then(|| format!("In {count} {steps} of {letter} the processor set the pace, not the disk."))
}

/// Options that say where output is written and how it is shown, not what is measured.
const ABOUT_OUTPUT: [&str; 8] =
    ["--runs", "--json", "--output", "-o", "--format", "--no-record", "--metrics", "--seed"];

/// The settings that both runs have and that differ, by name.
fn changed_settings(a: &Manifest, b: &Manifest) -> Vec<FactChange> {
    let (one, two) = (settings(&a.command_line), settings(&b.command_line));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| one.get(*name) != two.get(*name));
    let of = |name: &String| {
        let value = |settings: &BTreeMap<String, Vec<String>>| settings.get(name).map(|all| all.join(" "));
        FactChange { name: name.clone(), a: value(&one), b: value(&two) }
    };
    names.into_iter().map(of).collect()
}

/// The command line without the program and without options that do not change a measurement: the runs of one history share it.
pub(crate) fn command_words(command_line: &[String]) -> String {
    let mut kept = Vec::new();
    let mut words = command_line.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        if !ABOUT_OUTPUT.contains(&name) {
            kept.push(word.as_str());
        } else if !word.contains('=') && !matches!(name, "--json" | "--no-record") {
            words.next_if(|value| !value.starts_with('-'));
        }
    }
    kept.join(" ")
}

/// Each setting with its values, in order.
fn settings(command_line: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        settings.entry(name.to_owned()).or_default().push(value.to_owned());
    };
    let mut words = command_line.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') || word == "-" {
            add("words", word);
        } else if let Some((name, value)) = word.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            add(name, value);
        } else {
            match words.next_if(|value| !value.starts_with('-')) {
                None => add(word, "set"),
                Some(value) => match value.split_once('=').filter(|_| word == "-p") {
                    Some((name, value)) => add(&format!("-p {name}"), value),
                    None => add(word, value),
                },
            }
        }
    }
    settings
}

/// One run, read once for its comparison and for its display.
#[derive(Debug)]
pub struct ReadRun {
    pub folder: RunFolder,
    pub run: Run,
    /// Its results, as they are in the folder.
    pub results: Vec<Entry>,
    /// Its findings, as they are in the folder.
    pub findings: Vec<Finding>,
}

impl ReadRun {
    /// Reads the run of a folder.
    ///
    /// # Errors
    /// When its results or its findings cannot be read.
    pub fn read(folder: RunFolder, run: Run) -> Result<ReadRun> {
        Ok(ReadRun { folder, results: run.results()?, findings: run.findings()?, run })
    }

    fn side(&self) -> Side {
        let manifest = &self.folder.manifest;
        Side {
            name: self.folder.name.clone(),
            verb: manifest.verb.clone(),
            started: manifest.started.clone(),
            state: self.folder.condition,
            fathom_version: manifest.fathom_version.clone(),
            command_line: manifest.command_line.clone(),
        }
    }
}

mod failure_change;
#[cfg(test)]
mod tests;
