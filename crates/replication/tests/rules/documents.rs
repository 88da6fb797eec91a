//! The documents that clients and members read (hello, the status, the messages), compared with those of mongod 4.0.3.

use std::time::Duration;

use bson::{Bson, DateTime, Document, Timestamp, doc};
use fathom_replication::coordinator::{StatusContext, election_id};
use fathom_replication::messages::{
    HeartbeatArguments, HeartbeatReply, OplogQueryMetadata, ReplicationMetadata, RequestVotesArguments,
    RequestVotesReply, UpdatePosition,
};
use fathom_replication::{Clocks, Coordinator, CoordinatorOptions, LastVote, MonotonicTime, Progress};
use fathom_wire::Code;

use crate::desk::{Desk, at, config, host, plain};

fn names(document: &Document) -> Vec<&str> {
    document.keys().map(String::as_str).collect()
}

fn context(desk: &Desk) -> StatusContext {
    StatusContext {
        clocks: Clocks { now: desk.now, wall: DateTime::from_millis(1_700_000_000_000) },
        uptime: Duration::from_secs(46),
        majority_snapshot: Some(at(1001, 2)),
        stable_checkpoint: Some(1000 << 32 | 1),
    }
}

#[test]
fn hello_of_a_primary_and_of_a_secondary_have_mongods_fields() {
    let desk = Desk::primary(&plain(3));
    let hello = desk.c.hello_fields("ismaster", Some(at(1001, 2)));
    // As replset-primary-hello.json has them, in this order.
    let fields = [
        "hosts",
        "setName",
        "setVersion",
        "ismaster",
        "secondary",
        "primary",
        "me",
        "electionId",
        "lastWrite",
    ];
    assert_eq!(names(&hello), fields);
    assert_eq!(hello.get_bool("ismaster").ok(), Some(true));
    assert_eq!(hello.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000002");
    let written = hello.get_document("lastWrite").unwrap();
    assert_eq!(names(written), ["opTime", "lastWriteDate", "majorityOpTime", "majorityWriteDate"]);
    assert_eq!(
        written.get_document("opTime").unwrap(),
        &doc! { "ts": Timestamp { time: 1001, increment: 1 }, "t": 2_i64 }
    );
    let mut desk = Desk::new(&plain(3));
    desk.has_primary(1);
    desk.run(3_000);
    let hello = desk.c.hello_fields("isWritablePrimary", None);
    let fields =
        ["hosts", "setName", "setVersion", "isWritablePrimary", "secondary", "primary", "me", "lastWrite"];
    assert_eq!(names(&hello), fields);
    assert_eq!(
        (hello.get_bool("secondary").ok(), hello.get_str("primary").ok()),
        (Some(true), Some("m1:27017"))
    );
}

#[test]
fn hello_tells_what_kind_of_member_this_is() {
    let set = config(
        &[
            doc! { "priority": 0, "hidden": true, "slaveDelay": 30, "tags": { "dc": "a" }, "buildIndexes": false },
            Document::new(),
            doc! { "priority": 0 },
            doc! { "arbiterOnly": true },
        ],
        Document::new(),
    );
    let hello = Desk::new(&set).c.hello_fields("ismaster", None);
    let list = |name: &str| hello.get_array(name).cloned().unwrap_or_default();
    assert_eq!(list("hosts"), [Bson::from("m1:27017")]);
    assert_eq!(list("passives"), [Bson::from("m2:27017")]);
    assert_eq!(list("arbiters"), [Bson::from("m3:27017")]);
    for (name, value) in [
        ("passive", Bson::from(true)),
        ("hidden", true.into()),
        ("buildIndexes", false.into()),
        ("slaveDelay", 30.into()),
        ("tags", doc! { "dc": "a" }.into()),
    ] {
        assert_eq!(hello.get(name), Some(&value), "{name}");
    }
}

#[test]
fn a_primary_that_may_not_write_shows_as_a_secondary() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.elect();
    let hello = desk.c.hello_fields("ismaster", None);
    assert_eq!(
        (hello.get_bool("ismaster").ok(), hello.get_bool("secondary").ok()),
        (Some(false), Some(true))
    );
    let mut desk = Desk::primary(&plain(3));
    desk.c.term_seen(desk.now, 3);
    let hello = desk.c.hello_fields("ismaster", None);
    assert_eq!(
        (hello.get_bool("ismaster").ok(), hello.get_bool("secondary").ok()),
        (Some(false), Some(true))
    );
}

