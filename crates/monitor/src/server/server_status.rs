//! The command `serverStatus` as we send it: without the sections that nobody here reads, since the server pays for each.

use bson::{RawDocument, RawDocumentBuf, rawdoc};

/// Sections that are left out. Names that a server does not know it passes over; every section can be left out by name since
/// 2.4 (mongodb/mongo:src/mongo/db/commands/server_status_command.cpp).
const UNREAD: [&str; 41] = [
    "activeIndexBuilds",
    "asserts",
    "batchedDeletes",
    "bucketCatalog",
    "catalogStats",
    "changeStreamPreImages",
    "collectionCatalog",
    "defaultRWConcern",
    "electionMetrics",
    "featureCompatibilityVersion",
    "freeMonitoring",
    "health",
    "hashAggSpill",
    "indexBuilds",
    "indexBulkBuilder",
    "indexStats",
    "internalTransactions",
    "ldapConnPool",
    "logicalSessionRecordCache",
    "mirroredReads",
    "opcountersRepl",
    "oplogTruncation",
    "planCache",
    "profiler",
    "queryAnalyzers",
    "querySettings",
    "queryStats",
    "readConcernCounters",
    "readPreferenceCounters",
    "recordStats",
    "repl",
    "security",
    "sharding",
    "shardingStatistics",
    "spillWiredTiger",
    "tcmalloc",
    "tenantMigrations",
    "trafficRecording",
    "transactions",
    "transportSecurity",
    "twoPhaseCommitCoordinator",
];
/// Parts of `metrics` that are left out: since 5.2 the section takes a document of what it need not say
/// (mongodb/mongo:src/mongo/db/commands/server_status_metric.cpp), and versions before take the document for "yes". The counts of
/// each command alone are half of a reply.
const UNREAD_METRICS: [&str; 13] = [
    "aggStageCounters",
    "apiVersions",
    "changeStreams",
    "commands",
    "cursor",
    "dotsAndDollarsFields",
    "mongos",
    "network",
    "operation",
    "operatorCounters",
    "query",
    "repl",
    "ttl",
];

/// Without what is not read.
pub(crate) fn lean() -> RawDocumentBuf {
    let mut metrics = bson::Document::new();
    let mut command = bson::doc! { "serverStatus": 1 };
    UNREAD_METRICS.iter().for_each(|name| drop(metrics.insert(*name, false)));
    UNREAD.iter().for_each(|name| drop(command.insert(*name, false)));
    command.insert("metrics", metrics);
    // Names of a fixed list make a document in any case.
    RawDocumentBuf::try_from(&command).unwrap_or_else(|_| plain())
}

/// With everything, for a server that does not take the lean one.
pub(crate) fn plain() -> RawDocumentBuf {
    rawdoc! { "serverStatus": 1 }
}

/// The storage engine's name.
pub(crate) fn engine(status: &RawDocument) -> Option<&str> {
    status.get_document("storageEngine").ok()?.get_str("name").ok()
}
