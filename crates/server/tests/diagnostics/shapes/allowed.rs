//! Table: the intended differences, each with its reason.

/// A difference. A star at the end matches any rest, a star elsewhere any one name.
pub(crate) struct AllowedDifference {
    pub(crate) shape: &'static str,
    pub(crate) difference: &'static str,
    pub(crate) reason: &'static str,
}

impl AllowedDifference {
    pub(crate) fn covers(&self, shape: &str, difference: &str) -> bool {
        self.shape == shape
            && match self.difference.split_once('*') {
                Some((start, rest)) => {
                    difference.strip_prefix(start).is_some_and(|after| after.ends_with(rest))
                }
                None => difference == self.difference,
            }
    }
}

const fn allow(shape: &'static str, difference: &'static str, reason: &'static str) -> AllowedDifference {
    AllowedDifference { shape, difference, reason }
}

const SET: &str = "this server is no member of a set";
const NEWER: &str = "MongoDB 4.4, which this server says it is, has it";
const COUNTED_NOW: &str = "WiredTiger 11 counts more than 3.1 did";
const OVERFLOW: &str =
    "of the lookaside table, in whose place WiredTiger has a history store with counters of its own";
const NOT_COUNTED: &str = "WiredTiger 11 does not count it any more";
const NO_QUEUE: &str = "WiredTiger has no queues of timestamps any more";
const PER_TREE: &str = "WiredTiger 11 counts it for the connection only";
const MONGODB_ONLY: &str = "what it tells of does not exist here";
const LOCKS: &str = "this server locks itself in intent and its collections, and no databases";

