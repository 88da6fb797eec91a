//! Finds the incidents of a recording: it joins bins above normal and gaps, and determines the cause and the cost of each.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::Confidence;
use fathom_record::incident::{Incident, IncidentFigure};
use fathom_record::verdict::{Domain, MIN_COST_SHARE};
use fathom_stats::{SeededRandom, spearman, standard_deviation};

use fathom_units::time_span;

use super::bins::{BIN_NS, Bins};
use super::database_disk::DatabaseDisk;
use super::detection::excesses;
use super::engine_times;
use super::gaps::{GapKind, RecordedGap};
use super::incident_cause::{IncidentCause, IncidentComparison, UNKNOWN};
use super::signals::{SIGNALS, Signal};
use super::storage_time::with_storage_time;
use super::stretch::Stretch;

/// Bins above normal that are no further apart than this are one incident.
const MAX_BINS_APART: usize = 3;
/// Gaps that are no further apart, in nanoseconds, are one.
const MAX_GAPS_APART_NS: u64 = 60_000_000_000;
/// A shorter gap of an idle server is not an incident: a sample may come late.
const MIN_UNKNOWN_GAP_S: f64 = 60.0;
/// The bins on either side of an incident in which calm is sought: half an hour.
const MAX_CALM_BINS: usize = 180;
/// The fewest operations in calm that show their usual time.
const MIN_CALM_OPERATIONS: f64 = 100.0;
/// A stretch in which operations lost less than this share of their time is an incident only if it is at least this long.
const MIN_LOST_SHARE: f64 = 0.05;
const MIN_HARMLESS_S: f64 = 30.0;
/// The fewest operations for the mean of a bin, and the fewest bins for a relation between two figures.
const MIN_BIN_OPERATIONS: f64 = 10.0;
const MIN_PAIRS: usize = 6;
/// The permutations of the test for that relation, and the largest probability at which it is one.
const PERMUTATIONS: usize = 999;
const MAX_P: f64 = 0.05;
/// The fewest means of calm stretches for an interval of the cost.
const MIN_SPREAD_BLOCKS: usize = 6;
/// Student's t at 95 % for the degrees of freedom of this many means, rounded up.
const STUDENT_T_95: f64 = 2.6;
/// The bins of the worst minute, by which an incident is priced.
const BINS_A_MINUTE: usize = 6;
/// The bins around a gap in which operations that waited for its end still count.
const BINS_AROUND_GAP: usize = 1;
const NS_PER_MS: u64 = 1_000_000;

/// The incidents of a recording, the costliest first.
pub(super) fn incidents(
    bins: &Bins,
    member: usize,
    disk: &DatabaseDisk,
    gaps: &[RecordedGap],
) -> Vec<Incident> {
    let near_gap: BTreeSet<usize> = gaps
        .iter()
        .flat_map(|gap| {
            let touched = bins.bins_of(gap.window_ns);
            touched.start.saturating_sub(BINS_AROUND_GAP)..touched.end + BINS_AROUND_GAP
        })
        .collect();
    // The normal means of bins above normal, by the number of the signal.
    let mut found: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
    for (number, signal) in SIGNALS.iter().enumerate() {
        let means_us = signal.means_us(bins, member);
        for excess in excesses(signal, &means_us) {
            let mean_us = means_us.get(excess.bin).copied().flatten().map_or(0.0, |(us, _)| us);
            let bins_before = if signal.is_known_late { (mean_us * 1e3 / BIN_NS as f64) as usize } else { 0 };
            for bin in excess.bin.saturating_sub(bins_before)..=excess.bin {
                let of_bin = found.entry(bin).or_default();
                if !near_gap.contains(&bin) && of_bin.iter().all(|(known, _)| *known != number) {
                    of_bin.push((number, excess.normal_us));
                }
            }
        }
    }
    found.retain(|_, signals| !signals.is_empty());
    let finder = Finder { bins, member, disk, found: &found, near_gap: &near_gap };
    let mut incidents: Vec<Incident> = finder.joined().iter().map(|over| finder.with_storage(over)).collect();
    incidents.retain(|incident| incident.cause != UNKNOWN || incident.lost_s > 0.0);
    incidents
        .retain(|incident| incident.length_s() >= MIN_HARMLESS_S || incident.lost_share >= MIN_LOST_SHARE);
    let is_known = |gap: &&RecordedGap| gap.kind != GapKind::Unknown || gap.length_s >= MIN_UNKNOWN_GAP_S;
    let gaps: Vec<RecordedGap> = gaps.iter().filter(is_known).copied().collect();
    incidents.extend(joined_gaps(&gaps).into_iter().map(|gaps| stop(member, &gaps)));
    incidents.sort_by(|one, other| {
        other.lost_s.total_cmp(&one.lost_s).then_with(|| one.begin_ms.cmp(&other.begin_ms))
    });
    incidents
}

