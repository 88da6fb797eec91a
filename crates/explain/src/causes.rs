//! Table: the findings that name a removable cause, the part of the system that each is in, and the waits that its removal removes.
//!
//! If several findings name the same wait, the first in the table explains it best: a cap that is reached explains slow reads better than a slow
//! device does.

use fathom_record::verdict::Domain;
use fathom_record::{Confidence, Finding, Severity};

use crate::guard::SERVER_FILLS;
use crate::removable::Wait;

pub(crate) struct Cause {
    /// The id of its finding.
    pub(crate) id: &'static str,
    pub(crate) domain: Domain,
    /// The waits that its removal removes.
    pub(crate) waits: &'static [Wait],
    /// The base of its finding's gain, if the gain is a cost.
    pub(crate) gain: GainBase,
    /// The name of the cause in "held back by".
    pub(crate) noun: &'static str,
    /// Whether requests wait above the device, so that the device's own time remains without it.
    pub(crate) is_above_device: bool,
    /// Whether it ranks after any other cause of its waits. Its cost is then at most that cause's.
    pub(crate) is_last: bool,
    /// Whether recordings with a known truth (`tests/verdicts`, `tests/faults`) show it in one recording and not in another.
    pub(crate) is_proven: bool,
}

/// The base that the gain of a finding is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GainBase {
    /// No whole: the gain is an estimate, and the cost follows from the waits.
    None,
    /// All waiting of the operations that were seen.
    Waiting,
    /// What clients wait, whether they were watched or not.
    ClientWaiting,
    /// None: its rule gives the cost, which is what the operations of others lose. The mean of all operations may hold the culprit's own time.
    OthersLoss,
    /// None: its rule gives the cost, which is what others wait. The culprit runs no operation, so that this is a part of the mean of all.
    OthersWait,
}

const fn cause(id: &'static str, domain: Domain, waits: &'static [Wait], noun: &'static str) -> Cause {
    Cause {
        id,
        domain,
        waits,
        gain: GainBase::None,
        noun,
        is_above_device: false,
        is_last: false,
        is_proven: true,
    }
}

/// A stop of the whole server.
const fn stop(id: &'static str, waits: &'static [Wait], noun: &'static str) -> Cause {
    Cause { gain: GainBase::ClientWaiting, ..cause(id, Domain::Server, waits, noun) }
}

/// Times at which operations wait longer.
const fn spikes(id: &'static str, domain: Domain, noun: &'static str) -> Cause {
    Cause { gain: GainBase::Waiting, ..cause(id, domain, &[], noun) }
}

const fn above_device(id: &'static str, noun: &'static str) -> Cause {
    Cause { is_above_device: true, ..cause(id, Domain::Storage, DEVICE, noun) }
}

/// A cause that no recording with a known truth shows yet; its output says so.
const fn provisional(cause: Cause) -> Cause {
    Cause { is_proven: false, ..cause }
}

/// Work of some operations that others lose by.
const fn work(id: &'static str, noun: &'static str) -> Cause {
    provisional(Cause { gain: GainBase::OthersLoss, ..cause(id, Domain::Server, &[], noun) })
}

const EVICTION: &str = "eviction-by-operations";
/// The beginning of the evidence that a cost is a share of a mean which holds the time of one culprit.
const MIXED_MEAN: &str = "The mean of all operations holds the time of";

const DEVICE: &[Wait] = &[Wait::PageRead, Wait::Eviction, Wait::Journal];

/// The causes, the best explanation of a wait first.
pub(crate) static CAUSES: &[Cause] = &[
    Cause {
        gain: GainBase::Waiting,
        ..cause("processor-is-short", Domain::Processors, &[Wait::Processor, Wait::Client], "busy processors")
    },
    provisional(Cause {
        gain: GainBase::Waiting,
        ..cause(
            "client-limited",
            Domain::Client,
            &[Wait::Client, Wait::Connection],
            "the client that makes the load",
        )
    }),
    provisional(Cause {
        gain: GainBase::Waiting,
        ..cause(
            SERVER_FILLS,
            Domain::Processors,
            &[Wait::Processor],
            "the server's own work on the processors",
        )
    }),
    stop("fsync-lock", &[Wait::Lock], "fsyncLock"),
    stop("server-stood-still", &[], "a server that answered nothing"),
    provisional(stop("operations-stand-still", &[], "operations that do not end")),
    provisional(stop("lock-held-by", &[Wait::Lock], "an operation that holds a lock")),
    provisional(Cause {
        gain: GainBase::OthersWait,
        ..cause("long-transaction", Domain::Server, &[], "a transaction that stays open")
    }),
    work("collection-scan", "scans without an index"),
    work("bulk-writer", "one kind of writes"),
    work("one-client", "one client"),
    spikes("stalls", Domain::Server, "stops"),
    provisional(cause("flow-control-on-path", Domain::Members, &[Wait::FlowControl], "flow control")),
    above_device("capped-by-throttle", "a limit of a control group"),
    above_device("queue-cap", "a queue that is too short"),
    cause("neighbour-io", Domain::Storage, DEVICE, "the I/O of other programs on the same device"),
    provisional(cause("looks-capped", Domain::Storage, DEVICE, "what looks like a provider's limit")),
    provisional(spikes("ttl-spikes", Domain::Server, "passes of the TTL monitor")),
    spikes("checkpoint-spikes", Domain::Storage, "checkpoints"),
    provisional(spikes("periodic-spikes", Domain::Storage, "periodic spikes")),
    provisional(cause("device-saturated", Domain::Storage, DEVICE, "a full device")),
    cause("replication-on-path", Domain::Members, &[Wait::Replication], "the member that writes wait for"),
    cause("tickets-or-locks", Domain::Server, &[Wait::Ticket, Wait::Lock], "tickets or locks"),
    provisional(cause("write-conflicts", Domain::Server, &[Wait::Conflict], "writes of the same documents")),
    cause(EVICTION, Domain::Cache, &[Wait::Eviction], "a cache that is too small for its writes"),
    cause("journal-on-path", Domain::Storage, &[Wait::Journal], "slow syncs of the journal"),
    cause("cache-misses-on-path", Domain::Storage, &[Wait::PageRead], "slow reads of pages"),
    cause("network-takes-most", Domain::Network, &[Wait::RoundTrip, Wait::Client], "the way to the server"),
    cause("waits-for-connections", Domain::Client, &[Wait::Connection], "too few connections"),
    Cause {
        is_last: true,
        ..cause("small-cache", Domain::Cache, &[Wait::CacheMiss], "a cache that is too small for the data")
    },
];

