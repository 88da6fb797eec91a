//! The command `serverStatus` without the sections that are not read here, since each costs the server time.

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use super::link::{WatchedRole, WatchedServer};

/// Sections that are left out. A server ignores names that it does not know; every section can be left out by name since 2.4
/// (mongodb/mongo:src/mongo/db/commands/server_status_command.cpp).
const UNREAD: [&str; 40] = [
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
    "transportSecurity",
    "twoPhaseCommitCoordinator",
];
/// Parts of `metrics` that are left out: since 5.2 the section takes a document of the parts to omit
/// (mongodb/mongo:src/mongo/db/commands/server_status_metric.cpp), and earlier versions take the document as "yes". The counts of
/// each command alone are half of a reply.
const UNREAD_METRICS: [&str; 11] = [
    "aggStageCounters",
    "apiVersions",
    "changeStreams",
    "commands",
    "cursor",
    "dotsAndDollarsFields",
    "mongos",
    "network",
    "operatorCounters",
    "query",
    "repl",
];

/// Further sections that are left out if only the set's progress is requested.
const NOT_PROGRESS: [&str; 15] = [
    "connections",
    "ephemeralForTest",
    "extra_info",
    "flowControl",
    "globalLock",
    "locks",
    "mem",
    "network",
    "opLatencies",
    "opcounters",
    "queues",
    "rocksdb",
    "storageEngine",
    "transactions",
    "wiredTiger",
];

/// The command without the parts that are not read from any server.
pub(crate) fn lean() -> RawDocumentBuf {
    raw(&without_unread())
}

/// The reply's parts by the server's role: a member of a set reports its applied operations and its oplog's span, a router how
/// many shards its operations go to.
pub(crate) fn command_for(watched: &WatchedServer) -> RawDocumentBuf {
    let mut command = without_unread();
    if watched.role == WatchedRole::Router {
        command.remove("shardingStatistics");
    } else if watched.set.is_some() {
        command.insert("oplog", 1);
        if let Ok(metrics) = command.get_document_mut("metrics") {
            metrics.remove("repl");
        }
    }
    raw(&command)
}

/// The primary's knowledge of the members' progress, and the counts of documents.
pub(crate) fn of_progress() -> RawDocumentBuf {
    let mut command = without_unread();
    NOT_PROGRESS.iter().for_each(|name| drop(command.insert(*name, false)));
    command.insert("repl", 1);
    raw(&command)
}

fn without_unread() -> bson::Document {
    let mut metrics = bson::Document::new();
    let mut command = bson::doc! { "serverStatus": 1 };
    UNREAD_METRICS.iter().for_each(|name| drop(metrics.insert(*name, false)));
    UNREAD.iter().for_each(|name| drop(command.insert(*name, false)));
    command.insert("metrics", metrics);
    command
}

fn raw(command: &bson::Document) -> RawDocumentBuf {
    // Names of a fixed list make a document in any case.
    RawDocumentBuf::try_from(command).unwrap_or_else(|_| plain())
}

/// The command with all sections, for a server that rejects the lean one.
pub(crate) fn plain() -> RawDocumentBuf {
    rawdoc! { "serverStatus": 1 }
}

/// The storage engine's name.
pub(crate) fn engine(status: &RawDocument) -> Option<&str> {
    status.get_document("storageEngine").ok()?.get_str("name").ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixture_tests::watched;
    use super::super::names::NAMES;
    use super::*;

    /// Returns whether the command leaves the value at this path in the reply.
    fn asks_for(command: &RawDocument, path: &str) -> bool {
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        let part = rest.split('.').next().unwrap_or_default();
        let is_off = |document: &RawDocument, name: &str| matches!(document.get_bool(name), Ok(false));
        !is_off(command, section)
            && !command.get_document(section).is_ok_and(|document| is_off(document, part))
    }

    #[test]
    fn each_series_of_the_table_is_asked_for() {
        let standalone = watched();
        let member = WatchedServer { set: Some("set".to_owned()), ..watched() };
        let router = WatchedServer { role: WatchedRole::Router, ..watched() };
        let commands = [command_for(&standalone), command_for(&member), command_for(&router)];
        let paths = NAMES
            .iter()
            .flat_map(|name| name.places)
            .flat_map(|place| place.paths.iter().chain(place.less).copied().chain(place.zero_by));
        for path in paths {
            assert!(commands.iter().any(|command| asks_for(command, path)), "{path} is never asked for");
        }
    }
}
