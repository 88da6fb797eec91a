//! Finds the member that a majority waits for, and the part of its work that takes the time.
//!
//! At each reading of the primary, the members are sorted by the progress of their journals. Writes wait for the member that
//! completes the majority: not for the slowest of the set, as long as the others are enough. The number of readings is
//! proportional to time, so a member's share of them is its share of the wait. A member is named only if it certainly completes
//! the majority at most readings; two members that alternate are not named.

use fathom_record::Finding;
use fathom_record::budget::{Budget, Layer};
use fathom_stats::{SeededRandom, bootstrap_sums};

use super::{EntriesBehind, Set, behind_us};
use crate::Evidence;
use crate::member::{fact, name_of};

/// The fewest moments at which a majority lacked something.
const MIN_MOMENTS: usize = 8;
/// The number of blocks in which moments are resampled, and of draws.
const BLOCKS: usize = 12;
const RESAMPLES: usize = 500;
/// The share of the moments that the whole interval must exceed for a member to be named.
const MIN_NAMED_SHARE: f64 = 0.5;
/// A part of a member's time above this share is the main part.
const MIN_MAIN_PART: f64 = 0.5;

/// A voter as its majority sees it.
#[derive(Clone, Debug)]
pub(crate) struct Voter {
    pub(crate) member: String,
    /// The time that a write needs to get into its journal, in microseconds.
    pub(crate) behind_us: f64,
    /// The share of the moments at which it completed the majority, with its 95 % interval.
    pub(crate) completes: f64,
    pub(crate) interval: (f64, f64),
}

/// The waits that the moments of a set show.
#[derive(Clone, Debug)]
pub(crate) struct MajorityWaits {
    pub(crate) set: Set,
    pub(crate) voters: Vec<Voter>,
    /// Moments at which the majority lacked something.
    pub(crate) waiting: usize,
    pub(crate) moments: usize,
}

impl MajorityWaits {
    /// `None` if the primary was not asked often enough, or never waited.
    pub(crate) fn from_evidence(evidence: &Evidence, set: Set) -> Option<MajorityWaits> {
        let moments = set.moments(evidence);
        let writes_per_s = set.writes_per_s(evidence)?;
        let rows: Vec<Vec<f64>> = moments.iter().filter_map(|moment| completes(&set, moment)).collect();
        if rows.len() < MIN_MOMENTS {
            return None;
        }
        let blocks: Vec<Vec<f64>> = rows
            .chunks(rows.len().div_ceil(BLOCKS))
            .map(|rows| {
                let mut sum = vec![0.0; set.voters.len() + 1];
                rows.iter().for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
                sum
            })
            .collect();
        let shares = |row: &[f64]| {
            let (count, own) = row.split_last().map_or((0.0, &[][..]), |(count, own)| (*count, own));
            own.iter().map(|value| value / count).collect::<Vec<f64>>()
        };
        let mut total = vec![0.0; set.voters.len() + 1];
        blocks.iter().for_each(|row| total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
        let points = shares(&total);
        let mut stream = SeededRandom::from_seed(evidence.seed).split(91);
        let resampled = bootstrap_sums(&blocks, 0.95, RESAMPLES, &mut stream, shares).unwrap_or_default();
        let mut voters = Vec::new();
        for ((member, completes), resampled) in set.voters.iter().zip(points).zip(resampled) {
            let Some(behind_us) = behind_us(&moments, member, writes_per_s) else { continue };
            let interval =
                resampled.map_or((0.0, 1.0), |one| (one.interval.low.max(0.0), one.interval.high.min(1.0)));
            voters.push(Voter { member: member.clone(), behind_us, completes, interval });
        }
        Some(MajorityWaits { set, voters, waiting: rows.len(), moments: moments.len() })
    }

    /// The voter that completes the majority at most moments, whether or not this is certain.
    pub(crate) fn first(&self) -> Option<&Voter> {
        self.voters.iter().max_by(|one, other| one.completes.total_cmp(&other.completes))
    }

    /// The voter that certainly completes the majority at most moments.
    pub(crate) fn named(&self) -> Option<&Voter> {
        self.first().filter(|voter| voter.interval.0 > MIN_NAMED_SHARE)
    }
}

/// The share of each voter in completing the majority: one for the voter at that place, divided among those at the same place. A last
/// value of one counts moments. `None` if the majority has everything, or if too few places are known.
fn completes(set: &Set, moment: &EntriesBehind) -> Option<Vec<f64>> {
    let mut places: Vec<f64> = set.voters.iter().filter_map(|voter| moment.get(voter).copied()).collect();
    places.sort_by(f64::total_cmp);
    let place = places.get(set.majority.checked_sub(1)?).copied().filter(|place| *place > 0.0)?;
    let at_it = |voter: &String| moment.get(voter) == Some(&place);
    let ties = set.voters.iter().filter(|voter| at_it(voter)).count() as f64;
    let mut row: Vec<f64> =
        set.voters.iter().map(|voter| if at_it(voter) { 1.0 / ties } else { 0.0 }).collect();
    row.push(1.0);
    Some(row)
}

/// The parts of the time that a write takes into a member's journal, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parts {
    /// The steps of a batch before it counts for a majority.
    pub(crate) batch: BatchSteps,
    pub(crate) batch_us: f64,
    pub(crate) journal_us: Option<f64>,
    pub(crate) rest_us: f64,
}

