//! Limits that somebody set, as against what a device can do: a control group's, which is read, and a provider's, which can only
//! be inferred (facts/disk.md 5).
//!
//! A limit that is reached while nobody waits for it is no finding, nor is a rate that the load itself was held to: what is
//! asked for must be more than what passes.

use fathom_record::{Confidence, Finding, Gain, Severity};
use fathom_stats::{Seeded, bootstrap_mean, coefficient_of_variation, median, quantile};
use fathom_units::{count, decimal};

use crate::path::{
    DeviceSeconds, Seconds, client_gauge, client_mean_us, leaves, operation_us, waiting_for_pages,
};
use crate::queue::{curve_of_reads, waiting_share};
use crate::seconds::{Grid, mean, zip};
use crate::{Evidence, Judgement};

/// The series that caps are seen in.
pub(crate) const NEEDS: &[&str] = &[
    "device.{device}.cap.read_iops",
    "device.{device}.cap.write_iops",
    "device.{device}.cap.read_bytes_per_s",
    "device.{device}.cap.write_bytes_per_s",
    "device.{device}.reads",
    "device.{device}.writes",
    "server.{member}.wait.page_read_us",
];

/// How near to its cap a rate must come to have reached it.
const REACHED: f64 = 0.9;
/// The share of seconds that must.
const OFTEN: f64 = 0.1;
/// A rate above this of the cap is not held by it: buffered writes under version 1 of control groups are nobody's.
const NOT_HELD: f64 = 1.1;
/// A time that grows by this where the cap is reached has grown.
const GROWN: f64 = 1.5;
/// The share of a second in which some task waited for input or output, that counts.
const PRESSURE: f64 = 0.2;
/// How near to each other the highest seconds must lie to be a ceiling, and how many of all.
const CEILING: f64 = 0.97;
const MOSTLY: f64 = 0.5;
const VARIES: f64 = 0.02;
/// What clients that were not watched must ask for in their busiest seconds, over their calmest.
const MORE: f64 = 2.0;
const FEWEST_SECONDS: usize = 20;
/// How near to a round number a ceiling must be.
const NEAR: f64 = 0.01;
/// Leading figures of limits that providers sell and people type (disk.md 4, the table of storage classes).
const ROUND: &[f64] = &[1.0, 1.1, 1.2, 1.5, 2.0, 2.3, 2.5, 3.0, 3.2, 3.5, 4.0, 5.0, 6.0, 6.4, 7.5, 8.0];

/// A kind of cap: the end of its series' name, the counter it holds, and what it counts.
const KINDS: &[(&str, &str, &str)] = &[
    ("read_iops", "reads", "reads a second"),
    ("write_iops", "writes", "writes a second"),
    ("read_bytes_per_s", "read_bytes", "bytes read a second"),
    ("write_bytes_per_s", "written_bytes", "bytes written a second"),
];

/// Adds what is said of caps on every device.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let grid = Grid::of(evidence);
    for device in devices(evidence) {
        let member = member_of(evidence, &device);
        let found: Vec<Finding> =
            KINDS.iter().filter_map(|kind| own(evidence, judgement, grid, &member, &device, kind)).collect();
        if found.is_empty()
            && let Some(inferred) = inferred(evidence, grid, &member, &device)
        {
            judgement.add_unless_withheld(inferred);
        }
        // A figure that is read and reached stays one, whoever was short of a processor.
        judgement.findings.extend(found);
    }
}

/// Every device with counters.
fn devices(evidence: &Evidence) -> Vec<String> {
    evidence
        .series
        .starting("device.")
        .filter_map(|(name, _)| name.strip_suffix(".reads").map(str::to_owned))
        .collect()
}

/// The server that a device is under: the one that names it, else the first.
fn member_of(evidence: &Evidence, device: &str) -> String {
    let members = evidence.members();
    let its = |member: &&String| {
        leaves(evidence, member).iter().any(|leaf| leaf == device)
            || evidence.environment.get(&format!("server.{member}.device")).is_some_and(|one| one == device)
    };
    members.iter().find(its).or(members.first()).cloned().unwrap_or_else(|| "0".to_owned())
}

/// The mean of those seconds for which `chosen` says so.
fn mean_where(values: &[Option<f64>], chosen: &[bool], so: bool) -> Option<f64> {
    mean(values.iter().zip(chosen).filter(|(_, chosen)| **chosen == so).filter_map(|(value, _)| *value))
}

