//! The kind of machine that a run was made on, rounded so that a reboot, a kernel update or a remount does not make it another machine.
//!
//! Settings that an operator changes to try their effect (scheduler, read-ahead, huge pages, caps) are left out on purpose, so that a history
//! shows the effect of such a change. Device names are left out too, since they are assigned at each boot.

use std::collections::BTreeMap;

/// The rounded facts that identify a machine, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    facts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// The fingerprint of a run's facts.
    pub fn from_environment(environment: &BTreeMap<String, String>) -> Fingerprint {
        let mut facts = BTreeMap::new();
        let taken = ["cpu.model", "cpu.count", "virtualisation", "container", "fs.type"];
        for name in taken.into_iter().chain(["cgroup.cpu_max"]) {
            facts.extend(environment.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        for name in ["memory.bytes", "cgroup.memory_max_bytes"] {
            facts.extend(environment.get(name).and_then(|value| Some((name.to_owned(), rounded(value)?))));
        }
        let stack = environment.get("device.stack").map(String::as_str).unwrap_or_default();
        for (layer, device) in stack.split_whitespace().enumerate() {
            for fact in ["kind", "model", "vendor", "rotational", "transport", "md.level", "md.raid_disks"] {
                let value = environment.get(&format!("device.{device}.{fact}"));
                facts.extend(value.map(|value| (format!("device {layer} {fact}"), value.clone())));
            }
            let size = environment.get(&format!("device.{device}.size_bytes"));
            let size = size.and_then(|value| rounded(value));
            facts.extend(size.map(|size| (format!("device {layer} size"), size)));
        }
        Fingerprint { facts }
    }

    /// Names of facts that differ, with both values.
    pub fn differences(&self, other: &Fingerprint) -> Vec<(String, Option<String>, Option<String>)> {
        let mut names: Vec<&String> = self.facts.keys().chain(other.facts.keys()).collect();
        names.sort();
        names.dedup();
        let pair = |name: &String| (self.facts.get(name).cloned(), other.facts.get(name).cloned());
        let differing = names.into_iter().filter(|name| self.facts.get(*name) != other.facts.get(*name));
        differing.map(|name| (name.clone(), pair(name).0, pair(name).1)).collect()
    }

    /// The fingerprint in words, with a short number that distinguishes it from similar ones.
    pub fn words(&self) -> String {
        let fact = |name: &str| self.facts.get(name).map(String::as_str);
        let mut words = Vec::new();
        words.extend(fact("cpu.count").map(|count| format!("{count} CPUs")));
        words.extend(fact("memory.bytes").map(|size| format!("{size} memory")));
        words.extend(fact("fs.type").map(str::to_owned));
        words.extend(fact("device 0 model").or(fact("device 0 kind")).map(|model| model.trim().to_owned()));
        words.extend(fact("device 0 size").map(str::to_owned));
        let all: String = self.facts.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        format!("{} [{:06x}]", words.join(", "), fnv(&all) & 0xff_ffff)
    }
}

/// The 64-bit hash of Fowler, Noll and Vo, variant 1a.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Rounds bytes to a quarter of a power of two: a kernel keeps another megabyte for itself at each update.
fn rounded(bytes: &str) -> Option<String> {
    let bytes: f64 = bytes.parse().ok().filter(|bytes| *bytes >= 1.0)?;
    let rounded = ((bytes.log2() * 4.0).round() / 4.0).exp2();
    let gib = rounded / f64::from(1u32 << 30);
    Some(if gib >= 10.0 { format!("about {gib:.0} GiB") } else { format!("about {gib:.1} GiB") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(changes: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut facts: BTreeMap<String, String> = [
            ("cpu.count", "8"),
            ("memory.bytes", "16637370368"),
            ("kernel", "6.1.0"),
            ("fs.type", "xfs"),
            ("device.stack", "sda"),
            ("device.sda.model", "Virtual disk"),
            ("device.sda.scheduler", "none"),
            ("device.sda.size_bytes", "107374182400"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        facts.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        facts
    }

    #[test]
    fn a_reboot_is_the_same_machine_and_more_memory_is_another() {
        let first = Fingerprint::from_environment(&environment(&[]));
        let rebooted = [
            ("kernel", "6.12.3"),
            ("memory.bytes", "16589000000"),
            ("device.sda.scheduler", "mq-deadline"),
            ("device.stack", "sdb"),
            ("device.sdb.model", "Virtual disk"),
            ("device.sdb.size_bytes", "107374182400"),
        ];
        assert_eq!(first, Fingerprint::from_environment(&environment(&rebooted)));
        assert!(
            first.words().starts_with("8 CPUs, about 16 GiB memory, xfs, Virtual disk"),
            "{}",
            first.words()
        );
        let larger = Fingerprint::from_environment(&environment(&[
            ("memory.bytes", "33274740736"),
            ("cpu.count", "16"),
        ]));
        let names: Vec<String> = first.differences(&larger).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["cpu.count", "memory.bytes"]);
        assert_ne!(first.words(), larger.words());
    }
}