struct Finder<'b> {
    bins: &'b Bins,
    member: usize,
    disk: &'b DatabaseDisk,
    found: &'b BTreeMap<usize, Vec<(usize, f64)>>,
    near_gap: &'b BTreeSet<usize>,
}

impl Finder<'_> {
    /// Groups of bins above normal, each of which is one incident.
    fn joined(&self) -> Vec<Vec<usize>> {
        let mut joined: Vec<Vec<usize>> = Vec::new();
        for bin in self.found.keys() {
            match joined.last_mut().filter(|last| last.last().is_some_and(|end| bin - end <= MAX_BINS_APART))
            {
                Some(last) => {
                    let next = last.last().map_or(*bin, |end| end + 1);
                    last.extend(next..=*bin);
                }
                None => joined.push(vec![*bin]),
            }
        }
        joined
    }

    /// The calm bins around an incident.
    fn calm(&self, over: &[usize]) -> Vec<usize> {
        let (first, last) = (over.first().copied().unwrap_or(0), over.last().copied().unwrap_or(0));
        let is_calm = |bin: &usize| !self.found.contains_key(bin) && !self.near_gap.contains(bin);
        let around = first.saturating_sub(MAX_CALM_BINS)..(last + MAX_CALM_BINS).min(self.bins.len());
        let near: Vec<usize> = around.filter(is_calm).collect();
        if near.len() >= over.len().min(MAX_CALM_BINS / 6) {
            return near;
        }
        (0..self.bins.len()).filter(is_calm).collect()
    }

    /// The incident with what faster storage would buy in it, and with the times of the engine's reads and writes.
    fn with_storage(&self, over: &[usize]) -> Incident {
        let times = engine_times::distributions(self.bins, self.member, over, &self.calm(over));
        let incident = engine_times::with_distributions(self.incident(over), times);
        with_storage_time(self.bins, self.member, over, incident)
    }

    fn incident(&self, over: &[usize]) -> Incident {
        let stretch = |over: &[usize]| Stretch::from_bins(self.bins, self.member, self.disk.name(), over);
        let now = stretch(over);
        let calm_bins = self.calm(over);
        let mut calm = stretch(&calm_bins);
        let is_unhurt = now.operation_us * (1.0 - MIN_COST_SHARE) < calm.operation_us;
        if self.operations(&calm_bins) < MIN_CALM_OPERATIONS || (is_unhurt && self.is_followed(over)) {
            // No similar load ran outside the incident: the bins in which the unusual figure was lowest are taken as calm for its operations.
            let lowest = stretch(&self.lowest_third(over));
            let own = |number: usize, calm: Option<f64>| match SIGNALS.get(number) {
                Some(signal) if signal.is_operations => lowest.signals_us.get(number).copied().flatten(),
                _ => calm,
            };
            let signals_us =
                calm.signals_us.iter().enumerate().map(|(number, calm)| own(number, *calm)).collect();
            calm = Stretch {
                operation_us: lowest.operation_us,
                waits_us: lowest.waits_us.clone(),
                signals_us,
                ..calm
            };
        }
        let cause = IncidentComparison { now: &now, calm: &calm, disk: self.disk }.cause();
        let lost = |over: &[usize]| self.lost_s(over, &calm, &|_| 1.0);
        let (lost_s, _) = lost(over);
        let spreads: Vec<Option<f64>> =
            SIGNALS.iter().map(|signal| self.usual_spread(signal, &calm_bins, over.len())).collect();
        let is_known =
            SIGNALS.iter().zip(&spreads).any(|(signal, spread)| signal.is_operations && spread.is_some());
        let bound_s = |sign: f64| {
            let factor = |number: usize| (sign * spreads.get(number).copied().flatten().unwrap_or(0.0)).exp();
            self.lost_s(over, &calm, &factor).0
        };
        let lost_range_s = is_known.then(|| (bound_s(1.0), bound_s(-1.0)));
        let minutes = over.windows(BINS_A_MINUTE.min(over.len().max(1)));
        let share =
            |(lost_s, all_s): (f64, f64)| if all_s > 0.0 { (lost_s / all_s).clamp(0.0, 1.0) } else { 0.0 };
        let worst_share = minutes.map(|minute| share(lost(minute))).fold(0.0, f64::max);
        let begin_ns = self.bins.begin_ns(over.first().copied().unwrap_or(0));
        let end_ns = self.bins.begin_ns(over.last().map_or(0, |last| last + 1));
        let changes = SIGNALS
            .iter()
            .enumerate()
            .filter(|(number, _)| over.iter().any(|bin| self.normal_us(*bin, *number).is_some()))
            .filter_map(|(number, signal)| {
                let mean_us = now.signals_us.get(number).copied().flatten()?;
                let normals: Vec<f64> = over.iter().filter_map(|bin| self.normal_us(*bin, number)).collect();
                let usual_us = normals.iter().sum::<f64>() / normals.len().max(1) as f64;
                Some(IncidentFigure { of: signal.words.to_owned(), usual_us, mean_us })
            })
            .collect();
        let waits = now.waits_us.iter().map(|(layer, mean_us)| IncidentFigure {
            of: layer.words().to_owned(),
            usual_us: calm.wait_us(*layer).unwrap_or(0.0),
            mean_us: *mean_us,
        });
        Incident {
            lost_range_s,
            waits: waits.collect(),
            ..incident(self.member, (begin_ns, end_ns), cause, (lost_s, worst_share), changes)
        }
    }

    /// The deviation of a signal's mean over `length` bins from the usual mean, as a logarithm, at 95 %: the variation between means over as many
    /// calm bins, or over a sixth of the calm bins if these are fewer.
    fn usual_spread(&self, signal: &Signal, calm: &[usize], length: usize) -> Option<f64> {
        let block = length.min(calm.len() / MIN_SPREAD_BLOCKS).max(1);
        let means = calm.chunks(block).filter_map(|bins| signal.mean_us(self.bins, self.member, bins));
        let logs: Vec<f64> = means.map(|(us, _)| us).filter(|us| *us > 0.0).map(f64::ln).collect();
        if logs.len() < MIN_SPREAD_BLOCKS {
            return None;
        }
        let shorter = block as f64 / length.max(1) as f64;
        let of_mean = standard_deviation(&logs)? * shorter.sqrt();
        Some(STUDENT_T_95 * of_mean * (1.0 + 1.0 / logs.len() as f64).sqrt())
    }

    fn normal_us(&self, bin: usize, signal: usize) -> Option<f64> {
        let found = self.found.get(&bin)?;
        found.iter().find(|(number, _)| *number == signal).map(|(_, normal_us)| *normal_us)
    }

    fn operations(&self, over: &[usize]) -> f64 {
        let names = ["reads", "writes"].map(|kind| format!("server.{}.{kind}.operations", self.member));
        self.bins.sum_of(&names, over).unwrap_or(0.0)
    }

    /// The figure that is unusual in most bins of an incident, bin by bin. A figure that may explain the time of operations is preferred to that time.
    fn figure_us(&self, over: &[usize]) -> Vec<(f64, usize)> {
        let unusual =
            |number: usize| over.iter().filter(|bin| self.normal_us(**bin, number).is_some()).count();
        let ranks =
            SIGNALS.iter().enumerate().map(|(number, signal)| (unusual(number), signal.is_cause, signal));
        let signal = ranks
            .filter(|(bins, ..)| *bins > 0)
            .max_by_key(|(bins, is_cause, _)| (*is_cause, *bins))
            .map(|(_, _, signal)| signal);
        let mean_us = |bin: usize| signal?.mean_us(self.bins, self.member, &[bin]).map(|(us, _)| us);
        over.iter().filter_map(|bin| Some((mean_us(*bin)?, *bin))).collect()
    }

    /// Whether operations take longer in the bins in which the unusual figure is higher, more than by chance.
    fn is_followed(&self, over: &[usize]) -> bool {
        let operation_us = |bin: usize| Stretch::from_bins(self.bins, self.member, None, &[bin]).operation_us;
        let pairs: Vec<(f64, f64)> = self
            .figure_us(over)
            .into_iter()
            .filter(|(_, bin)| self.operations(&[*bin]) >= MIN_BIN_OPERATIONS)
            .map(|(us, bin)| (us, operation_us(bin)))
            .collect();
        let mut stream = SeededRandom::from_seed(pairs.len() as u64);
        pairs.len() >= MIN_PAIRS
            && spearman(&pairs, PERMUTATIONS, &mut stream)
                .is_some_and(|found| found.rho > 0.0 && found.p < MAX_P)
    }

    /// The third of an incident's bins in which the figure that is unusual was lowest.
    fn lowest_third(&self, over: &[usize]) -> Vec<usize> {
        let mut known = self.figure_us(over);
        known.retain(|(_, bin)| self.operations(&[*bin]) >= MIN_BIN_OPERATIONS);
        known.sort_by(|one, other| one.0.total_cmp(&other.0));
        known.truncate(known.len().div_ceil(3));
        known.into_iter().map(|(_, bin)| bin).collect()
    }

    /// The time of operations beyond the normal time, or else beyond the usual time in calm, and their whole time, in seconds. `factor` of a
    /// signal's number multiplies the normal time.
    fn lost_s(&self, over: &[usize], calm: &Stretch, factor: &dyn Fn(usize) -> f64) -> (f64, f64) {
        let (mut lost_us, mut all_us) = (0.0, 0.0);
        for (number, signal) in SIGNALS.iter().enumerate().filter(|(_, signal)| signal.is_operations) {
            let normals = over.iter().filter_map(|bin| self.normal_us(*bin, number));
            let usual_us =
                normals.reduce(f64::min).or_else(|| calm.signals_us.get(number).copied().flatten());
            for bin in over {
                let Some((mean_us, count)) = signal.mean_us(self.bins, self.member, &[*bin]) else {
                    continue;
                };
                all_us += mean_us * count;
                if let Some(normal_us) = self.normal_us(*bin, number).or(usual_us) {
                    lost_us += (mean_us - factor(number) * normal_us) * count;
                }
            }
        }
        (lost_us.max(0.0) / 1e6, all_us / 1e6)
    }
}

