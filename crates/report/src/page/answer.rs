//! The picture below the answer: bars on one scale, and one chart. It is meant for readers who read no further.
//!
//! It repeats figures of the sections below and adds none. Bars that answer a question other than "where does the time go", such as a
//! capacity compared with a need, come first in [`bars`].

use fathom_record::Manifest;
use fathom_record::budget::{Budget, Layer};
use fathom_record::capacity::Capacity;
use fathom_record::disk::{Entry, capacities, need_answers};
use fathom_units::count;
use serde::Serialize;

use super::chart::ChartPlan;
use super::svg::figure;
use crate::budget::whole;
use crate::capacity::{about, stated};
use crate::terminal_text::time_us;

/// The number of bars that a reader sees at a glance.
const MAX_BARS: usize = 6;
/// The fewest readings for a chart over time.
const MIN_READINGS: usize = 10;
/// Layers below this share of the mean are combined into one segment.
const MIN_SHARE: f64 = 0.02;

/// Bars on one scale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bars {
    title: String,
    rows: Vec<Bar>,
    /// A sentence about the figures.
    how: &'static str,
}

/// A bar of segments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bar {
    name: String,
    whole: String,
    segments: Vec<Segment>,
}

/// A segment of a bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Segment {
    name: String,
    value: String,
    share: String,
    /// Its width in per cent of the longest bar.
    wide_pct: String,
    /// `most` for the longest of its bar, `unknown` for time that nothing explains, else `rest`.
    kind: &'static str,
}

/// All bars of the picture.
pub(super) fn bars(results: &[Entry]) -> Vec<Bars> {
    capacity_bars(results).into_iter().chain(need_bars(results)).chain(time_bars(results)).collect()
}

/// The rates of the sentences, one bar for each load: up to the rate at which the objective holds, and on to the one at which it breaks if that is far
/// above it.
fn capacity_bars(results: &[Entry]) -> Option<Bars> {
    let capacities = capacities(results).into_iter();
    let shown: Vec<(&Capacity, String, (f64, f64))> =
        capacities.filter_map(|one| Some((one, stated(one)?, one.stated_per_s()?))).collect();
    let highest = shown.iter().map(|(.., (_, upper))| *upper).fold(f64::MIN_POSITIVE, f64::max);
    let row = |(one, stated, (lower, upper)): (&Capacity, String, (f64, f64))| {
        let segment = |name: &str, up_to: f64, wide: f64, kind| Segment {
            name: name.to_owned(),
            value: about(up_to),
            share: String::new(),
            wide_pct: figure(100.0 * wide / highest),
            kind,
        };
        let held = segment("holds at", lower, lower, "most");
        let between = (upper > lower).then(|| segment("breaks at", upper, upper - lower, "unknown"));
        Bar {
            name: format!("{}, {}", one.server, one.load.name()),
            whole: format!("{stated} a second; limit: {}", one.limit.words()),
            segments: std::iter::once(held).chain(between).collect(),
        }
    };
    (!shown.is_empty()).then(|| Bars {
        title: "What this disk carries".to_owned(),
        rows: shown.into_iter().map(row).collect(),
        how: "Rates a second at the objective; reads past memory are reads of the device. Data files bypassed the kernel's page cache: \
              'fathom checkup --need reads=,data=,memory=' counts the reads that a mongod's page cache serves in addition.",
    })
}

/// The need, and the share of it that the disk serves: up to the rates that held the objective, and on to those that broke it.
fn need_bars(results: &[Entry]) -> Option<Bars> {
    let mut rows = Vec::new();
    for answer in need_answers(results) {
        let Some(factor) = answer.factor else { continue };
        let broken = answer.broken_factor.filter(|broken| *broken > factor);
        let longest = factor.max(1.0).max(broken.unwrap_or(0.0));
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let segment = |name: &str, up_to: f64, wide: f64, kind| Segment {
            name: name.to_owned(),
            value: percent(up_to),
            share: String::new(),
            wide_pct: figure(100.0 * wide / longest),
            kind,
        };
        let needed = vec![segment("needed", 1.0, 1.0, "rest")];
        let between = broken.map(|broken| segment("breaks at", broken, broken - factor, "unknown"));
        let carried = std::iter::once(segment("holds at", factor, factor, "most")).chain(between).collect();
        for (name, part, segments) in [("needed", 1.0, needed), ("carried", factor, carried)] {
            let name = format!("{}, {name}", answer.server);
            rows.push(Bar { name, whole: percent(part), segments });
        }
    }
    let how = "All rates of the need together, at the same objective. Between the rates that held it and those that broke it nothing was decided.";
    (!rows.is_empty()).then(|| Bars { title: "Capacity against need".to_owned(), rows, how })
}

