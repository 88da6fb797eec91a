//! The report as text, column for column as sysstat 12.7 prints it in the C locale.

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
            Cell::Percent(share).write(7, options, &mut out);
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
        is_silent: false,
        below: Vec::new(),
    });
    let rows = || report.rows.iter().chain(&total);
    // The tree form fits its column to the names; sysstat's own form keeps its fixed width.
    let longest = rows().map(|row| row.label.chars().count()).max().unwrap_or(0);
    let width = if options.tree { longest.max(NAME_WIDTH) } else { NAME_WIDTH };
    let name_first = |label: &str| if options.pretty { String::new() } else { format!("{label:width$}") };
    let name_last = |label: &str| if options.pretty { format!(" {label}\n") } else { "\n".to_owned() };
    for (index, columns) in parts(options).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&name_first("Device"));
        for column in columns {
            push(out, format_args!(" {:>1$}", column.heading, column.width));
        }
        out.push_str(&name_last("Device"));
        for row in rows() {
            out.push_str(&name_first(&row.label));
            match &row.rates {
                Some(rates) => columns.iter().for_each(|column| column.write(rates, options, out)),
                None if row.is_silent => out.push_str(" (not counted)"),
                None => out.push_str(" (shown above)"),
            }
            out.push_str(&name_last(&row.label));
        }
    }
}

/// The contents of a cell. The options decide about decimals and units.
enum Cell {
    /// A number without a unit.
    Figure(f64),
    Percent(f64),
    /// KiB a second, in the unit of the report.
    Flow(f64),
    /// The size of a request in KiB, whatever the unit of the report.
    Size(f64),
    /// Sectors, in whole units of the report.
    Amount(u64),
    Whole(u64),
    Unknown,
}

impl Cell {
    fn write(&self, width: usize, options: &IostatOptions, out: &mut String) {
        let places = options.decimals.unwrap_or(2);
        match *self {
            Cell::Figure(figure) => push(out, format_args!(" {figure:width$.places$}")),
            // The sign takes a place of the column and one of the decimals.
            Cell::Percent(share) if options.human => {
                push(out, format_args!(" {share:0$.1$}%", width - 1, places.min(1)));
            }
            Cell::Percent(share) => push(out, format_args!(" {share:width$.places$}")),
            Cell::Flow(kib) | Cell::Size(kib) if options.human => human(kib, width, options, out),
            Cell::Flow(kib) => Cell::Figure(options.unit.of_kib(kib)).write(width, options, out),
            Cell::Size(kib) => Cell::Figure(kib).write(width, options, out),
            Cell::Amount(sectors) if options.human => human(sectors as f64 / 2.0, width, options, out),
            Cell::Amount(sectors) => Cell::Whole(options.unit.of_sectors(sectors)).write(width, options, out),
            Cell::Whole(number) => push(out, format_args!(" {number:width$}")),
            Cell::Unknown => push(out, format_args!(" {:>width$}", "-")),
        }
    }
}

/// A size in the largest unit of which it has at least one, k at least.
fn human(kib: f64, width: usize, options: &IostatOptions, out: &mut String) {
    let (mut size, mut unit) = (kib, 'k');
    for larger in ['M', 'G', 'T', 'P'] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    let places = usize::from(options.decimals != Some(0));
    push(out, format_args!(" {size:0$.places$}{unit}", width - 1));
}

struct IostatColumn {
    heading: String,
    width: usize,
    cell: Box<dyn Fn(&Rates) -> Cell>,
}

impl IostatColumn {
    fn new(heading: impl Into<String>, width: usize, cell: impl Fn(&Rates) -> Cell + 'static) -> Self {
        IostatColumn { heading: heading.into(), width, cell: Box::new(cell) }
    }

    fn figure(heading: impl Into<String>, width: usize, of: impl Fn(&Rates) -> f64 + 'static) -> Self {
        IostatColumn::new(heading, width, move |rates| Cell::Figure(of(rates)))
    }

    fn write(&self, rates: &Rates, options: &IostatOptions, out: &mut String) {
        (self.cell)(rates).write(self.width, options, out);
    }
}

