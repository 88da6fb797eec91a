//! Finds the queue that holds operations back, from the client down, and the gain of a deeper one
//! (docs/methods.md#queues-and-what-a-deeper-one-would-bring).
//!
//! A queue limits if it is full at least a tenth of the time, if more requests wait above it than it lets through, and if they wait
//! longer the more of them wait. All three conditions are needed: a queue that is merely full is in use.
//!
//! If a deeper queue gives no more throughput, this rule makes no finding: then the device itself is full, which another rule
//! reports.

mod backlog;
mod curve;
mod forecast;
mod ladder;
mod rung;

use fathom_record::queue::{ForecastOption, QueueForecast, QueueLadder, QueueRung};
use fathom_record::{Confidence, Finding, Gain, Severity};
use fathom_units::{Nanos, count, decimal};

use crate::{Evidence, Judgement};

pub use curve::{CurvePoint, DeviceCurve};
pub use forecast::{Backlog, BacklogSecond, forecast, mean_us};

/// The series that the ladder is computed from.
pub(crate) const NEEDS: &[&str] = &[
    "device.{device}.in_flight",
    "device.{device}.queue.requests",
    "device.{device}.reads",
    "server.{member}.tickets.read.out",
    "server.{member}.tickets.read.total",
    "server.{member}.wait.page_read_us",
    "client.in_flight",
    "client.connections",
];

/// Adds a ladder for each device of each server, and its finding.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        for ladder in ladder::ladders(evidence, &member) {
            if let Some(found) = finding_of(evidence, judgement, &ladder) {
                judgement.add_unless_withheld(found);
            }
            judgement.ladders.push(ladder);
        }
    }
}

/// The probe's curve of a device's reads, whatever its queue admits.
pub(crate) fn curve_of_reads(evidence: &Evidence, device: &str) -> Option<DeviceCurve> {
    curve::from_steps(&evidence.results, device, f64::INFINITY, false)
}

/// A gain whose interval begins below this does not justify a change.
const MIN_GAIN: f64 = 0.02;
/// The smallest cap whose gain is within this share of the best is advised.
const MIN_SHARE_OF_BEST: f64 = 0.95;
const SOURCE: &str = "docs/methods.md#queues-and-what-a-deeper-one-would-bring; torvalds/linux:Documentation/ABI/stable/sysfs-block; \
                      open-iscsi/open-iscsi:etc/iscsid.conf";

/// The finding of a ladder: one at most, about its lowest full rung.
fn finding_of(evidence: &Evidence, judgement: &Judgement, ladder: &QueueLadder) -> Option<Finding> {
    let rung = ladder.limiter()?;
    let cap = rung.cap?;
    let finding = match &ladder.device {
        Some(device) if rung.name.starts_with("device ") => {
            of_device(evidence, judgement, ladder, rung, device, cap)?
        }
        _ => of_server(judgement, ladder, rung, cap)?,
    };
    Some(finding.evidence(ladder_sentence(ladder)).window(ladder.window_ns).source(SOURCE))
}

/// Every rung in one sentence.
fn ladder_sentence(ladder: &QueueLadder) -> String {
    let rung = |rung: &QueueRung| match (rung.cap, rung.share_at_cap) {
        (Some(cap), Some(share)) => format!(
            "{} {} of {}, full {:.0} % of the time",
            rung.name,
            decimal(rung.mean),
            count(cap),
            100.0 * share
        ),
        _ => format!("{} {}", rung.name, decimal(rung.mean)),
    };
    format!(
        "From the client down, on average: {}.",
        ladder.rungs.iter().map(rung).collect::<Vec<_>>().join("; ")
    )
}

/// Microseconds as a time; negative ones are none.
pub(crate) fn time(us: f64) -> Nanos {
    Nanos((us.max(0.0) * 1e3).round() as u64)
}

