//! `fathom ftdc info`: describes the contents of recordings.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fathom_errors::Error;
use fathom_ftdc::{FileInventory, Period, ServerInventory, take_inventory};
use fathom_report::{printable, wrapped};
use fathom_session::RecordingCompanions;
use fathom_units::{Bytes, count, hours};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::outcome::VerbOutcome;
use crate::output::{self, WIDTH};
use crate::recording_arguments::{RecordingArgs, note_problems, precise_time, short_time};
use crate::server_dumps::{dumped_facts_sentence, is_dump};

/// The version of the JSON document.
const SCHEMA: u32 = 1;
/// Gaps, restarts and periods that are listed one by one.
const MAX_LISTED: usize = 4;

#[derive(Debug, Args)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Shows the contents of recordings.
pub(super) fn run(args: &InfoArgs) -> Result<VerbOutcome> {
    let (dumps, recordings): (Vec<PathBuf>, Vec<PathBuf>) =
        args.recording.paths.iter().cloned().partition(|path| is_dump(path));
    if recordings.is_empty() {
        let what = "only dumps of a server are named, and no recording";
        return Err(Error::usage(what).advise("name its diagnostic.data too").into());
    }
    // First, since it keeps what an archive on standard input holds.
    let found = RecordingCompanions::find_dumps(&recordings, &dumps);
    let (mut servers, problems) = take_inventory(&recordings)?;
    servers.iter_mut().for_each(|server| found.dumps.complete(&mut server.facts));
    let zone = args.recording.zone();
    if args.json {
        let servers: Vec<Value> = servers.iter().map(|server| document(server, &zone)).collect();
        output::line(&serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "servers": servers }))?)?;
    } else {
        let texts: Vec<String> = servers.iter().map(|server| text(server, &zone)).collect();
        output::line(&texts.join("\n\n"))?;
    }
    note_problems(&problems);
    Ok(VerbOutcome::Clean)
}

fn document(server: &ServerInventory, zone: &TimeZone) -> Value {
    let time = |at_ms: i64| precise_time(at_ms, zone);
    let timeline = &server.timeline;
    let gap = |gap: &fathom_ftdc::Gap| json!({ "from": time(gap.from_ms), "to": time(gap.to_ms), "seconds": gap.length_ms() as f64 / 1e3 });
    let period = |period: &Period| json!({ "from": time(period.from_ms), "period_ms": period.period_ms, "samples": period.samples });
    json!({
        "directory": server.directory,
        "facts": server.facts,
        "first": timeline.span_ms().map(|span| time(span.0)),
        "last": timeline.span_ms().map(|span| time(span.1)),
        "samples": timeline.len(),
        "repeated_samples": server.repeated_samples,
        "metrics_min": server.metrics.map(|metrics| metrics.0),
        "metrics_max": server.metrics.map(|metrics| metrics.1),
        "periods": timeline.periods().iter().map(period).collect::<Vec<_>>(),
        "gaps": timeline.gaps().iter().map(gap).collect::<Vec<_>>(),
        "restarts": timeline.restarts_ms().into_iter().map(time).collect::<Vec<_>>(),
        "clock_steps_back": timeline.steps_back,
        "files": server.files,
    })
}

/// The contents of a server's recording, on a few lines.
fn text(server: &ServerInventory, zone: &TimeZone) -> String {
    let mut lines = vec![printable(&server.directory)];
    let sentences = [
        server_sentence(server),
        dumped_facts_sentence(&server.facts),
        span_sentence(server, zone),
        files_sentence(&server.files, server.repeated_samples),
        periods_sentence(server, zone),
        gaps_sentence(server, zone),
        restarts_sentence(server, zone),
    ];
    for sentence in sentences.into_iter().flatten() {
        lines.extend(wrapped(&printable(&sentence), "  ", "    ", WIDTH));
    }
    lines.join("\n")
}

/// `mongod 7.0.0 (wiredTiger) on db1:27017, Ubuntu 22.04, 4 processors, 7.8 GiB`.
fn server_sentence(server: &ServerInventory) -> Option<String> {
    let facts = &server.facts;
    let mut sentence = facts.process.clone().unwrap_or_else(|| "a server".to_owned());
    if !facts.versions.is_empty() {
        sentence.push_str(&format!(" {}", facts.versions.join(", then ")));
    }
    if let Some(engine) = &facts.storage_engine {
        sentence.push_str(&format!(" ({engine})"));
    }
    if !facts.hosts.is_empty() {
        sentence.push_str(&format!(" on {}", facts.hosts.join(", then ")));
    }
    if let Some(set) = &facts.replica_set {
        sentence.push_str(&format!(", replica set {set}"));
    }
    let roles: Vec<&str> = facts.roles.iter().map(String::as_str).filter(|role| *role != "common").collect();
    if !roles.is_empty() {
        sentence.push_str(&format!(", {} of a sharded cluster", roles.join(" and ")));
    }
    if let Some(system) = &facts.system {
        sentence.push_str(&format!(", {system}"));
    }
    if let Some(processors) = facts.processors {
        sentence.push_str(&format!(", {processors} processors"));
    }
    if let Some(memory_mib) = facts.memory_mib.and_then(|mib| u64::try_from(mib).ok()) {
        sentence.push_str(&format!(", {}", Bytes::mib(memory_mib)));
    }
    Some(sentence)
}

