//! Finds a transaction that stays open while other operations wait for what it holds: its locks, the documents that it changed, or the
//! versions of documents that the cache keeps for it.
//!
//! A session between two operations of a transaction runs nothing, so no counter of operations shows it. Its cost is what the others lose
//! meanwhile. A transaction whose cost was not measured is a note.

use std::collections::BTreeSet;

use fathom_record::verdict::{Cost, LatencyClock};
use fathom_record::{Confidence, Finding, Severity};
use fathom_units::{Nanos, count};

use crate::client::points;
use crate::held_transactions::{HeldTransaction, LockWaiters, RetriedWrites, held_transactions};
use crate::member::{is_router, name_of};
use crate::windows::{Window, overlap};
use crate::{Evidence, Judgement};

/// The series that it is judged by, next to the readings of `$currentOp`.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.transactions.open",
    "server.{member}.transactions.pinned_ids",
    "server.{member}.wait.lock_us",
    "server.{member}.wait.evict_us",
    "server.{member}.wait.cache_us",
    "server.{member}.write_conflicts",
    "server.{member}.cache.update_bytes",
    "server.{member}.cache.most_bytes",
    "server.{member}.reads.latency_us",
    "server.{member}.writes.latency_us",
    "server.{member}.writes.operations",
];

pub(crate) const ID: &str = "long-transaction";
/// The words of a claim that operations waited for its locks.
pub(crate) const HOLDS_LOCKS: &str = "for locks that it holds";
/// A transaction that has been open for this long is named.
const MIN_OPEN_US: u64 = 10_000_000;
/// A wait is counted when it ends, and read at the next sample.
const MAX_READING_DELAY_NS: u64 = 1_500_000_000;
/// The least time without it that its time is compared with.
const MIN_REST_S: f64 = 5.0;
/// A transaction keeps the cache from evicting if the engine counts this part of the writes since its begin as pinned, and so many at least.
const MIN_PINNED_PART: f64 = 0.5;
const MIN_PINNED_CHANGES: f64 = 1000.0;
/// The part of the cache that updates may take until operations must evict (eviction_updates_trigger: half of the dirty trigger).
const MIN_UPDATES_SHARE: f64 = 0.1;
/// Writes that collide less often than this, each second, wait for other things.
const MIN_CONFLICTS_PER_S: f64 = 0.1;
/// Writes that were seen in flight have ended if the growth of their latency has this part of their time.
const MIN_ENDED_PART: f64 = 0.5;
/// A cost whose lower bound is below this share is not known.
const MIN_KNOWN_SHARE: f64 = 0.01;

/// Adds a finding for each server on which a transaction stayed open.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        if is_router(evidence, &member) {
            continue;
        }
        let held = held_transactions(evidence, &member, MIN_OPEN_US);
        let place = TransactionPlace { evidence, member: &member };
        // Of equals, the one that was opened first.
        let by_loss = held.iter().rev().max_by(|one, other| {
            let (one, other) = (place.loss(one), place.loss(other));
            one.us().total_cmp(&other.us())
        });
        let Some(worst) = by_loss else { continue };
        let loss = place.loss(worst);
        place.demote(judgement, worst, &loss);
        judgement.findings.push(place.finding(worst, &loss, held.len() - 1));
    }
}

/// A server on which transactions stay open.
struct TransactionPlace<'e> {
    evidence: &'e Evidence,
    member: &'e str,
}

/// Time that other operations lost, with its bounds, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LostTime {
    us: f64,
    low_us: f64,
    high_us: f64,
}

/// The losses of other operations while a transaction was open.
#[derive(Default)]
struct TransactionLoss<'e> {
    waiters: LockWaiters<'e>,
    retried: RetriedWrites<'e>,
    locks: Option<LostTime>,
    cache: Option<LostTime>,
    conflicts: Option<LostTime>,
    /// The time of writes that were tried again and have not ended, so that no latency has it.
    unended: Option<LostTime>,
}

impl TransactionLoss<'_> {
    fn parts(&self) -> impl Iterator<Item = LostTime> {
        [self.locks, self.cache, self.conflicts, self.unended].into_iter().flatten()
    }

    fn us(&self) -> f64 {
        self.parts().map(|part| part.us).sum()
    }

    /// The losses as parts of the claim.
    fn words(&self) -> Option<String> {
        let list = |words: &BTreeSet<&str>| words.iter().copied().take(3).collect::<Vec<_>>().join(", ");
        let unended = self.unended.map(|lost| {
            format!(
                "writes of {} that began since wait for no lock and did not end, for {} in all, as writes of documents that it changed do",
                list(&self.retried.namespaces),
                seconds(lost.us)
            )
        });
        let locks = self.locks.map(|lost| {
            format!(
                "operations waited {} {HOLDS_LOCKS} (lock {}, {})",
                seconds(lost.us),
                list(&self.waiters.resources),
                list(&self.waiters.namespaces)
            )
        });
        let cache = self.cache.map(|lost| {
            format!(
                "operations evicted for {}, because the cache keeps what was changed since",
                seconds(lost.us)
            )
        });
        let conflicts = self.conflicts.map(|lost| {
            format!(
                "writes of documents that it changed took {} longer and were tried again",
                seconds(lost.us)
            )
        });
        let words: Vec<String> = [locks, cache, conflicts, unended].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", and "))
    }
}