/// The option to advise: the smallest cap that is nearly as good as the best, if its gain is large enough.
fn advised(options: &[ForecastOption]) -> Option<&ForecastOption> {
    let best = options.iter().map(|option| option.share).fold(0.0, f64::max);
    options.iter().find(|option| option.share >= MIN_SHARE_OF_BEST * best && option.interval.0 > MIN_GAIN)
}

fn of_device(
    evidence: &Evidence,
    judgement: &Judgement,
    ladder: &QueueLadder,
    rung: &QueueRung,
    device: &str,
    cap: f64,
) -> Option<Finding> {
    let share = rung.share_at_cap.unwrap_or(0.0);
    let claim = format!(
        "The queue of {device} lets {} requests through at once, and {} more wait above it while it is full, {:.0} % of the time",
        count(cap),
        count(rung.waiting_above.unwrap_or(0.0)),
        100.0 * share
    );
    let finding = Finding::new("queue-cap", Severity::Warning, claim)
        .confidence(Confidence::Likely)
        .evidence(rung.words.clone())
        .series([format!("device.{device}.in_flight"), format!("device.{device}.queue.requests")]);
    let Some(forecast) = &ladder.forecast else {
        return Some(finding.next_look(format!(
            "Run 'fathom disk' on {device} with the queue lifted: what it gives at {} in flight tells what a deeper queue would bring.",
            count(4.0 * cap)
        )));
    };
    let Some(option) = advised(&forecast.options) else {
        // A device that was seen to give no more is full itself; one that was not measured deeper may give more.
        return (!forecast.flat_seen).then(|| {
            finding.evidence(forecast.basis.join(" ")).next_look(format!(
                "The device's curve is known to {} in flight only: run 'fathom disk' on {device} with the queue lifted.",
                count(forecast.flat_from)
            ))
        });
    };
    let known = forecast.options.iter().take_while(|one| one.cap <= option.cap).map(|one| {
        format!("{} with {} ({:.0} % less)", time(one.mean_us), count(one.cap), 100.0 * one.share)
    });
    let measured = forecast.basis.first().is_some_and(|basis| basis.contains("probe"));
    let sure = if measured { Confidence::Certain } else { Confidence::Likely };
    let more = if option.cap < forecast.flat_from {
        "more would hardly be used"
    } else if forecast.flat_seen {
        "more is of no use to this device"
    } else {
        "whether more would help was not measured"
    };
    let (command, undo) = lines(evidence, device, cap, option.cap);
    let finding = finding
        .confidence(sure)
        .evidence(format!(
            "A request takes {} by the device's curve and the backlog seen; it would take {}. {}.",
            time(forecast.mean_us),
            known.collect::<Vec<_>>().join(", "),
            beyond(forecast)
        ))
        .evidence(forecast.basis.join(" "))
        .advice(format!("Let {} requests through at once; {more}", count(option.cap)))
        .command(command)
        .undo(undo)
        .next_look("Repeat the run after the change: the mean must fall as forecast, or something else holds it back.");
    Some(finding.gain(gain(judgement, ladder, option, forecast.basis.join(" "))))
}

/// The sentence on queues that are deeper than the device's best depth.
fn beyond(forecast: &QueueForecast) -> String {
    let flat_from = count(forecast.flat_from);
    if forecast.flat_seen {
        format!(
            "From {flat_from} in flight on the device gives no more, and a deeper queue only moves the wait"
        )
    } else {
        format!("More than {flat_from} in flight were not measured, or not with processors enough to tell")
    }
}

/// The gain of an option: of the operations' mean if the budget says which part of it waits for pages, else of a request.
fn gain(judgement: &Judgement, ladder: &QueueLadder, option: &ForecastOption, basis: String) -> Gain {
    let device = ladder.device.as_deref().unwrap_or("the device");
    match waiting_share(judgement, &ladder.member) {
        Some(part) => Gain {
            of: format!("mean time of operations of server {}", ladder.member),
            share: option.share * part,
            interval: (option.interval.0 * part, option.interval.1 * part),
            basis: format!("{basis} Operations wait {:.0} % of their time for pages.", 100.0 * part),
        },
        None => Gain {
            of: format!("mean time of a request for {device}, its wait included"),
            share: option.share,
            interval: option.interval,
            basis,
        },
    }
}