#[test]
fn a_member_of_no_set_says_so() {
    let alone = Coordinator::new(CoordinatorOptions::new("rs", 1), None, Progress::default());
    let ghost = doc! {
        "ismaster": false, "secondary": false, "info": "Does not have a valid replica set config", "isreplicaset": true,
    };
    assert_eq!(alone.hello_fields("ismaster", None), ghost);
    let status = StatusContext {
        clocks: Clocks { now: MonotonicTime::default(), wall: DateTime::from_millis(0) },
        uptime: Duration::ZERO,
        majority_snapshot: None,
        stable_checkpoint: None,
    };
    assert_eq!(alone.status(&status).unwrap_err().code(), Code::NotYetInitialized);
    let mut desk = Desk::new(&plain(3));
    desk.c.config_installed(desk.now, plain(3).with_version(2), None);
    assert_eq!(desk.c.status(&context(&desk)).unwrap_err().code(), Code::InvalidReplicaSetConfig);
    assert_eq!(desk.c.hello_fields("ismaster", None).get_bool("isreplicaset").ok(), Some(true));
}

/// The status of a primary whose second peer has not answered for twelve seconds, and whose first peer sent its last heartbeat that long ago.
fn status() -> Document {
    let mut desk = Desk::primary(&plain(3));
    desk.c.set_election_time(1001 << 32 | 1);
    let arguments = HeartbeatArguments {
        set_name: "rs".to_owned(),
        config_version: 1,
        from: Some(host(1)),
        from_id: 1,
        term: 2,
        check_empty: false,
    };
    desk.c.heartbeat_received(desk.now, &arguments).unwrap();
    desk.replies[2] = None;
    desk.run(12_000);
    desk.c.status(&context(&desk)).unwrap()
}

fn joined(document: &Document) -> String {
    names(document).join(" ")
}

#[test]
fn the_status_has_mongods_fields() {
    // As replSetGetStatus.json has them, in this order.
    let status = status();
    assert_eq!(
        joined(&status),
        "set date myState term syncingTo syncSourceHost syncSourceId heartbeatIntervalMillis optimes \
         lastStableCheckpointTimestamp members"
    );
    assert_eq!(
        joined(status.get_document("optimes").unwrap()),
        "lastCommittedOpTime readConcernMajorityOpTime appliedOpTime durableOpTime"
    );
    let members = status.get_array("members").unwrap();
    assert_eq!(
        joined(members[0].as_document().unwrap()),
        "_id name health state stateStr uptime optime optimeDate syncingTo syncSourceHost syncSourceId infoMessage \
         electionTime electionDate configVersion self lastHeartbeatMessage"
    );
    assert_eq!(
        joined(members[1].as_document().unwrap()),
        "_id name health state stateStr uptime optime optimeDurable optimeDate optimeDurableDate lastHeartbeat \
         lastHeartbeatRecv pingMs lastHeartbeatMessage syncingTo syncSourceHost syncSourceId infoMessage configVersion"
    );
}

#[test]
fn the_status_says_who_is_there() {
    let status = status();
    let members = status.get_array("members").unwrap();
    let shown: Vec<_> = members
        .iter()
        .map(|member| {
            let member = member.as_document().unwrap();
            (
                member.get_f64("health").unwrap(),
                member.get_i32("state").unwrap(),
                member.get_str("stateStr").unwrap(),
            )
        })
        .collect();
    assert_eq!(shown, [(1.0, 1, "PRIMARY"), (1.0, 2, "SECONDARY"), (0.0, 8, "(not reachable/healthy)")]);
    // Twelve seconds ago on our clock is twelve seconds ago on the wall.
    let received = members[1].as_document().unwrap().get_datetime("lastHeartbeatRecv").unwrap();
    assert_eq!(received.timestamp_millis(), 1_700_000_000_000 - 12_000);
}

