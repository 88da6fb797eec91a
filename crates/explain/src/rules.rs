//! Table: every rule, in the order in which they run; a later rule may read the findings of an earlier one. Also runs them.

use fathom_record::verdict::{Domain, Verdict};
use fathom_record::{Finding, FindingOrigin};

use crate::{
    Evidence, Judgement, amplification, caps, causes, cluster, device, fsync_lock, guard, heavy_work,
    held_lock, journal_rate, ladder, layers, little, long_transaction, neighbour, operation_standstill,
    queue, spikes, stalls, standstill, verdict,
};

/// One rule that judges a run.
pub struct Rule {
    pub name: &'static str,
    /// The series that it reads, by the names of `fathom_record::catalog`; used in docs and for the cost of a missing series.
    pub needs: &'static [&'static str],
    /// Adds what it finds.
    pub judge: fn(&Evidence, &mut Judgement),
}

pub static RULES: &[Rule] = &[
    Rule {
        name: "guard",
        needs: &[
            "client.cpu_share",
            "monitor.run_wait_pct",
            "monitor.throttled_us",
            "server.{member}.process.run_wait_us",
            "server.{member}.process.cpu_us",
            "server.{member}.process.cpu_quota",
            "server.{member}.process.throttled_us",
            "server.{member}.scan.documents",
            "server.{member}.scan.collections",
            "server.{member}.documents.returned",
            "host.cpu.idle_pct",
            "host.cpu.steal_pct",
            "host.runnable",
            "host.cpu.count",
            "host.pressure.cpu.some_us",
        ],
        judge: guard::judge,
    },
    Rule {
        name: "layers",
        needs: &[
            "client.{operation}.service.mean_ns",
            "client.{operation}.response.mean_ns",
            "client.in_flight",
            "server.{member}.ping_us",
            "server.{member}.collection.reads.latency_us",
            "server.{member}.reads.latency_us",
            "server.{member}.wait.ticket_us",
            "server.{member}.wait.flow_control_us",
            "server.{member}.wait.replication_us",
            "server.{member}.wait.page_read_us",
            "server.{member}.wait.evict_us",
            "server.{member}.wait.journal_us",
            "server.{member}.process.cpu_us",
            "device.{device}.read_ms",
        ],
        judge: layers::judge,
    },
    Rule { name: "cluster", needs: cluster::NEEDS, judge: cluster::judge },
    Rule {
        name: "little",
        needs: &[
            "client.in_flight",
            "client.{operation}.service.mean_ns",
            "server.{member}.clients.readers",
            "server.{member}.clients.writers",
            "device.{device}.in_flight",
        ],
        judge: little::judge,
    },
    Rule { name: "caps", needs: caps::NEEDS, judge: caps::judge },
    Rule { name: "queue", needs: queue::NEEDS, judge: queue::judge },
    Rule { name: "neighbour", needs: neighbour::NEEDS, judge: neighbour::judge },
    Rule { name: "device", needs: device::NEEDS, judge: device::judge },
    Rule { name: "amplification", needs: amplification::NEEDS, judge: amplification::judge },
    // Typed results of loads, no series.
    Rule { name: "ladder", needs: &[], judge: ladder::judge },
    Rule {
        name: "spikes",
        needs: &[
            "client.{operation}.service.mean_ns",
            "client.{operation}.per_s",
            "server.{member}.reads.latency_us",
            "server.{member}.writes.latency_us",
            "server.{member}.checkpoint.running",
            "server.{member}.checkpoint.count",
            "server.{member}.checkpoint.total_ms",
            "server.{member}.checkpoint.last_ms",
            "server.{member}.engine.checkpoint_bytes",
            "server.{member}.cache.dirty_bytes",
            "server.{member}.flush.written_bytes",
            "server.{member}.compaction.written_bytes",
            "server.{member}.ttl.deleted",
            "server.{member}.parameter.syncdelay_s",
        ],
        judge: spikes::judge,
    },
    // After the spikes: a stall that a rhythm explains is not reported.
    Rule {
        name: "stalls",
        needs: &[
            "client.{operation}.per_s",
            "client.{operation}.service.mean_ns",
            "client.{operation}.response.mean_ns",
            "host.cpu.idle_pct",
        ],
        judge: stalls::judge,
    },
    Rule { name: "standstill", needs: standstill::NEEDS, judge: standstill::judge },
    Rule { name: "fsync-lock", needs: fsync_lock::NEEDS, judge: fsync_lock::judge },
    // After the stops that have a cause of their own.
    Rule { name: "held-lock", needs: held_lock::NEEDS, judge: held_lock::judge },
    Rule { name: "long-transaction", needs: long_transaction::NEEDS, judge: long_transaction::judge },
    Rule {
        name: "operation-standstill",
        needs: operation_standstill::NEEDS,
        judge: operation_standstill::judge,
    },
    // After all findings on a resource, to name who uses it.
    Rule { name: "heavy-work", needs: heavy_work::NEEDS, judge: heavy_work::judge },
    Rule { name: "journal-rate", needs: journal_rate::NEEDS, judge: journal_rate::judge },
    // The last: it prices and ranks what the others found.
    Rule {
        name: "verdict",
        needs: &[
            "client.connections",
            "server.{member}.pages.read",
            "server.{member}.process.run_wait_us",
            "device.{device}.reads",
        ],
        judge: verdict::judge,
    },
];

/// Judges a run by every rule of the table.
pub fn judge(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::default();
    for rule in RULES {
        (rule.judge)(evidence, &mut judgement);
    }
    for finding in &mut judgement.findings {
        finding.set_origin(origin(finding));
    }
    judgement
}

fn origin(finding: &Finding) -> FindingOrigin {
    match causes::ranked_cause(finding).map(|(_, cause)| cause.domain) {
        Some(Domain::Client) => FindingOrigin::Client,
        Some(Domain::Members) => FindingOrigin::Set,
        _ => FindingOrigin::Server,
    }
}

/// Judges each server over the time in which it was watched, for loads on several servers one after another, which must not be taken for one
/// load. The verdict is the worst of theirs.
pub fn judge_in_turn(evidence: &Evidence) -> Judgement {
    let mut all = Judgement::default();
    let mut verdicts = Vec::new();
    for member in evidence.members() {
        let judged = judge(&evidence.of_server(&member));
        all.budgets.extend(judged.budgets);
        all.ladders.extend(judged.ladders);
        all.amplifications.extend(judged.amplifications);
        all.findings.extend(judged.findings);
        all.checkpoints.extend(judged.checkpoints);
        all.withheld.extend(judged.withheld);
        verdicts.extend(judged.verdict);
    }
    all.verdict = Verdict::worst(verdicts);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_need_what_is_in_the_catalog() {
        for rule in RULES {
            for name in rule.needs {
                assert!(fathom_record::catalog::CATALOG.iter().any(|kind| kind.name == *name), "{name}");
            }
        }
    }
}