/// The part of the mean operation that waits for pages, over all kinds of operations of a server.
pub(crate) fn waiting_share(judgement: &Judgement, member: &str) -> Option<f64> {
    let budgets = judgement.budgets.iter().filter(|budget| budget.member == member);
    let (mut part, mut whole) = (0.0, 0.0);
    for budget in budgets {
        let mean_us = budget.whole_us();
        let waits =
            budget.layers.iter().filter(|layer| matches!(layer.name.as_str(), "page_read" | "page_write"));
        part += budget.count * waits.map(|layer| layer.mean_us).sum::<f64>();
        whole += budget.count * mean_us;
    }
    (whole > 0.0 && part > 0.0).then(|| (part / whole).clamp(0.0, 1.0))
}

/// The line that lifts a device's queue, and the one that puts it back.
fn lines(evidence: &Evidence, device: &str, old: f64, new: f64) -> (String, String) {
    let fact = |name: &str| evidence.environment.get(&format!("device.{device}.{name}"));
    let number = |name: &str| fact(name).and_then(|text| text.trim().parse::<f64>().ok());
    let by_depth = number("queue_depth")
        .is_some_and(|depth| depth <= old && number("nr_requests").is_none_or(|most| depth < most));
    let file = if by_depth {
        format!("/sys/block/{device}/device/queue_depth")
    } else {
        format!("/sys/block/{device}/queue/nr_requests")
    };
    let mut command = format!("echo {} > {file}", count(new).replace(',', ""));
    let mut undo = format!("echo {} > {file}", count(old).replace(',', ""));
    if fact("transport").is_some_and(|transport| transport == "iscsi") {
        let sessions = (new / old).ceil().max(2.0);
        command.push_str(&format!(
            "\n# or as many sessions, each with its own queue, after the next login:\niscsiadm -m node -o update -n node.session.nr_sessions -v {sessions:.0}"
        ));
        undo.push_str("\niscsiadm -m node -o update -n node.session.nr_sessions -v 1");
    }
    (command, undo)
}

/// The finding on tickets and connections: more of them help only if nothing below is full.
fn of_server(judgement: &Judgement, ladder: &QueueLadder, rung: &QueueRung, cap: f64) -> Option<Finding> {
    let tickets = rung.name.ends_with("tickets");
    let told = if tickets { "tickets-or-locks" } else { "waits-for-connections" };
    if judgement.findings.iter().any(|finding| finding.id == told) {
        return None;
    }
    let (claim, advice) = if tickets {
        (
            format!(
                "All {} {} of server {} are out {:.0} % of the time, and operations queue for them",
                count(cap),
                rung.name,
                ladder.member,
                100.0 * rung.share_at_cap.unwrap_or(0.0)
            ),
            "Look at what operations that hold one wait for; more tickets help only if nothing below is full",
        )
    } else {
        (
            format!(
                "All {} connections of the client are busy, and operations that are due wait for one",
                count(cap)
            ),
            "Give the client more connections, if the server is not what keeps them busy",
        )
    };
    let series = if tickets {
        let kind = rung.name.split(' ').next().unwrap_or("read");
        vec![
            format!("server.{}.tickets.{kind}.out", ladder.member),
            format!("server.{}.tickets.{kind}.total", ladder.member),
        ]
    } else {
        vec!["client.in_flight".to_owned(), "client.connections".to_owned()]
    };
    Some(
        Finding::new("queue-cap", Severity::Warning, claim)
            .confidence(Confidence::Likely)
            .evidence(rung.words.clone())
            .advice(advice)
            .next_look(
                "The layers of the mean below it: where the operations that hold a place spend their time.",
            )
            .series(series),
    )
}

#[cfg(test)]
mod tests;
