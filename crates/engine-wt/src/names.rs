//! Table: counters that WiredTiger has renamed or moved since MongoDB 4.0's version, under both names.
//!
//! Monitors look for the names of MongoDB 4.0 (mongostat: "transaction checkpoints"). These are added to today's names if both
//! count the same thing. Counters that version 11 no longer has (the async operations, the timestamp queues, the lookaside
//! table's details) are left out and not made up.

use fathom_engine::{Statistic, Statistics};

/// A counter's section and name in MongoDB 4.0's version, and today's.
struct NamePair {
    old: (&'static str, &'static str),
    new: (&'static str, &'static str),
}

/// The state of a running checkpoint, which was a flag and is now the number of its phase.
static RUNNING: NamePair = NamePair {
    old: ("transaction", "transaction checkpoint currently running"),
    new: ("checkpoint", "progress state"),
};

const fn renamed(old: (&'static str, &'static str), new: (&'static str, &'static str)) -> NamePair {
    NamePair { old, new }
}

const TABLE: &[NamePair] = &[
    renamed(
        ("transaction", "transaction checkpoints"),
        ("checkpoint", "total succeed number of checkpoints"),
    ),
    renamed(("transaction", "transaction checkpoint generation"), ("checkpoint", "generation")),
    renamed(("transaction", "transaction checkpoint max time (msecs)"), ("checkpoint", "max time (msecs)")),
    renamed(("transaction", "transaction checkpoint min time (msecs)"), ("checkpoint", "min time (msecs)")),
    renamed(
        ("transaction", "transaction checkpoint most recent time (msecs)"),
        ("checkpoint", "most recent time (msecs)"),
    ),
    renamed(
        ("transaction", "transaction checkpoint total time (msecs)"),
        ("checkpoint", "total time (msecs)"),
    ),
    renamed(
        ("transaction", "transaction checkpoint scrub dirty target"),
        ("checkpoint", "scrub dirty target"),
    ),
    renamed(
        ("transaction", "transaction checkpoint scrub time (msecs)"),
        ("checkpoint", "scrub most recent time (msecs)"),
    ),
    renamed(
        ("transaction", "transaction checkpoints skipped because database was clean"),
        ("checkpoint", "checkpoints skipped because database was clean"),
    ),
    renamed(
        ("transaction", "transaction fsync calls for checkpoint after allocating the transaction ID"),
        ("checkpoint", "fsync calls after allocating the transaction ID"),
    ),
    renamed(
        (
            "transaction",
            "transaction fsync duration for checkpoint after allocating the transaction ID (usecs)",
        ),
        ("checkpoint", "fsync duration after allocating the transaction ID (usecs)"),
    ),
    renamed(("session", "open cursor count"), ("cursor", "open cursor count")),
    renamed(
        ("thread-yield", "application thread time evicting (usecs)"),
        ("cache", "application thread time evicting (usecs)"),
    ),
    renamed(
        ("log", "force archive time sleeping (usecs)"),
        ("log", "force log remove time sleeping (usecs)"),
    ),
    renamed(("cache", "maximum page size at eviction"), ("cache", "maximum page size seen at eviction")),
    renamed(
        ("cache", "pages evicted by application threads"),
        ("cache", "page evict attempts by application threads"),
    ),
    renamed(
        ("cache", "modified pages evicted by application threads"),
        ("cache", "modified page evict attempts by application threads"),
    ),
    renamed(("cache", "eviction server evicting pages"), ("cache", "evict page attempts by eviction server")),
    renamed(
        ("cache", "eviction worker thread evicting pages"),
        ("cache", "evict page attempts by eviction worker threads"),
    ),
    renamed(
        ("cache", "pages evicted because they exceeded the in-memory maximum count"),
        ("cache", "forced eviction - pages selected count"),
    ),
    renamed(
        ("cache", "failed eviction of pages that exceeded the in-memory maximum count"),
        ("cache", "forced eviction - pages selected unable to be evicted count"),
    ),
    renamed(
        ("cache", "pages evicted because they had chains of deleted items count"),
        ("cache", "forced eviction - pages selected because of too many deleted items count"),
    ),
    renamed(
        ("cache", "bytes belonging to the cache overflow table in the cache"),
        ("cache", "bytes belonging to the history store table in the cache"),
    ),
    renamed(("cache", "cache overflow table insert calls"), ("cache", "history store table insert calls")),
    renamed(
        ("cache", "page written requiring cache overflow records"),
        ("cache", "page written requiring history store records"),
    ),
    renamed(("cursor", "truncate calls"), ("cursor", "cursor truncate calls")),
    renamed(("cursor", "cursors cached on close"), ("cursor", "cursor close calls that result in cache")),
    renamed(("cursor", "cursors cached on close"), ("cursor", "close calls that result in cache")),
    renamed(("cursor", "cursors reused from cache"), ("cursor", "cache cursors reuse count")),
    renamed(("cursor", "bulk-loaded cursor-insert calls"), ("cursor", "bulk loaded cursor insert calls")),
    renamed(("cursor", "cursor operation restarted"), ("cursor", "operation restarted")),
    renamed(
        ("cursor", "cursor-insert key and value bytes inserted"),
        ("cursor", "insert key and value bytes"),
    ),
    renamed(("cursor", "cursor-remove key bytes removed"), ("cursor", "remove key bytes removed")),
    renamed(("cursor", "modify calls"), ("cursor", "modify")),
    renamed(("compression", "compressed pages read"), ("compression", "pages read from disk")),
    renamed(("compression", "compressed pages written"), ("compression", "pages written to disk")),
    renamed(
        ("compression", "page written failed to compress"),
        ("compression", "page written to disk failed to compress"),
    ),
    renamed(
        ("compression", "page written was too small to compress"),
        ("compression", "page written to disk was too small to compress"),
    ),
    renamed(("btree", "pages rewritten by compaction"), ("btree", "btree compact pages rewritten")),
    renamed(
        ("perf", "file system read latency histogram (bucket 1) - 10-49ms"),
        ("perf", "file system read latency histogram (bucket 2) - 10-49ms"),
    ),
    renamed(
        ("perf", "file system read latency histogram (bucket 2) - 50-99ms"),
        ("perf", "file system read latency histogram (bucket 3) - 50-99ms"),
    ),
    renamed(
        ("perf", "file system read latency histogram (bucket 3) - 100-249ms"),
        ("perf", "file system read latency histogram (bucket 4) - 100-249ms"),
    ),
    renamed(
        ("perf", "file system read latency histogram (bucket 4) - 250-499ms"),
        ("perf", "file system read latency histogram (bucket 5) - 250-499ms"),
    ),
    renamed(
        ("perf", "file system read latency histogram (bucket 5) - 500-999ms"),
        ("perf", "file system read latency histogram (bucket 6) - 500-999ms"),
    ),
    renamed(
        ("perf", "file system read latency histogram (bucket 6) - 1000ms+"),
        ("perf", "file system read latency histogram (bucket 7) - 1000ms+"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 1) - 10-49ms"),
        ("perf", "file system write latency histogram (bucket 2) - 10-49ms"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 2) - 50-99ms"),
        ("perf", "file system write latency histogram (bucket 3) - 50-99ms"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 3) - 100-249ms"),
        ("perf", "file system write latency histogram (bucket 4) - 100-249ms"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 4) - 250-499ms"),
        ("perf", "file system write latency histogram (bucket 5) - 250-499ms"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 5) - 500-999ms"),
        ("perf", "file system write latency histogram (bucket 6) - 500-999ms"),
    ),
    renamed(
        ("perf", "file system write latency histogram (bucket 6) - 1000ms+"),
        ("perf", "file system write latency histogram (bucket 7) - 1000ms+"),
    ),
    renamed(
        ("perf", "operation read latency histogram (bucket 1) - 100-249us"),
        ("perf", "operation read latency histogram (bucket 2) - 100-249us"),
    ),
    renamed(
        ("perf", "operation read latency histogram (bucket 2) - 250-499us"),
        ("perf", "operation read latency histogram (bucket 3) - 250-499us"),
    ),
    renamed(
        ("perf", "operation read latency histogram (bucket 3) - 500-999us"),
        ("perf", "operation read latency histogram (bucket 4) - 500-999us"),
    ),
    renamed(
        ("perf", "operation read latency histogram (bucket 4) - 1000-9999us"),
        ("perf", "operation read latency histogram (bucket 5) - 1000-9999us"),
    ),
    renamed(
        ("perf", "operation read latency histogram (bucket 5) - 10000us+"),
        ("perf", "operation read latency histogram (bucket 6) - 10000us+"),
    ),
    renamed(
        ("perf", "operation write latency histogram (bucket 1) - 100-249us"),
        ("perf", "operation write latency histogram (bucket 2) - 100-249us"),
    ),
    renamed(
        ("perf", "operation write latency histogram (bucket 2) - 250-499us"),
        ("perf", "operation write latency histogram (bucket 3) - 250-499us"),
    ),
    renamed(
        ("perf", "operation write latency histogram (bucket 3) - 500-999us"),
        ("perf", "operation write latency histogram (bucket 4) - 500-999us"),
    ),
    renamed(
        ("perf", "operation write latency histogram (bucket 4) - 1000-9999us"),
        ("perf", "operation write latency histogram (bucket 5) - 1000-9999us"),
    ),
    renamed(
        ("perf", "operation write latency histogram (bucket 5) - 10000us+"),
        ("perf", "operation write latency histogram (bucket 6) - 10000us+"),
    ),
];

