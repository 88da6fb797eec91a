//! The progress of members, the commit point, and the reports to other members.

use fathom_replication::messages::{OplogQueryMetadata, Position, ReplicationMetadata, UpdatePosition};
use fathom_replication::{Action, MemberState, OpTime, Progress, WriteConcern};
use fathom_wire::Code;

use bson::doc;

use crate::desk::{Desk, at, both, plain};

fn update(member_id: i64, progress: Progress) -> UpdatePosition {
    UpdatePosition { positions: vec![Position { member_id, config_version: 1, progress }], metadata: None }
}

fn metadata(term: i64, committed: OpTime) -> ReplicationMetadata {
    ReplicationMetadata {
        term,
        last_committed: committed,
        last_visible: committed,
        config_version: 1,
        replica_set_id: None,
        primary_index: Some(1),
        sync_source_index: None,
    }
}

#[test]
fn a_majority_advances_the_commit_point_of_a_primary() {
    let mut desk = Desk::primary(&plain(3));
    assert_eq!(desk.c.last_committed(), OpTime::NULL);
    desk.c.positions_received(desk.now, &update(1, both(at(1001, 2)))).unwrap();
    assert_eq!(desk.c.last_committed(), at(1001, 2));
    assert!(matches!(desk.c.take_actions()[..], [Action::CommitPointAdvanced(_), Action::Progressed]));
    // Applied entries are not enough if the set counts journaled ones.
    desk.c.applied_advanced(desk.now, at(1002, 2));
    desk.c.durable_advanced(desk.now, at(1002, 2));
    let applied = Progress { applied: at(1002, 2), durable: at(1001, 2) };
    desk.c.positions_received(desk.now, &update(1, applied)).unwrap();
    assert_eq!(desk.c.last_committed(), at(1001, 2));
    desk.c.positions_received(desk.now, &update(2, both(at(1002, 2)))).unwrap();
    assert_eq!(desk.c.last_committed(), at(1002, 2));
    // A late report does not move a position back.
    desk.c.positions_received(desk.now, &update(2, both(at(1001, 2)))).unwrap();
    assert_eq!(desk.c.last_committed(), at(1002, 2));
}

#[test]
fn entries_of_earlier_terms_are_not_committed_by_counting() {
    let mut desk = Desk::new(&plain(3));
    desk.run(2_000);
    desk.elect();
    desk.run(100);
    // All have all of term 1, and still.
    assert_eq!(desk.c.last_committed(), OpTime::NULL);
    desk.c.transition_completed(desk.now, at(1001, 2)).unwrap();
    assert_eq!(desk.c.last_committed(), OpTime::NULL);
}

#[test]
fn a_report_from_a_later_term_makes_us_step_down_and_counts_nothing() {
    let mut desk = Desk::primary(&plain(3));
    let mut update = update(1, both(at(1001, 2)));
    update.metadata = Some(metadata(3, OpTime::NULL));
    desk.c.positions_received(desk.now, &update).unwrap();
    assert_eq!(desk.c.last_committed(), OpTime::NULL);
    desk.carry_out();
    assert!(desk.wants(|action| matches!(action, Action::StepDown { .. })));
}

#[test]
fn reports_that_do_not_fit_are_refused() {
    let mut desk = Desk::primary(&plain(3));
    let refused = |desk: &mut Desk, update: &UpdatePosition| {
        desk.c.positions_received(desk.now, update).unwrap_err().code()
    };
    let mut other = update(1, both(at(1001, 2)));
    other.positions[0].config_version = 2;
    assert_eq!(refused(&mut desk, &other), Code::InvalidReplicaSetConfig);
    assert_eq!(refused(&mut desk, &update(9, both(at(1001, 2)))), Code::NodeNotFound);
    // No member reports our own progress to us.
    desk.c.positions_received(desk.now, &update(0, both(at(9999, 2)))).unwrap();
    assert_eq!(desk.c.own_progress(), both(at(1001, 2)));
    desk.c.config_installed(desk.now, plain(3).with_version(2), None);
    assert_eq!(refused(&mut desk, &update(1, both(at(1001, 2)))), Code::NotPrimaryOrSecondary);
}

#[test]
fn what_is_journaled_before_it_is_applied_counts_once_it_is() {
    let mut desk = Desk::new(&plain(3));
    desk.c.durable_advanced(desk.now, at(1005, 1));
    assert_eq!(desk.c.own_progress(), both(at(1000, 1)));
    desk.c.applied_advanced(desk.now, at(1003, 1));
    assert_eq!(desk.c.own_progress(), both(at(1003, 1)));
    desk.c.applied_advanced(desk.now, at(1009, 1));
    assert_eq!(desk.c.own_progress(), Progress { applied: at(1009, 1), durable: at(1005, 1) });
}