/// The tables of a report: one, or, in the pretty form of the extended report, one for each kind of request.
fn parts(options: &IostatOptions) -> Vec<Vec<IostatColumn>> {
    let mut parts = match (options.extended, options.short) {
        (true, false) => extended(options),
        (true, true) => vec![extended_short(options)],
        (false, short) => vec![basic(options, short)],
    };
    if options.compact || !options.pretty {
        parts = vec![parts.into_iter().flatten().collect()];
    }
    if options.more
        && let Some(last) = parts.last_mut()
    {
        let corrected = |rates: &Rates| rates.corrected_writes_per_s.map_or(Cell::Unknown, Cell::Figure);
        last.push(IostatColumn::new("cw/s", 7, corrected));
        last.push(IostatColumn::new("inflight", 8, |rates| Cell::Whole(rates.in_flight)));
    }
    parts
}

type FlowColumn = fn(&Rates) -> Flow;

const READ: FlowColumn = |rates| rates.read;
const WRITE: FlowColumn = |rates| rates.write;
const DISCARD: FlowColumn = |rates| rates.discard.unwrap_or_default();
const FLUSH: FlowColumn = |rates| rates.flush.unwrap_or_default();

fn extended(options: &IostatOptions) -> Vec<Vec<IostatColumn>> {
    let label = options.unit.label(true);
    let of_kind = |(letter, part): (&str, FlowColumn)| {
        vec![
            IostatColumn::figure(format!("{letter}/s"), 7, move |r| part(r).per_s),
            IostatColumn::new(format!("{letter}{label}/s"), 9, move |r| Cell::Flow(part(r).kib_per_s)),
            IostatColumn::figure(format!("{letter}rqm/s"), 8, move |r| part(r).merges_per_s),
            IostatColumn::new(format!("%{letter}rqm"), 6, move |r| Cell::Percent(known(part(r).merged_pct))),
            IostatColumn::figure(format!("{letter}_await"), 7, move |r| known(part(r).await_ms)),
            IostatColumn::new(format!("{letter}areq-sz"), 8, move |r| Cell::Size(known(part(r).areq_kib))),
        ]
    };
    let mut parts: Vec<Vec<IostatColumn>> =
        [("r", READ), ("w", WRITE), ("d", DISCARD)].into_iter().map(of_kind).collect();
    let mut last = vec![
        IostatColumn::figure("f/s", 7, |r| FLUSH(r).per_s),
        IostatColumn::figure("f_await", 7, |r| known(FLUSH(r).await_ms)),
    ];
    last.extend(queue_and_utilisation());
    parts.push(last);
    parts
}

fn extended_short(options: &IostatOptions) -> Vec<IostatColumn> {
    let mut columns = vec![
        IostatColumn::figure("tps", 8, |r| r.all.per_s),
        IostatColumn::new(format!("{}/s", options.unit.label(true)), 9, |r| Cell::Flow(r.all.kib_per_s)),
        IostatColumn::figure("rqm/s", 8, |r| r.all.merges_per_s),
        IostatColumn::figure("await", 7, |r| known(r.all.await_ms)),
        IostatColumn::new("areq-sz", 8, |r| Cell::Size(known(r.all.areq_kib))),
    ];
    columns.extend(queue_and_utilisation());
    columns
}

fn queue_and_utilisation() -> [IostatColumn; 2] {
    [
        IostatColumn::figure("aqu-sz", 7, |r| r.aqu_sz),
        IostatColumn::new("%util", 6, |r| Cell::Percent(r.util_pct)),
    ]
}

/// Rates of each kind, then amounts of each kind; `short` adds discards to writes.
fn basic(options: &IostatOptions, short: bool) -> Vec<IostatColumn> {
    let label = options.unit.label(false);
    let kinds: &[(&str, &[FlowColumn])] = match short {
        false => &[("read", &[READ]), ("wrtn", &[WRITE]), ("dscd", &[DISCARD])],
        true => &[("read", &[READ]), ("w+d", &[WRITE, DISCARD])],
    };
    let mut columns = vec![IostatColumn::figure("tps", 8, |r| r.all.per_s)];
    for &(kind, parts) in kinds {
        let kib = move |r: &Rates| parts.iter().map(|part| part(r).kib_per_s).sum();
        columns.push(IostatColumn::new(format!("{label}_{kind}/s"), 12, move |r| Cell::Flow(kib(r))));
    }
    for &(kind, parts) in kinds {
        let sectors = move |r: &Rates| parts.iter().map(|part| part(r).sectors).fold(0, u64::saturating_add);
        columns.push(IostatColumn::new(format!("{label}_{kind}"), 10, move |r| Cell::Amount(sectors(r))));
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
