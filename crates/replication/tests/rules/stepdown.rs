//! Stepping down, on request and by necessity.

use std::time::Duration;

use bson::{Document, doc};
use fathom_replication::coordinator::{StepDownReason, StepDownRequest};
use fathom_replication::messages::{Position, UpdatePosition};
use fathom_replication::{Action, MemberState};
use fathom_wire::Code;

use crate::desk::{Desk, at, both, config, plain};

fn request(document: Document) -> StepDownRequest {
    StepDownRequest::from_document(&document).unwrap()
}

fn reason(desk: &mut Desk) -> Option<StepDownReason> {
    desk.take(|action| match action {
        Action::StepDown { reason } => Some(*reason),
        _ => None,
    })
}

fn refusal(desk: &mut Desk) -> Option<Code> {
    desk.take(|action| match action {
        Action::StepDownRefused(failure) => Some(failure.code()),
        _ => None,
    })
}

/// Reports that a member has all entries up to second 1001 of term 2.
fn catches_up(desk: &mut Desk, member_id: i64) {
    let position = Position { member_id, config_version: 1, progress: both(at(1001, 2)) };
    let update = UpdatePosition { positions: vec![position], metadata: None };
    desk.c.positions_received(desk.now, &update).unwrap();
    desk.carry_out();
}