/// The layers of the mean time of each kind of operation, for the kinds that take the most time in total.
fn time_bars(results: &[Entry]) -> Option<Bars> {
    let budgets: Vec<&Budget> = results
        .iter()
        .filter_map(|entry| if let Entry::Budget(budget) = entry { Some(budget) } else { None })
        .filter(|budget| budget.whole_us() > 0.0)
        .collect();
    let is_split = |member: &str| budgets.iter().any(|one| one.member == member && one.operations != "all");
    let mut shown: Vec<&Budget> =
        budgets.iter().copied().filter(|one| one.operations != "all" || !is_split(&one.member)).collect();
    shown.sort_by(|one, other| (other.count * other.whole_us()).total_cmp(&(one.count * one.whole_us())));
    shown.truncate(MAX_BARS);
    let longest_us = shown.iter().map(|budget| budget.whole_us()).fold(0.0, f64::max);
    let has_several = shown.iter().any(|one| shown.first().is_some_and(|first| first.member != one.member));
    let is_client = shown.iter().all(|budget| budget.client_mean_us.is_some());
    (!shown.is_empty()).then(|| Bars {
        title: "Where an operation's time goes".to_owned(),
        rows: shown.into_iter().map(|budget| time_bar(budget, longest_us, has_several)).collect(),
        how: match is_client {
            true => "Means of the time that the client waits.",
            false => "Means of the time within the server.",
        },
    })
}