pub(crate) const ALLOWED: &[AllowedDifference] = &[
    allow("buildInfo", "extra buildEnvironment", "mongod has it too; the captured build had not"),
    allow("buildInfo", "extra fathom", "what only this server tells"),
    allow("collStats", "extra freeStorageSize", NEWER),
    allow("collStats", "extra indexBuilds", NEWER),
    allow("collStats", "extra scaleFactor", NEWER),
    allow("collStats", "extra totalSize", NEWER),
    allow("collStats", "extra wiredTiger.*", COUNTED_NOW),
    allow("collStats", "extra indexDetails._id_.*", COUNTED_NOW),
    allow("collStats", "missing *btree.maximum internal page key size", NOT_COUNTED),
    allow("collStats", "missing *cache.eviction walks abandoned", PER_TREE),
    allow(
        "collStats",
        "missing *cache.eviction walks gave up because they restarted their walk twice",
        PER_TREE,
    ),
    allow(
        "collStats",
        "missing *cache.eviction walks gave up because they saw too many pages and found no candidates",
        PER_TREE,
    ),
    allow(
        "collStats",
        "missing *cache.eviction walks gave up because they saw too many pages and found too few candidates",
        PER_TREE,
    ),
    allow("collStats", "missing *cache.eviction walks reached end of tree", PER_TREE),
    allow("collStats", "missing *cache.eviction walks started from root of tree", PER_TREE),
    allow("collStats", "missing *cache.eviction walks started from saved location in tree", PER_TREE),
    allow("collStats", "missing *cache.pages read into cache requiring cache overflow entries", OVERFLOW),
    allow(
        "collStats",
        "missing *compression.raw compression call failed, additional data available",
        "WiredTiger has no raw compression any more",
    ),
    allow(
        "collStats",
        "missing *compression.raw compression call failed, no additional data available",
        "WiredTiger has no raw compression any more",
    ),
    allow(
        "collStats",
        "missing *compression.raw compression call succeeded",
        "WiredTiger has no raw compression any more",
    ),
    allow(
        "collStats",
        "missing *cursor.cursor-update value bytes updated",
        "WiredTiger 11 counts keys and values together",
    ),
    allow("collStats", "missing *reconciliation.internal-page overflow keys", NOT_COUNTED),
    allow("collStats", "missing *reconciliation.page checksum matches", NOT_COUNTED),
    allow("collStats", "missing *session.cached cursor count", PER_TREE),
    allow(
        "collStats",
        "missing indexDetails._id_.metadata.formatVersion",
        "the keys are no version of mongod's, which must not open such a table",
    ),
    allow("dbStats", "extra scaleFactor", NEWER),
    allow("dbStats", "extra totalSize", NEWER),
    allow("hello", "extra connectionId", NEWER),
    allow("hello", "missing electionId", SET),
    allow("hello", "missing hosts", SET),
    allow("hello", "missing lastWrite", SET),
    allow("hello", "missing me", SET),
    allow("hello", "missing primary", SET),
    allow("hello", "missing secondary", SET),
    allow("hello", "missing setName", SET),
    allow("hello", "missing setVersion", SET),
    allow("hostInfo", "extra system.memLimitMB", NEWER),
    allow(
        "hostInfo",
        "missing extra.libcVersion",
        "the C library does not say its version to programs like this one",
    ),
    allow("serverStatus", "extra connections.active", NEWER),
    allow("serverStatus", "extra metrics.queryExecutor.collectionScans", NEWER),
    allow("serverStatus", "extra connections.rejected", NEWER),
    allow("serverStatus", "extra end", "getDiagnosticData puts the times of the sample around it"),
    allow("serverStatus", "extra start", "getDiagnosticData puts the times of the sample around it"),
    allow("serverStatus", "extra extra_info.*", NEWER),
    allow("serverStatus", "extra fathom", "what only this server tells"),
    allow("serverStatus", "extra metrics.commands.*", "the captured shape holds four commands only"),
    allow(
        "serverStatus",
        "extra network.compression.zlib",
        "a compressor that the captured server was not set to",
    ),
    allow("serverStatus", "extra network.compression.zstd", "a compressor that MongoDB 4.0 did not have"),
    allow(
        "serverStatus",
        "extra network.serviceExecutorTaskStats.*",
        "what event loops have and have done; 4.0's adaptive executor has figures of its own there too",
    ),
    allow("serverStatus", "extra wiredTiger.*", COUNTED_NOW),
    allow("serverStatus", "missing freeMonitoring", MONGODB_ONLY),
    allow("serverStatus", "extra locks.Collection.*", LOCKS),
    allow("serverStatus", "missing locks.Database", LOCKS),
    allow("serverStatus", "missing locks.Global.acquireCount.W", LOCKS),
    allow("serverStatus", "missing locks.Global.acquireWaitCount.W", LOCKS),
    allow("serverStatus", "missing locks.Global.timeAcquiringMicros.W", LOCKS),
    allow("serverStatus", "missing locks.oplog", SET),
    allow(
        "serverStatus",
        "missing logicalSessionRecordCache.*",
        "sessions live in memory, so no job writes or clears them",
    ),
    allow("serverStatus", "missing metrics.repl.executor", SET),
    allow("serverStatus", "missing metrics.storage", "of an engine that MongoDB has dropped since"),
    allow("serverStatus", "missing tcmalloc", "this server has another allocator"),
    allow("serverStatus", "missing wiredTiger.async", "WiredTiger has no asynchronous operations any more"),
    allow("serverStatus", "missing wiredTiger.cache.cache overflow *", OVERFLOW),
    allow("serverStatus", "missing wiredTiger.cache.eviction calls to get a page", NOT_COUNTED),
    allow("serverStatus", "missing wiredTiger.cache.eviction worker thread created", NOT_COUNTED),
    allow("serverStatus", "missing wiredTiger.cache.eviction worker thread removed", NOT_COUNTED),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.failed eviction of pages that exceeded the in-memory maximum time (usecs)",
        NOT_COUNTED,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.force re-tuning of eviction workers once in a while",
        NOT_COUNTED,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.pages evicted because they exceeded the in-memory maximum time (usecs)",
        NOT_COUNTED,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.pages evicted because they had chains of deleted items time (usecs)",
        NOT_COUNTED,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.pages read into cache requiring cache overflow *",
        OVERFLOW,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.pages read into cache skipping older cache overflow entries",
        OVERFLOW,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.cache.pages read into cache with skipped cache overflow entries *",
        OVERFLOW,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.data-handle.connection sweep dhandles closed",
        "two counters now: expired handles and dead ones",
    ),
    allow("serverStatus", "missing wiredTiger.lock.commit timestamp queue *", NO_QUEUE),
    allow("serverStatus", "missing wiredTiger.lock.read timestamp queue *", NO_QUEUE),
    allow(
        "serverStatus",
        "missing wiredTiger.session.table rebalance *",
        "WiredTiger cannot rebalance a table any more",
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.thread-yield.log server sync yielded for log write",
        NOT_COUNTED,
    ),
    allow("serverStatus", "missing wiredTiger.transaction.commit timestamp queue *", NO_QUEUE),
    allow("serverStatus", "missing wiredTiger.transaction.read timestamp queue *", NO_QUEUE),
    allow(
        "serverStatus",
        "missing wiredTiger.transaction.number of named snapshots *",
        "WiredTiger has no named snapshots any more",
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.transaction.transaction range of IDs currently pinned by named snapshots",
        "WiredTiger has no named snapshots any more",
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.transaction.rollback to stable updates removed from cache overflow",
        OVERFLOW,
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.transaction.set timestamp commit *",
        "WiredTiger has no global commit timestamp any more",
    ),
    allow(
        "serverStatus",
        "missing wiredTiger.transaction.transaction failures due to cache overflow",
        OVERFLOW,
    ),
    allow("serverStatus", "missing wiredTiger.transaction.transaction sync calls", NOT_COUNTED),
    allow("top", "extra note", "mongod says so too; the capture left it out"),
];

#[test]
fn every_difference_has_a_reason() {
    assert!(ALLOWED.iter().all(|one| one.reason.len() > 20));
}
