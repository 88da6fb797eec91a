//! Refuses a rate of journaled writes that the journal's syncs cannot cover: acknowledged writes were not on the disk, so they are not journaled.
//!
//! A connection waits for its acknowledgement before it sends the next write, so that one sync covers at most as many writes as were under way
//! at once. A server without a journal, a journal on a file system in memory, or a file system that ignores syncs acknowledges more.

use fathom_record::{Confidence, Finding, Severity};
use fathom_units::count;

use crate::client::{ClientLoads, ReadWriteType};
use crate::path::client_gauge;
use crate::seconds::SecondGrid;
use crate::{Evidence, Judgement};

/// The id of the finding.
pub(crate) const ID: &str = "journaled-rate-refused";

/// The series that it is judged by.
pub(crate) const NEEDS: &[&str] =
    &["client.{operation}.per_s", "client.in_flight", "server.{member}.journal.syncs"];

/// The ratio of writes to those that the syncs can cover, above which the rate is refused. The operations under way are means of seconds, and
/// for a moment more of them may be under way.
const MAX_WRITES_PER_COVERED: f64 = 2.0;
/// The fewest writes that a verdict needs.
const MIN_WRITES: f64 = 100.0;

pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    if evidence.fact("client.journaled") == Some("true")
        && let Some(finding) = refused(evidence)
    {
        judgement.findings.push(finding);
    }
}

fn refused(evidence: &Evidence) -> Option<Finding> {
    let client = ClientLoads::from_evidence(evidence)?;
    let grid = SecondGrid::from_evidence(evidence);
    let written = client.operations.iter().filter(|operation| operation.kind == ReadWriteType::Writes);
    let written: f64 = written.flat_map(|operation| grid.sums(&operation.counts(evidence))).flatten().sum();
    let under_way = client_gauge(evidence, grid, "in_flight")?.into_iter().flatten().fold(1.0, f64::max);
    let names: Vec<String> = evidence
        .members()
        .iter()
        .map(|member| format!("server.{member}.journal.syncs"))
        .filter(|name| evidence.series.get(name).is_some())
        .collect();
    if names.is_empty() || written < MIN_WRITES {
        return None;
    }
    let syncs: f64 = names.iter().filter_map(|name| evidence.sum(name)).sum();
    let covered = syncs * under_way;
    (written > MAX_WRITES_PER_COVERED * covered).then(|| {
        let claim = "More journaled writes were acknowledged than the journal's syncs can cover: this cannot be a rate of journaled writes";
        Finding::new(ID, Severity::Warning, claim)
            .confidence(Confidence::Certain)
            .evidence(format!(
                "{} writes with j: true were acknowledged, with {} syncs of the journal and at most {under_way:.0} operations under way: \
                 {} at most can have waited for one.",
                count(written),
                count(syncs),
                count(covered)
            ))
            .next_look("Whether the server runs with its journal, and whether its file system keeps what fsync promised: fathom disk --pattern append.")
            .series(names)
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;

    fn judged(journaled: &str, syncs_per_s: f64) -> Vec<Finding> {
        const SECOND: u64 = 1_000_000_000;
        let mut series = SeriesSet::default();
        let mut add = |name: &str, value: f64| {
            for at in 0..60 {
                series.add(name, "1", Point { begin_ns: at * SECOND, end_ns: (at + 1) * SECOND, value });
            }
        };
        add("client.operations.per_s", 4000.0);
        add("client.update.per_s", 4000.0);
        add("client.update.service.mean_ns", 2e6);
        add("client.in_flight", 8.0);
        add("server.0.journal.syncs", syncs_per_s);
        add("server.0.up", 1.0);
        let environment = [("client.journaled".to_owned(), journaled.to_owned())].into();
        let evidence = Evidence { series, environment, window_ns: (0, 60 * SECOND), ..Evidence::default() };
        let mut judgement = Judgement::default();
        judge(&evidence, &mut judgement);
        judgement.findings
    }

    #[test]
    fn a_sync_covers_no_more_writes_than_were_under_way() {
        assert_eq!(judged("true", 600.0), []);
        assert_eq!(judged("false", 10.0), [], "nobody waits for the journal");
        let found = judged("true", 10.0);
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(finding.evidence[0].contains("with 600 syncs of the journal"), "{finding:#?}");
    }
}
