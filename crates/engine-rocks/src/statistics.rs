//! RocksDB's statistics as numbers, under the names that mongo-rocks uses in `serverStatus.rocksdb`.
//!
//! Sections:
//! - none: current properties of the tree. Sizes are in bytes, `oldest-snapshot-time` in seconds since 1970 (0 if there is none),
//!   `actual-delayed-write-rate` in bytes per second (0 if writes are not slowed), the rest are counts.
//! - `counters`: totals since the engine was opened; only with [`crate::Options::counters`]. `bytes-...` and `...-bytes` are
//!   bytes, `stall-micros` microseconds that writers waited, the rest counts of events.
//! - `levels`: files and bytes by level.
//! - `stalls`: how often writes were slowed or stopped, by RocksDB's names of the causes; newer versions have other names.
//! - `block-reads`, `transaction-stats`, `compaction-scheduler`: counted by this engine, not by RocksDB. `block-reads.micros`
//!   is the time of the calls that read blocks from files.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use fathom_engine::Statistics;

use crate::drops::Drops;
use crate::native::{BlockCache, Database};
use crate::store::Store;

/// Properties, read as `rocksdb.<name>`. Those that the version lacks are left out.
const PROPERTIES: [&str; 25] = [
    "num-immutable-mem-table",
    "mem-table-flush-pending",
    "compaction-pending",
    "num-running-flushes",
    "num-running-compactions",
    "background-errors",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "estimate-table-readers-mem",
    "estimate-num-keys",
    "estimate-live-data-size",
    "estimate-pending-compaction-bytes",
    "live-sst-files-size",
    "total-sst-files-size",
    "num-snapshots",
    "oldest-snapshot-time",
    "num-live-versions",
    "current-super-version-number",
    "actual-delayed-write-rate",
    "is-write-stopped",
];

/// Our name (mongo-rocks', if it has one), and RocksDB's.
const COUNTERS: [(&str, &str); 24] = [
    ("num-keys-written", "rocksdb.number.keys.written"),
    ("num-keys-read", "rocksdb.number.keys.read"),
    ("num-seeks", "rocksdb.number.db.seek"),
    ("num-forward-iterations", "rocksdb.number.db.next"),
    ("num-backward-iterations", "rocksdb.number.db.prev"),
    ("block-cache-misses", "rocksdb.block.cache.miss"),
    ("block-cache-hits", "rocksdb.block.cache.hit"),
    ("block-cache-bytes-read", "rocksdb.block.cache.bytes.read"),
    ("block-cache-bytes-written", "rocksdb.block.cache.bytes.write"),
    ("memtable-hits", "rocksdb.memtable.hit"),
    ("memtable-misses", "rocksdb.memtable.miss"),
    ("bloom-filter-useful", "rocksdb.bloom.filter.useful"),
    ("bytes-written", "rocksdb.bytes.written"),
    ("bytes-read-point-lookup", "rocksdb.bytes.read"),
    ("bytes-read-iteration", "rocksdb.db.iter.bytes.read"),
    ("flush-bytes-written", "rocksdb.flush.write.bytes"),
    ("compaction-bytes-read", "rocksdb.compact.read.bytes"),
    ("compaction-bytes-written", "rocksdb.compact.write.bytes"),
    ("stall-micros", "rocksdb.stall.micros"),
    ("wal-syncs", "rocksdb.wal.synced"),
    ("wal-bytes", "rocksdb.wal.bytes"),
    ("writes-with-wal", "rocksdb.write.wal"),
    ("writes-in-own-group", "rocksdb.write.self"),
    ("writes-in-other-group", "rocksdb.write.other"),
];

/// The same for histograms of times, whose sum is reported: our name ends in `-micros`.
const TIMES: [(&str, &str); 1] = [("wal-sync-micros", "rocksdb.wal.file.sync.micros")];

pub(crate) fn read(store: &Store, cache: &BlockCache, drops: &Drops) -> Statistics {
    let mut out = Statistics::default();
    // Drops the view that is only kept to be shared, so that RocksDB counts only snapshots with readers.
    let views = store.snapshots.open();
    properties(&store.database, cache, &mut out);
    if let Some(text) = store.database.options().statistics() {
        counters(&text, &mut out);
    }
    for level in store.database.levels() {
        out.push("levels", &format!("level-{}-files", level.number), signed(level.files));
        out.push("levels", &format!("level-{}-bytes", level.number), signed(level.bytes));
    }
    if let Some(text) = store.database.property_text("rocksdb.cfstats-no-file-histogram") {
        stalls(&text, &mut out);
    }
    let (blocks, micros) = store.database.block_reads().totals();
    out.push("block-reads", "blocks", signed(blocks));
    out.push("block-reads", "micros", signed(micros));
    transactions(store, views, &mut out);
    out.push("compaction-scheduler", "dropped-prefixes", count(drops.waiting()));
    out
}