/// Makes an incident from its parts; `window_ns` in nanoseconds since 1970, `lost` in seconds and as a share of the operations' time.
fn incident(
    member: usize,
    window_ns: (u64, u64),
    cause: IncidentCause,
    lost: (f64, f64),
    changes: Vec<IncidentFigure>,
) -> Incident {
    Incident {
        member,
        begin_ms: (window_ns.0 / NS_PER_MS) as i64,
        end_ms: (window_ns.1 / NS_PER_MS) as i64,
        cause: cause.id.to_owned(),
        domain: cause.domain,
        confidence: cause.confidence,
        sentence: cause.sentence,
        lost_s: lost.0,
        lost_share: lost.1,
        storage_s: 0.0,
        lost_range_s: None,
        changes,
        waits: Vec::new(),
        engine_times: Vec::new(),
        evidence: cause.evidence,
        against: cause.against,
        next: cause.next,
    }
}

/// Groups of gaps of one kind that follow each other closely.
fn joined_gaps(gaps: &[RecordedGap]) -> Vec<Vec<RecordedGap>> {
    let mut joined: Vec<Vec<RecordedGap>> = Vec::new();
    for gap in gaps {
        let follows = |last: &&mut Vec<RecordedGap>| {
            last.last().is_some_and(|before| {
                before.kind == gap.kind
                    && gap.window_ns.0.saturating_sub(before.window_ns.1) <= MAX_GAPS_APART_NS
            })
        };
        match joined.last_mut().filter(follows) {
            Some(last) => last.push(*gap),
            None => joined.push(vec![*gap]),
        }
    }
    joined
}

