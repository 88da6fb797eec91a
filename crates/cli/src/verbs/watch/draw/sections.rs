//! The sections of the screen as lines of text, each by itself; their positions are decided elsewhere.

use ratatui::style::Color;
use ratatui::text::{Line, Span};

use super::charts::{gauge, legend, stack};
use super::paint::{Paint, clip_start, clock, count, megabytes, percent, span, time, time_or_dash};
use crate::verbs::watch::view::{CheckpointView, LoopRow, MainFinding, MemberView, Rung, Screen};
use fathom_record::verdict::Outcome;
use fathom_record::{Confidence, Severity};

/// The target, the start, and the cost of watching.
pub(super) fn header(screen: &Screen, is_paused: bool, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut first = vec![paint.heading("fathom watch "), Span::raw(format!(" {} ", clock(screen.elapsed_s)))];
    if is_paused {
        first.push(paint.alarm("PAUSED ".to_owned()));
    }
    let used: usize = first.iter().map(Span::width).sum();
    first.push(Span::raw(paint.clip(&screen.target, width.saturating_sub(used))));
    let mut lines = vec![Line::from(first)];
    if let [only] = screen.members.as_slice() {
        let text = paint.clip(&member(only), width);
        lines.push(Line::from(if only.alarm().is_some() { paint.alarm(text) } else { Span::raw(text) }));
    }
    lines
}

/// Several servers: a line each, with its role and activity; above them the lag of the commit point behind the newest write.
pub(super) fn members(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    if screen.members.len() < 2 {
        return Vec::new();
    }
    let is_sharded = screen.members.iter().any(|one| one.shard.is_some());
    let last = if is_sharded { "chunks share" } else { "oplog" };
    let names = names(width);
    let head = format!(
        "{:<names$}{:<10}{:<11}{:>6} {:>6} {:>7} {last:>12}",
        "servers", "state", "engine", "lag", "ops/s", "w_await"
    );
    let mut lines = vec![Line::from(paint.heading(&paint.clip(&head, width)))];
    lines.extend(screen.members.iter().map(|one| member_line(one, is_sharded, width, paint)));
    let open = screen.members.iter().filter(|one| one.uncommitted.is_some_and(|entries| entries >= 0.05));
    let open: Vec<String> = open
        .map(|one| {
            let set = one.set.as_deref().unwrap_or(&one.number);
            format!("{set} {} writes behind the newest", count(one.uncommitted.unwrap_or(0.0)))
        })
        .collect();
    if !open.is_empty() {
        lines.push(Line::raw(paint.clip(&format!("  commit point: {}", open.join(", ")), width)));
    }
    lines
}

/// The width of a server's name in the table of several: more on a wide terminal.
fn names(width: usize) -> usize {
    24 + width.saturating_sub(80).min(24)
}

fn member_line(one: &MemberView, is_sharded: bool, width: usize, paint: Paint) -> Line<'static> {
    let dash = || "-".to_owned();
    let names = names(width);
    let shard = one.shard.as_ref().map_or_else(String::new, |shard| format!("{} ", paint.clip(shard, 9)));
    let name = format!("{} {shard}", one.number);
    let room = names.saturating_sub(name.chars().count() + 1);
    let name = name + &clip_start(one.address.as_deref().unwrap_or("-"), room, paint);
    let alarm = one.alarm();
    let state = alarm.or(one.role.as_deref()).unwrap_or("-");
    let last = if is_sharded {
        let share = one.operations_share.map_or_else(dash, percent);
        format!("{:>6} {share:>5}", one.chunks.map_or_else(dash, count))
    } else {
        one.oplog_s.map_or_else(dash, span)
    };
    let text = format!(
        "{name:<names$}{:<10}{:<11}{:>6} {:>6} {:>7} {last:>12}",
        paint.clip(state, 9),
        paint.clip(one.engine.as_deref().unwrap_or("-"), 10),
        one.lag_ms.filter(|_| alarm.is_none()).map_or_else(dash, time),
        one.operations_per_s.map_or_else(dash, count),
        time_or_dash(one.device_write_ms)
    );
    let text = paint.clip(&text, width);
    Line::from(if alarm.is_some() { paint.alarm(text) } else { Span::raw(text) })
}

/// The changes: members that changed their state, and servers that became unreachable and came back.
pub(super) fn changes(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let line = |change: &String| Line::from(paint.alarm(paint.clip(change, width)));
    screen.changes.iter().map(line).collect()
}

fn member(member: &MemberView) -> String {
    let mut words = vec![member.number.clone()];
    let state = member.alarm().map(str::to_owned).or_else(|| member.role.clone());
    words.extend([&member.address, &state, &member.engine, &member.version].into_iter().flatten().cloned());
    words.extend(member.lag_ms.filter(|lag| *lag > 0.0).map(|lag| format!("lag {}", time(lag))));
    words.join(" ")
}

