//! The report as text, column for column as sysstat 12.6 prints it in the C locale.

use std::fmt::Write;

use super::{DeviceRow, IostatHeader, IostatOptions, Report};
use crate::rates::{Flow, Rates};

/// The width of the first column; a longer name pushes its row to the right, as in sysstat.
const NAME_WIDTH: usize = 13;

/// The line before all reports, with an empty line after it.
pub fn header(header: &IostatHeader) -> String {
    let IostatHeader { release, nodename, machine, cpus, date } = header;
    format!("Linux {release} ({nodename}) \t{date} \t_{machine}_\t({cpus} CPU)\n\n")
}

/// One report, after `timestamp` with `-t`.
pub fn report(report: &Report, options: &IostatOptions, timestamp: &str) -> String {
    let mut out = String::new();
    if options.timestamp {
        push(&mut out, format_args!("{timestamp}\n"));
    }
    if options.cpu {
        let cpu = report.cpu;
        out.push_str("avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n       ");
        for share in [cpu.user_pct, cpu.nice_pct, cpu.system_pct, cpu.iowait_pct, cpu.steal_pct, cpu.idle_pct]
        {
            push(&mut out, format_args!(" {share:7.2}"));
        }
        out.push_str("\n\n");
    }
    if options.disks {
        devices(report, options, &mut out);
    }
    out.push_str("\n\n");
    out
}

fn devices(report: &Report, options: &IostatOptions, out: &mut String) {
    let total = report.total.as_ref().map(|(rates, count)| DeviceRow {
        name: String::new(),
        label: format!("total of {count}"),
        rates: Some(*rates),
        below: Vec::new(),
    });
    let rows = || report.rows.iter().chain(&total);
    // The tree form fits its column to the names; sysstat's own form keeps its fixed width.
    let longest = rows().map(|row| row.label.chars().count()).max().unwrap_or(0);
    let width = if options.tree { longest.max(NAME_WIDTH) } else { NAME_WIDTH };
    push(out, format_args!("{:width$}", "Device"));
    for column in columns(options) {
        push(out, format_args!(" {:>1$}", column.heading, column.width));
    }
    out.push('\n');
    for row in rows() {
        push(out, format_args!("{:width$}", row.label));
        match &row.rates {
            Some(rates) => columns(options).iter().for_each(|column| column.write(rates, out)),
            None => out.push_str(" (shown above)"),
        }
        out.push('\n');
    }
}

/// The contents of a cell: a figure with two decimals, a whole number, or nothing known.
enum Cell {
    Figure(f64),
    Whole(u64),
    Unknown,
}

struct IostatColumn {
    heading: String,
    width: usize,
    cell: Box<dyn Fn(&Rates) -> Cell>,
}

impl IostatColumn {
    fn figure(heading: impl Into<String>, width: usize, of: impl Fn(&Rates) -> f64 + 'static) -> Self {
        IostatColumn { heading: heading.into(), width, cell: Box::new(move |rates| Cell::Figure(of(rates))) }
    }

    fn write(&self, rates: &Rates, out: &mut String) {
        let width = self.width;
        match (self.cell)(rates) {
            Cell::Figure(figure) => push(out, format_args!(" {figure:width$.2}")),
            Cell::Whole(number) => push(out, format_args!(" {number:width$}")),
            Cell::Unknown => push(out, format_args!(" {:>width$}", "-")),
        }
    }
}

fn columns(options: &IostatOptions) -> Vec<IostatColumn> {
    let mut columns = match (options.extended, options.short) {
        (true, false) => extended(options),
        (true, true) => extended_short(options),
        (false, short) => basic(options, short),
    };
    if options.more {
        columns.push(IostatColumn {
            heading: "cw/s".to_owned(),
            width: 7,
            cell: Box::new(|rates| rates.corrected_writes_per_s.map_or(Cell::Unknown, Cell::Figure)),
        });
        let cell = Box::new(|rates: &Rates| Cell::Whole(rates.in_flight));
        columns.push(IostatColumn { heading: "inflight".to_owned(), width: 8, cell });
    }
    columns
}

