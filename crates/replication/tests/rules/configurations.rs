//! Valid and invalid configurations, and which configurations may replace which.

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use fathom_replication::ReplicaSetConfig;
use fathom_replication::config::{check_electable, check_initiate, check_reconfig};
use fathom_wire::Code;

use crate::desk::{config, config_document, plain};

/// The reason why a configuration is refused, by the parser or by the checks.
fn refusal(document: &Document) -> String {
    let failure =
        ReplicaSetConfig::parse(document).and_then(|config| config.validate()).expect_err("refused");
    assert_eq!(failure.code(), Code::InvalidReplicaSetConfig);
    failure.message().to_owned()
}

fn with_members(members: &[Document]) -> Document {
    config_document(members, Document::new())
}

#[test]
fn a_document_of_mongod_comes_back_as_it_was() {
    // As mongod 4.0.3 answered replSetGetConfig.
    let member = |id: i32| {
        doc! {
            "_id": id, "host": format!("127.0.0.1:{}", 27610 + id), "arbiterOnly": false, "buildIndexes": true, "hidden": false,
            "priority": 1.0, "tags": {}, "slaveDelay": 0_i64, "votes": 1,
        }
    };
    let document = doc! {
        "_id": "rs0", "version": 1, "protocolVersion": 1_i64, "writeConcernMajorityJournalDefault": true,
        "members": [member(0), member(1), member(2)],
        "settings": {
            "chainingAllowed": true, "heartbeatIntervalMillis": 2000, "heartbeatTimeoutSecs": 10,
            "electionTimeoutMillis": 10000, "catchUpTimeoutMillis": -1, "catchUpTakeoverDelayMillis": 30000,
            "getLastErrorModes": {}, "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
            "replicaSetId": ObjectId::parse_str("6b012d6ed9d354cb03bc8113").unwrap(),
        },
    };
    let config = ReplicaSetConfig::parse(&document).unwrap();
    config.validate().unwrap();
    assert_eq!(config.to_document(), document);
    // Omitted fields get their defaults.
    let short = doc! { "_id": "rs", "members": [{ "_id": 0, "host": "a" }] };
    let config = ReplicaSetConfig::parse(&short).unwrap();
    assert_eq!(ReplicaSetConfig::parse(&config.to_document()).unwrap(), config);
    assert_eq!((config.version, config.members[0].host.as_str()), (1, "a:27017"));
}