/// The steps of a member with a batch of entries before they count for a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchSteps {
    /// Up to 7.x it applies them.
    Apply,
    /// From 8.0 on it writes them to its oplog (`metrics.repl.write`) and applies them later.
    Write,
}

impl BatchSteps {
    fn verb(self) -> &'static str {
        match self {
            BatchSteps::Apply => "apply",
            BatchSteps::Write => "write",
        }
    }

    /// The subject of a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            BatchSteps::Apply => "applying a batch",
            BatchSteps::Write => "writing a batch to its oplog",
        }
    }
}

/// An entry waits for half of the batch that is under way, if there is one, and for its own batch. It then waits for the journal's
/// sync in the same way, as `docs/explain.md` describes for the primary's journal. The sum is limited to the whole time.
pub(crate) fn parts(evidence: &Evidence, member: &str, behind_us: f64) -> Option<Parts> {
    let seconds = evidence.window_ns.1.saturating_sub(evidence.window_ns.0) as f64 / 1e9;
    let sum = |tail: &str| evidence.sum(&format!("server.{member}.{tail}"));
    let wait = |count: f64, time_us: f64| {
        (count > 0.0 && seconds > 0.0)
            .then(|| time_us / count * (1.0 + (time_us / (seconds * 1e6)).min(1.0) / 2.0))
    };
    let written = sum("replication.write_batches").filter(|count| *count > 0.0);
    let written = written.zip(sum("replication.write_batch_ms"));
    let (batch, count, time_ms) = match written {
        Some((count, time_ms)) => (BatchSteps::Write, count, time_ms),
        None => (BatchSteps::Apply, sum("replication.batches")?, sum("replication.batch_ms")?),
    };
    let batch_us = wait(count, 1000.0 * time_ms).unwrap_or(0.0).min(behind_us);
    let journal = sum("journal.syncs").zip(sum("journal.sync_us")).and_then(|(syncs, us)| wait(syncs, us));
    let journal_us = journal.map(|us| us.min(behind_us - batch_us));
    Some(Parts { batch, batch_us, journal_us, rest_us: behind_us - batch_us - journal_us.unwrap_or(0.0) })
}

/// Splits the layer `replication` of a primary's budget by the parts of the time of the member that is mostly waited for.
pub(crate) fn split(evidence: &Evidence, budget: &mut Budget) {
    let Some(layer) =
        budget.layers.iter_mut().find(|layer| layer.name == "replication" && layer.mean_us > 0.0)
    else {
        return;
    };
    let waited =
        Set::led_by(evidence, &budget.member).and_then(|set| MajorityWaits::from_evidence(evidence, set));
    let Some(waited) = waited else { return };
    let Some(voter) = waited.first().filter(|voter| voter.behind_us > 0.0) else { return };
    let of = |name: String, us: f64| Layer {
        name,
        mean_us: layer.mean_us * us / voter.behind_us,
        interval_us: None,
        share: layer.share * us / voter.behind_us,
        series: Vec::new(),
        within: Vec::new(),
    };
    let who = &voter.member;
    let within = if *who == budget.member {
        vec![of("own journal".to_owned(), voter.behind_us)]
    } else {
        let Some(parts) = parts(evidence, who, voter.behind_us) else { return };
        let mut within = vec![of(format!("{} on server {who}", parts.batch.verb()), parts.batch_us)];
        within.extend(parts.journal_us.map(|us| of(format!("journal on server {who}"), us)));
        within.push(of("the way and the rest".to_owned(), parts.rest_us));
        within
    };
    layer.within = within;
    layer.series.push(format!("server.{who}.replication.behind"));
}

