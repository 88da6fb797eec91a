//! The results of a disk probe and of loads as lines for an 80-column terminal, from the record alone.
//!
//! A table row is 80 columns: kind, depth, operations per second, MiB/s, four latencies, the Little's-law gap, the
//! share of time waited for a CPU, and the device's own await (read/write/flush, ms) and average queue size.
//! A figure that is not available is a dash.

use fathom_record::disk::{DeviceView, Entry, Knee, Latency, Layout, Operations, ProbeSubject, Step, Stream};
use fathom_record::load::{Load, LoadOperation};
use fathom_units::{Bytes, Nanos, count, decimal};

use crate::amplification::{amplification_lines, member_lines};
use crate::budget::{budget_blocks, queue_lines};
use crate::capacity::{capacity_lines, need_lines};
use crate::findings::verdict_lines;
use crate::study::study_lines;
use crate::terminal_text::wrap;

/// Above this residual of log throughput, in percent, the name of a model would only mislead.
const MIN_POOR_FIT_PCT: f64 = 20.0;
/// The head of the table of steps.
const STEP_HEADER: &str = "kind depth  ops/s MiB/s    p50    p99  p99.9    max N-XR  cpu r/w/f await aqu-sz";

/// The lines of a result, at least one; `header` asks for the heading of its phase before a step.
pub fn entry_lines(entry: &Entry, header: bool, width: usize) -> Vec<String> {
    match entry {
        Entry::Subject(subject) => subject_lines(subject, width),
        Entry::Layout(layout) => layout_lines(layout, width),
        Entry::Step(step) => step_lines(step, header),
        Entry::Knee(knee) => knee_lines(knee, width),
        Entry::Objective(objective) => sentence_lines(&objective.words, width),
        Entry::BurstAllowance(allowance) => sentence_lines(&allowance.words, width),
        Entry::Capacity(capacity) => capacity_lines(capacity, header, width),
        Entry::Need(answer) => need_lines(&[answer.as_ref()], width),
        Entry::Load(load) => load_lines(load, header),
        Entry::Budget(budget) => budget_blocks(std::slice::from_ref(budget), width).concat(),
        // The operations of a server: findings quote them as evidence.
        Entry::SlowOperation(_) | Entry::ServerEvent(_) | Entry::ServerWork(_) => Vec::new(),
        Entry::Queue(ladder) => queue_lines(ladder, width),
        Entry::Amplification(one) => amplification_lines(one, width),
        Entry::Member(row) => member_lines(std::slice::from_ref(row), header, width),
        Entry::Study(study) => study_lines(study, width),
        Entry::Judged(verdict) => verdict_lines(verdict, width, false),
        Entry::Fitness(verdict) => {
            let mut lines = vec![String::new()];
            lines.extend(wrap(&format!("Verdict: {}", verdict.words), "", "  ", width));
            lines
        }
        Entry::Meaning(meaning) => {
            let mut lines = if header { vec![String::new(), "What it means".to_owned()] } else { Vec::new() };
            lines.extend(wrap(&meaning.sentence, "  ", "    ", width));
            lines.extend(wrap(&format!("({})", meaning.arithmetic), "      ", "      ", width));
            lines
        }
    }
}

fn subject_lines(subject: &ProbeSubject, width: usize) -> Vec<String> {
    let device = subject.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    let cache = if subject.direct {
        format!("direct I/O, aligned to {} bytes", subject.alignment_bytes)
    } else {
        "through the page cache".to_owned()
    };
    let text = format!(
        "Probing {} ({}{device}), {}, {cache}.",
        subject.directory,
        subject.file_system,
        Bytes(subject.size_bytes)
    );
    wrap(&text, "", "  ", width)
}

fn layout_lines(layout: &Layout, width: usize) -> Vec<String> {
    let mut text = if layout.reused {
        format!("Using the {} file kept from an earlier run; nothing was written.", Bytes(layout.bytes))
    } else {
        format!(
            "Laid out {} of incompressible data in {} s, {} MiB/s.",
            Bytes(layout.bytes),
            decimal(layout.seconds),
            decimal(layout.mib_per_s)
        )
    };
    if layout.cut_short {
        text.push_str(" The time for it ended, so the file is smaller than requested.");
    }
    if let Some(rewritten) = &layout.rewritten {
        text.push_str(&format!(
            " Its last {} were written twice: at {} MiB/s, then at {} MiB/s.",
            Bytes(rewritten.bytes),
            decimal(rewritten.first_mib_per_s),
            decimal(rewritten.second_mib_per_s)
        ));
    }
    wrap(&text, "", "  ", width)
}