fn span_sentence(server: &ServerInventory, zone: &TimeZone) -> Option<String> {
    let Some((from_ms, to_ms)) = server.timeline.span_ms() else {
        return Some("no sample".to_owned());
    };
    let (least, most) = server.metrics.unwrap_or_default();
    let metrics = if least == most {
        count(least as f64)
    } else {
        format!("{} to {}", count(least as f64), count(most as f64))
    };
    Some(format!(
        "{} to {}{} ({}): {} samples of {metrics} metrics",
        short_time(from_ms, zone),
        short_time(to_ms, zone),
        if *zone == TimeZone::UTC { " UTC" } else { "" },
        hours((to_ms - from_ms) as f64 / 1e3),
        count(server.timeline.len() as f64),
    ))
}

fn files_sentence(files: &[FileInventory], repeated: usize) -> Option<String> {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let mut sentence = match files {
        [file] => format!("1 file, {}: {}", Bytes(bytes), file.name),
        files => format!("{} files, {}", files.len(), Bytes(bytes)),
    };
    if repeated > 0 {
        sentence.push_str(&format!("; {} samples are in two files and count once", count(repeated as f64)));
    }
    for file in files.iter().filter(|file| file.cut_off_bytes > 0) {
        sentence.push_str(&format!("; the last document of {} is cut off", file.name));
    }
    let damages: usize = files.iter().map(|file| file.damages.len()).sum();
    if damages > 0 {
        sentence.push_str(&format!("; {damages} documents are damaged"));
    }
    Some(sentence)
}

fn periods_sentence(server: &ServerInventory, zone: &TimeZone) -> Option<String> {
    let periods = server.timeline.periods();
    let seconds = |period: &Period| format!("{} s", period.period_ms as f64 / 1e3);
    let (first, rest) = periods.split_first()?;
    let mut sentence = format!("a sample every {}", seconds(first));
    for period in rest.iter().take(MAX_LISTED) {
        sentence.push_str(&format!(
            ", from {} on every {}",
            short_time(period.from_ms, zone),
            seconds(period)
        ));
    }
    if rest.len() > MAX_LISTED {
        sentence.push_str(&format!(", and {} more changes", rest.len() - MAX_LISTED));
    }
    Some(sentence)
}

fn gaps_sentence(server: &ServerInventory, zone: &TimeZone) -> Option<String> {
    let mut gaps = server.timeline.gaps();
    if gaps.is_empty() {
        return None;
    }
    let all_ms: i64 = gaps.iter().map(fathom_ftdc::Gap::length_ms).sum();
    let number = gaps.len();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.length_ms()));
    gaps.truncate(MAX_LISTED);
    gaps.sort_by_key(|gap| gap.from_ms);
    let listed: Vec<String> = gaps
        .iter()
        .map(|gap| format!("{} for {}", short_time(gap.from_ms, zone), hours(gap.length_ms() as f64 / 1e3)))
        .collect();
    let which = if number > MAX_LISTED { ", the longest" } else { "" };
    let noun = if number == 1 { "gap" } else { "gaps" };
    let all = if number == 1 { String::new() } else { format!(" of {} in all", hours(all_ms as f64 / 1e3)) };
    Some(format!("{number} {noun}{all}{which}: {}", listed.join(", ")))
}

fn restarts_sentence(server: &ServerInventory, zone: &TimeZone) -> Option<String> {
    let restarts = server.timeline.restarts_ms();
    let listed: Vec<String> =
        restarts.iter().rev().take(MAX_LISTED).rev().map(|at_ms| short_time(*at_ms, zone)).collect();
    let which = if restarts.len() > MAX_LISTED { ", the last" } else { "" };
    let noun = if restarts.len() == 1 { "restart" } else { "restarts" };
    let mut sentence = match restarts.len() {
        0 => String::new(),
        number => format!("{number} {noun}{which}: {}", listed.join(", ")),
    };
    let steps = server.timeline.steps_back;
    if steps > 0 {
        let separator = if sentence.is_empty() { "" } else { "; " };
        let times = if steps == 1 { "once".to_owned() } else { format!("{steps} times") };
        sentence.push_str(&format!("{separator}the clock stepped back {times}"));
    }
    Some(sentence).filter(|sentence| !sentence.is_empty())
}
