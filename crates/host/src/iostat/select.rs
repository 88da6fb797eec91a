//! Selects the rows of a report by sysstat's rules, except that a name that does not exist is an error.
//!
//! Without names: whole devices that have ever done I/O (so idle loop and ram devices stay away). A name, or `ALL`, shows unused
//! devices too. The rows are in the order of sysstat's list: by name, unless a group or `-p` without a device came before on the
//! command line; then in the order of the command line, and after that in the kernel's.

use fathom_errors::{Error, Kind, Result};

use super::{DeviceChoice, IostatOptions, PersistentNames, Stack};
use crate::diskstats::{Line, NO_COUNTERS, no_counters_of};

/// The rule that makes rows of each reading's lines of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The named devices and groups, in order.
    entries: Vec<SelectionEntry>,
    /// True from the first group or `-p` on: entries are appended, not sorted.
    appends: bool,
    /// True for every whole device.
    all_disks: bool,
    /// True for every line, partitions too.
    everything: bool,
    /// True for devices that never did I/O too.
    unused: bool,
    totals_only: bool,
}

/// A named device or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectionEntry {
    name: String,
    kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Device,
    WithPartitions,
    Group,
}

/// One row of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedRow<'a> {
    Device(&'a str),
    /// The total of a group, after its devices.
    Group {
        name: &'a str,
        members: Vec<&'a str>,
    },
}

impl<'a> SelectedRow<'a> {
    /// The name of a device; `None` for a group.
    pub fn device(&self) -> Option<&'a str> {
        match self {
            SelectedRow::Device(name) => Some(*name),
            SelectedRow::Group { .. } => None,
        }
    }

    /// The device, or the devices of a group.
    pub fn devices(&self) -> Vec<&'a str> {
        match self {
            SelectedRow::Device(name) => vec![*name],
            SelectedRow::Group { members, .. } => members.clone(),
        }
    }
}

impl Selection {
    /// Looks up the names that were asked for among the machine's devices.
    pub fn resolve(options: &IostatOptions, stack: &Stack, lines: &[Line]) -> Result<Self> {
        let mut selection = Selection { totals_only: options.totals_only, ..Selection::default() };
        let persistent = options.persistent.as_ref();
        for choice in &options.chosen {
            match choice {
                DeviceChoice::Device(name) => {
                    selection.add(resolve_name(name, persistent, stack, lines)?, EntryKind::Device);
                }
                DeviceChoice::WithPartitions(name) => {
                    selection.add(resolve_name(name, persistent, stack, lines)?, EntryKind::WithPartitions);
                }
                DeviceChoice::AllDevices => (selection.all_disks, selection.unused) = (true, true),
                DeviceChoice::Everything { unused } => {
                    (selection.everything, selection.appends) = (true, true);
                    selection.unused |= *unused;
                }
                DeviceChoice::Group(name) => {
                    selection.appends = true;
                    selection.add(name.clone(), EntryKind::Group);
                }
            }
        }
        // Groups choose no devices.
        selection.all_disks |= !selection.unused;
        Ok(selection)
    }

    /// Adds an entry once; a second `-p` of a device adds its partitions.
    fn add(&mut self, name: String, kind: EntryKind) {
        self.unused |= kind != EntryKind::Group;
        let is_group = |kind: EntryKind| kind == EntryKind::Group;
        let known = self
            .entries
            .iter_mut()
            .find(|entry| entry.name == name && is_group(entry.kind) == is_group(kind));
        match known {
            Some(entry) if kind == EntryKind::WithPartitions => entry.kind = kind,
            Some(_) => {}
            None => {
                let after = self.entries.iter().position(|entry| !self.appends && entry.name > name);
                self.entries.insert(after.unwrap_or(self.entries.len()), SelectionEntry { name, kind });
            }
        }
    }