#[test]
fn what_is_no_configuration_is_refused_with_the_reason() {
    let two = [Document::new(), Document::new()];
    let mut unknown = with_members(&two);
    unknown.insert("x", 1);
    let mut pv0 = with_members(&two);
    pv0.insert("protocolVersion", 0);
    let mut nameless = with_members(&two);
    nameless.insert("_id", "");
    let mut version = with_members(&two);
    version.insert("version", 0);
    for (document, part) in [
        (doc! {}, "\"_id\""),
        (doc! { "_id": "rs" }, "\"members\""),
        (doc! { "_id": "rs", "members": [1] }, "members.0 to be Object"),
        (doc! { "_id": "rs", "members": [] }, "contains 0 members"),
        (with_members(&vec![doc! { "votes": 0, "priority": 0 }; 51]), "no more than 50"),
        (unknown, "Unexpected field x"),
        (pv0, "protocol version 0 was removed"),
        (nameless, "non-empty _id"),
        (version, "version field value of 0"),
        (with_members(&[doc! { "y": 1 }]), "Unexpected field y"),
        (with_members(&[doc! { "host": "a:b" }]), "Port number"),
        (with_members(&[doc! { "_id": "a" }]), "_id field"),
        (with_members(&[doc! { "_id": 256 }]), "_id field value of 256"),
        (with_members(&[Document::new(), doc! { "_id": 0 }]), "members.0._id == members.1._id == 0"),
        (with_members(&[Document::new(), doc! { "host": "m0:27017" }]), "members.0.host == members.1.host"),
        (with_members(&[Document::new(), doc! { "host": "localhost:1" }]), "found 1 out of 2"),
        (with_members(&[doc! { "priority": 1000.5 }]), "priority field value of 1000.5"),
        (with_members(&[doc! { "priority": -1 }]), "priority field value of -1"),
        (with_members(&[doc! { "votes": 2 }]), "votes field value is 2"),
        (with_members(&[doc! { "votes": 0 }]), "priority must be 0 when non-voting"),
        (with_members(&[doc! { "hidden": true }]), "priority must be 0 when hidden"),
        (with_members(&[doc! { "slaveDelay": 5 }]), "priority must be 0 when slaveDelay"),
        (with_members(&[doc! { "buildIndexes": false }]), "priority must be 0 when buildIndexes"),
        (with_members(&[doc! { "slaveDelay": -1 }]), "slaveDelay field value of -1"),
        (with_members(&[doc! { "tags": { "a": 1 } }]), "tags.a field has non-string"),
        (with_members(&[doc! { "priority": 0 }]), "at least one non-arbiter member with priority > 0"),
        (
            with_members(&[Document::new(), doc! { "arbiterOnly": true, "tags": { "a": "b" } }]),
            "tags on arbiters",
        ),
        (with_members(&[Document::new(), doc! { "arbiterOnly": true, "votes": 0 }]), "Arbiter must vote"),
        (
            with_members(&[Document::new(), doc! { "arbiterOnly": true, "priority": 2 }]),
            "Arbiter must have priority 0",
        ),
        (with_members(&vec![Document::new(); 8]), "contains 8 voting members"),
    ] {
        let reason = refusal(&document);
        assert!(reason.contains(part), "{document}: {reason}");
    }
}

#[test]
fn settings_are_checked() {
    for (settings, part) in [
        (doc! { "electionTimeoutMillis": 0 }, "election timeout must be greater than 0"),
        (doc! { "heartbeatTimeoutSecs": -1 }, "heartbeat timeout must be greater than 0"),
        (doc! { "heartbeatIntervalMillis": -1 }, "must be non-negative"),
        (doc! { "catchUpTimeoutMillis": -2 }, "catch-up timeout"),
        (doc! { "catchUpTakeoverDelayMillis": -2 }, "catch-up takeover delay"),
        (doc! { "chainingAllowed": "yes" }, "\"chainingAllowed\""),
        (doc! { "getLastErrorModes": { "a": 1 } }, "to be an Object"),
        (doc! { "getLastErrorModes": { "a": { "dc": "x" } } }, "to be a number"),
        (doc! { "getLastErrorModes": { "a": { "dc": 0 } } }, "must be positive"),
        (doc! { "getLastErrorModes": { "a": { "rack": 1 } } }, "No replica set tag"),
        (doc! { "getLastErrorDefaults": { "w": 0 } }, "at least 1 member"),
        (doc! { "getLastErrorDefaults": { "w": "no" } }, "undefined write mode no"),
        (doc! { "replicaSetId": ObjectId::from_bytes([0; 12]) }, "cannot be null"),
    ] {
        let document = config_document(&[doc! { "tags": { "dc": "a" } }], settings);
        let reason = refusal(&document);
        assert!(reason.contains(part), "{document}: {reason}");
    }
}

#[test]
fn an_arbiter_has_no_priority_whatever_the_default_says() {
    for fields in [doc! { "arbiterOnly": true }, doc! { "arbiterOnly": true, "priority": 1 }] {
        let config = config(&[Document::new(), fields], Document::new());
        assert_eq!(config.members[1].priority.to_bits(), 0.0_f64.to_bits());
        assert!(!config.members[1].is_electable());
    }
}