fn time_bar(budget: &Budget, longest_us: f64, has_several: bool) -> Bar {
    let (whole_us, _) = whole(budget);
    let mut segments: Vec<(String, f64, &'static str)> = Vec::new();
    let is_shown = |layer: &&Layer| layer.share >= MIN_SHARE;
    let most = budget.layers.iter().map(|layer| layer.share).fold(MIN_SHARE, f64::max);
    for layer in budget.layers.iter().filter(is_shown) {
        let kind = if layer.share >= most { "most" } else { "rest" };
        segments.push((layer.name.replace('_', " "), layer.mean_us, kind));
    }
    let others_us: f64 =
        budget.layers.iter().filter(|layer| !is_shown(layer)).map(|layer| layer.mean_us.max(0.0)).sum();
    if others_us > 0.0 {
        segments.push(("other".to_owned(), others_us, "rest"));
    }
    if budget.unexplained_us >= MIN_SHARE * whole_us {
        segments.push(("unexplained".to_owned(), budget.unexplained_us, "unknown"));
    }
    let name = match has_several {
        true => format!("Server {}, {}", budget.member, budget.operations),
        false => budget.operations.clone(),
    };
    // Layers that add up to more than the whole must stay within the picture.
    let sum_us: f64 = segments.iter().map(|(_, us, _)| us).sum();
    let scale = whole_us / sum_us.max(whole_us) / longest_us.max(f64::MIN_POSITIVE);
    let segment = |(name, us, kind): (String, f64, &'static str)| Segment {
        name,
        value: time_us(us),
        share: format!("{:.0} %", 100.0 * us / whole_us),
        wide_pct: figure(100.0 * us * scale),
        kind,
    };
    Bar {
        name,
        whole: format!("{} on average, {} operations", time_us(whole_us), count(budget.count)),
        segments: segments.into_iter().map(segment).collect(),
    }
}

/// The chart that shows the answer, removed from the others. It shows the 99th percentile of users' waits over time, else the mean, of the load
/// with the most readings. For a probe, or for loads too short to show anything, it shows the performance of the device at each depth.
pub(super) fn chart(over_time: &mut Vec<ChartPlan>, others: &mut Vec<ChartPlan>) -> Option<ChartPlan> {
    const OVER_TIME: [&str; 3] = ["client-response-p99", "client-response-mean", "server-latency"];
    let longest = |plans: &[ChartPlan], word: &str| {
        let all = plans
            .iter()
            .enumerate()
            .filter(|(_, plan)| plan.id.starts_with(word) && plan.readings >= MIN_READINGS);
        all.max_by_key(|(at, plan)| (plan.readings, std::cmp::Reverse(*at))).map(|(at, _)| at)
    };
    if let Some(at) = OVER_TIME.iter().find_map(|word| longest(over_time, word)) {
        return Some(over_time.remove(at));
    }
    let ladder = others.iter().position(|plan| plan.id.starts_with("depth-"));
    ladder.map(|at| others.remove(at))
}

/// Facts of the run for the head of the page: time, server, disk, processors (or a container's share of them), kernel. Facts that the manifest
/// lacks are left out.
pub(super) fn facts(manifest: &Manifest) -> Vec<String> {
    let fact = |name: &str| manifest.environment.get(name).filter(|value| !value.is_empty());
    let mut facts = vec![moment(&manifest.started)];
    let server = ["server.0.engine", "server.0.version"].iter().filter_map(|name| fact(name));
    let server: Vec<&str> = server.map(String::as_str).collect();
    facts.extend((!server.is_empty()).then(|| server.join(" ")));
    facts.extend(fact("study").map(|study| format!("study {study}")));
    let device = fact("device.stack").or_else(|| fact("server.0.device"));
    let device = device.map(|names| names.replace(',', ", "));
    facts.extend(match (fact("fs.type"), device) {
        (Some(kind), Some(device)) => Some(format!("{kind} on {device}")),
        (kind, device) => kind.cloned().or(device),
    });
    let limits = fact("machine.limits").cloned();
    facts.extend(limits.or_else(|| Some(format!("{} processors", fact("cpu.count")?))));
    facts.extend(fact("kernel").map(|kernel| format!("Linux {kernel}")));
    facts
}

/// A time to the minute: `2026-11-24 19:24 UTC`.
pub(super) fn moment(started: &str) -> String {
    match (started.get(..10), started.get(10..11), started.get(11..16)) {
        (Some(day), Some("T"), Some(minute)) => format!("{day} {minute} UTC"),
        _ => started.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::capacity::{CapacityLoad, NeedAnswer, NeedVerdict};

    use super::*;

    fn layer(name: &str, mean_us: f64, whole_us: f64) -> Layer {
        Layer {
            name: name.into(),
            mean_us,
            interval_us: None,
            share: mean_us / whole_us,
            series: Vec::new(),
            within: Vec::new(),
        }
    }

    #[test]
    fn a_container_is_named_with_its_limits() {
        let mut manifest = Manifest::new("checkup", "0.1.0", []);
        manifest.started = "2026-11-24T19:24:30Z".into();
        manifest.environment.insert("cpu.count".into(), "8".into());
        assert_eq!(facts(&manifest), ["2026-11-24 19:24 UTC", "8 processors"]);
        let limits = "a container with 1.5 of 8 processors and 2 GiB of memory";
        manifest.environment.insert("machine.limits".into(), limits.into());
        assert_eq!(facts(&manifest), ["2026-11-24 19:24 UTC", limits]);
    }

    fn budget(member: &str, operations: &str, whole_us: f64, layers: &[(&str, f64)]) -> Entry {
        let explained: f64 = layers.iter().map(|(_, us)| us).sum();
        Entry::Budget(Budget {
            member: member.into(),
            operations: operations.into(),
            count: 1000.0,
            window_ns: (0, 1),
            client_mean_us: Some(whole_us),
            server_mean_us: whole_us,
            layers: layers.iter().map(|(name, us)| layer(name, *us, whole_us)).collect(),
            unexplained_us: whole_us - explained,
            closure: explained / whole_us,
            closes: true,
            missing: Vec::new(),
        })
    }

    #[test]
    fn bars_have_one_scale_and_small_layers_are_one() {
        let results = [
            budget("0", "all", 1100.0, &[("engine", 1100.0)]),
            budget("0", "reads", 200.0, &[("network", 100.0), ("engine", 100.0)]),
            budget("0", "writes", 2000.0, &[("network", 10.0), ("ticket", 10.0), ("journal", 1600.0)]),
        ];
        let [bars] = bars(&results).try_into().unwrap();
        let widths = |row: usize| {
            let segments = bars.rows[row].segments.iter();
            segments.map(|one| (one.name.as_str(), one.wide_pct.as_str(), one.kind)).collect::<Vec<_>>()
        };
        assert_eq!(bars.rows.len(), 2, "all is the sum of both");
        assert_eq!(
            widths(0),
            [("journal", "80", "most"), ("other", "1", "rest"), ("unexplained", "19", "unknown")]
        );
        assert_eq!(widths(1), [("network", "5", "most"), ("engine", "5", "most")]);
        assert_eq!(bars.rows[0].name, "writes");
    }

    /// The recorded checkup of the printed answer, with a bracket for the writes.
    #[test]
    fn bars_of_capacities_state_the_rates_of_the_sentences() {
        let recorded = include_str!("../../../../tests/fixtures/checkup/results.jsonl");
        let mut results: Vec<Entry> =
            recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for entry in &mut results {
            let Entry::Capacity(one) = entry else { continue };
            if one.load == CapacityLoad::JournaledWrites {
                one.broken_per_s = Some(12_000.0);
            }
        }
        let [bars] = bars(&results).try_into().unwrap();
        let rows: Vec<(&str, Vec<(&str, &str)>)> = bars
            .rows
            .iter()
            .map(|row| {
                let segments = row.segments.iter().map(|one| (one.value.as_str(), one.wide_pct.as_str()));
                (row.whole.as_str(), segments.collect())
            })
            .collect();
        // 19,029 reads a second, of which 0.907 reached the device.
        assert_eq!(rows[0], ("about 17,000 a second; limit: the processors", vec![("17,000", "100")]));
        let (words, segments) = &rows[1];
        assert_eq!(*words, "between 8,500 and 12,000 a second; limit: the journal's sync");
        let [(held, held_pct), (broken, rest_pct)] = segments.as_slice() else { panic!("{segments:?}") };
        assert_eq!((*held, *broken), ("8,500", "12,000"));
        let pct = |text: &str| text.parse::<f64>().unwrap();
        assert!((pct(held_pct) - 49.4).abs() < 0.2 && (pct(rest_pct) - 20.1).abs() < 0.2, "{segments:?}");
        let sentences = crate::capacity_sentences(&capacities(&results)).concat();
        assert!(sentences.contains("about 17,000 point reads"), "{sentences}");
        assert!(sentences.contains("between 8,500 and 12,000 journaled writes"), "{sentences}");
    }

    /// A need between the rates that held and those that broke: the bar of the capacity crosses that of the need.
    #[test]
    fn bars_of_a_need_reach_to_the_rates_that_broke() {
        let mut answer = NeedAnswer {
            server: "Server".into(),
            need: "reads=1000".into(),
            verdict: NeedVerdict::CannotTell,
            sentence: String::new(),
            device_reads_per_s: 1000.0,
            writes_per_s: 0.0,
            factor: Some(0.95),
            broken_factor: Some(1.25),
            assumptions: Vec::new(),
        };
        let segments = |answer: &NeedAnswer| -> Vec<Vec<(String, String)>> {
            let [bars] = bars(&[Entry::Need(Box::new(answer.clone()))]).try_into().unwrap();
            let of_row = |row: &Bar| {
                row.segments.iter().map(|one| (one.value.clone(), one.wide_pct.clone())).collect()
            };
            bars.rows.iter().map(of_row).collect()
        };
        let pair = |value: &str, wide_pct: &str| (value.to_owned(), wide_pct.to_owned());
        assert_eq!(
            segments(&answer),
            [vec![pair("100 %", "80")], vec![pair("95 %", "76"), pair("125 %", "24")]]
        );
        answer.broken_factor = None;
        assert_eq!(segments(&answer), [vec![pair("100 %", "100")], vec![pair("95 %", "95")]]);
    }

    #[test]
    fn layers_that_overshoot_stay_within_the_picture() {
        let results = [budget("0", "all", 100.0, &[("network", 100.0), ("engine", 60.0)])];
        let [bars] = bars(&results).try_into().unwrap();
        let widths: Vec<f64> =
            bars.rows[0].segments.iter().map(|one| one.wide_pct.parse().unwrap()).collect();
        assert_eq!(widths, [62.5, 37.5]);
        assert!(super::bars(&[]).is_empty());
    }

    #[test]
    fn a_moment_is_shown_to_the_minute() {
        assert_eq!(moment("2026-11-24T19:24:30.854225622Z"), "2026-11-24 19:24 UTC");
        assert_eq!(moment("<script>"), "<script>");
    }
}
