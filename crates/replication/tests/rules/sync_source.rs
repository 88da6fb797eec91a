//! The choice of a member's sync source.

use std::time::Duration;

use bson::{Document, doc};
use fathom_replication::messages::{OplogQueryMetadata, ReplicationMetadata};
use fathom_replication::{Action, FollowerMode, MemberState, OpTime, ReplicaSetConfig};
use fathom_wire::Code;

use crate::desk::{Desk, at, config, host, plain};

/// A member that all others are ahead of.
fn behind(config: &ReplicaSetConfig) -> Desk {
    let mut desk = Desk::new(config);
    for index in 1..config.members.len() {
        desk.reply(index).applied = at(1010, 1);
    }
    desk.run(3_000);
    desk
}

fn chosen(desk: &mut Desk) -> Option<usize> {
    let source = desk.c.choose_sync_source(desk.now, at(1000, 1))?;
    (0..9).find(|index| host(*index) == source)
}

#[test]
fn the_nearest_that_is_ahead() {
    let mut desk = Desk::new(&plain(4));
    desk.pings = [0, 30, 5, 1].map(Duration::from_millis).to_vec();
    assert_eq!(chosen(&mut desk), None, "nobody was asked yet");
    desk.reply(1).applied = at(1010, 1);
    desk.reply(2).applied = at(1010, 1);
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), Some(2), "member 3 is nearer, and has nothing for us");
    let now = desk.now;
    desk.c.deny_sync_source(now, &host(2), now + Duration::from_secs(10));
    assert_eq!(chosen(&mut desk), Some(1));
    desk.run(10_000);
    assert_eq!(chosen(&mut desk), Some(2));
    assert_eq!(desk.c.sync_source(), Some(&host(2)));
}

#[test]
fn a_member_is_too_stale_when_no_oplog_that_it_may_fetch_begins_early_enough() {
    let mut desk = Desk::new(&plain(3));
    // Member 1 leads, and its heartbeat does not show yet that it is ahead of us. Member 2 was copied a moment ago.
    desk.reply(1).state = MemberState::Primary;
    desk.reply(1).applied = at(1000, 1);
    desk.reply(2).applied = at(1010, 1);
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), Some(2));
    let now = desk.now;
    assert!(!desk.c.deny_stale_source(now, &host(2), at(1000, 1)), "the primary may have all");
    assert_eq!(desk.c.sync_source(), None, "the primary is not ahead yet");
    desk.reply(1).applied = at(1010, 1);
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), Some(1), "member 2 is left alone");
    let now = desk.now;
    assert!(desk.c.deny_stale_source(now, &host(1), at(1000, 1)), "nobody is left");
    desk.run(60_000);
    assert!(chosen(&mut desk).is_some(), "they are asked again after a minute");
}

#[test]
fn who_cannot_be_read_from_is_none() {
    let mut desk = behind(&plain(3));
    desk.reply(1).state = MemberState::Rollback;
    desk.replies[2] = None;
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), None);
}

#[test]
fn hidden_slow_delayed_and_silent_members_only_where_there_is_no_other() {
    let others = [
        doc! { "hidden": true, "priority": 0 },
        doc! { "slaveDelay": 60, "priority": 0 },
        doc! { "votes": 0, "priority": 0 },
    ];
    for other in others {
        let set = config(&[Document::new(), other.clone(), Document::new()], Document::new());
        let mut desk = behind(&set);
        desk.pings = [0, 1, 50].map(Duration::from_millis).to_vec();
        desk.run(20_000);
        assert_eq!(chosen(&mut desk), Some(2), "{other}");
        desk.replies[2] = None;
        desk.run(3_000);
        assert_eq!(chosen(&mut desk), Some(1), "{other}");
    }
    // Far behind the primary.
    let mut desk = behind(&plain(3));
    desk.reply(2).applied = at(1045, 1);
    desk.has_primary(2);
    desk.pings = [0, 1, 50].map(Duration::from_millis).to_vec();
    desk.run(20_000);
    assert_eq!(chosen(&mut desk), Some(2));
}

#[test]
fn one_without_indexes_never_where_we_have_them() {
    let set = config(
        &[Document::new(), doc! { "buildIndexes": false, "priority": 0 }, Document::new()],
        Document::new(),
    );
    let mut desk = behind(&set);
    desk.replies[2] = None;
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), None);
}

#[test]
fn only_the_primary_without_chaining() {
    let set = config(&vec![Document::new(); 3], doc! { "chainingAllowed": false });
    let mut desk = behind(&set);
    assert_eq!(chosen(&mut desk), None);
    desk.has_primary(2);
    desk.run(3_000);
    assert_eq!(chosen(&mut desk), Some(2));
}