impl<'e> TransactionPlace<'e> {
    fn name(&self, tail: &str) -> String {
        format!("server.{}.{tail}", self.member)
    }

    /// The sum of a series in a window and its seconds, and the same of the other readings.
    fn in_and_out(&self, tail: &str, window: Window) -> [(f64, f64); 2] {
        let until_read = (window.0, window.1.saturating_add(MAX_READING_DELAY_NS));
        let mut sums = [(0.0, 0.0); 2];
        for point in points(self.evidence, &self.name(tail)).iter().filter(|point| point.value.is_finite()) {
            let of = (point.begin_ns, point.end_ns);
            let [within, without] = &mut sums;
            let sum = if overlap(until_read, of) { within } else { without };
            sum.0 += point.value;
            sum.1 += of.1.saturating_sub(of.0) as f64 / 1e9;
        }
        sums
    }

    /// The growth of a wait in a window over its rate at other times. Without other times all of it may be usual.
    fn excess(&self, tail: &str, window: Window) -> Option<LostTime> {
        let [(us, seconds), (rest_us, rest_s)] = self.in_and_out(tail, window);
        let lost = if rest_s >= MIN_REST_S {
            let usual_us = rest_us / rest_s * seconds;
            LostTime { us: us - usual_us, low_us: (us - 2.0 * usual_us).max(0.0), high_us: us }
        } else {
            LostTime { us, low_us: 0.0, high_us: us }
        };
        (lost.us > 0.0).then_some(lost)
    }

