//! Finds a server that `fsync` locked: its writes wait until `fsyncUnlock`, and no disk is slow.
//!
//! Backups lock a server to copy its files. To clients it looks like a stop of storage; `currentOp` reports it (`fsyncLock: true`).

use fathom_record::{Confidence, Finding, Severity};

use crate::client::points;
use crate::member::name_of;
use crate::standstill::{gain_of_stops, gain_without_client};
use crate::windows::{Window, in_ns, neighbours_as_one, overlap};
use crate::{Evidence, Judgement};

/// The series that the finding is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.fsync_locked",
    "server.{member}.writes.operations",
    "server.{member}.reads.operations",
];

/// The longest time between two readings of one lock, in seconds.
const MAX_GAP_S: f64 = 2.5;

/// Adds a finding for each server that was locked.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        let locks = locks(evidence, &member);
        if !locks.is_empty() {
            let finding = finding(evidence, judgement, &member, &locks);
            judgement.findings.push(finding);
        }
    }
}

/// The times at which the server was locked: those without a write in which `currentOp` reported the lock.
fn locks(evidence: &Evidence, member: &str) -> Vec<Window> {
    let seconds = |begin_ns: u64, end_ns: u64| (begin_ns as f64 / 1e9, end_ns as f64 / 1e9);
    let told = points(evidence, &format!("server.{member}.fsync_locked"));
    let told: Vec<Window> = told
        .iter()
        .filter(|point| point.value >= 1.0)
        .map(|point| (point.begin_ns.saturating_sub(1), point.end_ns))
        .collect();
    let writes = points(evidence, &format!("server.{member}.writes.operations"));
    let still = writes.iter().filter(|point| point.value <= 0.0);
    let still = neighbours_as_one(still.map(|point| seconds(point.begin_ns, point.end_ns)));
    let still: Vec<Window> =
        still.into_iter().map(in_ns).filter(|still| told.iter().any(|told| overlap(*told, *still))).collect();
    if !still.is_empty() {
        return still;
    }
    let looks = told.iter().map(|(begin_ns, end_ns)| {
        let (begin_s, end_s) = seconds(*begin_ns, *end_ns);
        (begin_s, end_s + MAX_GAP_S)
    });
    neighbours_as_one(looks).into_iter().map(|(begin_s, end_s)| in_ns((begin_s, end_s - MAX_GAP_S))).collect()
}

fn finding(evidence: &Evidence, judgement: &Judgement, member: &str, locks: &[Window]) -> Finding {
    let lengths_s: Vec<f64> =
        locks.iter().map(|(begin_ns, end_ns)| end_ns.saturating_sub(*begin_ns) as f64 / 1e9).collect();
    let longest_s = lengths_s.iter().copied().fold(0.0, f64::max);
    let times = if locks.len() == 1 { "once".to_owned() } else { format!("{} times", locks.len()) };
    let who = name_of(evidence, member);
    let claim = format!("fsyncLock held back the writes of {who} {times}, for up to {longest_s:.0} s.");
    let count = |kind: &str| evidence.sum(&format!("server.{member}.{kind}.operations")).unwrap_or(0.0);
    let (reads, writes) = (count("reads"), count("writes"));
    let part = if reads + writes > 0.0 { writes / (reads + writes) } else { 1.0 };
    let mut finding = Finding::new("fsync-lock", Severity::Warning, claim)
        .confidence(Confidence::Certain)
        .evidence("currentOp reports fsyncLock: true. No write ended until the server was unlocked, so the writes did not wait for storage.")
        .advice("Find who locks the server: a backup that calls fsyncLock. Take it on a secondary, or by a snapshot without the lock.")
        .command("mongosh --eval 'db.currentOp().fsyncLock'    # true while it is locked")
        .next_look("The server's log names the connection that sent fsync and the one that sent fsyncUnlock.")
        .source("https://www.mongodb.com/docs/manual/reference/command/fsync/")
        .series(["fsync_locked", "writes.operations"].map(|name| format!("server.{member}.{name}")));
    finding.gain = gain_of_stops(evidence, judgement, member, locks)
        .or_else(|| gain_without_client(evidence, judgement, member, &lengths_s, part));
    locks.iter().fold(finding, |finding, lock| finding.window(*lock))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Gain, Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute in which no write ends from 20 to 28 s; whether the server reports that it is locked.
    fn judged(is_locked: bool, findings: Vec<Finding>) -> Vec<Finding> {
        let mut series = SeriesSet::default();
        for second in 0..60u64 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let is_still = (20..28).contains(&second);
            let writes = if is_still { 0.0 } else { 100.0 };
            series.add("server.0.writes.operations", "1", Point { begin_ns, end_ns, value: writes });
            if is_still && second > 21 {
                let value = f64::from(u8::from(is_locked));
                series.add("server.0.fsync_locked", "1", Point { begin_ns: end_ns, end_ns, value });
            }
        }
        let evidence = Evidence { series, window_ns: (0, 60 * SECOND), ..Evidence::default() };
        let mut judgement = Judgement { findings, ..Judgement::default() };
        judge(&evidence, &mut judgement);
        judgement.findings.into_iter().filter(|finding| finding.id == "fsync-lock").collect()
    }

    #[test]
    fn a_lock_is_as_long_as_no_write_ended() {
        let found = judged(true, Vec::new());
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(finding.claim.contains("once, for up to 8 s"), "{finding:#?}");
        assert_eq!(finding.windows_ns, [(20 * SECOND, 28 * SECOND)]);
        assert_eq!(judged(false, Vec::new()), [], "a server that is stopped for another reason");
    }

    #[test]
    fn what_clients_waited_meanwhile_is_its_cost() {
        let gain = Gain { of: "x".into(), share: 0.9, interval: (0.9, 0.9), basis: "y".into() };
        let stalls = Finding::new("stalls", Severity::Warning, "Operations stalled once.")
            .gain(gain.clone())
            .window((21 * SECOND, 29 * SECOND));
        assert_eq!(judged(true, vec![stalls])[0].gain, Some(gain));
    }
}
