//! Finds seconds in which no operation ended: they are few, and yet most of the clients' wait.
//!
//! If load arrives at a rate, a stop of half a second can determine the mean of a whole minute, because all operations that become due
//! meanwhile wait for its end (G. Tene's coordinated omission, seen from the right side). Every share of that mean is then a
//! share of the stop: the budget says "schedule", and the cause of delay in all other seconds remains hidden. So this rule
//! lists those seconds, the mean without them, and the server that stopped in them. It does not say why it stopped.
//! A few operations that are slow by themselves delay no others and are no stop: most of the wait must be the wait to be
//! sent. A client with enough connections for all operations that become due meanwhile does not wait there, and is not judged.
//! meanwhile. The clients' wait to be sent is then a wait for that device. A server counts a wait when it ends, that
//! is, at the end of the stall.

use fathom_record::{Finding, Gain, Severity};
use fathom_stats::{LatencyReading, quantile};

use crate::client::points;
use crate::removable::Wait;
use crate::spikes::LatencySeries;
use crate::windows::{Window, in_ns, neighbours_as_one, overlap};
use crate::{Evidence, Judgement};

/// The fewest seconds among which the worst is an exception.
const MIN_READINGS: usize = 15;
/// The largest share of the seconds that may be stalled; a larger share is normal for the system.
const MAX_SHARE_OF_SECONDS: f64 = 0.2;
/// The least factor by which a stalled second's mean exceeds the median second's, and the least difference: far beyond the usual variation of
/// seconds, and long enough for users to notice.
const MIN_STALL_RATIO: f64 = 10.0;
const MIN_STALL_EXTRA_US: f64 = 1000.0;
/// The least share of all waiting that stalled seconds add.
const MIN_STALL_SHARE: f64 = 0.5;
/// The least share of this additional wait that operations must have spent before they were sent.
const MIN_HELD_UP_SHARE: f64 = 0.5;
/// A second of a known spike that is this many times as slow as the median second of the spikes is more than that spike.
const MIN_RATIO_TO_SPIKE: f64 = 3.0;
/// The number of stalls from which on they are no accident.
const MIN_REPEATED_STALLS: usize = 3;
/// A sampler's reading that is this many times as long as the others came late. Readings are a second apart, and a busy host delays one by less.
const MIN_LATE_RATIO: f64 = 1.3;
/// The number of stalls that are listed with their times.
const MAX_STALLS_LISTED: usize = 5;
const NS_PER_S: f64 = 1e9;
const US_PER_S: f64 = 1e6;

/// Judges the client's latency.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let Some(latency) = LatencySeries::since_due(evidence) else { return };
    // The first and the last second are seldom whole.
    let inner = latency.readings.get(1..latency.readings.len().saturating_sub(1)).unwrap_or(&[]);
    let Some(stalled) = StalledSeconds::from_readings(inner, judgement) else { return };
    let Some(sent) = LatencySeries::since_sent(evidence) else { return };
    if stalled.held_up_us(&sent.readings) < MIN_HELD_UP_SHARE * stalled.added_us {
        return;
    }
    let mut finding = stalled.finding(latency.of);
    let sentences = [
        waited_for(evidence, &finding),
        host(evidence, &stalled),
        checkpoints(evidence, judgement, &stalled.stalls),
    ];
    for sentence in sentences {
        finding.evidence.extend(sentence);
    }
    let more: Vec<String> = sent.series.into_iter().filter(|name| !latency.series.contains(name)).collect();
    judgement.add_unless_withheld(finding.series(latency.series).series(more));
}

/// The stalled seconds that determine the mean.
struct StalledSeconds {
    /// Their readings, in the order of their ends.
    inside: Vec<LatencyReading>,
    /// Begin and end of each stall, in seconds since the run's start; neighbours are one.
    stalls: Vec<(f64, f64)>,
    stalled_s: f64,
    of_s: f64,
    /// The time that they add, in microseconds, and as a part of the whole wait.
    added_us: f64,
    share: f64,
    /// The mean in them, in the others, and in all, in microseconds.
    inside_us: f64,
    outside_us: f64,
    whole_us: f64,
}