fn metadata(version: i64, visible: OpTime) -> ReplicationMetadata {
    ReplicationMetadata {
        term: 1,
        last_committed: OpTime::NULL,
        last_visible: visible,
        config_version: version,
        replica_set_id: None,
        primary_index: Some(2),
        sync_source_index: Some(2),
    }
}

#[test]
fn a_source_is_left_where_another_is_better_by_far() {
    let mut desk = behind(&plain(3));
    assert!(chosen(&mut desk).is_some());
    let now = desk.now;
    desk.c.deny_sync_source(now, &host(2), now + Duration::from_secs(1));
    assert_eq!(chosen(&mut desk), Some(1));
    desk.run(2_000);
    let query = |applied: OpTime, source: Option<usize>, primary: Option<usize>| OplogQueryMetadata {
        last_committed: OpTime::NULL,
        last_applied: applied,
        rollback_id: 1,
        primary_index: primary,
        sync_source_index: source,
    };
    let good = metadata(1, at(1010, 1));
    let change = |desk: &Desk, metadata: &ReplicationMetadata, query: Option<&OplogQueryMetadata>| {
        desk.c.should_change_sync_source(desk.now, metadata, query)
    };
    assert!(!change(&desk, &good, None));
    assert!(!change(&desk, &good, Some(&query(at(1010, 1), Some(2), Some(2)))));
    assert!(change(&desk, &metadata(2, at(1010, 1)), None), "another configuration");
    // The source has no newer entries, and no source of its own.
    desk.c.applied_advanced(desk.now, at(1010, 1));
    assert!(change(&desk, &good, Some(&query(at(1010, 1), None, Some(2)))));
    assert!(!change(&desk, &good, Some(&query(at(1010, 1), None, Some(1)))), "the primary itself");
    // Another member is more than 30 s ahead of the source.
    desk.reply(2).applied = at(1040, 1);
    desk.run(3_000);
    assert!(!change(&desk, &good, None));
    desk.reply(2).applied = at(1041, 1);
    desk.run(3_000);
    assert!(change(&desk, &good, None));
}

#[test]
fn somebody_may_name_the_source() {
    let set = config(
        &[Document::new(), Document::new(), doc! { "votes": 0, "priority": 0 }, doc! { "arbiterOnly": true }],
        Document::new(),
    );
    let mut desk = behind(&set);
    let refused = |desk: &mut Desk, index: usize| desk.c.sync_from(&host(index)).unwrap_err().code();
    assert_eq!(refused(&mut desk, 0), Code::InvalidOptions);
    assert_eq!(refused(&mut desk, 2), Code::InvalidOptions);
    assert_eq!(refused(&mut desk, 3), Code::InvalidOptions);
    assert_eq!(refused(&mut desk, 7), Code::NodeNotFound);
    assert_eq!(desk.c.sync_from(&host(1)).unwrap(), doc! { "syncFromRequested": "m1:27017" });
    desk.carry_out();
    assert!(desk.wants(|action| matches!(action, Action::ReconsiderSyncSource)));
    assert!(desk.c.should_change_sync_source(desk.now, &metadata(1, at(1010, 1)), None));
    assert_eq!(chosen(&mut desk), Some(1));
    desk.reply(1).applied = at(900, 1);
    desk.run(3_000);
    let reply = desk.c.sync_from(&host(1)).unwrap();
    assert!(reply.contains_key("warning") && reply.contains_key("prevSyncTarget"));
    desk.replies[1] = None;
    desk.run(3_000);
    assert_eq!(refused(&mut desk, 1), Code::HostUnreachable);
    let mut primary = Desk::primary(&plain(3));
    assert_eq!(refused(&mut primary, 1), Code::NotSecondary);
}

#[test]
fn a_member_that_leaves_the_set_is_left() {
    let mut desk = behind(&plain(3));
    desk.has_primary(2);
    desk.run(3_000);
    while chosen(&mut desk) != Some(2) {
        let now = desk.now;
        desk.c.deny_sync_source(now, &host(1), now + Duration::from_secs(9));
    }
    let mut smaller = plain(3).with_version(2);
    smaller.members.pop();
    desk.c.config_installed(desk.now, smaller, Some(0));
    desk.c.set_follower_mode(desk.now, FollowerMode::Secondary);
    desk.carry_out();
    assert!(desk.wants(|action| matches!(action, Action::ReconsiderSyncSource)));
    assert_eq!(desk.c.sync_source(), None);
}