/// The layers of the mean time.
pub(super) fn loops(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    if screen.loops.is_empty() {
        return vec![Line::from(vec![paint.heading("loops "), Span::raw("no operations yet")])];
    }
    let several = screen.members.len() > 1;
    screen.loops.iter().map(|row| loop_line(row, several, width, paint)).collect()
}

fn loop_line(row: &LoopRow, several: bool, width: usize, paint: Paint) -> Line<'static> {
    let name = if several { format!("{} {}", row.member, row.operations) } else { row.operations.clone() };
    let mut spans =
        vec![paint.heading(&format!("{name:<8}")), Span::raw(format!("{:>8}", time(row.mean_ms)))];
    spans.push(if row.closes { Span::raw(" ") } else { paint.alarm("!".to_owned()) });
    if row.parts.is_empty() {
        spans.push(paint.faint("within the server; its layers need more windows".to_owned()));
        return Line::from(spans);
    }
    let bar = (width / 4).clamp(8, 40);
    spans.extend(stack(&row.parts, bar, paint));
    let mut ranked: Vec<_> = row.parts.iter().filter(|part| part.share >= 0.005).collect();
    ranked.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut used: usize = spans.iter().map(Span::width).sum();
    for part in ranked {
        let legend = legend(part, paint);
        used += 1 + legend.width();
        // The bar is complete; the names that do not fit belong to its smallest parts.
        if used > width {
            break;
        }
        spans.extend([Span::raw(" "), legend]);
    }
    Line::from(spans)
}

/// The queues and their caps.
pub(super) fn ladder(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let rung = |rung: &Rung| {
        let mut spans = vec![Span::raw(format!("{:<14}", paint.clip(&rung.name, 13)))];
        if let Some(cap) = rung.cap {
            let colour = if rung.is_capped { Color::LightRed } else { Color::Green };
            spans.extend(gauge(rung.now / cap, width.saturating_sub(34).clamp(4, 30), colour, paint));
            spans.push(Span::raw(format!(" {}/{}", count(rung.now), count(cap))));
        } else {
            spans.push(Span::raw(format!(" {}", count(rung.now))));
        }
        if let Some(waiting) = rung.waiting {
            spans.push(Span::raw(format!(" +{}", count(waiting))));
        }
        if rung.is_capped {
            spans.push(paint.alarm(format!(" CAP {}", percent(rung.full_share))));
        }
        Line::from(spans)
    };
    let mut head = vec![paint.heading("queues")];
    head.extend(screen.io_pressure_share.map(|share| Span::raw(format!("  io PSI {}", percent(share)))));
    head.extend(screen.cpu_idle_pct.map(|idle| Span::raw(format!("  cpu {:.0}%", 100.0 - idle))));
    let mut lines = vec![Line::from(head)];
    lines.extend(screen.ladder.iter().map(rung));
    lines
}

/// The countdown to the next checkpoint, and the last ones.
pub(super) fn checkpoints(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let several = screen.checkpoints.len() > 1;
    let mut lines = Vec::new();
    for one in &screen.checkpoints {
        let mut spans = vec![paint.heading("checkpoint ")];
        if several {
            spans.push(Span::raw(format!("{} ", one.member)));
        }
        spans.extend(countdown(one, width, paint));
        if let Some(dirty) = one.dirty_share {
            spans.push(Span::raw(format!(" dirty {}", percent(dirty))));
        }
        lines.push(Line::from(spans));
        let cycle = |cycle: &crate::verbs::watch::view::Cycle| {
            let took = cycle.took_s.map_or_else(|| "?".to_owned(), |took_s| time(1000.0 * took_s));
            let written = cycle.written_bytes.map(|bytes| format!("/{}MB", megabytes(bytes)));
            format!("{took}{}", written.unwrap_or_default())
        };
        if !one.cycles.is_empty() {
            // The newest first: without space, the oldest are cut off.
            let cycles: Vec<String> = one.cycles.iter().rev().map(cycle).collect();
            lines.push(Line::raw(paint.clip(&format!("  last {}", cycles.join(" ")), width)));
        }
    }
    lines
}

fn countdown(one: &CheckpointView, width: usize, paint: Paint) -> Vec<Span<'static>> {
    if one.is_running {
        return vec![paint.alarm("running".to_owned())];
    }
    let (Some(next_s), Some(every_s)) = (one.next_s, one.every_s) else {
        let every = one.every_s.map_or_else(String::new, |every_s| format!("every {every_s:.0} s"));
        return vec![Span::raw(if every.is_empty() { "none seen yet".to_owned() } else { every })];
    };
    let mut spans =
        gauge(1.0 - next_s / every_s, width.saturating_sub(40).clamp(4, 20), Color::Indexed(214), paint);
    spans.push(Span::raw(if next_s < 0.0 { " due".to_owned() } else { format!(" in {next_s:.0} s") }));
    spans
}