#[test]
fn majorities_count_voters_and_for_writes_those_with_data() {
    let arbiter = doc! { "arbiterOnly": true };
    let silent = doc! { "votes": 0, "priority": 0 };
    let data = Document::new();
    for (members, votes, writes) in [
        (vec![data.clone(); 3], 2, 2),
        (vec![data.clone(); 4], 3, 3),
        (vec![data.clone(); 7], 4, 4),
        (vec![data.clone(), data.clone(), arbiter.clone()], 2, 2),
        (vec![data.clone(), arbiter.clone(), arbiter.clone()], 2, 1),
        (vec![data.clone(), data.clone(), arbiter.clone(), arbiter.clone(), arbiter], 3, 2),
        (vec![data.clone(), data.clone(), data, silent.clone(), silent], 2, 2),
    ] {
        let config = config(&members, Document::new());
        assert_eq!((config.majority_votes(), config.write_majority()), (votes, writes), "{members:?}");
    }
}

#[test]
fn a_set_is_initiated_by_its_own_name_and_first_version() {
    let config = plain(3);
    check_initiate(&config, "rs").unwrap();
    let id = ObjectId::from_bytes([1; 12]);
    for (config, name, part) in [
        (config.clone(), "other", "command line reports other"),
        (config.clone().with_version(2), "rs", "must have version 1"),
        (config.with_replica_set_id(id), "rs", "cannot contain 'replicaSetId'"),
    ] {
        let failure = check_initiate(&config, name).unwrap_err();
        assert_eq!(failure.code(), Code::InvalidReplicaSetConfig);
        assert!(failure.message().contains(part), "{failure}");
    }
}

#[test]
fn a_configuration_follows_only_one_that_it_fits() {
    let old = plain(3);
    let next = old.clone().with_version(2);
    check_reconfig(&old, &next, false).unwrap();
    let mut renamed = next.clone();
    renamed.name = "other".to_owned();
    let mut moved = next.clone();
    moved.members[1].id = 7;
    let mut indexes = next.clone();
    indexes.members[1].build_indexes = false;
    indexes.members[1].priority = 0.0;
    let mut arbiter = next.clone();
    arbiter.members[1].arbiter = true;
    arbiter.members[1].priority = 0.0;
    let mut config_server = next.clone();
    config_server.config_server = true;
    let mut invalid = next.clone();
    invalid.members[1].votes = 3;
    for (new, part) in [
        (old.clone(), "1 is not greater than 1"),
        (renamed, "differ in replica set name"),
        (moved, "the _id field is 7"),
        (indexes, "buildIndexes"),
        (arbiter, "arbiterOnly"),
        (config_server, "Cannot add \"configsvr\""),
        (invalid, "votes field value is 3"),
    ] {
        let failure = check_reconfig(&old, &new, false).unwrap_err();
        assert_eq!(failure.code(), Code::NewReplicaSetConfigurationIncompatible);
        assert!(failure.message().contains(part), "{failure}");
    }
    // With force any version is accepted; the caller raises it.
    check_reconfig(&old, &old, true).unwrap();
    let (one, other) = (ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12]));
    let failure =
        check_reconfig(&old.clone().with_replica_set_id(one), &next.with_replica_set_id(other), false)
            .unwrap_err();
    assert!(failure.message().contains("differ in replica set ID"), "{failure}");
    check_electable(&old, 0).unwrap();
    let passive = config(&[Document::new(), doc! { "priority": 0 }], Document::new());
    assert_eq!(check_electable(&passive, 1).unwrap_err().code(), Code::NodeNotElectable);
}

#[test]
fn config_servers_are_of_one_kind() {
    for (fields, part) in [
        (doc! { "arbiterOnly": true }, "Arbiters are not allowed"),
        (doc! { "priority": 0, "buildIndexes": false }, "must build indexes"),
        (doc! { "priority": 0, "slaveDelay": 9 }, "non-zero slaveDelay"),
    ] {
        let mut document = config_document(&[Document::new(), fields], Document::new());
        document.insert("configsvr", true);
        assert!(refusal(&document).contains(part));
    }
    let mut document = config_document(&[Document::new()], Document::new());
    document.insert("configsvr", true);
    let config = ReplicaSetConfig::parse(&document).unwrap();
    config.validate().unwrap();
    assert_eq!(config.to_document().get("configsvr"), Some(&Bson::Boolean(true)));
}
