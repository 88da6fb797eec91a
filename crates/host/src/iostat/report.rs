//! Computes rows from two snapshots: one for each device, or a tree of devices with a total of the bottom layer.

use std::collections::{BTreeMap, BTreeSet};

use super::{IostatOptions, SelectedRow, Selection, Snapshot, Stack};
use crate::DeviceKind;
use crate::diskstats::Counters;
use crate::rates::{Delta, Rates};
use crate::sched::CpuShares;

/// One device in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    pub name: String,
    /// The text of the first column.
    pub label: String,
    /// The figures; `None` for a device below two others that was shown before, and for a silent one.
    pub rates: Option<Rates>,
    /// True in the tree form if the kernel does not count the device's requests, so that zeros would mean nothing.
    pub is_silent: bool,
    /// The devices below it, in the tree form.
    pub below: Vec<String>,
}

/// All figures of one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The length of the interval.
    pub interval_ns: u64,
    /// The use of the CPUs.
    pub cpu: CpuShares,
    /// The devices in order.
    pub rows: Vec<DeviceRow>,
    /// In the tree form, the sum of the bottom devices and their number.
    pub total: Option<(Rates, usize)>,
}

/// Computes a report between two snapshots, or since boot without an earlier one.
pub fn report(
    before: Option<&Snapshot>,
    after: &Snapshot,
    selection: &Selection,
    options: &IostatOptions,
    stack: &Stack,
) -> Report {
    let nothing = Snapshot::default();
    let interval_ns = before.map_or(after.uptime_ns, |before| after.taken_ns.saturating_sub(before.taken_ns));
    let before = before.unwrap_or(&nothing);
    let frame = Frame { before: by_name(before), after: by_name(after), interval_ns, options, stack };
    let selected = selection.rows(&after.lines, stack);
    let cpu = after.cpu.shares_since(&before.cpu).unwrap_or_default();
    let mut report = Report { interval_ns, cpu, ..Report::default() };
    if options.tree {
        let devices = selected.iter().filter_map(SelectedRow::device);
        frame.tree(devices.filter(|name| frame.passes(frame.delta(name))).collect(), &mut report);
    } else {
        report.rows = selected.iter().filter_map(|row| frame.selected(row)).collect();
    }
    report
}

type CountersByName<'a> = BTreeMap<&'a str, &'a Counters>;

fn by_name(snapshot: &Snapshot) -> CountersByName<'_> {
    snapshot.lines.iter().map(|line| (line.name.as_str(), &line.counters)).collect()
}

/// Returns whether a device was removed and inserted again under its name, by sysstat's rule: its requests fell, and so did the
/// sectors of each kind that it had.
fn inserted_again(before: &Counters, after: &Counters) -> bool {
    let requests = |counters: &Counters| {
        let discards = counters.discards.map_or(0, |discards| discards.discards);
        let flushes = counters.flushes.map_or(0, |flushes| flushes.flushes);
        [counters.reads, counters.writes, discards, flushes].into_iter().fold(0, u64::saturating_add)
    };
    let fell = |of: fn(&Counters) -> u64| of(before) == 0 || of(after) < of(before);
    requests(after) < requests(before)
        && fell(|counters| counters.read_sectors)
        && fell(|counters| counters.write_sectors)
        && fell(|counters| counters.discards.map_or(0, |discards| discards.sectors))
}

struct Frame<'a> {
    before: CountersByName<'a>,
    after: CountersByName<'a>,
    interval_ns: u64,
    options: &'a IostatOptions,
    stack: &'a Stack,
}

impl<'a> Frame<'a> {
    fn delta(&self, name: &str) -> Delta {
        // A device that is new, or was created again, has done all its I/O since.
        let before = self.before.get(name).copied().copied().unwrap_or_default();
        let after = self.after.get(name).copied().copied().unwrap_or(before);
        let before = if inserted_again(&before, &after) { Counters::default() } else { before };
        Delta::between(&before, &after)
    }

    fn passes(&self, delta: Delta) -> bool {
        !self.options.omit_idle || delta.any_io()
    }

    /// A row of a device or of a group, unless it is left out.
    fn selected(&self, row: &SelectedRow<'_>) -> Option<DeviceRow> {
        match row {
            SelectedRow::Device(name) => Some(self.row(name, 0)).filter(|_| self.passes(self.delta(name))),
            SelectedRow::Group { name, members } => {
                let sum = members.iter().map(|member| self.delta(member)).reduce(Delta::plus);
                // As in sysstat, the extended report leaves a group without a device out.
                let is_shown =
                    self.passes(sum.unwrap_or_default()) && (sum.is_some() || !self.options.extended);
                is_shown.then(|| DeviceRow {
                    name: (*name).to_owned(),
                    label: format!(" {name}"),
                    rates: Some(sum.unwrap_or_default().rates(self.interval_ns)),
                    is_silent: false,
                    below: Vec::new(),
                })
            }
        }
    }