#[test]
fn messages_come_back_as_they_were() {
    let desk = Desk::primary(&plain(3));
    let metadata: ReplicationMetadata = desk.c.metadata(at(1001, 2));
    assert_eq!(ReplicationMetadata::from_document(&metadata.to_document()), Ok(metadata));
    assert_eq!(
        names(&metadata.to_document()),
        [
            "term",
            "lastOpCommitted",
            "lastOpVisible",
            "configVersion",
            "replicaSetId",
            "primaryIndex",
            "syncSourceIndex",
        ]
    );
    let query = desk.c.oplog_query_metadata(3);
    assert_eq!(OplogQueryMetadata::from_document(&query.to_document()), Ok(query));
    let update = desk.c.update_position().unwrap();
    assert_eq!(UpdatePosition::from_document(&update.to_document()), Ok(update));
    let arguments = HeartbeatArguments {
        set_name: "rs".to_owned(),
        config_version: 1,
        from: Some(host(1)),
        from_id: 1,
        term: 2,
        check_empty: true,
    };
    let document = arguments.to_document();
    assert_eq!(
        names(&document),
        ["replSetHeartbeat", "checkEmpty", "configVersion", "hbv", "from", "fromId", "term", "$replData",]
    );
    assert_eq!(HeartbeatArguments::from_document(&document), Ok(arguments));
    let reply = HeartbeatReply {
        election_time: Some(1 << 32 | 2),
        has_data: Some(true),
        config: Some(doc! { "_id": "rs" }),
        syncing_to: Some(host(2)),
        primary_id: Some(1),
        metadata: Some(metadata),
        ..desk.replies[1].clone().unwrap()
    };
    assert_eq!(HeartbeatReply::from_document(&reply.to_document()), Ok(reply));
}

#[test]
fn votes_come_back_as_they_were() {
    let votes = RequestVotesArguments {
        set_name: "rs".to_owned(),
        dry_run: true,
        term: 4,
        candidate_index: 2,
        config_version: 1,
        last_applied: at(7, 3),
    };
    let document = votes.to_document();
    assert_eq!(
        names(&document),
        [
            "replSetRequestVotes",
            "setName",
            "dryRun",
            "term",
            "candidateIndex",
            "configVersion",
            "lastCommittedOp",
        ]
    );
    assert_eq!(RequestVotesArguments::from_document(&document), Ok(votes));
    let answer = RequestVotesReply { term: 4, granted: false, reason: "no".to_owned() };
    assert_eq!(RequestVotesReply::from_document(&answer.to_document()), Ok(answer));
    let vote = LastVote { term: 9, candidate_index: 1 };
    assert_eq!(LastVote::from_document(&vote.to_document()), Ok(vote));
}

#[test]
fn what_is_no_message_is_refused() {
    let codes = [
        HeartbeatArguments::from_document(&doc! {}).unwrap_err().code(),
        HeartbeatArguments::from_document(&doc! { "replSetHeartbeat": 1 }).unwrap_err().code(),
        HeartbeatReply::from_document(&doc! { "v": 1, "state": 44 }).unwrap_err().code(),
        RequestVotesArguments::from_document(&doc! { "setName": "rs", "term": -7 }).unwrap_err().code(),
        UpdatePosition::from_document(&doc! { "optimes": [1] }).unwrap_err().code(),
        ReplicationMetadata::from_document(&doc! { "term": "x" }).unwrap_err().code(),
        LastVote::from_document(&doc! { "term": 1 }).unwrap_err().code(),
    ];
    let expected = [
        Code::NoSuchKey,
        Code::TypeMismatch,
        Code::BadValue,
        Code::BadValue,
        Code::TypeMismatch,
        Code::TypeMismatch,
        Code::NoSuchKey,
    ];
    assert_eq!(codes, expected);
}

#[test]
fn election_ids_grow_with_the_term() {
    assert_eq!(election_id(1).to_hex(), "7fffffff0000000000000001");
    assert!(election_id(255).bytes() < election_id(256).bytes());
}