/// A cap of a control group that was reached while somebody waited for it.
fn own(
    evidence: &Evidence,
    judgement: &Judgement,
    grid: Grid,
    member: &str,
    device: &str,
    (kind, counter, what): &(&str, &str, &str),
) -> Option<Finding> {
    let name = format!("device.{device}.cap.{kind}");
    let cap = mean(grid.means_of(evidence, &name)?.into_iter().flatten()).filter(|cap| *cap > 0.0)?;
    let rates = grid.sums_of(evidence, &format!("device.{device}.{counter}"))?;
    let measured = rates.iter().flatten().count();
    let reached: Vec<bool> =
        rates.iter().map(|rate| rate.is_some_and(|rate| rate >= REACHED * cap)).collect();
    let often = reached.iter().filter(|reached| **reached).count() as f64 / measured.max(1) as f64;
    let beyond = rates.iter().flatten().filter(|rate| **rate > NOT_HELD * cap).count();
    if often < OFTEN || beyond as f64 > OFTEN * measured as f64 {
        return None;
    }
    let waits = waits(evidence, grid, member, device, &reached);
    if waits.is_empty() {
        return None;
    }
    let claim = format!(
        "A control group holds {device} at {} {what}, which was reached {:.0} % of the time; the device itself was not",
        count(cap),
        100.0 * often
    );
    let at_cap = mean_where(&rates, &reached, true).unwrap_or(cap);
    let mut finding = Finding::new("capped-by-throttle", Severity::Warning, claim)
        .evidence(format!("{name} is {}; in those seconds there were {} {what}", count(cap), count(at_cap)))
        .advice("Lift the limit of the control group if it is not meant; tuning the disk or the server moves nothing")
        .command(lift(evidence, device, kind))
        .undo(format!("Set {} {what} on {device} again in the control group's io.max (blkio.throttle under version 1)", count(cap)))
        .next_look("Run 'fathom disk' outside the control group: what the device gives by itself.")
        .source("torvalds/linux:Documentation/admin-guide/cgroup-v2.rst, IO Interface Files")
        .series([name, format!("device.{device}.{counter}")])
        .window(evidence.window_ns);
    finding.evidence.extend(waits);
    finding.gain =
        (*counter == "reads").then(|| gain(evidence, judgement, grid, member, device, cap)).flatten();
    Some(finding)
}

/// The line that lifts a cap.
fn lift(evidence: &Evidence, device: &str, kind: &str) -> String {
    let number = evidence.environment.get(&format!("device.{device}.number"));
    let number = number.map_or_else(|| format!("$(cat /sys/block/{device}/dev)"), Clone::clone);
    let key = match kind {
        "read_iops" => "riops",
        "write_iops" => "wiops",
        "read_bytes_per_s" => "rbps",
        _ => "wbps",
    };
    format!("echo \"{number} {key}=max\" > /sys/fs/cgroup/GROUP/io.max")
}

/// Who waited while a cap was reached, a sentence each. Requests wait for a throttle before the kernel counts them, so the
/// device's own times may well stay as they are.
fn waits(evidence: &Evidence, grid: Grid, member: &str, device: &str, reached: &[bool]) -> Vec<String> {
    let mut waits = Vec::new();
    let Some(counters) = DeviceSeconds::of(evidence, grid, device) else { return waits };
    let within = mean_where(&counters.within, reached, true).unwrap_or(0.0);
    let waiting = waiting_for_pages(evidence, grid, member).and_then(|all| mean_where(&all, reached, true));
    if let Some(waiting) = waiting.filter(|waiting| *waiting >= within + 1.0) {
        waits.push(format!(
            "{} operations waited for pages at a time, while the device had {} requests: the others were held back above it",
            decimal(waiting),
            decimal(within)
        ));
    }
    let grown = |values: &Seconds| {
        let (then, else_) = (mean_where(values, reached, true)?, mean_where(values, reached, false)?);
        (then >= GROWN * else_).then(|| (then / 1e3, else_ / 1e3))
    };
    if let Some((then, otherwise)) = grown(&counters.await_us) {
        let (then, otherwise) = (decimal(then), decimal(otherwise));
        waits.push(format!("A request took {then} ms in those seconds, {otherwise} ms in others"));
    }
    if let Some((then, otherwise)) = operation_us(evidence, grid, member).as_ref().and_then(grown) {
        let (then, otherwise) = (decimal(then), decimal(otherwise));
        waits.push(format!("An operation took {then} ms in those seconds, {otherwise} ms in others"));
    }
    let pressure = grid.sums_of(evidence, "host.pressure.io.some_us");
    let pressure = pressure.and_then(|us| mean_where(&us, reached, true)).map(|us| us / 1e6);
    if let Some(share) = pressure.filter(|share| *share >= PRESSURE) {
        waits.push(format!("Some task waited for input or output {:.0} % of those seconds", 100.0 * share));
    }
    waits
}

/// What lifting a cap on reads would bring, where a probe of the run got past it: those who wait now, N at a time, take
/// N / cap by Little's law, and would take the device's own time at that depth.
fn gain(
    evidence: &Evidence,
    judgement: &Judgement,
    grid: Grid,
    member: &str,
    device: &str,
    cap: f64,
) -> Option<Gain> {
    let curve = curve_of_reads(evidence, device).filter(|curve| curve.highest_per_s() > NOT_HELD * cap)?;
    let waiting = waiting_for_pages(evidence, grid, member)?;
    let shares: Vec<f64> = waiting
        .iter()
        .flatten()
        .filter(|waiting| **waiting > 0.0)
        .map(|waiting| (1.0 - curve.response_us(*waiting) / (waiting / cap * 1e6)).clamp(0.0, 1.0))
        .collect();
    let part = waiting_share(judgement, member).unwrap_or(1.0);
    let interval = bootstrap_mean(&shares, 0.95, 400, &mut Seeded::from_seed(evidence.seed).split(4))?;
    let of = if part < 1.0 {
        format!("mean time of operations of server {member}")
    } else {
        "mean time of a page read".to_owned()
    };
    Some(Gain {
        of,
        share: part * mean(shares)?,
        interval: (part * interval.low, part * interval.high),
        basis: format!("As many waiting on the device without the cap, by {}.", curve.source),
    })
}

