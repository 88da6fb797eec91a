//! Limits by configuration, as opposed to the limit of a device: a control group's limit, which is read, and a provider's, which
//! can only be inferred (docs/methods.md#limits-by-configuration).
//!
//! A limit that is set is always named with its use. It holds the system back only if it is reached while requests wait for it. A
//! rate that the load itself was held to is no limit: the load must ask for more than the limit allows. The use is what the throttle
//! itself counts: requests before they are merged, with flushes and discards among the writes. The device's counters do not show these.

use fathom_record::{Confidence, Finding, Gain, Severity};
use fathom_stats::{SeededRandom, bootstrap_mean, coefficient_of_variation, median, quantile};
use fathom_units::{count, decimal};

use crate::client::points;
use crate::path::{DeviceSeconds, Seconds, client_gauge, client_mean_us, operation_us, waiting_for_pages};
use crate::queue::{curve_of_reads, waiting_share};
use crate::seconds::{SecondGrid, mean, zip};
use crate::server_devices::{leaves, tops};
use crate::windows::{Window, overlap};
use crate::{Evidence, Judgement};

/// The series that caps are seen in.
pub(crate) const NEEDS: &[&str] = &[
    "device.{device}.cap.read_iops",
    "device.{device}.cap.write_iops",
    "device.{device}.cap.read_bytes_per_s",
    "device.{device}.cap.write_bytes_per_s",
    "device.{device}.throttle_reads",
    "device.{device}.throttle_writes",
    "device.{device}.throttle_read_bytes",
    "device.{device}.throttle_written_bytes",
    "device.{device}.reads",
    "device.{device}.writes",
    "server.{member}.wait.page_read_us",
    "server.{member}.journal.syncs",
    "server.{member}.journal.sync_us",
];

/// A rate of at least this share of its cap has reached the cap: the throttle works in slices, so that a second has a few requests less.
const MIN_REACHED_PART: f64 = 0.9;
/// The least share of seconds in which the cap must be reached.
const MIN_REACHED_SHARE: f64 = 0.1;
/// A rate above this part of the cap is not held by it: version 1 of control groups counts no buffered writes.
const MAX_HELD_RATIO: f64 = 1.1;
/// Seconds over which a rate is averaged before it is compared with that: within one second a throttle's count jitters by a fifth around its cap.
const HELD_WINDOW_S: usize = 5;
/// From this number of such windows on one of them may be above that.
const MIN_WINDOWS_WITH_BURST: usize = 4;
/// A time has grown if it is this many times as long while the cap is reached: times of a free device vary by less.
const MIN_GROWTH: f64 = 1.5;
/// The share of a second in which some task waited for input or output, from which on the second counts. With a cap that no operation waits for it is smaller.
const MIN_PRESSURE: f64 = 0.2;
/// The least ratio between the highest seconds for them to be a ceiling, and the share of all seconds that they must be.
const MIN_CEILING_RATIO: f64 = 0.97;
const MIN_CEILING_SHARE: f64 = 0.5;
const MAX_CEILING_VARIATION: f64 = 0.02;
/// The least ratio of the busiest seconds' demand to the calmest seconds' for clients that were not watched.
const MIN_DEMAND_RATIO: f64 = 2.0;
const MIN_SECONDS: usize = 20;
/// The largest distance of a ceiling from a round number. A throttle keeps its rate within 1 %; a larger distance would fit any number.
const MAX_DISTANCE_FROM_ROUND: f64 = 0.01;
/// Leading figures of limits that providers sell and people type (docs/methods.md#limits-by-configuration).
const ROUND: &[f64] = &[1.0, 1.1, 1.2, 1.5, 2.0, 2.3, 2.5, 3.0, 3.2, 3.5, 4.0, 5.0, 6.0, 6.4, 7.5, 8.0];

/// The share of the time in which the journal is being synced, and the length of a sync in microseconds, above which writes wait for it.
const MIN_SYNCING_SHARE: f64 = 0.2;
const MIN_SLOW_SYNC_US: f64 = 1000.0;

/// A kind of cap.
struct CapKind {
    /// The end of its series' name.
    name: &'static str,
    /// The counters that it limits, of the throttle and of the device.
    counter: &'static str,
    /// The requests that it counts.
    what: &'static str,
    /// Its key in `io.max`.
    key: &'static str,
}

