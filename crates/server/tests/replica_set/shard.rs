//! A set as a shard: its secondaries learn the shard's identity, and wait for it.

use bson::oid::ObjectId;
use bson::{Timestamp, doc};
use fathom_client::Code;
use fathom_server::ClusterRole;
use fathom_server::config::EngineName;

use super::set::Set;
use crate::served::{code, failure, run};

/// A router that has just added a shard reads from its secondaries at once. A secondary that replication has not yet informed
/// of its shard once refused.
#[test]
fn a_secondary_waits_to_be_told_which_shard_it_belongs_to() {
    let set = Set::start_as(ClusterRole::Shard, &[EngineName::Ephemeral; 2]);
    set.initiate(&[doc! {}, doc! { "priority": 0, "secondaryDelaySecs": 3 }]);
    set.primary();
    set.wait_secondary(1);
    let mut secondary = set.connect(1);
    let version = bson::bson!([Timestamp { time: 1, increment: 0 }, ObjectId::new()]);
    let count = doc! {
        "count": "c", "shardVersion": version, "$readPreference": { "mode": "secondary" },
    };
    let mut briefly = count.clone();
    briefly.insert("maxTimeMS", 200);
    assert_eq!(code(&mut secondary, "test", &briefly), Code::MaxTimeMSExpired);
    // No server listens there: a member that knows its shard fails to ask for the owners.
    let identity = doc! {
        "_id": "shardIdentity", "shardName": "s", "clusterId": ObjectId::new(),
        "configsvrConnectionString": "127.0.0.1:1",
    };
    run(&mut set.connect(0), "admin", &doc! { "_addShard": 1, "shardIdentity": identity });
    let failure = failure(&mut secondary, "test", &count);
    assert_eq!(failure.code(), Code::HostUnreachable, "{failure}");
    assert!(failure.message().contains("config servers"), "{failure}");
    set.end();
}