/// The ids of the findings that name a cause, and whether recordings with a known truth show each in one recording and not in another.
pub fn cause_ids() -> impl Iterator<Item = (&'static str, bool)> {
    CAUSES.iter().map(|cause| (cause.id, cause.is_proven))
}

/// The cause that a finding names, and its place in the table.
pub(crate) fn ranked_cause(finding: &Finding) -> Option<(usize, &'static Cause)> {
    CAUSES.iter().enumerate().find(|(_, cause)| cause.id == finding.id)
}

/// Whether a finding says that pages are evicted long before the cache is full: it names the reads of pages as well.
pub(crate) fn evicts_early(finding: &Finding) -> bool {
    finding.id == EVICTION && finding.series.iter().any(|name| name.ends_with(".pages.read"))
}

/// Whether a finding names work that others lose by.
pub(crate) fn is_of_work(finding: &Finding) -> bool {
    ranked_cause(finding).is_some_and(|(_, cause)| cause.gain == GainBase::OthersLoss)
}

/// Withdraws the cost of a finding: it is a share of the mean of all operations, which holds the culprit's own time.
pub(crate) fn set_mixed_mean(finding: &mut Finding, culprit: &str) {
    finding.confidence = Confidence::CannotTell;
    finding.severity = Severity::Note;
    finding.gain = None;
    finding.evidence.push(mixed_mean(culprit));
}

/// A sentence on a mean that holds the time of one culprit.
pub(crate) fn mixed_mean(culprit: &str) -> String {
    format!("{MIXED_MEAN} {culprit}: it does not say what others lose.")
}

/// Whether the evidence of a finding says that the mean holds the time of one culprit.
pub(crate) fn is_of_mixed_mean(finding: &Finding) -> bool {
    finding.evidence.iter().any(|said| said.starts_with(MIXED_MEAN))
}

impl Cause {
    /// The name of the cause in "held back by". A shortage of processors is another cause if a quota or the hypervisor makes it.
    pub(crate) fn noun_of(&self, finding: &Finding) -> &'static str {
        let reads = |tail: &str| finding.series.iter().any(|name| name.ends_with(tail));
        match self.id {
            "processor-is-short" if reads(".process.throttled_us") => "a quota of processors",
            "processor-is-short" if reads("host.cpu.steal_pct") => {
                "a hypervisor that gives processors to others"
            }
            _ => self.noun,
        }
    }

    /// The waits of this finding. A limit on reads does not delay the journal, and a limit on writes does not delay reads. The full queue may be
    /// the server's tickets or the client's connections.
    pub(crate) fn waits_of(&self, finding: &Finding) -> Vec<Wait> {
        let names = |part: &str| finding.series.iter().any(|name| name.contains(part));
        if names(".tickets.") && !names("device.") {
            return vec![Wait::Ticket, Wait::Lock];
        }
        // The mean is of two kinds of operations, and the wait is not known for each.
        let is_of_two = self.id == SERVER_FILLS && finding.confidence == Confidence::CannotTell;
        if is_of_two || is_of_mixed_mean(finding) {
            return Vec::new();
        }
        if evicts_early(finding) {
            return vec![Wait::Eviction, Wait::PageRead];
        }
        if self.id == "queue-cap" && names("client.") {
            return vec![Wait::Connection];
        }
        let limits = |kind: &str| finding.series.iter().any(|name| name.contains(&format!(".cap.{kind}_")));
        let (reads, writes) = (limits("read"), limits("write"));
        let goes = |wait: &&Wait| match wait {
            Wait::PageRead => !writes || reads,
            Wait::Eviction | Wait::Journal => !reads || writes,
            _ => true,
        };
        self.waits.iter().filter(goes).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_wait_has_a_cause_and_every_cause_stands_once() {
        let ids: BTreeSet<&str> = CAUSES.iter().map(|cause| cause.id).collect();
        assert_eq!(ids.len(), CAUSES.len());
        // Stops are named by findings with a share of their own.
        for wait in Wait::ALL.into_iter().filter(|wait| *wait != Wait::Stop) {
            assert!(CAUSES.iter().any(|cause| cause.waits.contains(&wait)), "{wait:?}");
        }
    }

    #[test]
    fn a_limit_on_writes_holds_up_no_reads() {
        let finding = |series: &[&str]| {
            Finding::new("capped-by-throttle", Severity::Warning, "x").series(series.iter().copied())
        };
        let waits = |series: &[&str]| {
            let finding = finding(series);
            ranked_cause(&finding).map(|(_, cause)| cause.waits_of(&finding)).unwrap_or_default()
        };
        assert_eq!(waits(&["device.sdb.cap.write_iops"]), [Wait::Eviction, Wait::Journal]);
        assert_eq!(waits(&["device.sdb.cap.read_iops"]), [Wait::PageRead]);
        assert_eq!(waits(&["device.sdb.reads"]), DEVICE);
    }
}