const fn kind(name: &'static str, counter: &'static str, what: &'static str, key: &'static str) -> CapKind {
    CapKind { name, counter, what, key }
}

const KINDS: &[CapKind] = &[
    kind("read_iops", "reads", "reads a second", "riops"),
    kind("write_iops", "writes", "writes a second", "wiops"),
    kind("read_bytes_per_s", "read_bytes", "bytes read a second", "rbps"),
    kind("write_bytes_per_s", "written_bytes", "bytes written a second", "wbps"),
];

impl CapKind {
    fn is_of_writes(&self) -> bool {
        matches!(self.counter, "writes" | "written_bytes")
    }
}

/// A cap that is set, and its use second by second.
struct CapUse<'k> {
    kind: &'k CapKind,
    /// The cap's series, and that of its use.
    name: String,
    used_name: String,
    limit: f64,
    used: Seconds,
    /// Whether the throttle counted its use, not only the device.
    is_counted: bool,
}

impl<'k> CapUse<'k> {
    /// `None` if no such cap is set, or nothing was counted.
    fn from_evidence(
        evidence: &Evidence,
        grid: SecondGrid,
        device: &str,
        kind: &'k CapKind,
    ) -> Option<CapUse<'k>> {
        let name = format!("device.{device}.cap.{}", kind.name);
        let limit = mean(grid.means_of(evidence, &name)?.into_iter().flatten()).filter(|cap| *cap > 0.0)?;
        let counted = |used_name: String, is_counted| {
            let used = grid.sums_of(evidence, &used_name)?;
            Some(CapUse { kind, name: name.clone(), used_name, limit, used, is_counted })
        };
        let of_throttle = counted(format!("device.{device}.throttle_{}", kind.counter), true);
        // Version 1 of control groups counts buffered writes when they are submitted, long before the device is held to the cap.
        let passes_by = of_throttle.as_ref().is_none_or(|cap| !cap.holds());
        let of_device =
            passes_by.then(|| counted(format!("device.{device}.{}", kind.counter), false)).flatten();
        let is_better = of_throttle.is_none() || of_device.as_ref().is_some_and(CapUse::holds);
        if is_better { of_device } else { of_throttle }
    }

    fn reached(&self) -> Vec<bool> {
        self.used.iter().map(|used| used.is_some_and(|used| used >= MIN_REACHED_PART * self.limit)).collect()
    }

    /// The share of seconds in which it was reached.
    fn often(&self) -> f64 {
        let measured = self.used.iter().flatten().count();
        self.reached().iter().filter(|reached| **reached).count() as f64 / measured.max(1) as f64
    }

    /// Whether it holds these requests at all. A single window above it does not decide, since a throttle allows more after a rest.
    fn holds(&self) -> bool {
        let windows =
            self.used.chunks(HELD_WINDOW_S).filter_map(|window| mean(window.iter().flatten().copied()));
        let means: Vec<f64> = windows.collect();
        let beyond = means.iter().filter(|used| **used > MAX_HELD_RATIO * self.limit).count();
        let exempt = if means.len() >= MIN_WINDOWS_WITH_BURST { 1.0 } else { 0.0 };
        beyond as f64 <= (MIN_REACHED_SHARE * means.len() as f64).max(exempt)
    }

    /// Its used share, on average and in the busiest seconds, in words.
    fn use_words(&self) -> String {
        let used: Vec<f64> = self.used.iter().flatten().copied().collect();
        let percent = |used: Option<f64>| 100.0 * used.unwrap_or(0.0) / self.limit;
        let by = if self.is_counted {
            "by the throttle's own count"
        } else {
            "by the device's counter, which holds neither flushes nor what was merged: the throttle's could not be read"
        };
        format!(
            "Of {} {} {:.0} % were used on average and {:.0} % in the busiest tenth of the seconds, {by}.",
            count(self.limit),
            self.kind.what,
            percent(mean(used.iter().copied())),
            percent(quantile(&used, 0.9))
        )
    }
}

/// Adds the findings on the caps of every device.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let grid = SecondGrid::from_evidence(evidence);
    for device in devices(evidence) {
        let member = member_of(evidence, &device);
        let caps: Vec<CapUse<'_>> =
            KINDS.iter().filter_map(|kind| CapUse::from_evidence(evidence, grid, &device, kind)).collect();
        let subject = CappedDevice { evidence, grid, member: &member, device: &device };
        let found: Vec<Finding> = caps.iter().map(|cap| subject.named(judgement, cap)).collect();
        if !found.iter().any(|finding| finding.id == REACHED_ID)
            && let Some(inferred) = inferred(evidence, grid, &member, &device)
        {
            judgement.add_unless_withheld(inferred);
        }
        // A figure that was read and reached is certain, also on busy processors.
        judgement.findings.extend(found);
    }
}