#[test]
fn a_secondary_takes_the_commit_point_of_others_with_care() {
    let mut desk = Desk::new(&plain(3));
    // Accepted from any member if our newest entry is of the same term, even though we lack the entry yet.
    desk.c.metadata_received(desk.now, &metadata(1, at(1005, 1)));
    assert_eq!(desk.c.last_committed(), at(1005, 1));
    // A commit point of a later term may belong to another history.
    desk.c.metadata_received(desk.now, &metadata(2, at(1010, 2)));
    assert_eq!(desk.c.last_committed(), at(1005, 1));
    // A commit point of the sync source is accepted, up to the end of our log.
    desk.c.applied_advanced(desk.now, at(1007, 1));
    let query = OplogQueryMetadata {
        last_committed: at(1010, 2),
        last_applied: at(1011, 2),
        rollback_id: 1,
        primary_index: Some(1),
        sync_source_index: None,
    };
    // But not while the source lacks our newest entry: we led, and wrote it after the logs were compared.
    desk.c.source_answered(desk.now, &metadata(2, at(1010, 2)), Some(&query), false);
    assert_eq!(desk.c.last_committed(), at(1005, 1));
    desk.c.source_answered(desk.now, &metadata(2, at(1010, 2)), Some(&query), true);
    assert_eq!(desk.c.last_committed(), at(1007, 1));
}

#[test]
fn a_source_that_knows_a_primary_puts_off_an_election() {
    let mut desk = Desk::new(&plain(3));
    for _ in 0..30 {
        desk.run(1_000);
        desk.c.source_answered(desk.now, &metadata(1, at(1000, 1)), None, true);
    }
    assert!(desk.vote_requests().is_empty());
    desk.run(11_500);
    assert!(!desk.vote_requests().is_empty());
}

#[test]
fn we_tell_our_source_of_ourselves_and_of_those_behind_us() {
    let mut desk = Desk::new(&plain(3));
    desk.run(1_000);
    desk.c.positions_received(desk.now, &update(2, both(at(900, 1)))).unwrap();
    let told = desk.c.update_position().unwrap();
    let of = |id: i64| {
        told.positions.iter().find(|position| position.member_id == id).map(|position| position.progress)
    };
    assert_eq!(of(0), Some(both(at(1000, 1))));
    assert_eq!(of(2), Some(both(at(1000, 1))), "the furthest that was heard of");
    assert_eq!(told.metadata.unwrap().term, 1);
    // Not the position of a member that was silent for long.
    desk.replies[2] = None;
    desk.has_primary(1);
    desk.run(12_000);
    let told = desk.c.update_position().unwrap();
    assert!(told.positions.iter().all(|position| position.member_id != 2));
}

#[test]
fn after_a_rollback_our_log_ends_earlier() {
    let mut desk = Desk::new(&plain(3));
    desk.c.set_own_progress(desk.now, both(at(900, 1)));
    assert_eq!(desk.c.own_progress(), both(at(900, 1)));
    let mut primary = Desk::primary(&plain(3));
    primary.c.set_own_progress(primary.now, both(at(900, 1)));
    assert_eq!(primary.c.own_progress(), both(at(1001, 2)), "a primary's log only grows");
}

#[test]
fn a_write_concern_is_asked_of_the_primary_that_took_the_write() {
    let mut desk = Desk::primary(&plain(3));
    let concern = WriteConcern::parse(&doc! { "w": 2 }).unwrap();
    let asked = |desk: &Desk| desk.c.is_write_concern_satisfied(&concern, at(1001, 2), OpTime::NULL);
    assert_eq!(asked(&desk), Ok(false));
    desk.c.positions_received(desk.now, &update(1, both(at(1001, 2)))).unwrap();
    assert_eq!(asked(&desk), Ok(true));
    let impossible = WriteConcern::parse(&doc! { "w": 4 }).unwrap();
    let failure = desk.c.is_write_concern_satisfied(&impossible, at(1001, 2), OpTime::NULL).unwrap_err();
    assert_eq!(failure.code(), Code(100));
    desk.c.term_seen(desk.now, 3);
    assert_eq!(asked(&desk).unwrap_err().code(), Code::PrimarySteppedDown);
    desk.c.stepped_down(desk.now);
    assert_eq!(desk.c.state(), MemberState::Secondary);
    assert_eq!(asked(&desk).unwrap_err().code(), Code::PrimarySteppedDown);
}