/// `randread 4 KiB, io_uring` and the like.
pub fn shape(stream: &Stream) -> String {
    let durable = if stream.durable == "none" { String::new() } else { format!(", {} each", stream.durable) };
    let durable =
        if stream.pattern == "checkpoint" { ", fsync after each burst".to_owned() } else { durable };
    let rate =
        stream.rate_per_s.map_or_else(String::new, |rate| format!(", {} per second offered", decimal(rate)));
    format!("{} {}, {}{durable}{rate}", stream.pattern, Bytes(stream.block_bytes), stream.engine)
}

/// The heading of a phase: its name and what runs in it.
pub fn phase_heading(step: &Step) -> String {
    let shapes: Vec<String> = step.streams.iter().map(shape).collect();
    format!("{}: {}", step.phase, shapes.join(" + "))
}

fn step_lines(step: &Step, header: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if header {
        lines.push(String::new());
        lines.extend(wrap(&phase_heading(step), "", "  ", 80));
        lines.push(STEP_HEADER.to_owned());
    }
    for (i, stream) in step.streams.iter().enumerate() {
        for (j, operations) in stream.operations.iter().enumerate() {
            // The figures of the device and the CPU belong to the step, so only its first row has them.
            lines.push(row(step, stream, operations, i == 0 && j == 0));
            lines.extend(operations.response.as_ref().map(|response| response_row(stream, response)));
        }
    }
    lines
}

fn row(step: &Step, stream: &Stream, operations: &Operations, leads: bool) -> String {
    let kind = match operations.kind.as_str() {
        "durable" if stream.pattern == "checkpoint" => "burst",
        "durable" => "both",
        other => other,
    };
    let gap = stream.little_gap.filter(|_| leads).map_or_else(|| "-".into(), |gap| percent(gap * 100.0));
    let cpu = step.run_queue_wait_pct.filter(|_| leads).map_or_else(|| "-".into(), percent);
    let (awaits, queue) = match step.devices.as_slice() {
        devices if leads && !devices.is_empty() => device_figures(devices),
        _ => ("-".into(), "-".into()),
    };
    let mib = if operations.mib_per_s > 0.0 { short(operations.mib_per_s) } else { "-".into() };
    let line = format!(
        "{kind:<5}{:>5} {:>6}{mib:>6}{}{gap:>5}{cpu:>5} {awaits:>11}{queue:>7}",
        stream.depth,
        thousands(operations.per_s),
        latencies(&operations.latency)
    );
    line.trim_end().to_owned()
}

fn response_row(stream: &Stream, response: &Latency) -> String {
    format!(
        "{:<5}{:>5} {:>6}{:>6}{}  from the intended start",
        " resp",
        stream.depth,
        "",
        "",
        latencies(response)
    )
}

fn latencies(latency: &Latency) -> String {
    let cell = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), compact);
    format!(
        "{:>7}{:>7}{:>7}{:>7}",
        compact(latency.p50_ns),
        cell(latency.p99_ns),
        cell(latency.p999_ns),
        compact(latency.max_ns)
    )
}

/// Three digits and a unit, at most six characters: `75.1µs`, `1.52ms`, `12.3s`.
fn compact(ns: u64) -> String {
    Nanos(ns).to_string().replace(' ', "").replace("min", "m")
}