/// The cap that a device reached in these windows, in words, by the device's own count. `None` if it reached no cap, or none is set.
pub(crate) fn reached_within(evidence: &Evidence, device: &str, windows: &[Window]) -> Option<String> {
    let within = |name: &str| -> Vec<(f64, f64)> {
        let met = points(evidence, name)
            .iter()
            .filter(|point| windows.iter().any(|window| overlap(*window, (point.begin_ns, point.end_ns))));
        met.map(|point| (point.value, point.end_ns.saturating_sub(point.begin_ns) as f64 / 1e9)).collect()
    };
    KINDS.iter().find_map(|kind| {
        let name = format!("device.{device}.cap.{}", kind.name);
        let limit = mean(within(&name).into_iter().map(|(limit, _)| limit)).filter(|limit| *limit > 0.0)?;
        let used = within(&format!("device.{device}.{}", kind.counter));
        let (sum, seconds) =
            used.iter().fold((0.0, 0.0), |(sum, all), (used, seconds)| (sum + used, all + seconds));
        let file = evidence.environment.get(&format!("{name}.file"));
        let file = file.map_or_else(String::new, |file| format!(" ({file})"));
        (seconds > 0.0 && sum / seconds >= MIN_REACHED_PART * limit)
            .then(|| format!("{device} was at its limit of {} {}{file}", count(limit), kind.what))
    })
}

/// Every device with counters.
fn devices(evidence: &Evidence) -> Vec<String> {
    evidence
        .series
        .starting("device.")
        .filter_map(|(name, _)| name.strip_suffix(".reads").map(str::to_owned))
        .collect()
}

/// The server above a device: the one that names it, else the first.
fn member_of(evidence: &Evidence, device: &str) -> String {
    let members = evidence.members();
    let its = |member: &&String| {
        leaves(evidence, member).iter().chain(&tops(evidence, member)).any(|one| one == device)
    };
    members.iter().find(its).or(members.first()).cloned().unwrap_or_else(|| "0".to_owned())
}

/// The mean of the seconds for which `chosen` equals `so`.
fn mean_where(values: &[Option<f64>], chosen: &[bool], so: bool) -> Option<f64> {
    mean(values.iter().zip(chosen).filter(|(_, chosen)| **chosen == so).filter_map(|(value, _)| *value))
}

/// The finding that a cap holds requests back.
pub(crate) const REACHED_ID: &str = "capped-by-throttle";

/// A device with caps, and the server above it.
struct CappedDevice<'e> {
    evidence: &'e Evidence,
    grid: SecondGrid,
    member: &'e str,
    device: &'e str,
}