/// Adds to a finding on the layer `replication` the member that is waited for and the parts of its time, as far as they are known.
pub(crate) fn name_it(evidence: &Evidence, primary: &str, finding: &mut Finding) {
    let Some(waited) =
        Set::led_by(evidence, primary).and_then(|set| MajorityWaits::from_evidence(evidence, set))
    else {
        return;
    };
    add_voters(evidence, &waited, finding);
    let Some(voter) = waited.named() else {
        finding.evidence.push("No single member is waited for: they take turns.".to_owned());
        return;
    };
    let who = name_of(evidence, &voter.member);
    if voter.member == primary {
        finding.claim = format!(
            "Writes wait for the journal of the primary itself, {who}: the other members are faster."
        );
        finding.advice = Some(
            "Make the primary's journal faster (its device, its batches): the others do not hold writes up."
                .into(),
        );
        return;
    }
    finding.claim = format!("Writes wait for {who}, the member that completes the majority.");
    let Some(parts) = parts(evidence, &voter.member, voter.behind_us) else { return };
    let journal = parts.journal_us.map_or_else(
        || "how long its journal takes is not counted".to_owned(),
        |us| format!("{:.2} ms its journal's sync", us / 1000.0),
    );
    finding.evidence.push(format!(
        "Of its {:.2} ms {} takes about {:.2} ms, {journal}; {:.2} ms are the way there and back and what is not counted.",
        voter.behind_us / 1000.0,
        parts.batch.words(),
        parts.batch_us / 1000.0,
        parts.rest_us / 1000.0
    ));
    finding.evidence.extend(device(evidence, &voter.member));
    let storage_us = parts.batch_us + parts.journal_us.unwrap_or(0.0);
    if storage_us > MIN_MAIN_PART * voter.behind_us {
        finding.claim = format!(
            "Writes wait for {who}, the member that completes the majority, and most of it for its storage."
        );
        finding.advice = Some(format!(
            "Make the storage of server {} faster (its device, its engine, a journal of its own), or let another member be among \
             the first; another write concern is another promise, not a remedy.",
            voter.member
        ));
    } else if parts.rest_us > MIN_MAIN_PART * voter.behind_us {
        finding.advice = Some(format!(
            "Look at the way to server {} (its ping, who it copies from) and at its processor, before its disks.",
            voter.member
        ));
    }
}

/// Adds the share of moments at which each voter completes the majority.
fn add_voters(evidence: &Evidence, waited: &MajorityWaits, finding: &mut Finding) {
    finding.evidence.push(format!(
        "A majority of '{}' is {} of {} voters; of {} looks at the primary {} found it waiting.",
        waited.set.name,
        waited.set.majority,
        waited.set.voters.len(),
        waited.moments,
        waited.waiting
    ));
    for voter in &waited.voters {
        finding.evidence.push(format!(
            "A write takes {:.2} ms to get into the journal of {}, which completes the majority in {:.0} % of those looks (95 % \
             interval {:.0} to {:.0} %).",
            voter.behind_us / 1000.0,
            name_of(evidence, &voter.member),
            100.0 * voter.completes,
            100.0 * voter.interval.0,
            100.0 * voter.interval.1
        ));
        finding.series.push(format!("server.{}.replication.behind", voter.member));
    }
}

/// The state of a member's device, if it runs on this host.
fn device(evidence: &Evidence, member: &str) -> Option<String> {
    let device = fact(evidence, member, "device")?;
    let sum = |tail: &str| evidence.sum(&format!("device.{device}.{tail}"));
    let mean = |time: &str, count: &str| Some(sum(time)? / sum(count).filter(|count| *count > 0.0)?);
    let write_ms = mean("write_ms", "writes")?;
    let flush =
        mean("flush_ms", "flushes").map_or_else(String::new, |ms| format!(", for a flush {ms:.2} ms"));
    Some(format!("Its device {device} takes {write_ms:.2} ms for a write{flush}."))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    /// From 8.0 on a majority waits until entries are written, not until they are applied.
    #[test]
    fn a_member_that_writes_before_it_applies_is_waited_for_until_it_has_written() {
        let second_ns = 1_000_000_000;
        let of = |counters: &[(&str, f64)]| {
            let mut series = SeriesSet::default();
            for (name, value) in counters {
                let point = Point { begin_ns: 0, end_ns: second_ns, value: *value };
                series.add(&format!("server.1.replication.{name}"), "1", point);
            }
            let evidence = Evidence { series, window_ns: (0, second_ns), ..Evidence::default() };
            parts(&evidence, "1", 50_000.0).unwrap()
        };
        let applied = [("batches", 10.0), ("batch_ms", 200.0)];
        let before = of(&applied);
        assert_eq!(before.batch, BatchSteps::Apply);
        assert!((before.batch_us - 22_000.0).abs() < 1.0, "{before:?}");
        let since = of(&[&applied[..], &[("write_batches", 10.0), ("write_batch_ms", 10.0)]].concat());
        assert_eq!(since.batch, BatchSteps::Write);
        assert!((since.batch_us - 1_005.0).abs() < 1.0, "{since:?}");
        // The lab server, and mongod before 8.0, count none.
        assert_eq!(of(&[&applied[..], &[("write_batches", 0.0), ("write_batch_ms", 0.0)]].concat()), before);
    }
}