/// A ceiling that looks like a limit although none could be read.
fn inferred(evidence: &Evidence, grid: Grid, member: &str, device: &str) -> Option<Finding> {
    let counters = DeviceSeconds::of(evidence, grid, device)?;
    // A throttle holds requests back before the device has them, so those who wait for pages count as well.
    let waiting = waiting_for_pages(evidence, grid, member).unwrap_or_else(|| vec![None; grid.len()]);
    let asking: Seconds = counters
        .within
        .iter()
        .zip(&waiting)
        .map(|(within, waiting)| Some(within.or(*waiting)?.max(waiting.unwrap_or(0.0))))
        .collect();
    if !asked_for_more(evidence, grid, &asking) {
        return None;
    }
    let rates =
        [(Some(&counters.requests), "requests a second"), (counters.bytes.as_ref(), "bytes a second")];
    let (level, what, share, varies) = rates.into_iter().find_map(|(rates, what)| {
        let busy: Vec<f64> = zip(rates?, &asking, |rate, asking| (asking >= 1.0).then_some(rate))
            .into_iter()
            .flatten()
            .collect();
        let high = quantile(&busy, 0.95).filter(|_| busy.len() >= FEWEST_SECONDS)?;
        let flat: Vec<f64> = busy.iter().copied().filter(|rate| *rate >= CEILING * high).collect();
        let share = flat.len() as f64 / busy.len() as f64;
        let varies = coefficient_of_variation(&flat)?;
        let level = median(&flat)?;
        (share >= MOSTLY && varies < VARIES && is_round(level)).then_some((level, what, share, varies))
    })?;
    let claim =
        format!("{device} stops at {} {what}, which looks like a limit that somebody set", count(level));
    Some(
        Finding::new("looks-capped", Severity::Warning, claim)
            .confidence(Confidence::Likely)
            .evidence(format!(
                "{:.0} % of the busy seconds lie at {} {what} and vary by {:.1} %, within {:.0} % of a number that is sold or set, \
                 while {} requests were in flight at a time",
                100.0 * share,
                count(level),
                100.0 * varies,
                100.0 * NEAR,
                decimal(mean(counters.within.iter().flatten().copied()).unwrap_or(0.0))
            ))
            .advice("Look up the volume's and the machine's provisioned limits; a faster tier raises them, tuning does not")
            .next_look("A probe ('fathom disk') with two block sizes: a limit on requests gives both the same rate.")
            .source("facts on throttling: docs/disk.md, and the providers' pages named there")
            .series([format!("device.{device}.reads"), format!("device.{device}.writes")])
            .window(evidence.window_ns),
    )
}

/// Whether more was asked of a device than passed: a load held to a rate is flat too.
fn asked_for_more(evidence: &Evidence, grid: Grid, asking: &[Option<f64>]) -> bool {
    let of = |values: Option<Seconds>| values.and_then(|values| mean(values.into_iter().flatten()));
    let many = mean(asking.iter().flatten().copied()).is_some_and(|asking| asking >= 2.0);
    let (in_flight, connections) =
        (of(client_gauge(evidence, grid, "in_flight")), of(client_gauge(evidence, grid, "connections")));
    let clock = |clock: &str| of(client_mean_us(evidence, grid, clock).map(|(mean_us, _)| mean_us));
    many && match (in_flight, connections) {
        (Some(in_flight), Some(connections)) => {
            let late = clock("response").zip(clock("service"));
            in_flight >= REACHED * connections
                || late.is_some_and(|(response, service)| response >= 2.0 * service)
        }
        // Clients that were not watched may keep to a rate, unless what they ask for varies while what passes does not.
        _ => {
            let asking: Vec<f64> = asking.iter().flatten().copied().collect();
            let ends = quantile(&asking, 0.9).zip(quantile(&asking, 0.1));
            ends.is_some_and(|(high, low)| high >= MORE * low)
        }
    }
}

/// Whether a rate is a number that people set: a leading figure of the table, by tens or by binary prefixes.
fn is_round(level: f64) -> bool {
    let near = |value: f64| {
        let scale = 10f64.powf(value.log10().floor());
        ROUND.iter().chain(&[10.0]).any(|round| (value / (round * scale) - 1.0).abs() < NEAR)
    };
    level > 0.0 && (near(level) || (level >= 1e6 && near(level / 1_048_576.0)))
}

#[cfg(test)]
mod tests;
