//! Table: counters and the findings that are lost without them. A counter that a server lacks is not requested again; one
//! note states the consequence.

use super::names::NAMES;

/// The series that a finding needs.
#[derive(Clone, Copy, Debug)]
struct SeriesNeed {
    /// The series that the finding needs, all of them.
    series: &'static [&'static str],
    /// The storage engine of the servers concerned, if not all.
    engine: Option<&'static str>,
    /// The words for it in "does not count ...".
    what: &'static str,
    /// The consequence for the answer.
    cost: &'static str,
}

static NEEDS: &[SeriesNeed] = &[
    SeriesNeed {
        series: &["reads.operations", "reads.latency_us", "writes.operations", "writes.latency_us"],
        engine: None,
        what: "the latency of its operations",
        cost: "the server's share of an operation's time cannot be separated from the network's",
    },
    SeriesNeed {
        series: &["wait.ticket_us"],
        engine: None,
        what: "waits for tickets",
        cost: "they stay within the engine's share, and only a queue of operations hints at them",
    },
    SeriesNeed {
        series: &["tickets.read.out", "tickets.read.total", "tickets.write.out", "tickets.write.total"],
        engine: None,
        what: "tickets",
        cost: "the queue ladder has no rung for them",
    },
    SeriesNeed {
        series: &["wait.page_read_us"],
        engine: None,
        what: "the time that operations wait for pages from disk",
        cost: "reads from disk stay within the engine's share, and cache misses are not found as a cause",
    },
    SeriesNeed {
        series: &["wait.evict_us"],
        engine: Some("wiredTiger"),
        what: "the time that operations spend on eviction",
        cost: "eviction by operations is not found as a cause",
    },
    SeriesNeed {
        series: &["cache.used_bytes", "cache.most_bytes", "cache.dirty_bytes"],
        engine: Some("wiredTiger"),
        what: "the fill of its cache",
        cost: "a cache that is too small or too dirty is not found as a cause",
    },
    SeriesNeed {
        series: &["journal.syncs", "journal.sync_us"],
        engine: Some("wiredTiger"),
        what: "syncs of the journal and their time",
        cost: "the journal is not found as a cause of slow writes",
    },
    SeriesNeed {
        series: &["checkpoint.running"],
        engine: Some("wiredTiger"),
        what: "whether a checkpoint runs",
        cost: "spikes cannot be tied to checkpoints, only to a period",
    },
    SeriesNeed {
        series: &["engine.written_bytes"],
        engine: None,
        what: "what its engine writes",
        cost: "write amplification cannot be split into the engine's and the file system's part",
    },
    SeriesNeed {
        series: &["documents.inserted", "documents.updated", "documents.returned"],
        engine: None,
        what: "documents",
        cost: "cost for each document cannot be given",
    },
];

/// Returns a sentence for each finding that lacks a series; `values` has one value for each row of the table of names.
pub(crate) fn missing(who: &str, engine: &str, values: &[Option<f64>]) -> Vec<String> {
    let is_absent = |series: &&str| {
        let row = NAMES.iter().position(|name| name.series == *series);
        row.and_then(|row| *values.get(row)?).is_none()
    };
    let concerned = NEEDS.iter().filter(|need| need.engine.is_none_or(|its| its == engine));
    let missed = concerned.filter(|need| need.series.iter().any(is_absent));
    missed.map(|need| format!("{who} does not count {}: {}", need.what, need.cost)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_findings_need_stands_in_the_table_of_names() {
        for series in NEEDS.iter().flat_map(|need| need.series) {
            assert!(NAMES.iter().any(|name| name.series == *series), "{series}");
        }
    }

    #[test]
    fn each_lack_is_said_once_and_only_to_whom_it_concerns() {
        let all = vec![Some(0.0); NAMES.len()];
        assert_eq!(missing("server 0", "wiredTiger", &all), Vec::<String>::new());
        let none = vec![None; NAMES.len()];
        assert_eq!(missing("server 0", "wiredTiger", &none).len(), NEEDS.len());
        let of_rocks = missing("server 0", "rocksdb", &none);
        assert_eq!(of_rocks.len(), NEEDS.iter().filter(|need| need.engine.is_none()).count());
        assert!(
            of_rocks[0].starts_with("server 0 does not count the latency of its operations: the server's")
        );
    }
}