    /// The rows of these lines, in order.
    pub fn rows<'a>(&'a self, lines: &'a [Line], stack: &'a Stack) -> Vec<SelectedRow<'a>> {
        let mut rows = Vec::new();
        let mut group: Option<(&str, Vec<&str>)> = None;
        let does_io = |line: &&Line| self.unused || line.counters.any_io();
        for (name, is_group) in self.list(lines, stack) {
            if is_group {
                rows.extend(group.replace((name, Vec::new())).and_then(|group| self.total(group, lines)));
                continue;
            }
            let Some(line) = lines.iter().find(|line| line.name == name) else { continue };
            let hidden = self.totals_only && group.is_some();
            if let Some((_, members)) = &mut group {
                members.push(name);
            }
            rows.extend(Some(line).filter(does_io).filter(|_| !hidden).map(|_| SelectedRow::Device(name)));
        }
        rows.extend(group.and_then(|group| self.total(group, lines)));
        rows
    }

    /// sysstat's list of these lines: names, and whether each is a group's.
    fn list<'a>(&'a self, lines: &'a [Line], stack: &'a Stack) -> Vec<(&'a str, bool)> {
        let of_entry = |entry: &'a SelectionEntry| (entry.name.as_str(), entry.kind == EntryKind::Group);
        let mut list: Vec<(&str, bool)> = self.entries.iter().map(of_entry).collect();
        let mut add = |name: &'a str| {
            if !list.contains(&(name, false)) {
                let after = list.iter().position(|(listed, _)| !self.appends && *listed > name);
                list.insert(after.unwrap_or(list.len()), (name, false));
            }
        };
        if self.everything {
            lines.iter().for_each(|line| add(&line.name));
            return list;
        }
        let mut by_name: Vec<(&str, Option<&str>)> =
            lines.iter().map(|line| (line.name.as_str(), disk_of(&line.name, lines, stack))).collect();
        by_name.sort_unstable();
        for entry in self.entries.iter().filter(|entry| entry.kind == EntryKind::WithPartitions) {
            let parts = by_name.iter().filter(|(_, disk)| *disk == Some(entry.name.as_str()));
            parts.for_each(|(part, _)| add(part));
        }
        if self.all_disks {
            by_name.iter().filter(|(_, disk)| disk.is_none()).for_each(|(name, _)| add(name));
        }
        list
    }

    /// The total of a group, unless none of its devices ever did I/O and unused devices are left out.
    fn total<'a>(&self, (name, members): (&'a str, Vec<&'a str>), lines: &[Line]) -> Option<SelectedRow<'a>> {
        let counted = |line: &Line| members.contains(&line.name.as_str()) && line.counters.any_io();
        let is_shown = self.unused || lines.iter().any(counted);
        is_shown.then_some(SelectedRow::Group { name, members })
    }
}