#[test]
fn its_arguments_have_mongods_defaults() {
    let seconds = Duration::from_secs;
    assert_eq!(
        request(doc! { "replSetStepDown": 100 }),
        StepDownRequest { period: seconds(100), catch_up: seconds(10), force: false }
    );
    assert_eq!(request(doc! { "replSetStepDown": true }).period, seconds(60));
    assert_eq!(request(doc! { "replSetStepDown": 5 }).catch_up, seconds(5));
    assert_eq!(request(doc! { "replSetStepDown": 100, "force": true }).catch_up, seconds(0));
    for document in [
        doc! { "replSetStepDown": -1 },
        doc! { "replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 6 },
        doc! { "replSetStepDown": 5, "secondaryCatchUpPeriodSecs": -1 },
    ] {
        assert_eq!(
            StepDownRequest::from_document(&document).unwrap_err().code(),
            Code::BadValue,
            "{document}"
        );
    }
}

#[test]
fn it_waits_for_one_who_can_take_over() {
    let mut desk = Desk::primary(&plain(3));
    desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap();
    desk.run(3_000);
    assert_eq!(reason(&mut desk), None);
    // No write and no second request is accepted in the meantime.
    assert!(!desk.c.can_accept_writes());
    let again = desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap_err();
    assert_eq!(again.code(), Code::ConflictingOperationInProgress);
    catches_up(&mut desk, 1);
    assert_eq!(reason(&mut desk), Some(StepDownReason::Requested));
    desk.c.stepped_down(desk.now);
    assert_eq!((desk.c.state(), desk.c.term()), (MemberState::Secondary, 2));
    // For the period, counted from the request, we do not stand for election.
    desk.run(55_000);
    assert!(desk.vote_requests().is_empty());
    desk.run(30_000);
    assert!(!desk.vote_requests().is_empty());
}

#[test]
fn nobody_who_can_take_over_ends_it_unless_forced() {
    let mut desk = Desk::primary(&plain(3));
    desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap();
    desk.run(11_000);
    assert_eq!(refusal(&mut desk), Some(Code::ExceededTimeLimit));
    assert!(desk.c.can_accept_writes());
    let forced = request(doc! { "replSetStepDown": 60, "force": true, "secondaryCatchUpPeriodSecs": 3 });
    desk.c.step_down_requested(desk.now, forced).unwrap();
    desk.run(2_900);
    assert_eq!(reason(&mut desk), None);
    desk.run(200);
    assert_eq!(reason(&mut desk), Some(StepDownReason::Requested));
}

#[test]
fn a_majority_that_may_not_be_elected_is_not_enough() {
    let passive = doc! { "priority": 0 };
    let mut desk = Desk::primary(&config(&[Document::new(), passive.clone(), passive], Document::new()));
    desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap();
    catches_up(&mut desk, 1);
    catches_up(&mut desk, 2);
    assert_eq!(reason(&mut desk), None);
}

#[test]
fn a_secondary_has_nothing_to_step_down_from() {
    let mut desk = Desk::new(&plain(3));
    let failure = desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap_err();
    assert_eq!(failure.code(), Code::NotWritablePrimary);
}

#[test]
fn silence_of_a_majority_for_the_election_timeout() {
    let mut desk = Desk::primary(&plain(5));
    desk.replies[1] = None;
    desk.replies[2] = None;
    desk.run(60_000);
    assert_eq!(reason(&mut desk), None);
    desk.replies[3] = None;
    desk.run(7_900);
    assert_eq!(reason(&mut desk), None);
    desk.run(4_200);
    assert_eq!(reason(&mut desk), Some(StepDownReason::LostMajority));
    desk.c.stepped_down(desk.now);
    assert_eq!(desk.c.state(), MemberState::Secondary);
}

#[test]
fn a_later_term_is_taken_on_after() {
    let mut desk = Desk::primary(&plain(3));
    desk.c.step_down_requested(desk.now, request(doc! { "replSetStepDown": 60 })).unwrap();
    desk.c.term_seen(desk.now, 5);
    desk.c.term_seen(desk.now, 4);
    desk.carry_out();
    // The waiting request fails, because another one came first.
    assert_eq!(refusal(&mut desk), Some(Code::PrimarySteppedDown));
    assert_eq!(reason(&mut desk), Some(StepDownReason::HigherTerm));
    assert_eq!(reason(&mut desk), None, "once");
    assert_eq!((desk.c.term(), desk.c.state()), (2, MemberState::Primary));
    desk.c.stepped_down(desk.now);
    assert_eq!((desk.c.term(), desk.c.state()), (5, MemberState::Secondary));
}

#[test]
fn a_configuration_that_does_not_let_us_be_primary() {
    let mut desk = Desk::primary(&plain(3));
    let mut passive = plain(3).with_version(2);
    passive.members[0].priority = 0.0;
    desk.c.config_installed(desk.now, passive, Some(0));
    desk.carry_out();
    assert_eq!(reason(&mut desk), Some(StepDownReason::Reconfigured));
    let mut desk = Desk::primary(&plain(3));
    desk.c.config_installed(desk.now, plain(3).with_version(2), Some(0));
    desk.carry_out();
    assert_eq!(reason(&mut desk), None);
    assert!(desk.c.can_accept_writes());
    desk.c.config_installed(desk.now, plain(3).with_version(3), None);
    assert!(!desk.c.can_accept_writes());
    assert_eq!(desk.c.state(), MemberState::Removed);
}

#[test]
fn freezing_is_for_those_who_follow() {
    let mut desk = Desk::new(&plain(3));
    assert_eq!(
        desk.c.freeze(desk.now, 1).unwrap(),
        doc! { "warning": "you really want to freeze for only 1 second?" }
    );
    assert_eq!(desk.c.freeze(desk.now, 0).unwrap(), doc! { "info": "unfreezing" });
    assert_eq!(desk.c.freeze(desk.now, -1).unwrap_err().code(), Code::BadValue);
    let mut primary = Desk::primary(&plain(3));
    assert_eq!(primary.c.freeze(primary.now, 9).unwrap_err().code(), Code::NotSecondary);
    // A single member calls an election again as soon as it is over.
    let mut alone = Desk::primary(&plain(1));
    let forced = request(doc! { "replSetStepDown": 20, "force": true });
    alone.c.step_down_requested(alone.now, forced).unwrap();
    alone.carry_out();
    alone.c.stepped_down(alone.now);
    alone.carry_out();
    alone.run(19_000);
    assert!(!alone.wants(|action| matches!(action, Action::StoreVote(_))));
    alone.run(1_100);
    assert_eq!(alone.store_vote(), 3);
}