    fn row(&self, name: &str, depth: usize) -> DeviceRow {
        let mut rates = self.delta(name).rates(self.interval_ns);
        let device = self.stack.device(name);
        if device.is_some_and(|device| device.kind == DeviceKind::Partition) {
            // Flushes are counted on whole disks only, so no flushes can be subtracted.
            rates.corrected_writes_per_s = None;
        }
        let mapper_name = device.and_then(|device| device.mapper_name.as_deref());
        let plain = name.replace('!', "/");
        let label = match mapper_name {
            Some(mapper) if self.options.mapper_names => mapper.to_owned(),
            Some(mapper) if self.options.tree => format!("{plain} ({mapper})"),
            _ => plain,
        };
        let persistent = self.options.persistent.as_ref().and_then(|names| names.name_of(name));
        let label = persistent.map_or(label, str::to_owned);
        let label = format!("{:width$}{label}", "", width = 2 * depth);
        DeviceRow { name: name.to_owned(), label, rates: Some(rates), is_silent: false, below: Vec::new() }
    }

    /// Tops first, each followed by the devices below it; a device under two tops has its figures once.
    fn tree(&self, chosen: Vec<&'a str>, report: &mut Report) {
        let mut members: BTreeSet<&str> = chosen.into_iter().collect();
        let mut pending: Vec<&str> = members.iter().copied().collect();
        while let Some(name) = pending.pop() {
            for below in self.stack.below(name) {
                if self.after.contains_key(below) && members.insert(below) {
                    pending.push(below);
                }
            }
        }
        let covered: BTreeSet<&str> = members.iter().flat_map(|name| self.stack.below(name)).collect();
        let mut walk = StackWalk { frame: self, members: &members, seen: BTreeSet::new(), rows: Vec::new() };
        for top in members.iter().filter(|name| !covered.contains(*name)) {
            walk.visit(top, 0);
        }
        report.rows = walk.rows;
        let bottom: Vec<&str> =
            members.iter().copied().filter(|name| self.is_bottom(name, &members)).collect();
        let sum = bottom.iter().map(|name| self.delta(name)).reduce(Delta::plus).unwrap_or_default();
        report.total = Some((sum.rates(self.interval_ns), bottom.len()));
    }

    /// Whether a device belongs to the lowest ones that are counted, whose sum has each request once.
    fn is_bottom(&self, name: &str, members: &BTreeSet<&str>) -> bool {
        !self.stack.is_detached(name) && !self.is_silent(name) && !self.is_counted_below(name, members)
    }

    /// Whether the kernel does not count a device's requests.
    fn is_silent(&self, name: &str) -> bool {
        let has_counted = |name: &str| self.after.get(name).is_some_and(|counters| counters.any_io());
        self.stack.is_silent(name, &has_counted)
    }

    /// Whether any device below this one is counted.
    fn is_counted_below(&self, name: &str, members: &BTreeSet<&str>) -> bool {
        let (mut pending, mut seen) = (self.stack.below(name), BTreeSet::new());
        while let Some(below) = pending.pop() {
            if members.contains(below) && seen.insert(below) {
                if !self.is_silent(below) {
                    return true;
                }
                pending.extend(self.stack.below(below));
            }
        }
        false
    }
}

struct StackWalk<'a, 'b> {
    frame: &'b Frame<'a>,
    members: &'b BTreeSet<&'a str>,
    seen: BTreeSet<&'a str>,
    rows: Vec<DeviceRow>,
}

impl<'a> StackWalk<'a, '_> {
    fn visit(&mut self, name: &'a str, depth: usize) {
        let mut row = self.frame.row(name, depth);
        let below: Vec<&str> = self.frame.stack.below(name);
        let below: Vec<&str> = below.into_iter().filter(|name| self.members.contains(name)).collect();
        row.below = below.iter().map(|&name| name.to_owned()).collect();
        if !self.seen.insert(name) {
            row.rates = None;
            self.rows.push(row);
            return;
        }
        if self.frame.is_silent(name) {
            (row.rates, row.is_silent) = (None, true);
        }
        self.rows.push(row);
        for name in below {
            self.visit(name, depth + 1);
        }
    }
}