/// At most six characters: `12345`, `123k`.
fn thousands(per_s: f64) -> String {
    match per_s {
        n if n >= 999_950.0 => format!("{:.2}M", n / 1e6),
        n if n >= 99_950.0 => format!("{:.0}k", n / 1e3),
        n if n >= 100.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

/// At most five characters.
fn short(mib: f64) -> String {
    match mib {
        n if n >= 999_500.0 => format!("{:.0}M", n / 1e6),
        n if n >= 9_999.5 => format!("{:.0}k", n / 1e3),
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

fn percent(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}%") } else { format!("{value:.1}%") }
}

/// Awaits of the busiest device, and the sum of queues.
fn device_figures(devices: &[DeviceView]) -> (String, String) {
    let ms = |value: Option<f64>| {
        value.map_or_else(
            || "-".to_owned(),
            |ms| match ms {
                ms if ms < 0.995 => format!("{ms:.2}").trim_start_matches('0').to_owned(),
                ms if ms < 9.95 => format!("{ms:.1}"),
                ms if ms < 999.5 => format!("{ms:.0}"),
                ms => format!("{:.0}s", ms / 1e3),
            },
        )
    };
    let queue: f64 = devices.iter().map(|device| device.aqu_sz).sum();
    let busiest = devices.iter().max_by(|a, b| a.aqu_sz.total_cmp(&b.aqu_sz));
    let awaits = busiest.map_or_else(
        || "-".into(),
        |device| format!("{}/{}/{}", ms(device.r_await_ms), ms(device.w_await_ms), ms(device.f_await_ms)),
    );
    (awaits, short(queue))
}

fn knee_lines(knee: &Knee, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.extend(wrap(&format!("Knee of {}: {}", knee.phase, knee.words), "", "  ", width));
    if let Some(why) = &knee.withheld {
        lines.extend(wrap(&format!("Verdict withheld: {why}."), "  ", "  ", width));
    }
    let spread = knee.rivals.iter().find(|rival| rival.0 == knee.model).map(|rival| rival.2 * 100.0);
    if knee.withheld.is_none() {
        let model = match spread {
            Some(spread) if spread <= MIN_POOR_FIT_PCT => {
                format!("; model: {} (residual {spread:.1} %)", knee.model)
            }
            Some(_) => "; no model fits these steps".to_owned(),
            None => String::new(),
        };
        let text = format!(
            "R1 {}, Xmax {}/s, N* {}{model}",
            Nanos(knee.latency_at_one_ns as u64),
            count(knee.throughput_max_per_s),
            decimal(knee.concurrency)
        );
        lines.extend(wrap(&text, "  ", "  ", width));
    }
    lines
}

fn sentence_lines(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.extend(wrap(words, "", "  ", width));
    lines
}

/// A row for the load, and one for each kind of operation if there are several; `header` adds the heads of the columns above.
pub(crate) fn load_lines(load: &Load, header: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if header {
        lines.push(String::new());
        lines.push(format!("{:<24} {:>12} {:>10} {:>10} {:>10}", load.server, "ops/s", "p50", "p99", "max"));
    }
    for (place, operation) in load.by_operation.iter().enumerate() {
        let what = match load.by_operation.len() {
            1 => load.workload.clone(),
            _ => format!("{}, {}", load.workload, operation.name.to_lowercase()),
        };
        let rate = operation.count as f64 / load.seconds.max(1e-9);
        lines.push(load_row(&what, rate, operation));
        if place + 1 == load.by_operation.len() && load.client_limited {
            lines.push("    the client was busy: the server may be able to do more".to_owned());
        }
    }
    lines
}

fn load_row(what: &str, per_s: f64, operation: &LoadOperation) -> String {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
    let latency = operation.response.as_ref();
    let mut line = format!(
        "  {what:<22} {:>12} {:>10} {:>10} {:>10}",
        count(per_s),
        time(latency.map(|one| one.p50_ns)),
        time(latency.and_then(|one| one.p99_ns)),
        time(latency.map(|one| one.max_ns))
    );
    if operation.failed > 0 {
        line.push_str(&format!("  {} failed", count(operation.failed as f64)));
    }
    line
}

#[cfg(test)]
mod tests {
    use fathom_stats::Histogram;

    use super::*;

    #[test]
    fn rows_fit_the_terminal_and_tell_failures() {
        let mut histogram = Histogram::new();
        (0..5000).for_each(|step| histogram.record(100_000 + step * 100));
        let operation =
            |name: &str, failed: u64| LoadOperation::new(name, 5000, failed, &histogram, &histogram);
        let load = Load {
            server: "built-in, WiredTiger".to_owned(),
            workload: "workload A".to_owned(),
            connections: 8,
            seconds: 2.0,
            operations: 10_003,
            per_s: 5001.5,
            offered_per_s: None,
            by_operation: vec![operation("READ", 0), operation("UPDATE", 3)],
            client_cpu_share: 0.9,
            client_limited: true,
        };
        let lines = load_lines(&load, true);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 90), "{lines:#?}");
        assert!(lines[2].contains("workload A, read") && lines[2].contains("2,500"), "{lines:#?}");
        assert!(lines[3].ends_with("3 failed") && lines[4].contains("client was busy"), "{lines:#?}");
    }
}