fn properties(database: &Database, cache: &BlockCache, out: &mut Statistics) {
    for name in PROPERTIES {
        if let Some(value) = database.property(&format!("rocksdb.{name}")) {
            out.push("", name, signed(value));
        }
    }
    let [capacity, usage, pinned] = cache.sizes();
    out.push("", "block-cache-capacity", count(capacity));
    out.push("", "block-cache-usage", count(usage));
    out.push("", "block-cache-pinned-usage", count(pinned));
}

/// Lines are `<name> COUNT : <number>` for counters, and `<name> P50 : <number> ... COUNT : <number> SUM : <number>` for histograms.
fn counters(text: &str, out: &mut Statistics) {
    let values: HashMap<&str, i64> = text
        .lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(" COUNT : ")?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect();
    for (ours, theirs) in COUNTERS {
        if let Some(value) = values.get(theirs) {
            out.push("counters", ours, *value);
        }
    }
    for (ours, theirs) in TIMES {
        let line = text.lines().find_map(|line| line.strip_prefix(theirs)?.strip_prefix(' '));
        let sum = line.and_then(|line| line.rsplit_once(" SUM : ")?.1.trim().parse().ok());
        if let Some(sum) = sum {
            out.push("counters", ours, sum);
        }
    }
}

/// A line such as `Stalls(count): 0 level0_slowdown, 3 memtable_compaction, interval 0 total count`, or in newer
/// versions `Write Stall (count): write-buffer-manager-limit-stops: 0, ...`.
fn stalls(text: &str, out: &mut Statistics) {
    for line in text
        .lines()
        .filter(|line| line.starts_with("Stalls(count)") || line.starts_with("Write Stall (count)"))
    {
        let Some((_, list)) = line.split_once("(count): ") else { continue };
        for item in list.split(", ").map(str::trim).filter(|item| !item.starts_with("interval")) {
            let (name, number) = match item.rsplit_once(": ") {
                Some(pair) => pair,
                None => item.split_once(' ').map_or(("", ""), |(number, name)| (name, number)),
            };
            if let (false, Ok(number)) = (name.is_empty(), number.parse()) {
                out.push("stalls", name, number);
            }
        }
    }
}

fn transactions(store: &Store, views: usize, out: &mut Statistics) {
    let (held, remembered) = store.conflicts.sizes();
    out.push("", "total-live-recovery-units", count(store.sessions.load(Ordering::Relaxed)));
    out.push("transaction-stats", "alive-views", count(views));
    out.push("transaction-stats", "uncommitted-keys", count(held));
    out.push("transaction-stats", "committed-keys", count(remembered));
    out.push("transaction-stats", "commits", signed(store.counts.commits.load(Ordering::Relaxed)));
    out.push("transaction-stats", "write-conflicts", signed(store.counts.conflicts.load(Ordering::Relaxed)));
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_the_sums_of_times_are_read() {
        let mut out = Statistics::default();
        let text = "rocksdb.block.cache.miss COUNT : 12\nrocksdb.db.get.micros P50 : 1.0 COUNT : 7 SUM : 9\n\
                    rocksdb.wal.file.sync.micros P50 : 1.0 P100 : 9.0 COUNT : 3 SUM : 15\n";
        counters(text, &mut out);
        assert_eq!(out.get("counters", "block-cache-misses"), Some(12));
        assert_eq!(out.get("counters", "wal-sync-micros"), Some(15));
        assert_eq!(out.iter().len(), 2);
    }

    #[test]
    fn stalls_are_read_in_both_forms() {
        let mut out = Statistics::default();
        stalls(
            "x\nStalls(count): 2 level0_slowdown, 3 memtable_compaction, interval 9 total count\n",
            &mut out,
        );
        stalls("Write Stall (count): cf-l0-file-count-limit-delays: 4, total-stops: 0\n", &mut out);
        assert_eq!(out.get("stalls", "level0_slowdown"), Some(2));
        assert_eq!(out.get("stalls", "memtable_compaction"), Some(3));
        assert_eq!(out.get("stalls", "cf-l0-file-count-limit-delays"), Some(4));
        assert_eq!(out.iter().len(), 4);
    }
}