impl CappedDevice<'_> {
    /// The finding on a cap: reached while requests waited for it, or its use in per cent.
    fn named(&self, judgement: &Judgement, cap: &CapUse<'_>) -> Finding {
        let often = cap.often();
        let reached = cap.reached();
        let waits =
            if often >= MIN_REACHED_SHARE && cap.holds() { self.waits(cap, &reached) } else { Vec::new() };
        let (device, what) = (self.device, cap.kind.what);
        let finding = if waits.is_empty() {
            let held = if cap.holds() { "and delays no operation" } else { "which these requests pass by" };
            let claim = format!("A control group holds {device} at {} {what}, {held}", count(cap.limit));
            Finding::new("cap-not-reached", Severity::Note, claim).evidence(cap.use_words())
        } else {
            let claim = format!(
                "A control group holds {device} at {} {what}, which was reached {:.0} % of the time; the device itself was not",
                count(cap.limit),
                100.0 * often
            );
            let mut finding = Finding::new(REACHED_ID, Severity::Warning, claim)
                .evidence(cap.use_words())
                .advice(self.advice(cap))
                .next_look("Run 'fathom disk' outside the control group: what the device gives by itself.");
            finding.evidence.extend(waits);
            finding.gain = (cap.kind.counter == "reads")
                .then(|| gain(self.evidence, judgement, self.grid, self.member, device, cap.limit))
                .flatten();
            finding
        };
        let finding = match self.commands(cap) {
            Some((command, undo)) => finding.command(command).undo(undo),
            None => finding,
        };
        finding
            .source("torvalds/linux:Documentation/admin-guide/cgroup-v2.rst, IO Interface Files")
            .series([cap.name.clone(), cap.used_name.clone()])
            .window(self.evidence.window_ns)
    }

    /// The lines that lift a cap and that set it again, in the file that holds it. `None` if the run does not say which file that is.
    fn commands(&self, cap: &CapUse<'_>) -> Option<(String, String)> {
        let fact = |name: String| self.evidence.environment.get(&name);
        let number = fact(format!("device.{}.number", self.device));
        let number = number.map_or_else(|| format!("$(cat /sys/block/{}/dev)", self.device), Clone::clone);
        let file = fact(format!("{}.file", cap.name))?;
        let key = cap.kind.key;
        let limit = cap.limit.round();
        let line = |limit: &str| match file.contains("blkio.throttle.") {
            // Version 1 takes 0 for no limit.
            true => format!("echo \"{number} {}\" > {file}", if limit == "max" { "0" } else { limit }),
            false => format!("echo \"{number} {key}={limit}\" > {file}"),
        };
        Some((line("max"), line(&limit.to_string())))
    }

    /// The advice on a cap that is reached, with the file that sets it.
    fn advice(&self, cap: &CapUse<'_>) -> String {
        let file = self.evidence.environment.get(&format!("{}.file", cap.name));
        let file = file.map_or_else(String::new, |file| format!(" in {file}"));
        format!(
            "Lift the limit of the control group{file} if it is not meant; tuning the disk or the server moves nothing"
        )
    }

    /// The operations and tasks that waited while a cap was reached, a sentence each.
    fn waits(&self, cap: &CapUse<'_>, reached: &[bool]) -> Vec<String> {
        let mut waits = waits(self.evidence, self.grid, self.member, self.device, reached);
        if cap.kind.is_of_writes() {
            waits.extend(self.syncs(reached));
        }
        waits
    }

    /// The time that the journal's syncs took in those seconds, if syncs ran for much of them.
    fn syncs(&self, reached: &[bool]) -> Option<String> {
        let sums = |name: &str| {
            let sums = self.grid.sums_of(self.evidence, &format!("server.{}.journal.{name}", self.member))?;
            mean_where(&sums, reached, true)
        };
        let (syncs, sync_us) = (sums("syncs")?, sums("sync_us")?);
        let (each_us, running) = (sync_us / syncs, sync_us / 1e6);
        (each_us >= MIN_SLOW_SYNC_US && running >= MIN_SYNCING_SHARE).then(|| {
            format!(
                "The journal was being synced {:.0} % of those seconds, {} ms each time",
                100.0 * running.min(1.0),
                decimal(each_us / 1e3)
            )
        })
    }
}

/// The operations and tasks that waited while a cap was reached, a sentence each. Requests wait for a throttle before the kernel counts
/// them, so the device's own times may not change.
fn waits(evidence: &Evidence, grid: SecondGrid, member: &str, device: &str, reached: &[bool]) -> Vec<String> {
    let mut waits = Vec::new();
    let Some(counters) = DeviceSeconds::from_evidence(evidence, grid, device) else { return waits };
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
        (then >= MIN_GROWTH * else_).then(|| (then / 1e3, else_ / 1e3))
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
    if let Some(share) = pressure.filter(|share| *share >= MIN_PRESSURE) {
        waits.push(format!("Some task waited for input or output {:.0} % of those seconds", 100.0 * share));
    }
    waits
}

