//! Computes rows from two snapshots: one for each device, or a tree of devices with a total of the bottom layer.

use std::collections::{BTreeMap, BTreeSet};

use super::{IostatOptions, Partitions, Selection, Snapshot, Stack};
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
    /// The figures; `None` for a device below two others that was shown before.
    pub rates: Option<Rates>,
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
    let shown = after.lines.iter().filter(|line| selection.shows(line, &after.lines, stack));
    let mut shown: Vec<&str> =
        shown.map(|line| line.name.as_str()).filter(|name| frame.passes(name)).collect();
    // sysstat lists by name, but in the kernel's order if partitions are requested (tests/fixtures/iostat).
    if !matches!(options.partitions, Partitions::Used | Partitions::All) {
        shown.sort_unstable();
    }
    let cpu = after.cpu.shares_since(&before.cpu);
    let mut report = Report { interval_ns, cpu, ..Report::default() };
    if options.tree {
        frame.tree(shown, &mut report);
    } else {
        report.rows = shown.into_iter().map(|name| frame.row(name, 0)).collect();
    }
    report
}

type CountersByName<'a> = BTreeMap<&'a str, &'a Counters>;

fn by_name(snapshot: &Snapshot) -> CountersByName<'_> {
    snapshot.lines.iter().map(|line| (line.name.as_str(), &line.counters)).collect()
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
        // A device that is new has done all its I/O since.
        let before = self.before.get(name).copied().copied().unwrap_or_default();
        let after = self.after.get(name).copied().copied().unwrap_or(before);
        Delta::between(&before, &after)
    }

    fn passes(&self, name: &str) -> bool {
        !self.options.omit_idle || self.delta(name).any_io()
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
        let label = format!("{:width$}{label}", "", width = 2 * depth);
        DeviceRow { name: name.to_owned(), label, rates: Some(rates), below: Vec::new() }
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

    fn is_bottom(&self, name: &str, members: &BTreeSet<&str>) -> bool {
        !self.stack.is_detached(name) && !self.stack.below(name).iter().any(|below| members.contains(below))
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
        self.rows.push(row);
        for name in below {
            self.visit(name, depth + 1);
        }
    }
}