/// The latency of operations.
pub(super) fn latency(screen: &Screen, paint: Paint) -> Vec<Line<'static>> {
    let of_client = screen.latency.iter().any(|row| row.response.is_some());
    let head = if of_client {
        format!("{:<15}{:>6} {:>7} {:>7} {:>7}", "operations", "/s", "mean", "p50", "p99")
    } else {
        format!("{:<15}{:>6} {:>7}", "servers", "/s", "mean")
    };
    let mut lines = vec![Line::from(paint.heading(&head))];
    for row in &screen.latency {
        let name = paint.clip(&row.name, 9);
        for (clock, word) in [(Some(row.service), "serv"), (row.response, "resp")] {
            let Some(clock) = clock else { continue };
            let rate = if word == "serv" { count(row.per_s) } else { String::new() };
            let named = if of_client { format!("{name} {word}") } else { row.name.clone() };
            let mut line = format!("{named:<15}{rate:>6} {:>7}", time_or_dash(clock.mean_ms));
            if of_client {
                line += &format!(" {:>7} {:>7}", time_or_dash(clock.p50_ms), time_or_dash(clock.p99_ms));
            }
            lines.push(Line::raw(line));
        }
    }
    lines
}

/// The operations that busy servers run now.
pub(super) fn operations(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    if screen.operations.is_empty() {
        return Vec::new();
    }
    let head = format!("{:<5}{:>6} {:>7} {:>6}  {}", "time", "busy", "longest", "MB/s", "operations now");
    let mut lines = vec![Line::from(paint.heading(&paint.clip(&head, width)))];
    let several = screen.members.len() > 1;
    lines.extend(screen.operations.iter().map(|one| {
        let member = if several { format!("{} ", one.member) } else { String::new() };
        let bytes = one.disk_bytes_per_s.map_or_else(|| "-".to_owned(), megabytes);
        let client = one.client_words().map(|client| format!(" ({client})")).unwrap_or_default();
        let text = format!(
            "{:<5}{:>6.1} {:>7} {bytes:>6}  {member}{}{client}",
            percent(one.time_share),
            one.running,
            time(one.longest_ms),
            one.words(),
        );
        Line::raw(paint.clip(&text, width))
    }));
    lines
}

/// The table of devices.
pub(super) fn devices(screen: &Screen, paint: Paint) -> Vec<Line<'static>> {
    let head = paint.heading(&format!(
        "{:<10}{:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6}",
        "device", "read", "write", "flush", "IO/s", "r MB/s", "w MB/s", "queue"
    ));
    let mut lines = vec![Line::from(head)];
    lines.extend(screen.devices.iter().map(|device| {
        Line::raw(format!(
            "{:<10}{:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6}",
            paint.clip(&device.name, 10),
            time_or_dash(device.read_ms),
            time_or_dash(device.write_ms),
            time_or_dash(device.flush_ms),
            count(device.per_s),
            megabytes(device.read_bytes_per_s),
            megabytes(device.written_bytes_per_s),
            device.in_flight.map_or_else(|| "-".to_owned(), count),
        ))
    }));
    lines
}

/// The verdict on the last minutes.
pub(super) fn verdict(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let Some(verdict) = &screen.verdict else { return Vec::new() };
    let text = paint.clip(&verdict.sentence, width);
    let is_bad = verdict.outcome == Outcome::HeldBack;
    vec![Line::from(if is_bad { paint.alarm(text) } else { Span::raw(text) })]
}

/// The findings to look at first.
pub(super) fn suspects(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    if screen.suspects.is_empty() {
        return vec![Line::from(vec![paint.heading("suspects "), Span::raw("none so far")])];
    }
    let line = |(at, suspect): (usize, &MainFinding)| {
        let gain = suspect.gain.as_ref().map(|(share, _)| format!(" (up to -{})", percent(*share)));
        let gain = suspect.cost_share.map(|share| format!(" (costs {})", percent(share))).or(gain);
        let doubt = match suspect.confidence {
            Confidence::Certain => "",
            Confidence::Likely => " (likely)",
            Confidence::CannotTell => " (cannot tell)",
        };
        let tail = format!("{doubt}{}", gain.unwrap_or_default());
        let claim = paint.clip(&suspect.claim, width.saturating_sub(3 + tail.chars().count()));
        let text = format!("{} {claim}{tail}", at + 1);
        Line::from(if suspect.severity >= Severity::Warning { paint.alarm(text) } else { Span::raw(text) })
    };
    screen.suspects.iter().enumerate().map(line).collect()
}

/// The readings that failed: the newest sentence, and the number of sentences.
pub(super) fn notes(screen: &Screen, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let Some(newest) = screen.notes.last() else { return Vec::new() };
    let lead = format!("notes ({}) ", screen.notes.len());
    let text = paint.clip(newest, width.saturating_sub(lead.chars().count()));
    vec![Line::from(vec![paint.heading(&lead), paint.faint(text)])]
}

pub(super) fn keys(screen: &Screen, paint: Paint) -> Vec<Line<'static>> {
    let cost = screen
        .own_cpu_share
        .map_or_else(String::new, |share| format!("   own cost {} of a core", percent(share)));
    vec![Line::from(paint.faint(format!("q quit  p pause  m mark  ? help{cost}")))]
}
