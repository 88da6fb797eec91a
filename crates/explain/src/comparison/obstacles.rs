//! Why two runs cannot be compared, or only with care: another machine, another verb, a run that did not end, a client at its limit.

use fathom_record::disk::Entry;
use fathom_record::folders::Condition;

use super::read_run::ReadRun;
use crate::Fingerprint;

/// Whether a fact makes another machine, and not another setting of the same.
pub(super) fn decides(name: &str) -> bool {
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
pub(super) fn obstacles(a: &ReadRun, b: &ReadRun) -> Vec<String> {
    let mut obstacles = Vec::new();
    let prints = [a, b].map(|read| Fingerprint::of(&read.folder.manifest.environment));
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