/// The signs of a stopped process.
const STOP_EVIDENCE: [&str; 2] = [
    "The counters of the host's processors continued to advance, and hardly any operation ended.",
    "The server's own times do not contain the stops; the cost is what its connections waited.",
];

/// The incident of gaps of one kind.
fn stop(member: usize, gaps: &[RecordedGap]) -> Incident {
    let begin_ns = gaps.first().map_or(0, |gap| gap.window_ns.0);
    let end_ns = gaps.last().map_or(0, |gap| gap.window_ns.1);
    let longest = time_span(gaps.iter().map(|gap| gap.length_s).fold(0.0, f64::max));
    let times = match gaps.len() {
        1 => format!("for {longest}"),
        number => format!("{number} times, for up to {longest}"),
    };
    // Operations that arrive at a rate wait half of a stop each. Operations of clients that wait for each reply wait all of it.
    let lost = |gap: &RecordedGap| {
        let arriving_s = gap.per_s * gap.extra_s * gap.extra_s / 2.0;
        gap.connections.map_or(arriving_s, |connections| arriving_s.min(connections * gap.extra_s))
    };
    let kind = gaps.first().map_or(GapKind::Unknown, |gap| gap.kind);
    let lost_s: f64 = if kind == GapKind::ProcessStopped { gaps.iter().map(lost).sum() } else { 0.0 };
    let (id, domain, confidence, sentence, next) = match kind {
        GapKind::ProcessStopped => (
            "process-stopped",
            Some(Domain::Server),
            Confidence::Likely,
            format!("The process was stopped {times}, while the host continued."),
            Some(
                "Find out what stopped it: a signal, a debugger, a pause of its container, or a snapshot of its virtual machine.",
            ),
        ),
        GapKind::HostSuspended => (
            "host-suspended",
            None,
            Confidence::Certain,
            format!("The host was stopped {times}: it was suspended, or its virtual machine was paused."),
            None,
        ),
        GapKind::RecorderStalled => (
            "recorder-stalled",
            None,
            Confidence::Likely,
            format!("The recorder was stopped {times}; operations continued."),
            Some(
                "Before their fixes of WT-7929 the versions 4.4, 5.0 and 6.0 hold up serverStatus for a checkpoint.",
            ),
        ),
        GapKind::Unknown => (
            "gap",
            None,
            Confidence::CannotTell,
            format!(
                "Nothing was recorded {times}; the recording does not show whether the server was stopped."
            ),
            None,
        ),
    };
    let evidence: &[&str] = match kind {
        GapKind::ProcessStopped => &STOP_EVIDENCE,
        GapKind::HostSuspended => &["The host's own counters did not advance either."],
        _ => &[],
    };
    let cause = IncidentCause {
        id,
        domain,
        confidence,
        sentence,
        evidence: evidence.iter().map(|one| (*one).to_owned()).collect(),
        against: Vec::new(),
        next: next.map(str::to_owned),
    };
    let share = if kind == GapKind::ProcessStopped { 1.0 } else { 0.0 };
    incident(member, (begin_ns, end_ns), cause, (lost_s, share), Vec::new())
}