/// The disk that a partition is on. It is decided by sysfs, or, without it, by name: a partition is another device's name with a
/// number after it (and a `p` between, after a digit).
fn disk_of<'a>(name: &'a str, lines: &[Line], stack: &'a Stack) -> Option<&'a str> {
    if let Some(device) = stack.device(name) {
        return device.disk.as_deref();
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let after_digit = stem.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
    let disk = after_digit.unwrap_or(stem);
    (stem != name && lines.iter().any(|line| line.name == disk)).then_some(disk)
}

fn resolve_name(
    name: &str,
    persistent: Option<&PersistentNames>,
    stack: &Stack,
    lines: &[Line],
) -> Result<String> {
    let name_here = persistent.and_then(|names| names.device(name)).unwrap_or(name);
    let kernel_name = name_here.strip_prefix("/dev/").unwrap_or(name_here).replace('/', "!");
    if lines.iter().any(|line| line.name == kernel_name) {
        return Ok(kernel_name);
    }
    // `/dev/disk/by-id/...` and `/dev/vg/lv` are links to the kernel's name.
    let linked = std::fs::canonicalize(name).ok().filter(|_| name.starts_with("/dev/"));
    let linked = linked.as_deref().and_then(|path| path.file_name()?.to_str());
    let found = stack.find(&kernel_name).or_else(|| stack.find(name)).or_else(|| stack.find(linked?));
    let found = found.map(|device| device.name.as_str());
    if let Some(found) = found.filter(|found| lines.iter().any(|line| line.name == *found)) {
        return Ok(found.to_owned());
    }
    if lines.is_empty() {
        let what = format!("the counters of '{name}' cannot be read");
        return Err(Error::new(Kind::Unsupported, what).advise(NO_COUNTERS));
    }
    if let Some(found) = found {
        let what = format!("the counters of '{name}' cannot be read: {}", no_counters_of(&[found]));
        return Err(Error::new(Kind::Unsupported, what).advise("run fathom on the host"));
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
8 10 sda10 1 0 8 1 0 0 0 0 0 1 1
65 16 sdr 0 0 0 0 0 0 0 0 0 0 0
259 0 nvme0n1 1 0 8 1 0 0 0 0 0 1 1
259 1 nvme0n1p1 1 0 8 1 0 0 0 0 0 1 1
9 127 md127 1 0 8 1 0 0 0 0 0 1 1
";

    /// The choices of a line: `-p`, `-p=NAME`, `-g=NAME`, a name or `ALL`.
    fn chosen(line: &str) -> IostatOptions {
        let choices = line.split_whitespace().map(|word| match word.split_once('=') {
            Some(("-g", name)) => DeviceChoice::Group(name.to_owned()),
            Some((_, "ALL")) => DeviceChoice::Everything { unused: true },
            Some((_, name)) => DeviceChoice::WithPartitions(name.to_owned()),
            None if word == "-p" => DeviceChoice::Everything { unused: false },
            None if word == "ALL" => DeviceChoice::AllDevices,
            None => DeviceChoice::Device(word.to_owned()),
        });
        IostatOptions { chosen: choices.collect(), ..IostatOptions::default() }
    }

    fn shown_with(options: &IostatOptions) -> String {
        let lines = diskstats::parse(LINES);
        let stack = Stack::default();
        let selection = Selection::resolve(options, &stack, &lines).unwrap();
        let rows = selection.rows(&lines, &stack).into_iter().map(|row| match row {
            SelectedRow::Device(name) => name.to_owned(),
            SelectedRow::Group { name, members } => format!("{name}({})", members.join("+")),
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    fn shown(line: &str) -> String {
        shown_with(&chosen(line))
    }

    #[test]
    fn names_sort_and_all_means_whole_devices() {
        assert_eq!(shown(""), "md127 nvme0n1 sda");
        assert_eq!(shown("ALL"), "loop0 md127 nvme0n1 sda sdr");
        assert_eq!(shown("/dev/sda2 loop0 sda2"), "loop0 sda2");
        assert_eq!(shown("sda10 ALL"), "loop0 md127 nvme0n1 sda sda10 sdr");
    }

    #[test]
    fn partitions_follow_the_rules_of_sysstat() {
        let kernels = "loop0 sda sda1 sda2 sda10 sdr nvme0n1 nvme0n1p1 md127";
        assert_eq!(shown("-p"), "sda sda1 sda10 nvme0n1 nvme0n1p1 md127");
        assert_eq!(shown("-p=ALL"), kernels);
        assert_eq!(shown("-p=sda"), "sda sda1 sda10 sda2");
        assert_eq!(shown("sda -p=sda -p=nvme0n1"), "nvme0n1 nvme0n1p1 sda sda1 sda10 sda2");
        assert_eq!(shown("-p=sda1"), "sda1");
        // A name together with -p shows everything, unused devices too, with the name first.
        assert_eq!(shown("sdr -p"), "sdr loop0 sda sda1 sda2 sda10 nvme0n1 nvme0n1p1 md127");
        assert_eq!(shown("-p=sda -p=ALL"), "sda loop0 sda1 sda2 sda10 sdr nvme0n1 nvme0n1p1 md127");
        assert_eq!(shown("-p sda"), "sda loop0 sda1 sda2 sda10 sdr nvme0n1 nvme0n1p1 md127");
        assert_eq!(shown("sdr sda -p md127 loop0"), "sda sdr md127 loop0 sda1 sda2 sda10 nvme0n1 nvme0n1p1");
    }

    #[test]
    fn groups_have_totals_after_their_devices() {
        assert_eq!(
            shown("sdr -g=one sda md127 -g=two loop0"),
            "sdr sda md127 one(sda+md127) loop0 two(loop0)"
        );
        assert_eq!(shown("-g=all"), "md127 nvme0n1 sda all(loop0+md127+nvme0n1+sda+sdr)");
        assert_eq!(shown("-g=one sda -g=none"), "sda one(sda) none()");
        // What -p adds comes after the last group's devices.
        assert_eq!(
            shown("-g=one -p=sda -g=two sdr"),
            "sda one(sda) sdr sda1 sda10 sda2 two(sdr+sda1+sda10+sda2)"
        );
        let totals = IostatOptions { totals_only: true, ..chosen("sdr -g=one sda") };
        assert_eq!(shown_with(&totals), "sdr one(sda)");
    }

    #[test]
    fn a_name_that_does_not_exist_is_refused() {
        let error =
            Selection::resolve(&chosen("sdz"), &Stack::default(), &diskstats::parse(LINES)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 3);
        assert!(
            error.to_string().starts_with("there is no block device 'sdz'; those with I/O are sda, sda1,")
        );
        let hidden = Selection::resolve(&chosen("sda"), &Stack::default(), &[]).unwrap_err();
        assert_eq!(hidden.kind().exit_code(), 3);
        assert!(hidden.to_string().contains("cannot be read; this container hides"), "{hidden}");
    }
}