    fn loss(&self, held: &HeldTransaction<'e>) -> TransactionLoss<'e> {
        let waiters = LockWaiters::of(self.evidence, self.member, held);
        let locks = self.excess("wait.lock_us", held.window).filter(|_| !waiters.at_ns.is_empty());
        // The operations that were seen waiting for its locks.
        let locks =
            locks.map(|lost| LostTime { low_us: lost.low_us.max(waiters.seen_us.min(lost.us)), ..lost });
        let cache = self.cache(held);
        let others_us = [locks, cache].into_iter().flatten().map(|lost| lost.us).sum();
        let conflicts = self.conflicts(held, others_us);
        let retried = RetriedWrites::of(self.evidence, self.member, held);
        let (low_us, high_us) = retried.seen_us;
        // Writes that ended after all are in the latency of writes.
        let is_ended = conflicts.is_some_and(|lost| lost.us >= MIN_ENDED_PART * low_us);
        let unended = (low_us > 0.0 && !is_ended).then_some(LostTime { us: low_us, low_us, high_us });
        TransactionLoss { waiters, retried, locks, cache, conflicts, unended }
    }

    /// The time in which operations evicted, if the engine pins what was written since the begin.
    fn cache(&self, held: &HeldTransaction<'_>) -> Option<LostTime> {
        self.pinned(held)?;
        let evict = ["wait.evict_us", "wait.cache_us"].map(|tail| self.excess(tail, held.window));
        let lost = evict.into_iter().flatten().max_by(|one, other| one.us.total_cmp(&other.us))?;
        // Above their trigger updates alone make operations evict.
        let share = self.update_shares(held.window);
        let above = share.iter().filter(|share| **share >= MIN_UPDATES_SHARE).count() as f64;
        let part = above / share.len().max(1) as f64;
        Some(LostTime { low_us: lost.low_us.max(part * lost.us), ..lost })
    }

    /// The largest number of changes that the engine pins while it is open; `None` if these are few of those that were written.
    fn pinned(&self, held: &HeldTransaction<'_>) -> Option<f64> {
        let most = points(self.evidence, &self.name("transactions.pinned_ids"))
            .iter()
            .filter(|point| (held.window.0..=held.window.1).contains(&point.end_ns))
            .map(|point| point.value)
            .fold(0.0, f64::max);
        let [(written, _), _] = self.in_and_out("writes.operations", held.window);
        (most >= MIN_PINNED_CHANGES && most >= MIN_PINNED_PART * written).then_some(most)
    }

    /// The part of the cache that updates take, at each reading while it is open.
    fn update_shares(&self, window: Window) -> Vec<f64> {
        let most = self.evidence.mean(&self.name("cache.most_bytes")).filter(|most| *most > 0.0);
        let Some(most) = most else { return Vec::new() };
        let updates = points(self.evidence, &self.name("cache.update_bytes"));
        let within = updates.iter().filter(|point| (window.0..=window.1).contains(&point.end_ns));
        within.map(|point| point.value / most).collect()
    }

    /// The growth of the time of writes beyond other losses, if writes collide while it holds changes.
    fn conflicts(&self, held: &HeldTransaction<'_>, others_us: f64) -> Option<LostTime> {
        let [(conflicts, seconds), (usual, rest_s)] = self.in_and_out("write_conflicts", held.window);
        let more = conflicts / seconds.max(1e-9) - usual / rest_s.max(1e-9);
        if !held.writes() || rest_s < MIN_REST_S || more < MIN_CONFLICTS_PER_S {
            return None;
        }
        let [(us, _), (rest_us, _)] = self.in_and_out("writes.latency_us", held.window);
        let [(writes, _), (rest, _)] = self.in_and_out("writes.operations", held.window);
        let lost_us = us - writes * (rest_us / rest.max(1.0)) - others_us;
        (lost_us > 0.0 && rest >= 1.0).then_some(LostTime { us: lost_us, low_us: 0.5 * lost_us, high_us: us })
    }

    fn cost(&self, loss: &TransactionLoss<'_>) -> Option<Cost> {
        let sum = |tail: &str| self.evidence.sum(&self.name(tail)).unwrap_or(0.0);
        let ended_us = sum("reads.latency_us") + sum("writes.latency_us");
        // Waits that have not ended are in no latency.
        let unended_us = loss.unended.map_or(0.0, |lost| lost.us);
        let counted_us = loss.us() - unended_us;
        let all_us = unended_us + if counted_us > ended_us { ended_us + counted_us } else { ended_us };
        let all = sum("reads.operations") + sum("writes.operations");
        let share = |us: f64| (us / all_us.max(1.0)).clamp(0.0, 1.0);
        let (low_us, high_us) =
            loss.parts().fold((0.0, 0.0), |(low, high), part| (low + part.low_us, high + part.high_us));
        (loss.us() > 0.0 && all > 0.0).then(|| Cost {
            clock: LatencyClock::Server,
            share: share(loss.us()),
            interval: (share(low_us), share(high_us)),
            mean_us: share(loss.us()) * all_us / all,
            p99_us: None,
            unserved_per_s: None,
            basis: "The waits of other operations while the transaction was open, compared with other times if there were any.".to_owned(),
        })
    }

    /// Takes the lead from findings on the waits that the transaction makes.
    fn demote(&self, judgement: &mut Judgement, held: &HeldTransaction<'_>, loss: &TransactionLoss<'_>) {
        let general = [
            ("tickets-or-locks", loss.locks),
            ("eviction-by-operations", loss.cache),
            ("write-conflicts", loss.conflicts.or(loss.unended)),
        ];
        let of_member = format!("server.{}.", self.member);
        for finding in &mut judgement.findings {
            let is_its = finding.series.iter().any(|name| name.starts_with(&of_member));
            let explained = general.iter().any(|(id, lost)| *id == finding.id && lost.is_some());
            if is_its && explained && self.is_known(loss) {
                finding.confidence = Confidence::CannotTell;
                finding.severity = Severity::Note;
                finding.evidence.push(format!("A transaction of {} makes this wait.", held.owner()));
            }
        }
    }

    fn is_known(&self, loss: &TransactionLoss<'_>) -> bool {
        self.cost(loss).is_some_and(|cost| cost.interval.0 >= MIN_KNOWN_SHARE)
    }

    fn finding(&self, held: &HeldTransaction<'_>, loss: &TransactionLoss<'_>, more: usize) -> Finding {
        let one = held.last;
        let verb = if held.is_open { "has been" } else { "was" };
        let mut claim = format!(
            "A transaction of {} {verb} open for {}, idle for {} of them",
            held.owner(),
            seconds(one.open_us as f64),
            seconds(one.inactive_us as f64)
        );
        claim.extend(loss.words().map(|words| format!(": {words}")));
        let mut finding = Finding::new(ID, Severity::Note, claim)
            .confidence(Confidence::CannotTell)
            .advice(advice(held))
            .command(command(held))
            .next_look("db.adminCommand({getParameter: 1, transactionLifetimeLimitSeconds: 1}) shows after how many seconds the server ends a transaction by itself.")
            .source("https://www.mongodb.com/docs/manual/core/transactions-production-consideration/")
            .series(["wait.lock_us", "wait.evict_us", "reads.latency_us", "writes.latency_us"].map(|tail| self.name(tail)))
            .window(held.window);
        finding.evidence.push(format!("On {}, {}.", name_of(self.evidence, self.member), holds(held)));
        finding.evidence.extend(self.cache_words(held));
        if more > 0 {
            let verb = if more == 1 { "other transaction was" } else { "other transactions were" };
            finding
                .evidence
                .push(format!("{more} {verb} open for {} or longer.", seconds(MIN_OPEN_US as f64)));
        }
        match self.cost(loss) {
            None => {
                // It was looked for, and nothing of it was found.
                finding.confidence = Confidence::Likely;
                finding.evidence.push(
                    "No cost of it was measured: no operation was seen waiting for its locks, no write was seen that does not end, and while it was open operations waited no longer for room in the cache."
                        .to_owned(),
                );
            }
            Some(cost) => {
                if cost.interval.0 >= MIN_KNOWN_SHARE {
                    finding.confidence = Confidence::Likely;
                } else {
                    finding.evidence.push(
                        "It was open all the time that was watched, so how much of this wait is usual is not known."
                            .to_owned(),
                    );
                }
                finding.cost = Some(cost);
            }
        }
        finding
    }

    /// The changes that the engine keeps for it, and their part of the cache.
    fn cache_words(&self, held: &HeldTransaction<'_>) -> Option<String> {
        let pinned = self.pinned(held)?;
        let share = |tail: &str| {
            let mean = |tail: &str| self.evidence.mean(&self.name(tail));
            Some(100.0 * mean(tail)? / mean("cache.most_bytes").filter(|most| *most > 0.0)?)
        };
        let parts: Vec<String> = [
            share("cache.update_bytes").map(|pct| format!("{pct:.0} % of the cache are updates")),
            share("cache.dirty_bytes").map(|pct| format!("{pct:.0} % are dirty")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let parts = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
        Some(format!(
            "The engine keeps what was changed since its begin for it: up to {} changes were pinned{parts}.",
            count(pinned)
        ))
    }
}

/// Its locks and snapshot, as the end of a sentence.
fn holds(held: &HeldTransaction<'_>) -> String {
    let locks = match held.last.locks.as_slice() {
        [] => "it holds no lock".to_owned(),
        locks => format!("it holds the locks {}", locks.join(", ")),
    };
    let concern = held.last.read_concern.as_ref();
    let concern = concern.map_or_else(String::new, |level| format!(" and reads with the concern '{level}'"));
    let namespace = held.last.namespace.as_ref();
    let namespace = namespace.map_or_else(String::new, |name| format!(", an operation of it runs on {name}"));
    format!("{locks}{concern}{namespace}")
}

fn advice(held: &HeldTransaction<'_>) -> String {
    let end = if held.is_open { "End it with the command below" } else { "It has ended" };
    format!(
        "{end}, and find why {} leaves a transaction open: it must commit or abort before it waits for anything else. A lower transactionLifetimeLimitSeconds (60 by default) lets the server end such transactions.",
        held.last.application.as_deref().unwrap_or("the client")
    )
}

/// The command that ends it, or that lists such transactions if it has ended.
fn command(held: &HeldTransaction<'_>) -> String {
    let one = held.last;
    if let Some(number) = one
        .operation
        .as_ref()
        .filter(|number| held.is_open && one.is_active && number.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return format!(
            "mongosh --eval 'db.killOp({number})'    # ends its operation, and the transaction with it"
        );
    }
    let name = one.application.as_deref().filter(|name| !name.contains(['"', '\'', '\\']));
    let whose = match (name, one.connection) {
        (Some(name), _) => format!(", appName: \"{name}\""),
        (None, Some(number)) => format!(", connectionId: {number}"),
        (None, None) => String::new(),
    };
    let listed = format!(
        "db.getSiblingDB(\"admin\").aggregate([{{$currentOp: {{allUsers: true, idleSessions: true}}}}, {{$match: {{\"transaction.timeOpenMicros\": {{$gte: {MIN_OPEN_US}}}{whose}}}}}])"
    );
    match held.is_open {
        true => format!(
            "mongosh --eval '{listed}.forEach(one => db.adminCommand({{killAllSessionsByPattern: [{{lsid: one.lsid}}]}}))'    # ends each of them"
        ),
        false => format!("mongosh --eval '{listed}'    # lists such transactions"),
    }
}

fn seconds(us: f64) -> Nanos {
    Nanos((us.max(0.0) * 1e3).round() as u64)
}

#[cfg(test)]
mod tests;