impl StalledSeconds {
    /// Finds them in readings since operations were due.
    fn from_readings(readings: &[LatencyReading], judgement: &Judgement) -> Option<StalledSeconds> {
        let readings = with_silence_before(readings);
        let means: Vec<f64> = readings.iter().map(|reading| reading.mean).collect();
        let median_us = quantile(&means, 0.5).filter(|_| means.len() >= MIN_READINGS)?;
        let spikes: Vec<Spikes> = Spikes::told_of(&readings, judgement);
        let is_stalled = |reading: &LatencyReading| {
            reading.mean >= MIN_STALL_RATIO * median_us
                && reading.mean >= median_us + MIN_STALL_EXTRA_US
                && !spikes.iter().any(|spikes| spikes.explain(reading))
        };
        let of_s = readings.last()?.end_s - readings.first()?.begin_s;
        let (inside, outside): (Vec<_>, Vec<_>) = readings.into_iter().partition(is_stalled);
        let stalls = neighbours_as_one(inside.iter().map(|reading| (reading.begin_s, reading.end_s)));
        let stalled_s: f64 = stalls.iter().map(|(begin_s, end_s)| end_s - begin_s).sum();
        if inside.is_empty() || stalled_s > MAX_SHARE_OF_SECONDS * of_s {
            return None;
        }
        let sums = |readings: &[LatencyReading]| {
            readings.iter().fold((0.0, 0.0), |sums, reading| {
                (sums.0 + reading.mean * reading.operations, sums.1 + reading.operations)
            })
        };
        let ((inside_us, inside_count), (outside_us, outside_count)) = (sums(&inside), sums(&outside));
        let calm_us = outside_us / outside_count;
        let added_us = inside_us - calm_us * inside_count;
        let share = added_us / (inside_us + outside_us);
        (share >= MIN_STALL_SHARE).then(|| StalledSeconds {
            inside,
            added_us,
            stalls,
            stalled_s,
            of_s,
            share,
            inside_us: inside_us / inside_count,
            outside_us: calm_us,
            whole_us: (inside_us + outside_us) / (inside_count + outside_count),
        })
    }

    /// The time that their operations waited before they were sent, in microseconds, by the readings since they were sent.
    fn held_up_us(&self, sent: &[LatencyReading]) -> f64 {
        let waited_us = |due: &LatencyReading| {
            let at = sent.partition_point(|sent| sent.end_s < due.end_s);
            let since_sent = sent.get(at).filter(|sent| sent.end_s == due.end_s)?;
            Some((due.mean - since_sent.mean) * due.operations)
        };
        self.inside.iter().filter_map(waited_us).sum()
    }

    fn finding(&self, of: &str) -> Finding {
        let count = self.stalls.len();
        let severity = if count >= MIN_REPEATED_STALLS { Severity::Warning } else { Severity::Note };
        let claim = format!(
            "Operations stalled {}: {:.0} % of all that clients waited was added in {:.0} of {:.0} seconds.",
            times(count),
            100.0 * self.share,
            self.stalled_s.max(1.0),
            self.of_s
        );
        let moments: Vec<String> = self
            .stalls
            .iter()
            .take(MAX_STALLS_LISTED)
            .map(|(begin_s, end_s)| format!("{begin_s:.0} to {end_s:.0} s"))
            .collect();
        let more = if count > MAX_STALLS_LISTED { " and later" } else { "" };
        let finding = Finding::new("stalls", severity, claim)
            .evidence(format!(
                "The mean {of} is {:.2} ms in those seconds and {:.2} ms in the others; {:.2} ms in all.",
                self.inside_us / 1000.0,
                self.outside_us / 1000.0,
                self.whole_us / 1000.0
            ))
            .evidence(format!("When: {}{more} after the run's start.", moments.join(", ")))
            .advice(
                "Judge the layers of the mean on a run without such a stop. In this run their shares are those of the stop, most of which \
                 is the wait to be sent.",
            )
            .next_look(
                "Find what the server, its host and its storage did at these moments. The server's log has the slow operations. The \
                 kernel's log, and the times of snapshots, backups and pauses of the virtual machine, show the rest. Look whether the stop comes again.",
            );
        let finding = finding.gain(Gain {
            of: format!("mean {of}"),
            share: self.share,
            interval: (self.share, self.share),
            basis: "What the stalled seconds add to all that was waited, over the mean of the others."
                .to_owned(),
        });
        self.stalls.iter().fold(finding, |finding, stall| finding.window(in_ns(*stall)))
    }
}

/// If nothing ended there is no reading. The seconds of silence before a reading belong to it, as far back as its operations waited. They became
/// due evenly over a stop, so it was about twice as long as their mean.
fn with_silence_before(readings: &[LatencyReading]) -> Vec<LatencyReading> {
    let mut before_s = f64::INFINITY;
    let longer = |reading: &LatencyReading| {
        let waited_from_s = reading.begin_s - 2.0 * reading.mean / US_PER_S;
        let begin_s = reading.begin_s.min(before_s.max(waited_from_s));
        before_s = reading.end_s;
        LatencyReading { begin_s, ..*reading }
    };
    readings.iter().map(longer).collect()
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// The contents of an earlier finding on spikes.
struct Spikes<'a> {
    windows: &'a [Window],
    /// The limit, in microseconds, above which a mean is more than one of these spikes.
    most_us: f64,
}

