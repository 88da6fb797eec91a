//! The work of servers during a run, for programs: the kinds of operations with their shares of time, processors and disk, and the rest.

use std::collections::BTreeSet;

use fathom_explain::{Evidence, WorkResource, WorkRow, WorkShare, WorkTable, work_table};
use fathom_record::disk::Entry;
use serde::Serialize;

/// The number of kinds of operations that are listed of each server.
const MAX_ROWS: usize = 20;

/// The work of one server.
#[derive(Debug, Serialize)]
pub(crate) struct WorkView {
    /// The server's number in the run.
    server: String,
    /// The number of readings of `$currentOp`, and the seconds that these and `top` stand for.
    readings: u64,
    observed_s: f64,
    /// The seconds over which threads were read; zero if they were not, and then only shares of time are known.
    threads_s: f64,
    /// Those with the longest time first.
    rows: Vec<RowView>,
    /// The number of kinds that took less time each and are not listed.
    unlisted: usize,
    not_attributed: RestView,
}

/// Operations of one kind on one namespace with one plan, of one client.
#[derive(Debug, Serialize)]
struct RowView {
    kind: String,
    namespace: String,
    shape: String,
    plan: Option<String>,
    wait: Option<String>,
    waiting_share: f64,
    phase: Option<String>,
    progress: Option<f64>,
    application: Option<String>,
    driver: Option<String>,
    client: Option<String>,
    sightings: u64,
    ended: Option<u64>,
    /// The time of all of them: that of two which run at once counts twice.
    time_s: f64,
    longest_ms: f64,
    longest_operation: Option<String>,
    is_running: bool,
    /// Shares of what the server used, with their bounds.
    time: Option<WorkShare>,
    processor: Option<WorkShare>,
    disk_reads: Option<WorkShare>,
    disk_writes: Option<WorkShare>,
}

/// The parts of what the server used that belong to no operation which was seen.
#[derive(Debug, Serialize)]
struct RestView {
    processor: Option<f64>,
    disk_reads: Option<f64>,
    disk_writes: Option<f64>,
}

/// The work of each server whose operations were read, within the window of the evidence.
pub(crate) fn work_views(evidence: &Evidence) -> Vec<WorkView> {
    let numbers = evidence.results.iter().filter_map(|entry| match entry {
        Entry::ServerWork(work) => Some(work.server),
        _ => None,
    });
    let numbers: BTreeSet<usize> = numbers.collect();
    let view = |server: usize| {
        let table = work_table(&evidence.results, server, evidence.window_ns)?;
        let rest = |resource| {
            let all = table.all_of(resource).filter(|all| *all > 0.0)?;
            Some(table.unattributed_of(resource)? / all)
        };
        Some(WorkView {
            server: server.to_string(),
            readings: table.readings,
            observed_s: table.observed_s,
            threads_s: table.threads_s,
            rows: table.rows.iter().take(MAX_ROWS).map(|row| row_view(row, &table)).collect(),
            unlisted: table.rows.len().saturating_sub(MAX_ROWS),
            not_attributed: RestView {
                processor: rest(WorkResource::Processor),
                disk_reads: rest(WorkResource::DiskReads),
                disk_writes: rest(WorkResource::DiskWrites),
            },
        })
    };
    numbers.into_iter().filter_map(view).collect()
}

fn row_view(row: &WorkRow, table: &WorkTable) -> RowView {
    let share = |resource| table.share_of_rows(&[row], resource);
    let row = row.clone();
    RowView {
        time: share(WorkResource::Time),
        processor: share(WorkResource::Processor),
        disk_reads: share(WorkResource::DiskReads),
        disk_writes: share(WorkResource::DiskWrites),
        kind: row.kind,
        namespace: row.namespace,
        shape: row.shape,
        plan: row.plan,
        wait: row.wait,
        waiting_share: row.waiting_share,
        phase: row.phase,
        progress: row.progress,
        application: row.application,
        driver: row.driver,
        client: row.client,
        sightings: row.sightings,
        ended: row.ended,
        time_s: row.used.time_us / 1e6,
        longest_ms: row.longest_us as f64 / 1e3,
        longest_operation: row.longest_operation,
        is_running: row.is_running,
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{OperationGroup, ServerWork, ThreadUse};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Ten seconds in which a scan of one client uses most of what its threads and others do.
    fn evidence() -> Evidence {
        let mut evidence = Evidence { window_ns: (0, 10 * SECOND_NS), ..Evidence::default() };
        for second in 1..=10 {
            let scan = OperationGroup {
                kind: "find".into(),
                namespace: "shop.orders".into(),
                shape: "{ filter: { user: ? } }".into(),
                plan: Some("COLLSCAN".into()),
                application: Some("billing".into()),
                client: Some("10.0.0.7".into()),
                count: 1,
                running_us: 900_000,
                longest_us: 900_000,
                connections: vec![7],
                ..OperationGroup::default()
            };
            let thread = |name: &str, processor_us| ThreadUse {
                name: name.into(),
                processor_us,
                read_bytes: Some(processor_us),
                written_bytes: Some(0),
                ..ThreadUse::default()
            };
            evidence.results.push(Entry::ServerWork(Box::new(ServerWork {
                begin_ns: (second - 1) * SECOND_NS,
                end_ns: second * SECOND_NS,
                has_read_operations: true,
                operations: vec![scan],
                threads: vec![thread("conn7", 750_000), thread("conn8", 250_000)],
                ..ServerWork::default()
            })));
        }
        evidence
    }

    #[test]
    fn a_kind_of_operation_has_its_shares_and_the_rest_is_not_attributed() {
        let views = serde_json::to_value(work_views(&evidence())).unwrap();
        let (server, row) = (&views[0], &views[0]["rows"][0]);
        assert_eq!((&server["server"], &server["readings"]), (&"0".into(), &10.into()));
        for (field, value) in [
            ("kind", "find"),
            ("namespace", "shop.orders"),
            ("plan", "COLLSCAN"),
            ("shape", "{ filter: { user: ? } }"),
            ("application", "billing"),
            ("client", "10.0.0.7"),
        ] {
            assert_eq!(row[field], value, "{row}");
        }
        for resource in ["processor", "disk_reads"] {
            let share = |end: &str| row[resource][end].as_f64().unwrap();
            assert!((share("share") - 0.75).abs() < 1e-9, "{row}");
            assert!(share("low") > 0.4 && (share("high") - 1.0).abs() < 1e-9, "{row}");
            assert!((server["not_attributed"][resource].as_f64().unwrap() - 0.25).abs() < 1e-9, "{server}");
        }
        assert_eq!(row["time"]["share"].as_f64(), Some(1.0));
        assert!(work_views(&Evidence::default()).is_empty());
    }
}