/// Adds the old names that are missing, and groups the counters by section.
pub(crate) fn add_old(statistics: &mut Statistics) {
    statistics.sort_by_section();
    let sorted: Vec<Statistic<'_>> = statistics.iter().collect();
    let mut added = Vec::new();
    for renamed in TABLE.iter().chain([&RUNNING]) {
        let Some(value) = find(&sorted, renamed.new) else { continue };
        if find(&sorted, renamed.old).is_some() {
            continue;
        }
        let value = if std::ptr::eq(renamed, &RUNNING) { value.min(1) } else { value };
        added.push((renamed.old, value));
    }
    for ((section, name), value) in added {
        statistics.push(section, name, value);
    }
    statistics.sort_by_section();
}

/// The value of a section and name among counters that are sorted by section. A hundred names are looked up each time that
/// a client monitors the server.
fn find(sorted: &[Statistic<'_>], (section, name): (&str, &str)) -> Option<i64> {
    let from = sorted.partition_point(|one| one.section < section);
    let mut own = sorted.get(from..)?.iter().take_while(|one| one.section == section);
    own.find(|one| one.name == name).map(|one| one.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_added_where_they_are_not_there() {
        let mut statistics = Statistics::default();
        statistics.push("transaction", "transaction begins", 5);
        statistics.push("cursor", "truncate calls", 1);
        statistics.push("cursor", "cursor truncate calls", 2);
        statistics.push("checkpoint", "progress state", 7);
        statistics.push("checkpoint", "generation", 9);
        add_old(&mut statistics);
        assert_eq!(statistics.get("transaction", "transaction checkpoint currently running"), Some(1));
        assert_eq!(statistics.get("transaction", "transaction checkpoint generation"), Some(9));
        assert_eq!(statistics.get("cursor", "truncate calls"), Some(1));
        let sections: Vec<&str> = statistics.iter().map(|one| one.section).collect();
        assert!(sections.is_sorted());
        assert_eq!(statistics.iter().len(), 7);
    }
}