/// The gain of lifting a cap on reads, if a probe of the run exceeded it. By Little's law, the N operations that wait at a time take
/// N / cap now, and would take the device's own time at that depth.
fn gain(
    evidence: &Evidence,
    judgement: &Judgement,
    grid: SecondGrid,
    member: &str,
    device: &str,
    cap: f64,
) -> Option<Gain> {
    let curve =
        curve_of_reads(evidence, device).filter(|curve| curve.highest_per_s() > MAX_HELD_RATIO * cap)?;
    let waiting = waiting_for_pages(evidence, grid, member)?;
    let shares: Vec<f64> = waiting
        .iter()
        .flatten()
        .filter(|waiting| **waiting > 0.0)
        .map(|waiting| (1.0 - curve.response_us(*waiting) / (waiting / cap * 1e6)).clamp(0.0, 1.0))
        .collect();
    let part = waiting_share(judgement, member).unwrap_or(1.0);
    let interval = bootstrap_mean(&shares, 0.95, 400, &mut SeededRandom::from_seed(evidence.seed).split(4))?;
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
fn inferred(evidence: &Evidence, grid: SecondGrid, member: &str, device: &str) -> Option<Finding> {
    let counters = DeviceSeconds::from_evidence(evidence, grid, device)?;
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
        let high = quantile(&busy, 0.95).filter(|_| busy.len() >= MIN_SECONDS)?;
        let flat: Vec<f64> = busy.iter().copied().filter(|rate| *rate >= MIN_CEILING_RATIO * high).collect();
        let share = flat.len() as f64 / busy.len() as f64;
        let varies = coefficient_of_variation(&flat)?;
        let level = median(&flat)?;
        (share >= MIN_CEILING_SHARE && varies < MAX_CEILING_VARIATION && is_round(level))
            .then_some((level, what, share, varies))
    })?;
    let claim = format!("{device} stops at {} {what}, which looks like a limit that was set", count(level));
    // A constant number in flight gives a flat rate on any device, and one rate in five is near a round number by chance.
    let shown = varies_widely(&asking);
    let (severity, confidence) = match shown {
        true => (Severity::Warning, Confidence::Likely),
        false => (Severity::Note, Confidence::CannotTell),
    };
    Some(
        Finding::new("looks-capped", severity, claim)
            .confidence(confidence)
            .evidence(format!(
                "{:.0} % of the busy seconds lie at {} {what} and vary by {:.1} %, within {:.0} % of a number that is sold or set, \
                 while {} requests were in flight at a time",
                100.0 * share,
                count(level),
                100.0 * varies,
                100.0 * MAX_DISTANCE_FROM_ROUND,
                decimal(mean(counters.within.iter().flatten().copied()).unwrap_or(0.0))
            ))
            .advice("Look up the volume's and the machine's provisioned limits; a faster tier raises them, tuning does not")
            .next_look("A probe ('fathom disk') with two block sizes: a limit on requests gives both the same rate.")
            .source("docs/methods.md#limits-by-configuration")
            .series([format!("device.{device}.reads"), format!("device.{device}.writes")])
            .window(evidence.window_ns),
    )
}

/// Whether more was asked of a device than it served: a load held to a rate is flat too.
fn asked_for_more(evidence: &Evidence, grid: SecondGrid, asking: &[Option<f64>]) -> bool {
    let of = |values: Option<Seconds>| values.and_then(|values| mean(values.into_iter().flatten()));
    let many = mean(asking.iter().flatten().copied()).is_some_and(|asking| asking >= 2.0);
    let (in_flight, connections) =
        (of(client_gauge(evidence, grid, "in_flight")), of(client_gauge(evidence, grid, "connections")));
    let clock = |clock: &str| of(client_mean_us(evidence, grid, clock).map(|(mean_us, _)| mean_us));
    many && match (in_flight, connections) {
        (Some(in_flight), Some(connections)) => {
            let late = clock("response").zip(clock("service"));
            in_flight >= MIN_REACHED_PART * connections
                || late.is_some_and(|(response, service)| response >= 2.0 * service)
        }
        // Clients that were not watched may keep to a rate, unless their demand varies while the served rate does not.
        _ => varies_widely(asking),
    }
}

/// Whether much more was asked for in the busiest seconds than in the calmest.
fn varies_widely(asking: &[Option<f64>]) -> bool {
    let asking: Vec<f64> = asking.iter().flatten().copied().collect();
    let ends = quantile(&asking, 0.9).zip(quantile(&asking, 0.1));
    ends.is_some_and(|(high, low)| high >= MIN_DEMAND_RATIO * low)
}

/// Whether a rate is a number that people set: a leading figure of the table, by tens or by binary prefixes.
fn is_round(level: f64) -> bool {
    let near = |value: f64| {
        let scale = 10f64.powf(value.log10().floor());
        ROUND
            .iter()
            .chain(&[10.0])
            .any(|round| (value / (round * scale) - 1.0).abs() < MAX_DISTANCE_FROM_ROUND)
    };
    level > 0.0 && (near(level) || (level >= 1e6 && near(level / 1_048_576.0)))
}

#[cfg(test)]
mod tests;
