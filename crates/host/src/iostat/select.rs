//! Selects the devices of a report by sysstat's rules, except that a name that does not exist is an error.
//!
//! Without names: whole devices that have ever done I/O (so idle loop and ram devices stay away); with `-p` also
//! partitions; with `ALL` also those that never did anything. With names: exactly those, used or not.

use std::collections::BTreeSet;

use fathom_errors::{Error, Kind, Result};

use super::{IostatOptions, Partitions, Stack};
use crate::DeviceKind;
use crate::diskstats::Line;

/// The rule that decides for each line of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The names to show; `None` for all.
    names: Option<BTreeSet<String>>,
    /// True if partitions are shown too.
    partitions: bool,
    /// Devices that never did I/O too.
    unused: bool,
}

impl Selection {
    /// Looks up the names that were asked for among the machine's devices.
    pub fn resolve(options: &IostatOptions, stack: &Stack, lines: &[Line]) -> Result<Self> {
        let mut names = BTreeSet::new();
        for name in options.devices.iter().filter(|name| *name != "ALL") {
            names.insert(resolve_name(name, stack, lines)?);
        }
        if let Partitions::Of(devices) = &options.partitions {
            for name in devices {
                let name = resolve_name(name, stack, lines)?;
                let parts = stack.devices().filter(|device| device.disk.as_deref() == Some(name.as_str()));
                names.extend(parts.map(|part| part.name.clone()));
                names.insert(name);
            }
        }
        let everything = options.partitions == Partitions::All;
        let all = everything || options.devices.iter().any(|name| name == "ALL");
        Ok(Selection {
            names: (!all && !names.is_empty()).then_some(names),
            partitions: matches!(options.partitions, Partitions::Used | Partitions::All),
            unused: all,
        })
    }

    /// Returns whether this line is shown; `lines` are its neighbours.
    pub fn shows(&self, line: &Line, lines: &[Line], stack: &Stack) -> bool {
        match &self.names {
            Some(names) => names.contains(&line.name),
            None => {
                (self.unused || line.counters.any_io())
                    && (self.partitions || is_whole(&line.name, lines, stack))
            }
        }
    }
}

/// Decides by sysfs, or, without it, by name: a partition is another device's name with a number after it (and a `p`
/// between, after a digit).
fn is_whole(name: &str, lines: &[Line], stack: &Stack) -> bool {
    if let Some(device) = stack.device(name) {
        return device.kind != DeviceKind::Partition;
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return true;
    }
    let after_digit = stem.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
    let disk = after_digit.unwrap_or(stem);
    !lines.iter().any(|line| line.name == disk)
}

fn resolve_name(name: &str, stack: &Stack, lines: &[Line]) -> Result<String> {
    let kernel_name = name.strip_prefix("/dev/").unwrap_or(name).replace('/', "!");
    if lines.iter().any(|line| line.name == kernel_name) {
        return Ok(kernel_name);
    }
    // `/dev/disk/by-id/...` and `/dev/vg/lv` are links to the kernel's name.
    let linked = std::fs::canonicalize(name).ok().filter(|_| name.starts_with("/dev/"));
    let linked = linked.as_deref().and_then(|path| path.file_name()?.to_str());
    let found = stack.find(name).or_else(|| stack.find(linked?)).map(|device| device.name.as_str());
    if let Some(found) = found.filter(|found| lines.iter().any(|line| line.name == *found)) {
        return Ok(found.to_owned());
    }
    let known: Vec<&str> =
        lines.iter().filter(|line| line.counters.any_io()).map(|line| line.name.as_str()).collect();
    let advice = match known.as_slice() {
        [] => "no block device of this machine has done I/O".to_owned(),
        known => format!("those with I/O are {}", known.join(", ")),
    };
    Err(Error::new(Kind::NotFound, format!("there is no block device '{name}'")).advise(advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diskstats;

    const LINES: &str = "\
7 0 loop0 0 0 0 0 0 0 0 0 0 0 0
8 0 sda 1 0 8 1 0 0 0 0 0 1 1
8 1 sda1 1 0 8 1 0 0 0 0 0 1 1
8 2 sda2 0 0 0 0 0 0 0 0 0 0 0
259 0 nvme0n1 1 0 8 1 0 0 0 0 0 1 1
259 1 nvme0n1p1 1 0 8 1 0 0 0 0 0 1 1
9 127 md127 1 0 8 1 0 0 0 0 0 1 1
";

    fn shown(options: &IostatOptions) -> Vec<String> {
        let lines = diskstats::parse(LINES);
        let stack = Stack::default();
        let selection = Selection::resolve(options, &stack, &lines).unwrap();
        lines
            .iter()
            .filter(|line| selection.shows(line, &lines, &stack))
            .map(|line| line.name.clone())
            .collect()
    }

    #[test]
    fn the_rules_of_sysstat() {
        let devices = |names: &[&str]| IostatOptions {
            devices: names.iter().map(|&name| name.to_owned()).collect(),
            ..IostatOptions::default()
        };
        let partitions = |partitions| IostatOptions { partitions, ..IostatOptions::default() };
        assert_eq!(shown(&IostatOptions::default()), ["sda", "nvme0n1", "md127"]);
        assert_eq!(shown(&partitions(Partitions::Used)), ["sda", "sda1", "nvme0n1", "nvme0n1p1", "md127"]);
        assert_eq!(shown(&partitions(Partitions::All)).len(), 7);
        assert_eq!(shown(&devices(&["ALL"])), ["loop0", "sda", "nvme0n1", "md127"]);
        assert_eq!(shown(&devices(&["/dev/sda2", "loop0"])), ["loop0", "sda2"]);
    }

    #[test]
    fn a_name_that_does_not_exist_is_refused() {
        let options = IostatOptions { devices: vec!["sdz".to_owned()], ..IostatOptions::default() };
        let error = Selection::resolve(&options, &Stack::default(), &diskstats::parse(LINES)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 3);
        assert!(
            error.to_string().starts_with("there is no block device 'sdz'; those with I/O are sda, sda1,")
        );
    }
}