impl Spikes<'_> {
    fn told_of<'a>(readings: &[LatencyReading], judgement: &'a Judgement) -> Vec<Spikes<'a>> {
        let told =
            judgement.findings.iter().filter(|finding| finding.is_alarm() && finding.id.ends_with("-spikes"));
        told.filter_map(|finding| {
            let windows = finding.windows_ns.as_slice();
            let within = readings.iter().filter(|reading| met(windows, reading));
            let usual_us = quantile(&within.map(|reading| reading.mean).collect::<Vec<_>>(), 0.5)?;
            Some(Spikes { windows, most_us: MIN_RATIO_TO_SPIKE * usual_us })
        })
        .collect()
    }

    fn explain(&self, reading: &LatencyReading) -> bool {
        reading.mean <= self.most_us && met(self.windows, reading)
    }
}

fn met(windows: &[Window], reading: &LatencyReading) -> bool {
    let window = in_ns((reading.begin_s, reading.end_s));
    windows.iter().any(|other| overlap(*other, window))
}

/// The wait of operations at the only server watched.
fn waited_for(evidence: &Evidence, finding: &Finding) -> Option<String> {
    let members = evidence.members();
    let [member] = members.as_slice() else { return None };
    let (wait, share) = wait_within(evidence, &finding.windows_ns, member)?;
    Some(format!(
        "Of their time at the server in those seconds operations waited {:.0} % for {}.",
        100.0 * share,
        wait.words()
    ))
}

/// Whether the samplers of the host came late too; `None` if the host was not read about once a second. Samplers are on time in a
/// stop that falls between two of their readings, so only a long stop shows that the host continued.
fn host(evidence: &Evidence, stalled: &StalledSeconds) -> Option<String> {
    let length_s = |begin_ns: u64, end_ns: u64| end_ns.saturating_sub(begin_ns) as f64 / NS_PER_S;
    let read = points(evidence, "host.cpu.idle_pct");
    let lengths_s: Vec<f64> = read.iter().map(|point| length_s(point.begin_ns, point.end_ns)).collect();
    let usual_s = quantile(&lengths_s, 0.5).filter(|usual_s| (0.5..2.0).contains(usual_s))?;
    let longest_s = |stall: &(f64, f64)| {
        let within = read
            .iter()
            .zip(&lengths_s)
            .filter(|(point, _)| overlap((point.begin_ns, point.end_ns), in_ns(*stall)));
        within.map(|(_, length_s)| *length_s).fold(0.0, f64::max)
    };
    let late: Vec<f64> = stalled
        .stalls
        .iter()
        .map(longest_s)
        .filter(|length_s| *length_s > MIN_LATE_RATIO * usual_s)
        .collect();
    let worst_s = late.iter().copied().fold(0.0, f64::max) - usual_s;
    // Operations become due evenly over a stop, so their mean wait is at most half of it.
    let stop_s = 2.0 * stalled.inside_us / US_PER_S;
    Some(if !late.is_empty() {
        format!(
            "The samplers on this host came late in {} of them too, by up to {worst_s:.1} s: this host stopped too, or Fathom on \
             it did, not the server alone.",
            late.len()
        )
    } else if stop_s > MIN_LATE_RATIO * usual_s {
        "The samplers on this host were on time meanwhile: the host itself did not stop.".to_owned()
    } else {
        "The samplers on this host were on time, but a stop as short as this may fall between two of their moments.".to_owned()
    })
}

/// The number of stalls in which a checkpoint ran, if any, and the share of the whole time in which one ran, which is the share expected by chance.
fn checkpoints(evidence: &Evidence, judgement: &Judgement, stalls: &[(f64, f64)]) -> Option<String> {
    let mut ran: Vec<(f64, f64)> = judgement.checkpoints.values().flatten().copied().collect();
    ran.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ran: Vec<Window> = neighbours_as_one(ran).into_iter().map(in_ns).collect();
    let met = |stall: &&(f64, f64)| ran.iter().any(|ran| overlap(*ran, in_ns(**stall)));
    let count = stalls.iter().filter(met).count();
    let (begin_ns, end_ns) = evidence.window_ns;
    let within_ns = |(begin, end): &Window| (*end).min(end_ns).saturating_sub((*begin).max(begin_ns));
    let share = ran.iter().map(within_ns).sum::<u64>() as f64 / end_ns.saturating_sub(begin_ns) as f64;
    (count > 0).then(|| {
        format!("A checkpoint ran in {count} of them; one ran in {:.0} % of the whole time.", 100.0 * share)
    })
}