type FlowColumn = fn(&Rates) -> Flow;

const READ: FlowColumn = |rates| rates.read;
const WRITE: FlowColumn = |rates| rates.write;
const DISCARD: FlowColumn = |rates| rates.discard.unwrap_or_default();
const FLUSH: FlowColumn = |rates| rates.flush.unwrap_or_default();

fn extended(options: &IostatOptions) -> Vec<IostatColumn> {
    let unit = options.unit;
    let mut columns = Vec::new();
    for (letter, part) in [("r", READ), ("w", WRITE), ("d", DISCARD)] {
        columns.push(IostatColumn::figure(format!("{letter}/s"), 7, move |r| part(r).per_s));
        let heading = format!("{letter}{}/s", unit.label());
        columns.push(IostatColumn::figure(heading, 9, move |r| unit.of_kib(part(r).kib_per_s)));
        columns.push(IostatColumn::figure(format!("{letter}rqm/s"), 8, move |r| part(r).merges_per_s));
        columns.push(IostatColumn::figure(format!("%{letter}rqm"), 6, move |r| known(part(r).merged_pct)));
        columns.push(IostatColumn::figure(format!("{letter}_await"), 7, move |r| known(part(r).await_ms)));
        columns.push(IostatColumn::figure(format!("{letter}areq-sz"), 8, move |r| known(part(r).areq_kib)));
    }
    columns.push(IostatColumn::figure("f/s", 7, |r| FLUSH(r).per_s));
    columns.push(IostatColumn::figure("f_await", 7, |r| known(FLUSH(r).await_ms)));
    columns.extend(queue_and_utilisation());
    columns
}

fn extended_short(options: &IostatOptions) -> Vec<IostatColumn> {
    let unit = options.unit;
    let mut columns = vec![
        IostatColumn::figure("tps", 8, |r| r.all.per_s),
        IostatColumn::figure(format!("{}/s", unit.label()), 9, move |r| unit.of_kib(r.all.kib_per_s)),
        IostatColumn::figure("rqm/s", 8, |r| r.all.merges_per_s),
        IostatColumn::figure("await", 7, |r| known(r.all.await_ms)),
        IostatColumn::figure("areq-sz", 8, |r| known(r.all.areq_kib)),
    ];
    columns.extend(queue_and_utilisation());
    columns
}

fn queue_and_utilisation() -> [IostatColumn; 2] {
    [IostatColumn::figure("aqu-sz", 7, |r| r.aqu_sz), IostatColumn::figure("%util", 6, |r| r.util_pct)]
}

/// Rates of each kind, then amounts of each kind; `short` adds discards to writes.
fn basic(options: &IostatOptions, short: bool) -> Vec<IostatColumn> {
    let unit = options.unit;
    let label = unit.label();
    let kinds: &[(&str, &[FlowColumn])] = match short {
        false => &[("read", &[READ]), ("wrtn", &[WRITE]), ("dscd", &[DISCARD])],
        true => &[("read", &[READ]), ("w+d", &[WRITE, DISCARD])],
    };
    let mut columns = vec![IostatColumn::figure("tps", 8, |r| r.all.per_s)];
    for &(kind, parts) in kinds {
        let kib = move |r: &Rates| parts.iter().map(|part| part(r).kib_per_s).sum();
        columns.push(IostatColumn::figure(format!("{label}_{kind}/s"), 12, move |r| unit.of_kib(kib(r))));
    }
    for &(kind, parts) in kinds {
        let sectors = move |r: &Rates| parts.iter().map(|part| part(r).sectors).fold(0, u64::saturating_add);
        let cell = Box::new(move |r: &Rates| Cell::Whole(unit.of_sectors(sectors(r))));
        columns.push(IostatColumn { heading: format!("{label}_{kind}"), width: 10, cell });
    }
    columns
}

/// An average over no request prints as 0.00.
pub(super) fn known(figure: Option<f64>) -> f64 {
    figure.unwrap_or(0.0)
}

/// Writing to a `String` cannot fail.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
#[path = "golden_tests.rs"]
mod golden_tests;