/// The least share of the operations' time at the server.
const MIN_SERVER_TIME_SHARE: f64 = 0.5;
/// Findings that explain stalls by a server that served nothing.
const STOPS: [&str; 2] = ["server-stood-still", "fsync-lock"];

/// The largest wait in the windows of the finding `stalls`, and its share of the operations' time at the server. `None` if another finding explains
/// the stalls, or if no wait takes half of that time.
pub(crate) fn wait_of_findings(
    evidence: &Evidence,
    findings: &[Finding],
    member: &str,
) -> Option<(Wait, f64)> {
    if findings.iter().any(|finding| STOPS.contains(&finding.id.as_str())) {
        return None;
    }
    let stalls = findings.iter().find(|finding| finding.id == "stalls")?;
    wait_within(evidence, &stalls.windows_ns, member)
}

/// The same for any windows.
pub(crate) fn wait_within(evidence: &Evidence, windows: &[Window], member: &str) -> Option<(Wait, f64)> {
    let sum = |tail: &str| -> f64 {
        let points = points(evidence, &format!("server.{member}.{tail}")).iter();
        let met = points
            .filter(|point| windows.iter().any(|window| overlap(*window, (point.begin_ns, point.end_ns))));
        met.map(|point| point.value).filter(|value| value.is_finite()).sum()
    };
    let time_us = sum("reads.latency_us") + sum("writes.latency_us");
    let waits = Wait::ALL.into_iter().filter(|wait| *wait != Wait::CacheMiss);
    let shares = waits.map(|wait| (wait, sum(&format!("wait.{}_us", wait.layer())) / time_us));
    let (wait, share) = shares
        .filter(|(_, share)| *share >= MIN_SERVER_TIME_SHARE)
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    (time_us > 0.0).then_some((wait, share.min(1.0)))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet, Severity};

    use super::*;

    /// Spikes every fifth second; in one of those the server stopped as well.
    #[test]
    fn a_stop_within_a_spike_is_told_and_the_spikes_are_not() {
        let reading = |second: u32| {
            let mean = if second == 20 {
                400_000.0
            } else if second.is_multiple_of(5) {
                12_000.0
            } else {
                500.0
            };
            let begin_s = f64::from(second);
            LatencyReading { begin_s, end_s: begin_s + 1.0, operations: 100.0, mean }
        };
        let readings: Vec<LatencyReading> = (0..60).map(reading).collect();
        let windows =
            (0..60).step_by(5).map(|second| in_ns((f64::from(second) + 0.2, f64::from(second) + 0.6)));
        let told = Finding::new("checkpoint-spikes", Severity::Warning, "They are.");
        let told = windows.fold(told, Finding::window);
        let judgement = Judgement { findings: vec![told], ..Judgement::default() };
        let stalled = StalledSeconds::from_readings(&readings, &judgement).unwrap();
        assert_eq!(stalled.stalls, [(20.0, 21.0)]);
        let without: Vec<LatencyReading> = readings.into_iter().filter(|one| one.begin_s != 20.0).collect();
        assert!(StalledSeconds::from_readings(&without, &judgement).is_none());
    }

    const SECOND: u64 = 1_000_000_000;

    /// Thirty seconds. In the tenth, operations take a second each, and `share` of that is a wait for pages.
    fn evidence(share: f64) -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..30 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let time_us = if second == 10 { 8e6 } else { 50_000.0 };
            let wait_us = if second == 10 { share * time_us } else { 1000.0 };
            for (name, value) in [("reads.latency_us", time_us), ("wait.page_read_us", wait_us)] {
                series.add(&format!("server.0.{name}"), "us", Point { begin_ns, end_ns, value });
            }
        }
        Evidence { series, window_ns: (0, 30 * SECOND), ..Evidence::default() }
    }

    #[test]
    fn reads_that_no_device_answers_are_what_a_stall_waits_for() {
        let stalls = Finding::new("stalls", Severity::Note, "x").window((10 * SECOND, 11 * SECOND));
        let of = |share: f64, findings: &[Finding]| wait_of_findings(&evidence(share), findings, "0");
        let (wait, share) = of(0.9, std::slice::from_ref(&stalls)).unwrap();
        assert_eq!(wait, Wait::PageRead);
        assert!((share - 0.9).abs() < 1e-9, "{share}");
        assert_eq!(of(0.3, std::slice::from_ref(&stalls)), None);
        let stopped = Finding::new("server-stood-still", Severity::Warning, "x");
        assert_eq!(of(0.9, &[stalls, stopped]), None);
        assert_eq!(of(0.9, &[]), None);
    }
}
